//! Descriptors that come to a program otherwise than by its own calls: those that the library makes
//! while it runs, listeners and connections that others pass on.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use applications::host::Host;
use applications::process::{PROMPT, wait_until};
use applications::site::{WITHIN, spell, succeed};
use applications::{Family, Process, Site, baseline, process, url};
use interop::{programs, through_daemon};
use rustix::process::{Pid, Signal, kill_process};

const PORT: u16 = 7000;
/// Where nothing answers: curl says so.
const CURL_REFUSED: i32 = 7;

/// `passed.c`, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("passed");
        let source = programs::repository().join("tests/preload/process/passed.c");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
        cc.arg(&program).arg(source);
        succeed(cc);
        program
    })
}

fn at() -> SocketAddr {
    SocketAddr::new(Family::V4.ours(), PORT)
}

/// A case of `passed.c` over shared memory.
fn over_memory(site: &Site, address: &str, name: &str) -> Command {
    let mut command = site.lab().ours().command(programs::mtcp());
    let link = format!("shm:{}", spell(&site.file("link")));
    command.args(["run", "--io", &link, "--addr", address, "--"]);
    command.arg(program());
    command.args([name, &at().ip().to_string(), &PORT.to_string()]);
    command
}

/// A case of `passed.c` on our end.
fn case(site: &Site, name: &str) -> Command {
    let mut command = site.ours(&spell(program()));
    command.args([name, &at().ip().to_string(), &PORT.to_string()]);
    command
}

/// One message there and back, on a new connection.
fn exchange(site: &Site) {
    exchange_on(&mut connect(site));
}

fn connect(site: &Site) -> TcpStream {
    try_connect(site, at()).unwrap()
}

fn try_connect(site: &Site, at: SocketAddr) -> io::Result<TcpStream> {
    let connect = || TcpStream::connect_timeout(&at, PROMPT);
    let stream = site.lab().peer().enter(connect)?;
    stream.set_read_timeout(Some(PROMPT))?;
    Ok(stream)
}

fn exchange_on(stream: &mut TcpStream) {
    stream.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
}

/// A listener is served by whoever comes to have it.
#[test]
fn listeners_that_others_made_are_served() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    for (name, connections) in [
        ("executed", 2),
        ("nonblocking", 1),
        ("bound", 1),
        ("sent", 1),
        ("cleaned", 2),
    ] {
        let mut server = Process::start(case(&site, name));
        server.wait_for("ready", PROMPT);
        for _ in 0..connections {
            exchange(&site);
        }
        let finished = server.finish(WITHIN).must_succeed();
        assert!(finished.stdout.ends_with("fine\n"), "{name}: {finished:?}");
        assert!(!finished.stderr.contains("mtcp:"), "{name}: {finished:?}");
    }
}

/// The process that listened is killed, and a child has the listener and does not accept yet: who
/// comes waits for it, and is told when nobody is left who could accept. As on the kernel.
#[test]
fn who_comes_waits_for_a_process_that_has_the_listener() {
    let Some(host) = Host::new(&["cc"]) else {
        return;
    };
    let site = &host.site;
    let copy = site.file("passed");
    fs::copy(program(), &copy).unwrap();
    fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
    let words = |name: &str, at: IpAddr| format!("{} {name} {at} {PORT}", spell(&copy));
    let (ours, peer) = (Family::V4.ours(), Family::V4.peer());
    wait_for_a_child(site, peer, |name| site.peer(&words(name, peer)));
    wait_for_a_child(site, ours, |name| host.run("1001", &words(name, ours)));
}

fn wait_for_a_child(site: &Site, at: IpAddr, case: impl Fn(&str) -> Command) {
    let at = SocketAddr::new(at, PORT);
    let refuses = || {
        let error = try_connect(site, at).err().map(|error| error.kind());
        error == Some(ErrorKind::ConnectionRefused)
    };
    let mut server = Process::start(case("later"));
    server.wait_for("ready", PROMPT);
    let [mut first, mut second] = [(); 2].map(|()| try_connect(site, at).unwrap());
    first.write_all(b"hello").unwrap();
    server.signal(Signal::USR1);
    let mut answer = [0; 5];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
    exchange_on(&mut second);
    server.finish(WITHIN).must_succeed();
    wait_until("the port is refused", PROMPT, refuses);

    let mut server = Process::start(case("never"));
    server.wait_for("ready", PROMPT);
    let mut waiting = try_connect(site, at).unwrap();
    waiting.write_all(b"hello").unwrap();
    server.signal(Signal::USR1);
    let told = waiting.read(&mut [0; 8]).map_err(|error| error.kind());
    assert_eq!(told, Err(ErrorKind::ConnectionReset));
    server.finish(WITHIN).must_succeed();
    wait_until("the port is refused", PROMPT, refuses);
}

/// Words that are passed one by one come through.
#[test]
fn programs_are_executed_with_their_words_and_environment() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    let finished = succeed(case(&site, "variable"));
    let told = finished
        .stderr
        .matches("is executed without LD_PRELOAD")
        .count();
    assert_eq!(told, usize::from(!baseline()), "{finished:?}");
}

/// A connection ends with the program that has it, and the next one hears why. Through a daemon it
/// goes on (`handed.rs`).
#[test]
fn a_connection_of_the_program_before_is_told_when_it_is_used() {
    let Some(site) = Site::new(&["cc"]).filter(|_| !baseline() && !through_daemon()) else {
        return;
    };
    let mut server = Process::start(case(&site, "kept"));
    server.wait_for("ready", PROMPT);
    let _open = connect(&site);
    let finished = server.finish(WITHIN).must_succeed();
    let told = finished.stderr.matches("descriptor 4 is a connection");
    assert_eq!(told.count(), 1, "{finished:?}");
}

/// An interface is its next user's when a process ends, also where others that hold it live on (the
/// upgrade of a binary).
#[test]
fn a_new_program_serves_when_the_old_one_ends() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    let mut server = Process::start(case(&site, "upgraded"));
    server.wait_for("ready", PROMPT);
    exchange(&site);
    server.wait_for("alone", PROMPT);
    exchange(&site);
    let finished = server.finish(WITHIN).must_succeed();
    assert!(finished.stdout.ends_with("fine\n"), "{finished:?}");
}

/// Lines are for who runs the program: a connection that becomes its stderr carries none, and the
/// stderr from before gets them, after an `exec`, too. They name the program that waits, its place
/// and the cause.
#[test]
fn a_client_reads_no_lines_of_the_library() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    let mut server = Process::start(case(&site, "said"));
    server.wait_for("ready", PROMPT);
    let mut read = String::new();
    connect(&site).read_to_string(&mut read).unwrap();
    assert_eq!(read, "hellohello");
    let finished = server.finish(WITHIN).must_succeed();
    for port in [PORT + 1, PORT + 2] {
        // The last of those where it listens.
        let place = format!("{}: XDP on", SocketAddr::new(at().ip(), port));
        let wanted = [
            "passed, which listens at",
            &place,
            "waiting until its owner ends",
        ];
        let is_told = |line: &&str| wanted.iter().all(|part| line.contains(part));
        let told = finished.stderr.lines().filter(is_told);
        assert_eq!(
            told.count(),
            // At a daemon nobody waits for a queue.
            usize::from(!baseline() && !through_daemon()),
            "{port}: {finished:?}"
        );
    }
}

/// Who keeps a connection that its child reads does not take it away from that one.
#[test]
fn a_child_reads_where_its_parent_does_not() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    for name in ["waited", "left"] {
        let mut server = Process::start(case(&site, name));
        server.wait_for("ready", PROMPT);
        let mut stream = connect(&site);
        exchange_on(&mut stream);
        // The child has ended: what comes now is the parent's.
        server.wait_for("alone", PROMPT);
        exchange_on(&mut stream);
        let finished = server.finish(WITHIN).must_succeed();
        assert!(finished.stdout.ends_with("fine\n"), "{name}: {finished:?}");
    }
}

#[test]
fn a_child_reads_when_one_that_was_made_later_has_ended() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    let mut server = Process::start(case(&site, "sooner"));
    server.wait_for("ready", PROMPT);
    let mut stream = connect(&site);
    server.wait_for("gone", PROMPT);
    exchange_on(&mut stream);
    server.finish(WITHIN).must_succeed();
}

/// That one of two children keeps from the other what it does not read is told; when it has ended,
/// the other gets what comes.
#[test]
fn a_child_that_does_not_read_is_told() {
    let Some(site) = Site::new(&["cc"]).filter(|_| !baseline()) else {
        return;
    };
    let mut server = Process::start(case(&site, "idle"));
    server.wait_for("ready", PROMPT);
    let mut stream = connect(&site);
    server.wait_for("waits", PROMPT);
    stream.write_all(b"hello").unwrap();
    server.wait_for_warning("several children have the connection", PROMPT);
    let printed = server.printed();
    let pid = printed
        .lines()
        .find_map(|line| line.strip_prefix("idle ")?.parse().ok());
    kill_process(Pid::from_raw(pid.unwrap()).unwrap(), Signal::TERM).unwrap();
    server.wait_for("gone", PROMPT);
    exchange_on(&mut stream);
    let finished = server.finish(WITHIN).must_succeed();
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
}

/// The system call is seen where the program makes it by the C library; a copy that nobody told of
/// leaves connections to its parent.
#[test]
fn children_that_the_system_call_makes_have_what_those_of_fork_have() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    for name in ["cloned", "copied"] {
        if baseline() && name == "copied" {
            continue;
        }
        let mut server = Process::start(case(&site, name));
        server.wait_for("ready", PROMPT);
        exchange(&site);
        let finished = server.finish(WITHIN).must_succeed();
        let told = finished
            .stderr
            .matches("is a connection of another process's stack")
            .count();
        assert_eq!(told, usize::from(name == "copied"), "{finished:?}");
    }
}

/// What comes with a peer is the library's, and its numbers are out of the program's way.
#[test]
fn a_program_keeps_its_numbers_while_peers_of_a_link_come_and_go() {
    let Some(site) = Site::new(&["cc"]).filter(|_| !baseline()) else {
        return;
    };
    let ours = format!("{}/24", Family::V4.ours());
    let peer = format!("{}/24", Family::V4.peer());
    let mut server = Process::start(over_memory(&site, &ours, "peers"));
    server.wait_for("ready", PROMPT);
    for _ in 0..2 {
        succeed(over_memory(&site, &peer, "asks"));
    }
    let finished = server.finish(WITHIN).must_succeed();
    assert!(finished.stdout.ends_with("fine\n"), "{finished:?}");
}

/// What the shell, a child, and the shell again send; what the shell and a child read. `printf`
/// writes to its own stdout, which is the connection for as long as it takes.
const SHELL: &str = "exec 3<>/dev/tcp/$1/$2; printf 'shell\\n' >&3; /usr/bin/printf 'child\\n' >&3; echo again >&3; \
    read -r line <&3; echo \"read $line\"; cat <&3; echo end";

#[test]
fn a_shell_and_its_children_talk_over_one_connection() {
    let Some(site) = Site::new(&["bash"]) else {
        return;
    };
    let bind = || TcpListener::bind((Family::V4.peer(), PORT)).unwrap();
    let listener = site.lab().peer().enter(bind);
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let lines: Vec<_> = lines.take(3).map(Result::unwrap).collect();
        stream.write_all(b"first\nsecond\n").unwrap();
        lines
    });
    let mut command = site.lab().ours().command(programs::mtcp());
    command.arg("run").args(site.lab().link_args());
    command.args(["--", "bash", "-c", SHELL, "bash"]);
    command.args([Family::V4.peer().to_string(), PORT.to_string()]);
    let finished = succeed(command);
    assert_eq!(server.join().unwrap(), ["shell", "child", "again"]);
    assert_eq!(finished.stdout, "read first\nsecond\nend\n");
}

/// A child connects while its parent has the only queue. The kernel beside the stack has an address
/// on the interface, and could connect. A daemon's stack is not busy elsewhere.
#[test]
fn a_connection_that_finds_the_stack_busy_elsewhere_fails_and_is_not_the_kernels() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    if baseline() || through_daemon() {
        return;
    }
    let peer = SocketAddr::new(Family::V4.peer(), PORT);
    let listen = || TcpListener::bind(peer).unwrap();
    let listener = site.lab().peer().enter(listen);
    listener.set_nonblocking(true).unwrap();
    let mut command = site.ours(&spell(program()));
    command.args(["crowded", &peer.ip().to_string(), &PORT.to_string()]);
    let finished = succeed(command);
    assert!(finished.stdout.ends_with("fine\n"), "{finished:?}");
    let told = "waiting until its owner ends";
    assert!(finished.stderr.contains(told), "{finished:?}");
    let came: Vec<_> = std::iter::from_fn(|| listener.accept().ok())
        .map(|(_, from)| from.ip())
        .collect();
    assert_eq!(came, [Family::V4.ours()]);
}

/// The same of a program that is nobody's child: it hears why.
#[test]
fn a_connection_beside_a_program_that_has_the_queues_fails_and_says_why() {
    let Some(site) = Site::new(&["curl", "python3"]) else {
        return;
    };
    if baseline() || through_daemon() {
        return;
    }
    let server = format!("python3 -m http.server --bind {} {PORT}", at().ip());
    let _server = site.start_ours(site.ours(&server), PORT);
    let there = url("http", Family::V4, false, PORT, "");
    let finished = process::finish(site.ours(&format!("curl -sS {there}")), WITHIN);
    assert_eq!(finished.status.code(), Some(CURL_REFUSED), "{finished:?}");
    let told = "its connections fail with ENETDOWN until the owner of the queues ends";
    assert!(finished.stderr.contains(told), "{finished:?}");
}
