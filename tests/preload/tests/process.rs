//! What a process notices of the library beside its sockets: descriptors, stacks, errno, its end.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use applications::site::{WITHIN, spell, succeed};
use applications::{Family, Process, Site, baseline};
use interop::process::{Finished, PROMPT};
use interop::{programs, through_daemon};
use rustix::process::Signal;

const PORT: u16 = 7000;
/// Most bytes of a thread's stack that a call may take.
const MOST_STACK: u32 = 8 << 10;

/// A program of `process/`, compiled once.
fn program(name: &'static str, once: &'static OnceLock<PathBuf>) -> &'static Path {
    compiled(name, &[], once)
}

/// The same, with these libraries.
fn compiled(
    name: &'static str,
    libraries: &[&str],
    once: &'static OnceLock<PathBuf>,
) -> &'static Path {
    once.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let source = programs::repository().join(format!("tests/preload/process/{name}.c"));
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
        cc.arg(&program).arg(source).args(libraries);
        succeed(cc);
        program
    })
}

fn process() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    program("process", &PROGRAM)
}

fn at() -> SocketAddr {
    SocketAddr::new(Family::V4.ours(), PORT)
}

/// A case of `process.c`, to be started.
fn case(site: &Site, name: &str) -> Command {
    let mut command = site.ours(&spell(process()));
    command.args([name, &at().ip().to_string(), &PORT.to_string()]);
    command
}

/// The same, running, and ready for a peer.
fn start(command: Command) -> Process {
    let mut process = Process::start(command);
    process.wait_for("ready", PROMPT);
    process
}

/// What a program printed that had nothing to complain about.
fn fine(finished: Finished) -> String {
    let finished = finished.must_succeed();
    assert!(finished.stdout.ends_with("fine\n"), "{finished:?}");
    assert!(!finished.stderr.contains("mtcp:"), "{finished:?}");
    finished.stdout
}

fn connect(site: &Site) -> TcpStream {
    let connect = || TcpStream::connect_timeout(&at(), PROMPT).unwrap();
    let stream = site.lab().peer().enter(connect);
    stream.set_read_timeout(Some(PROMPT)).unwrap();
    stream
}

/// One message there and back. Returns the connection.
fn exchange(site: &Site) -> TcpStream {
    let mut stream = connect(site);
    stream.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    let read = stream.read_exact(&mut answer);
    read.unwrap_or_else(|error| panic!("no answer: {error}"));
    assert_eq!(&answer, b"hello");
    stream
}

#[test]
fn a_program_keeps_the_descriptors_that_it_opens_while_the_stack_starts() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    for _ in 0..3 {
        fine(succeed(case(&site, "descriptors")));
    }
}

#[test]
fn as_many_wait_to_be_accepted_as_the_host_allows() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    let server = start(case(&site, "many"));
    let waiting: Vec<TcpStream> = (0..40).map(|_| connect(&site)).collect();
    drop(waiting);
    server.kill();
}

#[test]
fn a_program_that_empties_its_environment_is_served() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    let server = start(case(&site, "cleared"));
    exchange(&site);
    fine(server.finish(WITHIN));
}

#[test]
fn a_program_that_gives_up_capabilities_before_it_listens_is_served() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    for name in ["dropped", "became"] {
        let server = start(case(&site, name));
        exchange(&site);
        fine(server.finish(WITHIN));
    }
}

#[test]
fn options_that_promise_what_the_stack_does_not_do_are_refused() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    if baseline() {
        return;
    }
    let server = start(case(&site, "promised"));
    exchange(&site);
    fine(server.finish(WITHIN));
}

#[test]
fn the_end_of_a_program_does_not_wait_for_that_of_its_peer() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    let mut server = start(case(&site, "ended"));
    let mut idle = connect(&site);
    server.wait_for("fine", PROMPT);
    let began = Instant::now();
    fine(server.finish(WITHIN));
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    let mut words = String::new();
    idle.read_to_string(&mut words).unwrap();
    assert_eq!(words, "the last words");
}

/// A daemon goes on, as a kernel does.
#[test]
fn the_end_of_a_program_says_what_its_peer_did_not_take() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    if baseline() {
        return;
    }
    let mut server = start(case(&site, "gone"));
    let mut idle = connect(&site);
    server.wait_for("accepted", PROMPT);
    let interface = site.lab().peer_interface();
    site.lab().peer().ip(&format!("link set {interface} down"));
    server.signal(Signal::USR1);
    let began = Instant::now();
    let finished = server.finish(WITHIN).must_succeed();
    if through_daemon() {
        assert_eq!(finished.stderr, "", "{finished:?}");
        site.lab().peer().ip(&format!("link set {interface} up"));
        let mut words = String::new();
        idle.read_to_string(&mut words).unwrap();
        return assert_eq!(words, "the last words");
    }
    let told = "1 of its connections with it";
    assert!(finished.stderr.contains(told), "{finished:?}");
    assert!(finished.stderr.contains("14 bytes"), "{finished:?}");
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn close_lingers_until_the_peer_has_everything() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    let mut server = start(case(&site, "lingering"));
    let _open = [connect(&site), connect(&site)];
    server.wait_for("alone", PROMPT);
    let interface = site.lab().peer_interface();
    site.lab().peer().ip(&format!("link set {interface} down"));
    server.signal(Signal::USR1);
    let finished = server.finish(WITHIN).must_succeed();
    assert!(finished.stdout.ends_with("fine\n"), "{finished:?}");
}

#[test]
fn io_uring_is_served_in_one_process_and_refused_where_nobody_serves_it() {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    if disabled.is_ok_and(|disabled| disabled.trim() != "0") {
        eprintln!("skipped: this kernel has no io_uring for programs");
        return;
    }
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let rings = spell(program("rings", &PROGRAM));
    for (word, told) in [
        ("", "that this one was forked by uses it"),
        ("daemon", "that made the ring"),
    ] {
        let finished = succeed(site.ours(&format!("{rings} {word}")));
        assert!(finished.stdout.ends_with("fine\n"), "{finished:?}");
        assert_eq!(finished.stderr.matches(told).count(), 1, "{finished:?}");
    }
}

/// An echo server of liburing, whose calls pass no function of the C library.
#[test]
fn a_server_of_liburing_is_served() {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    if !Path::new("/usr/include/liburing.h").exists() {
        eprintln!("skipped: no liburing (apt-get install liburing-dev)");
        return;
    }
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    let program = compiled("liburing", &["-luring"], &PROGRAM);
    let mut command = site.ours(&spell(program));
    command.args([at().ip().to_string(), PORT.to_string()]);
    let server = start(command);
    let mut clients: Vec<TcpStream> = (0..20).map(|_| connect(&site)).collect();
    let sent: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
    thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                let mut back = vec![0; sent.len()];
                for (piece, room) in sent.chunks(20_000).zip(back.chunks_mut(20_000)) {
                    client.write_all(piece).unwrap();
                    client.read_exact(room).unwrap();
                }
                assert_eq!(back, sent);
            });
        }
    });
    server.kill();
}

#[test]
fn options_that_were_set_before_hold_or_were_refused() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    if baseline() {
        return;
    }
    let server = start(case(&site, "before"));
    let _open = connect(&site);
    fine(server.finish(WITHIN));
}

#[test]
fn a_child_has_none_of_the_frames() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    let server = start(case(&site, "memory"));
    let _open = exchange(&site);
    let printed = fine(server.finish(WITHIN));
    let less = printed
        .lines()
        .find_map(|line| line.strip_suffix(" kB less"));
    let less: i64 = less.unwrap().parse().unwrap();
    assert!(baseline() || less >= 8 << 10, "{less} kB");
}

#[test]
fn calls_that_succeed_leave_errno_alone() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    let server = start(case(&site, "quiet"));
    let mut stream = connect(&site);
    stream.write_all(b"x").unwrap();
    let mut answer = [0; 1];
    stream.read_exact(&mut answer).unwrap();
    fine(server.finish(WITHIN));
}

/// A case of `process.c`, started by these words.
fn limited(site: &Site, words: &str, name: &str) -> Command {
    let mut words = words.split_whitespace();
    let first = programs::find(words.next().unwrap()).unwrap();
    let mut limited = site.lab().ours().command(first);
    limited.args(words);
    let command = case(site, name);
    let rest = command.get_args().map(ToOwned::to_owned);
    // The command enters the namespace, which this one does already: what comes behind it.
    let program = if baseline() { "process" } else { "mtcp" };
    limited.args(rest.skip_while(|word| !word.to_string_lossy().ends_with(program)));
    limited
}

/// Where memory may not be locked, the limit is raised: the library's own calls say why they fail.
#[test]
fn frames_are_registered_in_spite_of_a_limit_on_locked_memory() {
    let Some(site) = Site::new(&["cc", "setpriv", "prlimit"]) else {
        return;
    };
    if baseline() {
        return;
    }
    let words = "setpriv --bounding-set -ipc_lock prlimit --memlock=65536:";
    let server = start(limited(&site, words, "served"));
    exchange(&site);
    fine(server.finish(WITHIN));
}

#[test]
fn every_number_below_the_limit_is_the_programs() {
    let Some(site) = Site::new(&["cc", "prlimit"]) else {
        return;
    };
    for words in ["prlimit --nofile=1024:2048", "prlimit --nofile=16384:17000"] {
        let mut server = start(limited(&site, words, "numbers"));
        exchange(&site);
        server.wait_for("ready", PROMPT);
        exchange(&site);
        fine(server.finish(WITHIN));
    }
}

#[test]
fn a_process_with_64_descriptors_is_served() {
    let Some(site) = Site::new(&["cc", "prlimit"]) else {
        return;
    };
    let server = start(limited(&site, "prlimit --nofile=64:64", "served"));
    exchange(&site);
    fine(server.finish(WITHIN));
}

#[test]
fn a_gigabyte_of_address_space_is_enough() {
    let Some(site) = Site::new(&["cc", "prlimit"]) else {
        return;
    };
    for megabytes in [1000, 400] {
        let words = format!("prlimit --as={}", megabytes << 20);
        let server = start(limited(&site, &words, "served"));
        exchange(&site);
        let finished = server.finish(WITHIN).must_succeed();
        assert!(
            baseline() || finished.stderr.contains("ulimit -v"),
            "{finished:?}"
        );
    }
}

/// FTP servers set a limit in the child of a connection that leaves room for the program and more.
const LIMITED: &str = "
import mmap, os, resource, socket, sys
peer = socket.create_connection((sys.argv[1], 80))
if os.fork() == 0:
    most = 200 << 20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    assert resource.getrlimit(resource.RLIMIT_AS) == (most, most)
    assert resource.prlimit(0, resource.RLIMIT_AS) == (most, most)
    mmap.mmap(-1, 50 << 20)
    try: mmap.mmap(-1, 1 << 40)
    except OSError: os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
";

#[test]
fn what_the_stack_takes_counts_against_no_limit_of_the_program() {
    let Some(site) = Site::new(&["python3"]) else {
        return;
    };
    let peer = Family::V4.peer();
    let bind = || TcpListener::bind((peer, 80)).unwrap();
    let _listener = site.lab().peer().enter(bind);
    let script = site.write("limited.py", LIMITED);
    succeed(site.ours(&format!("python3 {script} {peer}")));
}

/// A user with the capabilities that docs/deployment.md names. What would be refused is not tried.
#[test]
fn an_ordinary_user_with_capabilities_is_served() {
    let Some(site) = Site::new(&["cc", "setpriv", "prlimit"]) else {
        return;
    };
    if baseline() {
        return;
    }
    for (more, slower) in [(",+perfmon", false), ("", !through_daemon())] {
        let capabilities = format!("+net_admin,+net_raw,+bpf{more}");
        let words = format!(
            "prlimit --memlock=8388608 setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -sys_resource \
             --inh-caps {capabilities} --ambient-caps {capabilities}"
        );
        let server = start(limited(&site, &words, "served"));
        let busy = server.processor_time();
        exchange(&site);
        let finished = server.finish(WITHIN).must_succeed();
        assert!(busy < Duration::from_millis(500), "{busy:?} to start");
        let told = finished.stderr.matches("CAP_PERFMON").count();
        assert_eq!(told, usize::from(slower), "{finished:?}");
    }
}

/// What `setcap cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep` writes: `vfs_cap_data` of
/// linux/capability.h, version 2, in effect; permitted and inheritable, low 32 bits and high ones.
fn set_capabilities(file: &Path) {
    let words: [u32; 5] = [
        0x0200_0001,
        1 << 12 | 1 << 13 | 1 << 14,
        0,
        1 << (39 - 32),
        0,
    ];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(file, "security.capability", &value, flags).unwrap();
}

/// The command has them by its file: an ordinary user needs none.
#[test]
fn capabilities_of_the_command_are_the_programs() {
    let Some(site) = Site::new(&["cc", "setpriv"]) else {
        return;
    };
    if baseline() {
        return;
    }
    let mtcp = programs::mtcp();
    for name in ["mtcp", "libmtcp_preload.so"] {
        std::fs::copy(mtcp.with_file_name(name), site.file(name)).unwrap();
    }
    site.open_to_all();
    set_capabilities(&site.file("mtcp"));
    let setpriv = programs::find("setpriv").unwrap();
    let mut command = site.lab().ours().command(setpriv);
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(site.file("mtcp")).arg("run");
    command
        .args(site.lab().link_args())
        .arg("--")
        .arg(process());
    command.args(["served", &at().ip().to_string(), &PORT.to_string()]);
    let server = start(command);
    exchange(&site);
    server.finish(WITHIN).must_succeed();
}

/// What `stack.c` measures of every kind of call, made there: its words and bytes, a line each.
fn measured(site: &Site, place: &str) -> String {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let peer = SocketAddr::new(Family::V4.peer(), PORT);
    let listener = site.lab().peer().enter(|| TcpListener::bind(peer).unwrap());
    let mut command = site.ours(&spell(program("stack", &PROGRAM)));
    let addresses = [at().ip(), peer.ip()].map(|ip| ip.to_string());
    command.args([&addresses[0], &PORT.to_string(), &addresses[1], place]);
    let mut measured = Process::start(command);
    measured.wait_for("listen", PROMPT);
    let echo = |mut stream: TcpStream| {
        let mut text = [0; 64];
        while let Ok(n @ 1..) = stream.read(&mut text) {
            stream.write_all(&text[..n]).unwrap();
        }
    };
    echo(connect(site));
    thread::spawn(move || echo(listener.accept().unwrap().0));
    measured.finish(WITHIN).must_succeed().stdout
}

#[test]
fn calls_take_little_of_the_stack() {
    for make in [Site::new, Site::with_long_packets] {
        let Some(site) = make(&["cc"]) else {
            return;
        };
        let lines = measured(&site, "roomy");
        let bytes = |line: &str| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap();
        let deep = |line: &&str| bytes(line) > MOST_STACK;
        let deep: Vec<&str> = lines.lines().filter(deep).collect();
        assert!(deep.is_empty(), "bytes of the stack: {deep:?}");
    }
}

#[test]
fn a_thread_with_a_stack_of_24_kib_makes_every_call() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    assert!(measured(&site, "small").contains("relay"));
}

#[test]
fn a_handler_on_a_small_stack_of_its_own_makes_every_call() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    assert!(measured(&site, "handler").contains("relay"));
}

/// A SYN-ACK to a peer whose hardware address is unknown waits for one question, asked at once.
#[test]
fn a_peer_that_asks_nothing_is_asked_at_once() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    site.lab().acquaint();
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let server = start(case(&site, "served"));
        let began = Instant::now();
        exchange(&site);
        best = best.min(began.elapsed());
        fine(server.finish(WITHIN));
    }
    assert!(best < Duration::from_millis(500), "{best:?}");
}

#[test]
fn a_program_outlasts_its_interface() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    if baseline() {
        return;
    }
    let mut server = start(case(&site, "outlasted"));
    let mut before = exchange(&site);
    site.lab().remove_pair();
    server.wait_for("away", WITHIN);
    let spent = server.processor_time();
    thread::sleep(Duration::from_millis(500));
    // A thread that ends meanwhile takes its time with it; who spins goes on.
    let spent = server.processor_time().saturating_sub(spent);
    assert!(
        spent < Duration::from_millis(150),
        "{spent:?} without an interface"
    );
    site.lab().make_pair_again();
    exchange(&site);
    before.write_all(b"still").unwrap();
    let mut answer = [0; 5];
    before.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"still");
    let finished = server.finish(WITHIN).must_succeed();
    let said = site.stack_said(&finished);
    let count = |word: &str| said.lines().filter(|line| line.contains(word)).count();
    let counts = ["mtcp:", "was removed", "again: its"].map(count);
    assert_eq!(counts, [2, 1, 1], "{said}");
}

#[test]
fn a_program_its_children_and_theirs_reach_our_own_address() {
    let Some(site) = Site::new(&["cc"]) else {
        return;
    };
    fine(succeed(case(&site, "ourselves")));
    if baseline() {
        return;
    }
    // A link that loops, where the address is the kernel's, too.
    let mut command = site.lab().ours().command(programs::mtcp());
    command.args(["run", "--io", "loop:lo", "--addr", "127.0.0.1/8", "--"]);
    command
        .arg(process())
        .args(["ourselves", "127.0.0.1", "7001"]);
    fine(succeed(command));
}
