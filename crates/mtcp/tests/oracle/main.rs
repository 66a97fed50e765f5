//! The same scripts on our epoll and on the kernel's, over loopback TCP: every result and every
//! reported event must be equal.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kernel;
mod ours;
mod random;
mod script;
#[path = "../support/mod.rs"]
mod support;

use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::Duration;

use kernel::Kernel;
use ours::Ours;
use script::{parse, run};

/// Why there is nothing to compare with.
static OBSTACLE: OnceLock<String> = OnceLock::new();

/// Before the runner of tests has threads, which a user namespace could not be entered with.
#[used]
#[unsafe(link_section = ".init_array")]
static FIRST: extern "C" fn() = enter_netns;

extern "C" fn enter_netns() {
    if let Err(reason) = netns::enter() {
        OBSTACLE.get_or_init(|| reason);
    }
}

/// Runs a script on both.
pub fn both(name: &str, text: &str) {
    if let Some(reason) = OBSTACLE.get() {
        let _ = writeln!(io::stdout(), "\nskipped: {reason}"); // println! would be captured
        return;
    }
    let script = parse(text);
    let ours = run(&mut Ours::new(), &script);
    // A busy machine may keep the kernel from delivering in time: more time before a verdict.
    let kernel = [1, 10, 100]
        .map(Duration::from_millis)
        .into_iter()
        .map(|time| run(&mut Kernel::new(time), &script))
        .find(|kernel| *kernel == ours);
    if kernel.is_none() {
        let kernel = run(&mut Kernel::new(Duration::from_millis(100)), &script);
        let same = ours
            .iter()
            .zip(&kernel)
            .take_while(|(ours, kernel)| ours == kernel)
            .count();
        panic!(
            "{name}: {text}\nsame: {:#?}\nours: {:?}\nkernel: {:?}",
            &ours[..same],
            ours[same],
            kernel[same]
        );
    }
}

/// Runs a script on a connection, the server's end accepted.
fn connected(name: &str, text: &str) {
    both(
        name,
        &format!("listen; socket C; connect C; accept; connect C; {text}"),
    );
}

#[test]
fn unconnected_sockets() {
    both(
        "fresh",
        "socket C; add C all; wait C; mod C in; wait C; read C 1; error C",
    );
}

#[test]
fn listeners() {
    both(
        "level",
        "listen; add L all; wait L; socket C; connect C; wait L; wait L; accept; wait L; accept; close C; wait L",
    );
    both(
        "edge",
        "listen; add L in+et; socket C; connect C; wait L; wait L; socket D; connect D; wait L; accept; accept; wait L",
    );
}

#[test]
fn connecting() {
    both(
        "success",
        "listen; socket C; add C all; connect C; wait C; error C; connect C; connect C",
    );
    both(
        "edge",
        "listen; socket C; add C edge; wait C; connect C; wait C; wait C",
    );
    both(
        "refused",
        "listen; close L; socket C; connect C; add C all; wait C; error C; error C; wait C",
    );
    both(
        "refused, then asked",
        "listen; close L; socket C; connect C; connect C; add C all; wait C",
    );
    both(
        "refused, read",
        "listen; close L; socket C; connect C; read C 1; read C 1; write C 1",
    );
}

#[test]
fn levels() {
    connected(
        "readable",
        "add S all; wait S; write C 10; wait S; read S 4; wait S; read S 10; wait S",
    );
    connected(
        "interest",
        "add S in; wait S; write C 1; wait S; mod S out; wait S; mod S none; wait S",
    );
    connected(
        "delete",
        "add S all; wait S; del S; wait S; del S; add S all; add S all; wait S; mod C in",
    );
    connected("full", "add C out; wait C; fill C; wait C; drain S; wait C");
}

#[test]
fn edges() {
    connected(
        "readable",
        "add S edge; wait S; wait S; write C 5; wait S; wait S; write C 5; wait S; read S 3; wait S",
    );
    connected(
        "added late",
        "write C 5; add S edge; wait S; wait S; mod S edge; wait S; wait S",
    );
    connected(
        "writable",
        "add C out+et; wait C; wait C; fill C; wait C; drain S; wait C; wait C",
    );
    connected(
        "end",
        "add S edge; wait S; write C 5; shut C write; wait S; wait S; read S 9; read S 9; wait S",
    );
    connected("only in", "add S in+et; wait S; write C 1; wait S; wait S");
}

#[test]
fn one_shots() {
    connected(
        "once",
        "add S shot; wait S; wait S; write C 1; wait S; mod S shot; wait S; wait S",
    );
    connected(
        "no errors",
        "add S shot; wait S; reset C; wait S; mod S shot; wait S",
    );
    connected(
        "edge",
        "add S shot+et; wait S; write C 1; wait S; mod S shot+et; wait S; wait S",
    );
}

#[test]
fn ends() {
    connected(
        "half-closed by the peer",
        "add S all; shut C write; wait S; read S 1; wait S; write S 3; wait S",
    );
    connected("without rdhup", "add S in; shut C write; wait S");
    connected(
        "half-closed here",
        "add S all; shut S write; wait S; write S 1; wait S",
    );
    connected(
        "reading shut",
        "add S all; shut S read; wait S; read S 1; write C 3; read S 9; wait S",
    );
    connected(
        "both shut here",
        "add S all; shut S both; wait S; read S 1; write S 1",
    );
    connected(
        "shut from both sides",
        "add S all; shut C write; shut S write; wait S; wait C; error S",
    );
    connected(
        "closed by the peer",
        "add S all; close C; wait S; read S 1; wait S; write S 3; wait S; error S; wait S",
    );
    connected(
        "closed by the peer, read",
        "close C; write S 3; read S 1; read S 1; write S 1; write S 1; error S",
    );
    connected(
        "closed by the peer, last",
        "add S all; close C; shut S write; wait S; error S; read S 1; write S 1",
    );
    connected(
        "shut, in edges",
        "add S edge; wait S; shut S write; wait S; wait S",
    );
    connected(
        "shut twice",
        "shut S write; shut S write; shut C both; wait S",
    );
}

#[test]
fn resets() {
    connected(
        "reset",
        "add S all; reset C; wait S; wait S; error S; wait S; read S 1; write S 1; wait S",
    );
    connected(
        "reset, read",
        "add S all; write C 3; reset C; wait S; read S 9; read S 9; read S 9; wait S",
    );
    connected(
        "reset, written",
        "add S in; reset C; wait S; write S 1; write S 1; wait S",
    );
    connected(
        "reset, in edges",
        "add S edge; wait S; reset C; wait S; wait S",
    );
    connected("reset, no interest", "add S none; wait S; reset C; wait S");
    connected(
        "unread",
        "add C all; wait C; write C 5; close S; wait C; read C 1; read C 1",
    );
}

#[test]
fn several_instances() {
    connected(
        "both",
        "add S in; add2 S all; wait S; wait2 S; write C 1; wait S; wait2 S; del S; wait S; wait2 S",
    );
    connected(
        "edge and level",
        "add S edge; add2 S in; wait S; write C 1; wait S; wait2 S; wait S; wait2 S; read S 1; wait2 S",
    );
    connected(
        "closed",
        "add S all; add2 S all; add L in; close S; wait S; wait2 S",
    );
    connected(
        "named bits",
        "add S rdnorm+wrnorm; wait S; write C 1; wait S",
    );
}

#[test]
fn low_water_marks() {
    connected(
        "readable",
        "add S all; set S rcvlowat 4; get S rcvlowat; wait S; write C 3; wait S; write C 1; wait S; read S 2; wait S; \
         shut C write; wait S",
    );
    connected(
        "edges",
        "set S rcvlowat 4; add S edge; wait S; write C 3; wait S; write C 1; wait S; read S 1; wait S; write C 1; wait S",
    );
    connected(
        "less is there for who asks",
        "set S rcvlowat 100; write C 5; read S 9; read S 9; close C; read S 9",
    );
    connected(
        "errors do not wait",
        "set S rcvlowat 100; add S all; write C 5; wait S; reset C; wait S; read S 9; read S 9",
    );
    both(
        "inherited",
        "listen; set L rcvlowat 7; socket C; connect C; accept; get S rcvlowat; set L rcvlowat 0; get L rcvlowat",
    );
    connected(
        "unsent",
        "add C out; set C notsent 10; get C notsent; wait C; write C 100; wait C; drain S; wait C",
    );
}

#[test]
fn corks() {
    connected(
        "held back",
        "add S in; set C cork 1; write C 5; wait S; write C 5; wait S; set C cork 0; wait S; read S 20",
    );
    connected(
        "let go by the end",
        "add S all; set C cork 1; write C 5; wait S; shut C write; wait S; read S 20",
    );
    connected(
        "let go again without Nagle",
        "set C nodelay 1; set C cork 1; write C 5; read S 20; set C nodelay 1; read S 20; get C cork; get C nodelay",
    );
    connected(
        "let go without Nagle",
        "set C cork 1; write C 5; read S 20; set C nodelay 1; read S 20; get C cork; get C nodelay",
    );
    connected(
        "let go on closing",
        "set C cork 1; write C 5; close C; read S 20; read S 20",
    );
    connected(
        "unacknowledged",
        "set C cork 1; write C 5; unacked C; set C cork 0; unacked C; unacked S",
    );
    both(
        "inherited",
        "listen; set L cork 1; set L nodelay 1; socket C; connect C; accept; get S cork; get S nodelay",
    );
}

#[test]
fn deferred_accept() {
    both(
        "data brings it",
        "listen; set L defer 5; get L defer; add L all; socket C; add C all; connect C; wait L; wait C; accept; \
         write C 1; wait L; accept; get S defer; read S 9; wait L",
    );
    both(
        "so does the end",
        "listen; set L defer 5; add L all; socket C; connect C; wait L; shut C write; wait L; accept; read S 9",
    );
    both(
        "not any more",
        "listen; set L defer 5; set L defer 0; add L all; socket C; connect C; wait L; accept",
    );
}

#[test]
fn quick_acks_and_clamps() {
    connected(
        "quick",
        "set S quickack 1; write C 5; read S 9; get S quickack",
    );
    both(
        "a clamp",
        "socket C; set C clamp 0; set C clamp 1; get C clamp; set C clamp 5000; get C clamp; set C clamp 0; get C clamp",
    );
    connected("not taken back", "set C clamp 5000; set C clamp 0");
}

/// Fast Open with the server's cookie: the SYN waits for the first write.
fn fast(name: &str, text: &str) {
    both(
        name,
        &format!("listen; set L fastopen 5; meet; socket C; {text}"),
    );
}

#[test]
fn fast_opens() {
    fast(
        "deferred",
        "set C fastconnect 1; get C fastconnect; add C all; wait C; connect C; wait C; connect C; read C 1; write C 5; \
         connect C; wait C; accept; read S 9; write S 3; read C 9; connect C",
    );
    fast(
        "watched late",
        "set C fastconnect 1; connect C; add C edge; wait C; wait C; write C 5; wait C; wait C; accept; read S 9",
    );
    fast(
        "never written",
        "set C fastconnect 1; add L all; connect C; wait L; accept; close C; wait L; accept",
    );
    fast(
        "refused",
        "close L; set C fastconnect 1; connect C; add C all; write C 5; wait C; read C 1; read C 1; write C 1; error C",
    );
    fast(
        "sent",
        "send C 5; add C all; wait C; accept; read S 9; send C 5; send C 5; read S 9",
    );
    fast("sent and refused", "close L; send C 5; read C 1; read C 1");
    fast("sent after", "connect C; accept; connect C; send C 5");
}

#[test]
fn fast_opens_without_a_cookie() {
    let unmet = |name, text| both(name, &format!("listen; set L fastopen 5; socket C; {text}"));
    unmet(
        "connecting",
        "set C fastconnect 1; add C all; connect C; wait C; accept; connect C; write C 5; read S 9",
    );
    unmet(
        "sent",
        "add C all; send C 5; wait C; accept; read S 9; send C 5; read S 9; send C 5",
    );
    unmet("refused", "close L; send C 5; read C 1; read C 1; send C 5");
}

#[test]
fn fast_open_is_settled_before() {
    both(
        "values",
        "socket C; get C fastopen; get C fastconnect; set C fastopen 100000; get C fastopen; set C fastconnect 1; \
         get C fastconnect; set C fastconnect 0; get C fastconnect",
    );
    connected(
        "too late",
        "set C fastconnect 1; set C fastopen 3; set L fastconnect 1; set L fastopen 9; get L fastopen; get C fastconnect",
    );
}

#[test]
fn pacing_rates() {
    connected(
        "set",
        "set C pacing 100000; get C pacing; write C 5; read S 9; set C pacing 0; get C pacing; write C 5; read S 9",
    );
}

#[test]
fn listeners_shut() {
    both(
        "writing",
        "listen; add L all; shut L write; wait L; socket C; connect C; wait L; accept",
    );
    both(
        "reading",
        "listen; socket C; add L all; wait L; shut L read; wait L; accept; connect C; connect C",
    );
    both("unconnected", "socket C; shut C write; shut C both");
}

#[test]
fn connections_that_end_before_they_are_accepted() {
    both(
        "reset",
        "listen; add L all; socket C; connect C; reset C; wait L; accept; read S 1; read S 1; write S 1; wait L",
    );
    both(
        "data, then reset",
        "listen; socket C; connect C; write C 5; reset C; accept; error S; read S 9; write S 1",
    );
    both(
        "closed",
        "listen; socket C; connect C; write C 5; close C; accept; read S 9; read S 9; write S 1; error S",
    );
    both(
        "two, one reset",
        "listen; socket C; connect C; socket D; connect D; reset C; write D 3; accept; error S; accept; read S 9",
    );
}

#[test]
fn errors_are_said_once() {
    connected(
        "to a writer",
        "reset C; write S 1; error S; write S 1; error S",
    );
    connected(
        "to who asks",
        "reset C; error S; read S 1; write S 1; error S",
    );
    connected(
        "after the end of file",
        "close C; read S 1; write S 1; write S 1; read S 1; error S; write S 1",
    );
    both(
        "of a connect",
        "listen; close L; socket C; connect C; error C; read C 1; write C 1; connect C; error C",
    );
}
