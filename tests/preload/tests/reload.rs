//! Workers that come and go under load: a kernel's clients lose no request that they would not lose with the kernel's stack.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use applications::nginx::Nginx;
use applications::process::{PROMPT, wait_until};
use applications::web::publish;
use applications::{Family, Process, Site, files, note};
use rustix::process::{Pid, Signal, kill_process};

/// Clients at once, each with one request at a time, on a connection of its own.
const CLIENTS: u64 = 16;
/// Answers between one change and the next.
const BETWEEN: u64 = 500;
const CHANGES: u64 = 3;
/// A client that has waited so long for an answer has lost its request.
const PATIENCE: Duration = Duration::from_secs(30);

/// What became of the requests so far.
#[derive(Debug, Default)]
struct Tally {
    answered: AtomicU64,
    lost: AtomicU64,
    over: AtomicBool,
}

impl Tally {
    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits for another few answers.
    fn wait_more(&self) {
        let enough = self.answered() + BETWEEN;
        wait_until("requests are answered", 3 * PATIENCE, || {
            self.answered() >= enough
        });
    }

    /// Asks until it is over.
    fn ask(&self, at: SocketAddr, wanted: &[u8]) {
        while !self.over.load(Ordering::Relaxed) {
            let answer = exchange(at);
            let count = match &answer {
                Ok(answer) if answer.ends_with(wanted) => &self.answered,
                _ => &self.lost,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Ends it, also when a test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn exchange(at: SocketAddr) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&at, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /small HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// nginx with two workers.
struct Server {
    site: Site,
    process: Process,
}

impl Server {
    fn start() -> Option<Self> {
        let site = Site::with_workers(&["nginx"], 2)?;
        publish(&site);
        let nginx = Nginx {
            name: "front",
            workers: 2,
            port: 80,
            identity: None,
            more: "location = /slow { limit_rate 2m; }",
        };
        let process = site.start_ours(site.ours(&nginx.words(&site)), 80);
        Some(Self { site, process })
    }

    fn master(&self) -> Pid {
        let file = self.site.file("front.pid");
        let text = std::fs::read_to_string(file).unwrap();
        Pid::from_raw(text.trim().parse().unwrap()).unwrap()
    }

    fn workers(&self) -> Vec<i32> {
        let master = self.master().as_raw_nonzero();
        let path = format!("/proc/{master}/task/{master}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        children
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect()
    }

    /// Has `change` happen several times under load. Returns how many requests were lost.
    fn disturb(&self, mut change: impl FnMut() + Send) -> u64 {
        let wanted = std::fs::read(self.site.lab().www().join("small")).unwrap();
        let at = SocketAddr::new(Family::V4.ours(), 80);
        let (tally, start) = (Tally::default(), Instant::now());
        self.site.lab().peer().enter(|| {
            thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    scope.spawn(|| tally.ask(at, &wanted));
                }
                let _end = End(&tally.over);
                for _ in 0..CHANGES {
                    tally.wait_more();
                    change();
                }
                tally.wait_more();
            });
        });
        note(&format!(
            "{} requests answered and {} lost in {:?}",
            tally.answered(),
            tally.lost(),
            start.elapsed()
        ));
        tally.lost()
    }
}

/// The listener outlives every worker, so the kernel loses nothing.
#[test]
fn reload_loses_no_request() {
    let Some(server) = Server::start() else {
        return;
    };
    let lost = server.disturb(|| {
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
        wait_until("old workers are gone", 2 * PATIENCE, || {
            server.workers().iter().all(|pid| !old.contains(pid))
        });
    });
    assert_eq!(lost, 0, "{:?}", server.process);
}

/// What the worker had accepted is lost with it, as with the kernel: at most one request of each client.
#[test]
fn a_killed_worker_loses_what_it_had_accepted() {
    let Some(server) = Server::start() else {
        return;
    };
    let lost = server.disturb(|| {
        let old = server.workers();
        let pid = Pid::from_raw(old[0]).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        wait_until("another worker", PROMPT, || {
            let now = server.workers();
            now.len() == old.len() && !now.contains(&old[0])
        });
    });
    assert!(
        lost <= CHANGES * CLIENTS,
        "{lost} lost: {:?}",
        server.process
    );
}

/// Reads a file, and counts itself among those that have `begun`.
fn download(at: SocketAddr, begun: &AtomicU64) -> Vec<u8> {
    let mut stream = TcpStream::connect_timeout(&at, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /slow HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = vec![0];
    stream.read_exact(&mut answer).unwrap();
    begun.fetch_add(1, Ordering::Relaxed);
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// Answers that have begun are given to their end, and then the server ends.
#[test]
fn quit_finishes_what_has_begun() {
    let Some(server) = Server::start() else {
        return;
    };
    let slow = server.site.lab().www().join("slow");
    files::make(&slow, 4, 5_000_000);
    let wanted = std::fs::read(slow).unwrap();
    let at = SocketAddr::new(Family::V4.ours(), 80);
    let begun = AtomicU64::new(0);
    server.site.lab().peer().enter(|| {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let answer = download(at, &begun);
                    assert!(answer.ends_with(&wanted), "{} bytes", answer.len());
                });
            }
            wait_until("downloads have begun", PATIENCE, || {
                begun.load(Ordering::Relaxed) == CLIENTS
            });
            kill_process(server.master(), Signal::QUIT).unwrap();
        });
    });
    server.process.finish(PROMPT).must_succeed();
}
