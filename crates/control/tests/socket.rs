//! Programs, good and hostile, at one daemon.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use common::{Daemon, PROMPT, build, dial, hello, is_dropped, settings};
use control::Build;
use control::client::{self, Found};
use control::lock::Lock;
use control::message::{Envelope, MESSAGE_MAX, Reply, Request};
use control::server::{DropReason, Listener, Server};
use rustix::io::{Errno, FdFlags};
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, send, sendmsg,
};
use rustix::process::{Gid, Uid, geteuid};

/// Does `work` as another user, in one thread.
fn as_user<T: Send>(uid: u32, groups: &[u32], work: impl FnOnce() -> T + Send) -> T {
    let groups: Vec<Gid> = groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    std::thread::scope(|scope| {
        let become_user = || {
            let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
            rustix::thread::set_thread_groups(&groups).unwrap();
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        };
        scope
            .spawn(move || {
                become_user();
                work()
            })
            .join()
            .unwrap()
    })
}

/// Whether other users can be played; says so where not.
fn is_root() -> bool {
    use std::io::Write as _;
    if !geteuid().is_root() {
        let _ = writeln!(std::io::stdout(), "skipped: other users need root");
    }
    geteuid().is_root()
}

#[test]
fn a_program_attaches_and_is_detached_when_it_goes() {
    let daemon = Daemon::new("connections = everyone 77");
    let session = daemon.join().unwrap();
    assert_eq!(session.welcome().name, "default");
    assert_eq!(session.welcome().stacks, 2);
    assert_eq!(session.welcome().pid, std::process::id());
    let channels = session.attach().unwrap();
    assert_eq!(channels.len(), 2);
    for (number, attached) in (0..).zip(&channels) {
        assert_eq!(attached.channel.stack, number);
        assert_eq!(attached.channel.words[0], 77);
        let [read, _write] = &attached.descriptors[..] else {
            panic!("two descriptors");
        };
        let mut byte = [9];
        rustix::io::read(read, &mut byte).unwrap();
        assert_eq!(u32::from(byte[0]), number);
        let flags = rustix::io::fcntl_getfd(read).unwrap();
        assert!(flags.contains(FdFlags::CLOEXEC));
    }
    let status = session.status().unwrap();
    assert_eq!((status.overview.attached, status.clients.len()), (1, 1));
    let row = &status.clients[0];
    assert_eq!((row.pid, row.connections), (std::process::id(), 3));
    assert_eq!((row.channels, row.memory), (2, 4096));
    drop(session);
    daemon.wait("it is detached", |daemon| {
        daemon.stacks.detached.lock().unwrap().len() == 1
    });
}

#[test]
fn lists_longer_than_a_message_come_whole() {
    let daemon = Daemon::new("");
    let sessions: Vec<_> = (0..120).map(|_| daemon.join().unwrap()).collect();
    for session in &sessions {
        session.attach().unwrap();
    }
    let status = sessions[0].status().unwrap();
    assert_eq!(status.clients.len(), 120);
    assert!(status.clients.is_sorted_by_key(|row| row.id));
    let sockets = sessions[0].sockets().unwrap();
    let ports: Vec<u16> = sockets.iter().map(|row| row.remote.port()).collect();
    let all = (0..500).filter(|port| port / 100 % 2 == 0);
    assert_eq!(ports, all.collect::<Vec<_>>());
    assert_eq!(sessions[0].settings().unwrap(), settings());
}

/// The answer to a message of ours, as far as it is one of the daemon's.
fn answer(socket: &OwnedFd, request: &Request) -> Reply {
    send(socket, &request.emit(&build()), SendFlags::empty()).unwrap();
    let mut bytes = [0; MESSAGE_MAX];
    let (_, length) = recv(socket, &mut bytes[..], RecvFlags::empty()).unwrap();
    Reply::parse(&Envelope::parse(&bytes[..length]).unwrap()).unwrap()
}

#[test]
fn a_place_that_nobody_gave_out_is_answered() {
    let daemon = Daemon::new("");
    let socket = dial(&daemon.path());
    send(&socket, &hello(), SendFlags::empty()).unwrap();
    recv(&socket, &mut [0; MESSAGE_MAX][..], RecvFlags::empty()).unwrap();
    for from in [u64::MAX, 501] {
        let Reply::Refused(refused) = answer(&socket, &Request::Sockets { from }) else {
            panic!("the stack is gone");
        };
        assert_eq!(
            refused.line,
            "a stack of the daemon has ended: start the daemon again"
        );
    }
    let reply = answer(&socket, &Request::Sockets { from: 499 });
    assert!(matches!(reply, Reply::Sockets { sockets, next: 0 } if sockets.len() == 1));
    let within_a_letter = settings().find('ü').unwrap() as u64 + 1;
    for from in [u64::MAX, 1 << 20, within_a_letter] {
        let reply = answer(&socket, &Request::Settings { from });
        assert!(matches!(reply, Reply::Settings { lines, next: 0 } if lines.is_empty()));
    }
}

/// One list at a time: who does not wait for its answer could have the stack make any number.
#[test]
fn who_asks_for_sockets_twice_at_once_is_dropped() {
    let daemon = Daemon::new("");
    let (answers, gate) = std::sync::mpsc::channel::<()>();
    *daemon.stacks.gate.lock().unwrap() = Some(gate);
    let socket = dial(&daemon.path());
    send(&socket, &hello(), SendFlags::empty()).unwrap();
    let ask = Request::Sockets { from: 0 }.emit(&build());
    send(&socket, &ask, SendFlags::empty()).unwrap();
    send(&socket, &ask, SendFlags::empty()).unwrap();
    assert!(is_dropped(&socket));
    daemon.wait("it is counted", |daemon| {
        daemon.drops(DropReason::Malformed) == 1
    });
    // The answer comes when nobody is there any more, and others are served.
    drop(answers);
    assert_eq!(daemon.join().unwrap().sockets().unwrap().len(), 300);
}

#[test]
fn two_builds_that_do_not_fit_name_each_other() {
    let daemon = Daemon::new("");
    let other = Build::new("9.9.9", 8);
    let places = [daemon.place.clone()];
    let error = client::named(&places, "default", &other).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the program has mTCP 9.9.9, the daemon 'default' mTCP 0.1.0 (test): \
         use one build for both, and restart what is older"
    );
    daemon.wait("it is counted", |daemon| {
        daemon.drops(DropReason::NoMatch) == 1
    });
}

#[test]
fn a_daemon_of_another_namespace_is_no_match() {
    if !is_root() {
        return;
    }
    let daemon = Daemon::new("");
    let places = [daemon.place.clone()];
    std::thread::spawn(move || {
        let flags = rustix::thread::UnshareFlags::NEWNET;
        // Of this thread only, and no descriptors.
        #[expect(deprecated)]
        rustix::thread::unshare(flags).unwrap();
        let error = client::named(&places, "default", &build()).unwrap_err();
        assert!(
            error.to_string().contains("another network namespace"),
            "{error}"
        );
        let found = client::of_namespace(&places[0], &build()).unwrap();
        assert!(matches!(found, Found::Nobody(_)));
    })
    .join()
    .unwrap();
    assert!(matches!(
        client::of_namespace(&daemon.place, &build()),
        Ok(Found::Session(_))
    ));
}

#[test]
fn garbage_is_dropped_and_others_are_served() {
    let daemon = Daemon::new("");
    let good = daemon.join().unwrap();
    let whole = hello();
    let mut long = whole.clone();
    long.resize(MESSAGE_MAX + 1, 0);
    let cases: [&[u8]; 6] = [
        b"garbage",
        &whole[..10],
        &[&whole[..], b"x"].concat(),
        &long,
        &[0xff; MESSAGE_MAX],
        &Request::Attach.emit(&build()),
    ];
    for case in cases {
        let socket = dial(&daemon.path());
        send(&socket, case, SendFlags::empty()).unwrap();
        assert!(is_dropped(&socket), "{case:?}");
    }
    daemon.wait("they are counted", |daemon| {
        daemon.drops(DropReason::Malformed) == cases.len() as u64
    });
    // Two hellos are one too many.
    let socket = dial(&daemon.path());
    send(&socket, &whole, SendFlags::empty()).unwrap();
    send(&socket, &whole, SendFlags::empty()).unwrap();
    assert!(is_dropped(&socket));
    assert_eq!(good.attach().unwrap().len(), 2);
}

#[test]
fn descriptors_that_nobody_asked_for_are_closed() {
    let daemon = Daemon::new("");
    let good = daemon.join().unwrap();
    for count in [1, 8, 9, 100] {
        let (read, write) = std::io::pipe().unwrap();
        let socket = dial(&daemon.path());
        let descriptors = vec![write.as_fd(); count];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(100))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(
            &socket,
            &[IoSlice::new(&hello())],
            &mut control,
            SendFlags::empty(),
        )
        .unwrap();
        assert!(is_dropped(&socket), "{count}");
        drop(write);
        // The end of the pipe comes when no copy is left.
        assert_eq!(rustix::io::read(&read, &mut [0]).unwrap(), 0, "{count}");
    }
    daemon.wait("they are counted", |daemon| {
        daemon.drops(DropReason::Descriptors) == 4
    });
    assert_eq!(good.attach().unwrap().len(), 2);
}

#[test]
fn who_says_nothing_or_reads_nothing_keeps_nobody_waiting() {
    let daemon = Daemon::new("");
    let silent = dial(&daemon.path());
    let deaf = dial(&daemon.path());
    send(&deaf, &hello(), SendFlags::empty()).unwrap();
    let status = Request::Status { from: 0 }.emit(&build());
    // Until the daemon drops it: it never reads.
    loop {
        match send(&deaf, &status, SendFlags::NOSIGNAL) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let good = daemon.join().unwrap();
    assert_eq!(good.attach().unwrap().len(), 2);
    daemon.wait("it is counted", |daemon| {
        daemon.drops(DropReason::NotReading) == 1
    });
    assert!(is_dropped(&silent));
    daemon.wait("it is counted", |daemon| {
        daemon.drops(DropReason::NoHello) == 1
    });
}

#[test]
fn a_flood_of_one_user_leaves_room_for_others() {
    if !is_root() {
        return;
    }
    let daemon = Daemon::new("programs = everyone 5");
    let path = daemon.path();
    let held = as_user(1001, &[], || {
        let sockets: Vec<OwnedFd> = (0..5).map(|_| dial(&path)).collect();
        sockets.iter().for_each(|socket| {
            send(socket, &hello(), SendFlags::empty()).unwrap();
        });
        let error = daemon.join().unwrap_err();
        assert_eq!(error.errno(), Errno::AGAIN);
        sockets
    });
    // The refusal is sent before the turn that counts it is over.
    daemon.wait("it is counted", |daemon| {
        daemon.drops(DropReason::TooMany) == 1
    });
    as_user(1002, &[], || {
        assert!(daemon.join().unwrap().attach().is_ok())
    });
    drop(held);
    daemon.wait("there is room again", |daemon| {
        as_user(1001, &[], || daemon.join().is_ok())
    });
}

#[test]
fn the_policy_says_who_attaches() {
    if !is_root() {
        return;
    }
    let daemon = Daemon::new("attach = 1001,@2000");
    as_user(1001, &[], || assert!(daemon.join().is_ok()));
    as_user(1002, &[2000], || assert!(daemon.join().is_ok()));
    let many: Vec<u32> = (3000..3100).chain([2000]).collect();
    as_user(1002, &many, || assert!(daemon.join().is_ok()));
    let error = as_user(1003, &[], || daemon.join().unwrap_err());
    assert_eq!(
        error.to_string(),
        "user 1003 may not use this daemon: have its administrator add 'attach = USER' to its settings"
    );
    assert!(daemon.join().is_ok());
    daemon.set_policy("attach = 1003");
    as_user(1003, &[], || assert!(daemon.join().is_ok()));
    as_user(1001, &[], || assert!(daemon.join().is_err()));
}

#[test]
fn users_see_their_own_programs() {
    if !is_root() {
        return;
    }
    let daemon = Daemon::new("");
    let first = as_user(1001, &[], || daemon.join().unwrap());
    first.attach().unwrap();
    let second = as_user(1002, &[], || daemon.join().unwrap());
    second.attach().unwrap();
    let uids = |session: &client::Session| -> Vec<u32> {
        let status = session.status().unwrap();
        status.clients.iter().map(|row| row.uid).collect()
    };
    assert_eq!(uids(&first), [1001]);
    assert_eq!(uids(&second), [1002]);
    assert_eq!(uids(&daemon.join().unwrap()), [1001, 1002]);
    let sockets = second.sockets().unwrap();
    assert!(sockets.iter().all(|row| row.uid == 1002));
}

#[test]
fn a_daemon_has_its_name_alone_and_takes_what_a_killed_one_left() {
    let base = tempfile::tempdir().unwrap();
    let place = control::place::Place::private(base.path().join("mtcp"));
    let places = [place.clone()];
    let first = Listener::open(&place, "x", Duration::ZERO).unwrap();
    let error = Listener::open(&place, "x", Duration::ZERO).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "a daemon 'x' runs already (process {}): end it, or choose another --name",
            std::process::id()
        )
    );
    // As if it had been killed: the socket stays, the lock does not.
    let path = first.path().to_owned();
    drop(first);
    let left = dial_at(&path);
    assert!(path.exists());
    let found = client::named(&places, "x", &build()).unwrap();
    assert!(matches!(found, Found::Nobody(error) if error.errno() == Errno::CONNREFUSED));
    drop(left);
    drop(Listener::open(&place, "x", Duration::ZERO).unwrap());
    // One that ends leaves nothing, whatever it ends of.
    assert!(!path.exists());
    std::fs::write(&path, "mine").unwrap();
    let error = Listener::open(&place, "x", Duration::ZERO).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("x.sock' is no socket: remove it"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

/// A socket that is bound and that nobody listens at.
fn dial_at(path: &std::path::Path) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
    let _ = std::fs::remove_file(path);
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

#[test]
fn who_connects_while_a_daemon_ends_is_served_or_told() {
    let base = tempfile::tempdir().unwrap();
    let place = control::place::Place::private(base.path().join("mtcp"));
    let listener = Listener::open(&place, "x", Duration::ZERO).unwrap();
    let stacks = std::sync::Arc::new(common::Counting::default());
    let policy = std::sync::Arc::default();
    let mut server = Server::new(listener, build(), stacks, policy).unwrap();
    let start_lock = place.start_lock("x");
    // Somebody starts or joins.
    let starter = Lock::take(&start_lock, Duration::ZERO).unwrap().unwrap();
    assert!(server.end_if_idle(&start_lock).unwrap().is_none());
    drop(starter);
    // Somebody connected this moment.
    let program = dial(&place.socket("x"));
    assert!(server.end_if_idle(&start_lock).unwrap().is_none());
    assert_eq!(server.connected(), 1);
    drop(program);
    while server.connected() > 0 {
        server.turn(Some(PROMPT)).unwrap();
    }
    let ended = server.end_if_idle(&start_lock).unwrap();
    // Until the process is gone, who wants to start another waits.
    assert!(Lock::take(&start_lock, Duration::ZERO).unwrap().is_err());
    assert!(!place.socket("x").exists());
    drop(ended);
}

#[test]
fn a_daemon_that_dies_before_it_greets_has_ended() {
    use rustix::event::{PollFd, PollFlags, poll};
    let base = tempfile::tempdir().unwrap();
    let place = control::place::Place::private(base.path().join("mtcp"));
    place.make().unwrap();
    let dies = dial_at(&place.socket("x"));
    rustix::net::listen(&dies, 8).unwrap();
    let program = std::thread::spawn(move || client::named(&[place], "x", &build()));
    // It is connected, and waits for an answer.
    poll(&mut [PollFd::new(&dies, PollFlags::IN)], None).unwrap();
    drop(dies);
    let found = program.join().unwrap().unwrap();
    assert!(matches!(found, Found::Nobody(error) if error.errno() == Errno::CONNREFUSED));
}

#[test]
fn who_waits_when_a_daemon_ends_is_told() {
    let base = tempfile::tempdir().unwrap();
    let place = control::place::Place::private(base.path().join("mtcp"));
    let listener = Listener::open(&place, "x", Duration::ZERO).unwrap();
    let stacks = std::sync::Arc::new(common::Counting::default());
    let mut server = Server::new(listener, build(), stacks, std::sync::Arc::default()).unwrap();
    let path = place.socket("x");
    let program = dial(&path);
    send(&program, &hello(), SendFlags::empty()).unwrap();
    server.close();
    assert_eq!(server.drops()[DropReason::Ending as usize], 1);
    assert!(is_dropped(&program));
    let places = [place];
    let found = client::named(&places, "x", &build()).unwrap();
    assert!(matches!(found, Found::Nobody(_)));
}

#[test]
fn nobody_is_there() {
    let base = tempfile::tempdir().unwrap();
    let place = control::place::Place::private(base.path().join("mtcp"));
    for found in [
        client::named(std::slice::from_ref(&place), "x", &build()).unwrap(),
        client::of_namespace(&place, &build()).unwrap(),
    ] {
        let Found::Nobody(error) = found else {
            panic!("nobody is there");
        };
        assert!(
            error
                .to_string()
                .ends_with(": start one with 'mtcp daemon'"),
            "{error}"
        );
    }
}
