//! Programs that are killed, all of them: a kernel's clients get what was written, as from the
//! kernel's stack.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use applications::nginx::Nginx;
use applications::process::{self, PROMPT, wait_until};
use applications::site::spell;
use applications::web::publish;
use applications::{Family, Process, Site, files, note};
use interop::programs;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A client that has heard nothing for so long has lost its answer.
const DEADLINE: Duration = Duration::from_secs(30);
/// More than the windows of a client that does not read, and less than the send buffer of a
/// kernel's server.
const ANSWER: usize = 200_000;
/// Clients at once.
const CLIENTS: u64 = 16;
/// Answers before the program is killed.
const BEFORE: u64 = 500;

fn at() -> SocketAddr {
    SocketAddr::new(Family::V4.ours(), 80)
}

fn dying_server(site: &Site) -> Process {
    start_dying(site, site.ours(&words()))
}

fn words() -> String {
    let program = programs::repository().join("tests/preload/programs/dying_server.py");
    format!("/usr/bin/python3 {} 80 {ANSWER}", spell(&program))
}

fn start_dying(site: &Site, command: Command) -> Process {
    let mut server = site.start_ours(command, 80);
    server.wait_for("nothing unusual", PROMPT);
    server
}

fn answer() -> Vec<u8> {
    (0..ANSWER).map(|at| (at % 251) as u8).collect()
}

fn ask() -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&at(), DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(b"GET /medium HTTP/1.0\r\n\r\n")?;
    Ok(stream)
}

/// Asks a server that is killed when it has written its answer.
fn ask_and_kill(site: &Site, server: Process) -> TcpStream {
    let stream = site.lab().peer().enter(|| ask().unwrap());
    let finished = server.finish(PROMPT);
    let killed = Some(Signal::KILL.as_raw());
    assert_eq!(finished.status.signal(), killed, "{finished}");
    stream
}

fn expect_answer(mut stream: TcpStream) {
    let mut read = Vec::new();
    stream.read_to_end(&mut read).unwrap();
    assert!(read == answer(), "{} bytes", read.len());
}

/// How many processes in this network namespace go on for others.
fn executors(site: &Site) -> usize {
    executor_folders(site).len()
}

/// Where proc(5) tells of them.
fn executor_folders(site: &Site) -> Vec<PathBuf> {
    let own = site
        .lab()
        .ours()
        .enter(|| network(PathBuf::from("/proc/thread-self")));
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|entry| entry.path())
        .filter(|process| {
            let words = std::fs::read_to_string(process.join("cmdline"));
            words.is_ok_and(|words| words == "mtcp\0executor\0") && network(process.clone()) == own
        })
        .collect()
}

fn network(process: PathBuf) -> Option<PathBuf> {
    std::fs::read_link(process.join("ns/net")).ok()
}

/// Nothing is left of mTCP.
fn expect_gone(site: &Site) {
    wait_until("the executor has ended", PROMPT, || executors(site) == 0);
    wait_until("the interface is the kernel's", PROMPT, || {
        !site.lab().ours().ip("link show ours0").contains("xdp")
    });
}

#[test]
fn what_a_killed_program_has_written_arrives() {
    let Some(site) = Site::new(&["python3"]) else {
        return;
    };
    let server = dying_server(&site);
    let stream = ask_and_kill(&site, server);
    expect_answer(stream);
    expect_gone(&site);
}

#[test]
fn a_client_that_takes_its_time_gets_it_too() {
    let Some(site) = Site::new(&["python3"]) else {
        return;
    };
    let server = dying_server(&site);
    let stream = ask_and_kill(&site, server);
    thread::sleep(Duration::from_secs(1));
    // Nobody listens.
    let refused = site.lab().peer().enter(ask).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    expect_answer(stream);
    expect_gone(&site);
}

/// The new program has the interface at once, and the connections of the one before.
#[test]
fn a_program_that_is_started_again_goes_on() {
    let Some(site) = Site::new(&["python3"]) else {
        return;
    };
    let server = dying_server(&site);
    let stream = ask_and_kill(&site, server);
    let second = dying_server(&site);
    let other = ask_and_kill(&site, second);
    expect_answer(stream);
    expect_answer(other);
    expect_gone(&site);
}

/// One whose stacks are other than those before cannot go on, and need not wait for long. The peers
/// are told.
#[test]
fn a_program_with_other_settings_has_the_interface_soon() {
    let Some(site) = Site::new(&["python3"]) else {
        return;
    };
    if applications::baseline() {
        return;
    }
    let server = dying_server(&site);
    let mut stream = ask_and_kill(&site, server);
    let settings = site.write("other.conf", "mode = inline\nmax_concurrency = 1000\n");
    let mut other = site.lab().mtcp(&["run", "--config", &settings]);
    other.arg("--").args(words().split(' '));
    let second = start_dying(&site, other);
    let end = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    expect_answer(ask_and_kill(&site, second));
    expect_gone(&site);
}

/// The offsets of another build may be others: what it left is not read, and its peers are told.
#[test]
fn a_program_of_another_build_serves_without_what_was_left() {
    let Some(site) = Site::new(&["python3"]) else {
        return;
    };
    if applications::baseline() {
        return;
    }
    let server = dying_server(&site);
    let mut stream = ask_and_kill(&site, server);
    let executors = executor_folders(&site);
    let [executor] = &executors[..] else {
        panic!("{executors:?}");
    };
    // The first of its descriptors is the memory, which says behind its first word how it is laid
    // out.
    let memory = File::options().write(true).open(executor.join("fd/3"));
    memory.unwrap().write_all_at(&[1; 8], 8).unwrap();
    let mut second = dying_server(&site);
    second.wait_for_warning("another build of mTCP", PROMPT);
    let end = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    expect_answer(ask_and_kill(&site, second));
    expect_gone(&site);
}

/// What the program would fail at is found before it runs, and the connections of the one before
/// are not.
#[test]
fn a_program_without_the_rights_does_not_run_where_one_was_killed() {
    let Some(site) = Site::new(&["python3", "setpriv"]) else {
        return;
    };
    if applications::baseline() {
        return;
    }
    let server = dying_server(&site);
    let stream = ask_and_kill(&site, server);
    wait_until("an executor", PROMPT, || executors(&site) == 1);
    let mut command = site.lab().ours().command("setpriv");
    command.args(["--bounding-set", "-net_raw"]);
    command.arg(programs::mtcp()).arg("run");
    command.args(site.lab().link_args()).args(["--", "true"]);
    let refused = process::finish(command, PROMPT);
    assert_eq!(refused.status.code(), Some(2), "{refused}");
    let said = &refused.stderr;
    assert!(
        said.lines().count() == 1 && said.contains("CAP_NET_RAW"),
        "{said}"
    );
    assert_eq!(executors(&site), 1);
    expect_answer(stream);
    expect_gone(&site);
}

/// The next worker goes on, also where there is one at a time.
#[test]
fn what_the_only_worker_has_written_arrives() {
    let Some(site) = Site::new(&["nginx"]) else {
        return;
    };
    let file = site.lab().www().join("medium");
    files::make(&file, 2, 60_000);
    let wanted = std::fs::read(file).unwrap();
    let server = start(&site, 1);
    let mut stream = site.lab().peer().enter(|| ask().unwrap());
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    let workers = children(server.pid());
    for pid in &workers {
        kill_process(*pid, Signal::KILL).unwrap();
    }
    let mut read = Vec::new();
    stream.read_to_end(&mut read).unwrap();
    assert!(read.ends_with(&wanted), "{} bytes", read.len());
    drop(stream);
    wait_until("another worker", PROMPT, || {
        let now = children(server.pid());
        now.len() == 1 && now != workers
    });
    server.stop();
    expect_gone(&site);
}

/// Whether the stack runs in a process: then it has a thread that looks after it.
fn has_stack(pid: Pid) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let mut tasks = tasks.into_iter().flatten().flatten();
    tasks.any(|task| {
        std::fs::read_to_string(task.path().join("comm"))
            .is_ok_and(|name| name.contains("-background"))
    })
}

/// How often a process has gone to sleep.
fn sleeps(pid: Pid) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    lines
        .find(|line| line.starts_with("voluntary"))
        .unwrap()
        .to_owned()
}

/// There is one queue for two workers. The other one looks a few times, and then sleeps until
/// something happens to the one that has it.
#[test]
fn a_worker_without_a_queue_sleeps_until_there_is_one() {
    for make in [Site::new, Site::by_packet_sockets] {
        if let Some(site) = make(&["nginx"]).filter(|_| !applications::baseline()) {
            sleeps_until_there_is_one(&site);
        }
    }
}

fn sleeps_until_there_is_one(site: &Site) {
    publish(site);
    let mut server = start(site, 2);
    server.wait_for_warning("waiting until its owner ends", PROMPT);
    let workers = children(server.pid());
    let (serving, waiting): (Vec<Pid>, Vec<Pid>) =
        workers.into_iter().partition(|pid| has_stack(*pid));
    assert_eq!((serving.len(), waiting.len()), (1, 1));
    let sleeps_on = |time| {
        let before = sleeps(waiting[0]);
        thread::sleep(time);
        sleeps(waiting[0]) == before
    };
    wait_until("it sleeps", PROMPT, || {
        sleeps_on(Duration::from_millis(200))
    });
    assert!(sleeps_on(Duration::from_secs(1)));
    kill_process(serving[0], Signal::KILL).unwrap();
    wait_until("another one serves", PROMPT, || {
        children(server.pid()).into_iter().any(has_stack)
    });
    site.lab().peer().enter(|| {
        let mut read = Vec::new();
        ask().unwrap().read_to_end(&mut read).unwrap();
        assert!(!read.is_empty());
    });
    server.stop();
    expect_gone(site);
}

fn children(pid: u32) -> Vec<Pid> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap();
    let pids = children.split_whitespace().map(|pid| pid.parse().unwrap());
    pids.filter_map(Pid::from_raw).collect()
}

#[test]
fn a_program_that_ends_in_order_leaves_nobody() {
    let Some(site) = Site::new(&["nginx"]) else {
        return;
    };
    publish(&site);
    let server = start(&site, 1);
    let expected = usize::from(!applications::baseline());
    wait_until("an executor", PROMPT, || executors(&site) == expected);
    site.lab().peer().enter(|| {
        let mut read = Vec::new();
        ask().unwrap().read_to_end(&mut read).unwrap();
        assert!(!read.is_empty());
    });
    server.stop();
    expect_gone(&site);
}

fn start(site: &Site, workers: u32) -> Process {
    let nginx = Nginx {
        name: "front",
        workers,
        port: 80,
        identity: None,
        more: "",
    };
    let mut command = site.ours(&nginx.words(site));
    command.process_group(0);
    site.start_ours(command, 80)
}

/// What became of the requests.
#[derive(Debug, Default)]
struct Counts {
    answered: AtomicU64,
    /// Whose answers had begun.
    cut: AtomicU64,
    lost: AtomicU64,
    is_over: AtomicBool,
}

impl Counts {
    fn add(to: &AtomicU64) {
        to.fetch_add(1, Ordering::Relaxed);
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Asks until it is over.
    fn ask(&self, wanted: &[u8]) {
        while !self.is_over.load(Ordering::Relaxed) {
            let mut read = Vec::new();
            let end = ask().and_then(|mut stream| {
                let end = stream.read_to_end(&mut read);
                let _ = stream.shutdown(Shutdown::Both);
                end
            });
            let is_silent = |error: &std::io::Error| {
                matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
            };
            if read.ends_with(wanted) && end.is_ok() {
                Self::add(&self.answered);
            } else if end.as_ref().is_err_and(is_silent) {
                Self::add(&self.lost);
            } else if !read.is_empty() {
                Self::add(&self.cut);
            }
        }
    }
}

/// Kills nginx under load, master and workers, and starts it again.
fn kill_all(workers: u32) {
    let Some(site) = Site::with_workers(&["nginx"], workers) else {
        return;
    };
    publish(&site);
    let wanted = std::fs::read(site.lab().www().join("medium")).unwrap();
    let server = start(&site, workers);
    let counts = Counts::default();
    let second = thread::scope(|scope| {
        let clients = scope.spawn(|| {
            site.lab().peer().enter(|| {
                thread::scope(|scope| {
                    for _ in 0..CLIENTS {
                        scope.spawn(|| counts.ask(&wanted));
                    }
                });
            });
        });
        wait_until("answers", DEADLINE, || counts.answered() > BEFORE);
        let group = Pid::from_raw(server.pid().try_into().unwrap()).unwrap();
        kill_process_group(group, Signal::KILL).unwrap();
        let second = start(&site, workers);
        let before = counts.answered();
        let again = wait_until("answers again", PROMPT, || {
            counts.answered() > before + BEFORE
        });
        note(&format!(
            "{BEFORE} answers {again:?} after the second start"
        ));
        counts.is_over.store(true, Ordering::Relaxed);
        clients.join().unwrap();
        second
    });
    assert_eq!(
        counts.lost.load(Ordering::Relaxed),
        0,
        "{counts:?} {server:?}"
    );
    // What a worker was about to write.
    let cut = counts.cut.load(Ordering::Relaxed);
    assert!(cut <= workers.into(), "{counts:?} {server:?}");
    note(&format!("{counts:?}"));
    drop(server);
    second.stop();
    expect_gone(&site);
}

#[test]
fn a_killed_nginx_cuts_no_answer_that_it_has_written() {
    kill_all(1);
}

#[test]
fn nor_do_two_workers() {
    kill_all(2);
}
