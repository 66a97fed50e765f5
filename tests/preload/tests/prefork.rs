//! Masters with workers that share a listener, on the stack of a daemon and on the kernel: under
//! load a worker is killed, or all are replaced, and clients lose what they would lose there. One
//! that is stopped, or busy for long, keeps nobody waiting whom others can serve.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs::{self, Permissions};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use applications::host::Host;
use applications::process::wait_until;
use applications::site::{WITHIN, spell};
use applications::steady::{CHANGES, Losses, ask, children, disturb, exchange};
use applications::{Family, Process, Site, note};
use rustix::process::{Pid, Signal, kill_process};

const PORT: u16 = 8080;
const ANSWER: &str = "served\n";
const WORKERS: usize = 3;

/// Clients at once beside a worker that does not accept, and what each asks.
const BESIDE: usize = 8;
const EACH: usize = 10;
/// How long a worker is busy, seconds: nobody else waits half as long.
const BUSY: u64 = 8;

const APPLICATION: &str = "
import time
def application(environment, start):
    if environment['PATH_INFO'] == '/slow':
        time.sleep(8)
    start('200 OK', [('Content-Type', 'text/plain')])
    return [b'served\\n']
";

const PREFORK: &str = "
import os, socket, sys, time
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen(64)
def serve():
    while True:
        peer, _ = listener.accept()
        if b'/slow' in peer.recv(4096):
            time.sleep(8)
        peer.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\nserved\\n')
        peer.close()
for _ in range(int(sys.argv[3])):
    if os.fork() == 0:
        serve()
os.wait()
";

/// A file that the server's user may read.
fn write(site: &Site, name: &str, text: &str) -> String {
    let file = site.write(name, text);
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    file
}

fn master(server: &Process) -> Pid {
    Pid::from_raw(server.pid().cast_signed()).unwrap()
}

/// Kills a worker, in whose place the master makes another.
fn kill_one(server: &Process) {
    let old = children(master(server));
    kill_process(old[0], Signal::KILL).unwrap();
    wait_until("another worker", WITHIN, || {
        let now = children(master(server));
        now.len() == WORKERS && !now.contains(&old[0])
    });
}

/// Has the master replace itself and its worker.
fn reload(server: &Process) {
    let old = children(master(server));
    let mut told = Instant::now();
    kill_process(master(server), Signal::USR2).unwrap();
    wait_until("the worker is another", WITHIN, || {
        // One that has just begun does not hear it.
        if told.elapsed() > Duration::from_secs(3) {
            told = Instant::now();
            kill_process(master(server), Signal::USR2).unwrap();
        }
        let now = children(master(server));
        !now.is_empty() && !now.iter().any(|pid| old.contains(pid))
    });
}

/// Does `what` with a server on the kernel, and with the same on the stack of a daemon.
fn both<T>(
    needed: &[&str],
    workers: usize,
    words: impl Fn(&Site, IpAddr) -> String,
    what: impl Fn(&Site, SocketAddr, &Process) -> T,
) -> Option<[T; 2]> {
    let host = Host::new(needed)?;
    let site = &host.site;
    let done = [false, true].map(|on_ours| {
        let family = Family::V4;
        let at = if on_ours {
            family.ours()
        } else {
            family.peer()
        };
        let words = words(site, at);
        let server = if on_ours {
            let mut command = host.run("1001", &words);
            command.current_dir("/").env("HOME", "/tmp");
            site.start_ours(command, PORT)
        } else {
            site.start_peer(site.peer(&words), PORT)
        };
        wait_until("all workers", WITHIN, || {
            children(master(&server)).len() == workers
        });
        what(site, SocketAddr::new(at, PORT), &server)
    });
    Some(done)
}

/// What is lost on the kernel, and on the stack of a daemon.
fn compared(
    needed: &[&str],
    workers: usize,
    words: impl Fn(&Site, IpAddr) -> String,
    change: fn(&Process),
) -> Option<[Losses; 2]> {
    both(needed, workers, words, |site, at, server| {
        disturb(site, at, ANSWER.as_bytes(), || change(server))
    })
}

/// The longest that one of many clients waits for an answer.
fn slowest(site: &Site, at: SocketAddr) -> Duration {
    let ask_some = || {
        let asked = (0..EACH).map(|_| {
            let start = Instant::now();
            let answer = exchange(at).unwrap();
            assert!(answer.ends_with(ANSWER.as_bytes()), "{answer:?}");
            start.elapsed()
        });
        asked.max().unwrap()
    };
    let slowest = site.lab().peer().enter(|| {
        thread::scope(|scope| {
            let clients: Vec<_> = (0..BESIDE).map(|_| scope.spawn(ask_some)).collect();
            let times = clients.into_iter().map(|client| client.join().unwrap());
            times.max().unwrap()
        })
    });
    note(&format!("the slowest answer took {slowest:?}"));
    slowest
}

/// One worker is stopped, and goes on later. (Where workers wait in accept(2), Linux wakes one of
/// them, which may be that one: then nobody is served. Those of gunicorn poll.)
fn beside_a_stopped_one(site: &Site, at: SocketAddr, server: &Process) -> Duration {
    let workers = children(master(server));
    slowest(site, at);
    kill_process(workers[0], Signal::STOP).unwrap();
    let beside = slowest(site, at);
    kill_process(workers[0], Signal::CONT).unwrap();
    // It serves again: were the others stopped, it would be alone.
    for &other in &workers[1..] {
        kill_process(other, Signal::STOP).unwrap();
    }
    let alone = slowest(site, at);
    for &other in &workers[1..] {
        kill_process(other, Signal::CONT).unwrap();
    }
    beside.max(alone)
}

/// One worker has a request that takes long.
fn beside_a_busy_one(site: &Site, at: SocketAddr, _: &Process) -> Duration {
    let mut slow = site.lab().peer().enter(|| ask(at, "/slow").unwrap());
    let beside = slowest(site, at);
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(ANSWER.as_bytes()), "{answer:?}");
    beside
}

/// Nobody has waited for the worker that does not accept.
fn nobody_waits(slowest: [Duration; 2]) {
    let limit = Duration::from_secs(BUSY / 2);
    assert!(slowest.iter().all(|&one| one < limit), "{slowest:?}");
}

/// A worker that has one connection at a time takes no more with it.
fn is_one_a_kill([plain, ours]: [Losses; 2]) {
    for losses in [plain, ours] {
        assert!(
            losses.cut <= CHANGES && losses.lost == 0,
            "{plain:?} {ours:?}"
        );
    }
}

fn gunicorn(site: &Site, at: IpAddr) -> String {
    write(site, "application.py", APPLICATION);
    let directory = spell(site.lab().files());
    format!("gunicorn -w {WORKERS} -b {at}:{PORT} --chdir {directory} application")
}

/// Workers that wait in accept(2), as the first servers did.
fn simple(site: &Site, at: IpAddr) -> String {
    let file = write(site, "prefork.py", PREFORK);
    format!("/usr/bin/python3 {file} {at} {PORT} {WORKERS}")
}

#[test]
fn a_killed_worker_of_gunicorn_takes_what_it_had_accepted() {
    if let Some(losses) = compared(&["gunicorn"], WORKERS, gunicorn, kill_one) {
        is_one_a_kill(losses);
    }
}

#[test]
fn nobody_waits_for_a_stopped_worker_of_gunicorn() {
    if let Some(slowest) = both(&["gunicorn"], WORKERS, gunicorn, beside_a_stopped_one) {
        nobody_waits(slowest);
    }
}

#[test]
fn nobody_waits_for_a_busy_worker_of_gunicorn() {
    if let Some(slowest) = both(&["gunicorn"], WORKERS, gunicorn, beside_a_busy_one) {
        nobody_waits(slowest);
    }
}

#[test]
fn nobody_waits_for_a_busy_worker_that_waits_in_accept() {
    if let Some(slowest) = both(&["python3"], WORKERS, simple, beside_a_busy_one) {
        nobody_waits(slowest);
    }
}

#[test]
fn a_killed_worker_of_uwsgi_takes_what_it_had_accepted() {
    let words = |site: &Site, at: IpAddr| {
        let file = write(site, "application.py", APPLICATION);
        format!(
            "uwsgi --plugins python3 --http-socket {at}:{PORT} --master --processes {WORKERS} --die-on-term --wsgi-file {file}"
        )
    };
    if let Some(losses) = compared(&["uwsgi"], WORKERS, words, kill_one) {
        is_one_a_kill(losses);
    }
}

/// The new worker has the listeners of the old one by a message (`expose-fd listeners`).
#[test]
fn a_reload_of_haproxy_with_a_master_loses_no_request() {
    let words = |site: &Site, at: IpAddr| {
        let directory = site.file(&at.to_string());
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
        let conf = format!(
            "global\n  stats socket {}/socket mode 600 level admin expose-fd listeners\n\
             defaults\n  mode http\n  timeout client 10s\n  timeout server 10s\n  timeout connect 10s\n\
             frontend front\n  bind {at}:{PORT}\n  http-request return status 200 content-type text/plain string \"served\\n\"\n",
            directory.display()
        );
        let conf = write(site, &format!("{at}.conf"), &conf);
        format!("haproxy -W -f {conf}")
    };
    if let Some([plain, ours]) = compared(&["haproxy"], 1, words, reload) {
        assert!(
            ours.cut <= plain.cut && ours.lost == 0,
            "{plain:?} {ours:?}"
        );
    }
}
