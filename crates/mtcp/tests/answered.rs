//! A kernel client on a veth pair, whose SYNs are answered where they arrive: link and stack make
//! the same of each. Needs root and Linux 6.6; says so and passes without.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use mtcp::{Config, Domain, Mode, Mtcp, SocketOption};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Connections, one after the other. The first of a listener is not answered, others may come late
/// after a turn.
const COUNT: usize = 300;
const WITHIN: Duration = Duration::from_secs(20);

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words}: {errors}");
}

/// Whether it can be tried here.
fn is_possible() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    let realtime = Path::new("/sys/kernel/realtime").exists();
    let possible = rustix::process::geteuid().is_root() && version >= (6, 6) && !realtime;
    if !possible {
        let reason =
            "needs root for a network namespace and XDP, and Linux 6.6, not a PREEMPT_RT one";
        let _ = writeln!(io::stdout(), "\nskipped: {reason}"); // println! would be captured
    }
    possible
}

/// Sends and gets back five bytes on each connection.
fn client(server: SocketAddr) {
    for _ in 0..COUNT {
        let mut stream = TcpStream::connect_timeout(&server, WITHIN).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        stream.write_all(b"hello").unwrap();
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"hello");
    }
}

/// Serves the client in a namespace that ends with this thread; how many of its SYNs the link
/// answered.
fn serve(mode: Mode, change: impl FnOnce(&mut Config)) -> u64 {
    // SAFETY: a new network namespace does not change descriptors or memory of this or any other
    // thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
    ip("link add ours0 type veth peer name peer0");
    ip("address add 10.98.0.2/24 dev peer0");
    ip("link set ours0 up");
    ip("link set peer0 up");
    let mut config = Config {
        mode,
        ..Config::default()
    };
    config.set("io", "afxdp:ours0").unwrap();
    config.set("addr", "10.98.0.1/24").unwrap();
    change(&mut config);
    let local: SocketAddr = "10.98.0.1:80".parse().unwrap();
    let mtcp = Mtcp::init(config).unwrap();
    let mut context = mtcp.context(0).unwrap();
    let listener = context.socket(Domain::V4).unwrap();
    context.bind(listener, local).unwrap();
    context.listen(listener, 64).unwrap();
    let timeout = SocketOption::RecvTimeout(Some(WITHIN));
    context.set_option(listener, timeout).unwrap();
    let client = thread::spawn(move || client(local));
    for _ in 0..COUNT {
        let (socket, _) = context.accept(listener).unwrap();
        let mut request = [0; 5];
        assert_eq!(context.read(socket, &mut request), Ok(5));
        assert_eq!(context.write(socket, &request), Ok(5));
        context.close(socket).unwrap();
    }
    client.join().unwrap();
    context.counters().unwrap().counters.syns_answered_by_link
}

#[test]
fn kernel_clients_are_served_whoever_answers_their_syns() {
    if !is_possible() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("capture.pcapng");
    let run = |mode, name: &'static str, value: &str| {
        let value = value.to_owned();
        let serve = move || serve(mode, |config| config.set(name, &value).unwrap());
        thread::spawn(serve).join().unwrap()
    };
    for mode in [Mode::Inline, Mode::Paired] {
        let answered = run(mode, "syn_offload", "yes");
        assert!(answered > 0, "{mode:?}: the link answered none");
        // A capture and a bad network would not see those answers.
        for (name, value) in [
            ("syn_offload", "no"),
            ("fault", "loss=0%"),
            ("pcap", capture.to_str().unwrap()),
        ] {
            assert_eq!(run(mode, name, value), 0, "{mode:?}, {name} = {value}");
        }
    }
}
