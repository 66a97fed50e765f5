//! Workers that come and go under load: a kernel's clients lose no request that they would not lose
//! with the kernel's stack.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use applications::nginx::Nginx;
use applications::process::{PROMPT, wait_until};
use applications::steady::{
    self, CHANGES, CLIENTS, DEADLINE, Losses, ask, children, exchange, is_silence,
};
use applications::web::publish;
use applications::{Family, Process, Site, files, note};
use rustix::process::{Pid, Signal, kill_process};

/// nginx with two workers.
struct Server {
    site: Site,
    process: Process,
    name: &'static str,
    at: SocketAddr,
}

impl Server {
    fn start() -> Option<Self> {
        let site = Site::with_workers(&["nginx"], 2)?;
        publish(&site);
        let process = site.start_ours(site.ours(&nginx("front").words(&site)), 80);
        Some(Self {
            site,
            process,
            name: "front",
            at: SocketAddr::new(Family::V4.ours(), 80),
        })
    }

    /// The same beside the clients, on their kernel.
    fn on_the_kernel(self) -> Self {
        let Self { site, process, .. } = self;
        drop(process);
        let process = site.start_peer(site.peer(&nginx("plain").words(&site)), 80);
        Self {
            site,
            process,
            name: "plain",
            at: SocketAddr::new(Family::V4.peer(), 80),
        }
    }

    /// A file whose answer takes half a second for each megabyte: its contents.
    fn publish_slow(&self, megabytes: u64) -> Vec<u8> {
        let slow = self.site.lab().www().join("slow");
        files::make(&slow, 4, megabytes * 1_000_000);
        std::fs::read(slow).unwrap()
    }

    fn master(&self) -> Pid {
        let file = self.site.file(&format!("{}.pid", self.name));
        let text = std::fs::read_to_string(file).unwrap();
        Pid::from_raw(text.trim().parse().unwrap()).unwrap()
    }

    fn workers(&self) -> Vec<i32> {
        let workers = children(self.master()).into_iter();
        workers.map(|pid| pid.as_raw_nonzero().get()).collect()
    }

    /// Whether these workers only finish what they have begun, or have ended.
    fn is_quitting(&self, workers: &[i32]) -> bool {
        workers.iter().all(|pid| {
            let title = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
            title.map_or(true, |title| {
                title.is_empty() || title.contains("shutting down")
            })
        })
    }

    /// Has `change` happen several times under load.
    fn disturb(&self, change: impl FnMut() + Send) -> Losses {
        let wanted = std::fs::read(self.site.lab().www().join("small")).unwrap();
        steady::disturb(&self.site, self.at, &wanted, change)
    }

    /// The workers die at once, and others take their places.
    fn kill(&self, victims: &[i32]) {
        self.kill_some(victims, 2);
    }

    /// The same where there are so many.
    fn kill_some(&self, victims: &[i32], workers: usize) {
        for &pid in victims {
            kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        }
        wait_until("other workers", PROMPT, || {
            let now = self.workers();
            now.len() == workers && !now.iter().any(|pid| victims.contains(pid))
        });
    }
}

fn nginx(name: &str) -> Nginx<'_> {
    Nginx {
        name,
        workers: 2,
        port: 80,
        identity: None,
        more: "location = /slow { limit_rate 2m; }",
    }
}

/// The listener outlives every worker, so the kernel loses nothing.
#[test]
fn reload_loses_no_request() {
    let Some(server) = Server::start() else {
        return;
    };
    let losses = server.disturb(|| {
        let old = server.workers();
        kill_process(server.master(), Signal::HUP).unwrap();
        wait_until("new workers", PROMPT, || {
            server
                .workers()
                .iter()
                .filter(|pid| !old.contains(pid))
                .count()
                == 2
        });
        wait_until("old workers are gone", 2 * DEADLINE, || {
            server.workers().iter().all(|pid| !old.contains(pid))
        });
    });
    assert_eq!(losses, Losses { cut: 0, lost: 0 }, "{:?}", server.process);
}

/// What a worker has read and not answered ends with it, as with the kernel, and nothing else: at
/// each kill at most what one turn of its loop has begun.
#[test]
fn a_killed_worker_takes_no_more_with_it_than_on_the_kernel() {
    let Some(server) = Server::start() else {
        return;
    };
    let kill = |server: &Server| server.disturb(|| server.kill(&server.workers()[..1]));
    let losses = kill(&server);
    let shown = format!("{:?}", server.process);
    let server = server.on_the_kernel();
    let plain = kill(&server);
    assert_eq!((losses.lost, plain.lost), (0, 0), "{shown}");
    assert!(
        losses.cut <= plain.cut + CHANGES,
        "{losses:?}, on the kernel {plain:?}: {shown}"
    );
}

/// A master with two workers, which accept one connection at a time; when they are gone it waits a
/// moment before it makes others.
const PREFORK: &str = r#"
import os, socket, sys, time
address, answer, pid = sys.argv[1:]
answer = b"HTTP/1.0 200 OK\r\n\r\n" + open(answer, "rb").read()
listener = socket.create_server((address, 80), backlog=128)
open(pid, "w").write(str(os.getpid()))
def work():
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(answer)
while True:
    for _ in range(2):
        if os.fork() == 0:
            work()
    for _ in range(2):
        os.wait()
    time.sleep(0.3)
"#;

/// The master holds the listener, so while it has no workers nobody is refused: as on the kernel,
/// only what a worker has accepted ends with it.
#[test]
fn a_master_without_workers_keeps_who_comes_for_the_next() {
    let Some(site) = Site::with_workers(&["python3"], 2) else {
        return;
    };
    publish(&site);
    let script = site.file("prefork.py");
    std::fs::write(&script, PREFORK).unwrap();
    let words = |name: &str, family: std::net::IpAddr| {
        let small = site.lab().www().join("small");
        let pid = site.file(&format!("{name}.pid"));
        let paths = [&script, &small, &pid].map(|path| path.display().to_string());
        format!("python3 {} {family} {} {}", paths[0], paths[1], paths[2])
    };
    let (ours, peer) = (Family::V4.ours(), Family::V4.peer());
    let process = site.start_ours(site.ours(&words("front", ours)), 80);
    let plain = site.start_peer(site.peer(&words("plain", peer)), 80);
    let kill = |server: &Server| server.disturb(|| server.kill(&server.workers()));
    let mut server = Server {
        site,
        process,
        name: "front",
        at: SocketAddr::new(ours, 80),
    };
    let losses = [kill(&server), {
        let shown = format!("{:?}", server.process);
        server.process = plain;
        server.name = "plain";
        server.at = SocketAddr::new(peer, 80);
        note(&shown);
        kill(&server)
    }];
    for Losses { cut, lost } in losses {
        assert_eq!(lost, 0, "{losses:?}");
        assert!(cut <= 2 * CHANGES, "{losses:?}");
    }
}

/// The answer is smaller than the send buffer, so nginx has written all of it before the client
/// gets its first byte; and it is larger than the window of a client that does not read.
#[test]
fn what_a_killed_worker_has_written_arrives() {
    let Some(server) = Server::start() else {
        return;
    };
    let file = server.site.lab().www().join("written");
    files::make(&file, 5, 100_000);
    let wanted = std::fs::read(file).unwrap();
    server.site.lab().peer().enter(|| {
        let mut streams: Vec<TcpStream> = (0..CLIENTS)
            .map(|_| ask(server.at, "/written").unwrap())
            .collect();
        let mut first = [0];
        for stream in &mut streams {
            stream.read_exact(&mut first).unwrap();
        }
        server.kill(&server.workers());
        for mut stream in streams {
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert!(answer.ends_with(&wanted), "{} bytes", answer.len());
        }
        assert!(exchange(server.at).is_ok(), "{:?}", server.process);
    });
}

/// Nobody is left who knows of any connection, and the clients have nothing to say.
#[test]
fn when_all_workers_are_killed_who_listens_is_told() {
    let Some(server) = Server::start() else {
        return;
    };
    let at = SocketAddr::new(Family::V4.ours(), 80);
    let (begun, wanted) = (AtomicU64::new(0), server.publish_slow(5));
    let mut start = Instant::now();
    server.site.lab().peer().enter(|| {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let end = download(at, &begun);
                    let is_told = end.map_or_else(
                        |error| !is_silence(&error),
                        |answer| answer.len() < wanted.len(),
                    );
                    assert!(is_told, "{:?}", server.process);
                });
            }
            wait_begun(&begun);
            start = Instant::now();
            server.kill(&server.workers());
        });
        note(&format!(
            "all were told {:?} after the kill",
            start.elapsed()
        ));
        assert!(exchange(at).is_ok(), "{:?}", server.process);
    });
}

/// Reads a file, and counts itself among those that have `begun`.
fn download(at: SocketAddr, begun: &AtomicU64) -> std::io::Result<Vec<u8>> {
    let mut stream = ask(at, "/slow")?;
    let mut answer = vec![0];
    stream.read_exact(&mut answer)?;
    begun.fetch_add(1, Ordering::Relaxed);
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn wait_begun(begun: &AtomicU64) {
    wait_until("downloads have begun", DEADLINE, || {
        begun.load(Ordering::Relaxed) == CLIENTS
    });
}

/// Answers that have begun are given to their end, and then the server ends.
#[test]
fn quit_finishes_what_has_begun() {
    let Some(server) = Server::start() else {
        return;
    };
    let wanted = server.publish_slow(5);
    let at = SocketAddr::new(Family::V4.ours(), 80);
    let begun = AtomicU64::new(0);
    server.site.lab().peer().enter(|| {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let answer = download(at, &begun).unwrap();
                    assert!(answer.ends_with(&wanted), "{} bytes", answer.len());
                });
            }
            wait_begun(&begun);
            kill_process(server.master(), Signal::QUIT).unwrap();
        });
    });
    server.process.finish(PROMPT).must_succeed();
}

/// Workers that finish long answers keep nobody waiting: those that follow them answer meanwhile,
/// and the answers are whole.
#[test]
fn a_reload_does_not_wait_for_long_answers() {
    let Some(server) = Server::start() else {
        return;
    };
    let wanted = server.publish_slow(20);
    let at = SocketAddr::new(Family::V4.ours(), 80);
    let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    server.site.lab().peer().enter(|| {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let answer = download(at, &begun).unwrap();
                    ended.fetch_add(1, Ordering::Relaxed);
                    assert!(answer.ends_with(&wanted), "{} bytes", answer.len());
                });
            }
            wait_begun(&begun);
            let old = server.workers();
            kill_process(server.master(), Signal::HUP).unwrap();
            wait_until("the old workers do not accept", PROMPT, || {
                server.is_quitting(&old)
            });
            let start = Instant::now();
            exchange(at).unwrap();
            let took = start.elapsed();
            assert_eq!(ended.load(Ordering::Relaxed), 0, "{:?}", server.process);
            for _ in 0..20 {
                exchange(at).unwrap();
            }
            note(&format!("a request was answered in {took:?}"));
        });
    });
}

/// Two workers where there could be four: they receive what comes to any queue, and leave to others
/// that come later what is theirs.
#[test]
fn queues_without_a_worker_are_those_of_the_others() {
    let Some(site) = Site::with_workers(&["nginx"], 4) else {
        return;
    };
    publish(&site);
    let process = site.start_ours(site.ours(&nginx("front").words(&site)), 80);
    let server = Server {
        site,
        process,
        name: "front",
        at: SocketAddr::new(Family::V4.ours(), 80),
    };
    let ask_often = || {
        server.site.lab().peer().enter(|| {
            let is_slow = |_: &i32| {
                let start = Instant::now();
                exchange(server.at).unwrap();
                // A SYN went into nothing: the kernel sends the next one after a second, by another
                // queue.
                start.elapsed() >= Duration::from_secs(1)
            };
            let slow = (0..40).filter(is_slow).count();
            assert!(slow <= 4, "{slow} of 40: {:?}", server.process);
        });
    };
    ask_often();
    let old = server.workers();
    let more = Nginx {
        workers: 4,
        ..nginx("front")
    };
    more.words(&server.site);
    kill_process(server.master(), Signal::HUP).unwrap();
    wait_until("four new workers, and they alone", PROMPT, || {
        let now = server.workers();
        now.len() == 4 && !now.iter().any(|pid| old.contains(pid))
    });
    ask_often();
    server.kill_some(&server.workers()[..1], 4);
    ask_often();
}
