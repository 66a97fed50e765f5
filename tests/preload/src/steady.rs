//! Clients that ask a web server without end, each on a new connection, while something is done to
//! the server.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use interop::process::wait_until;
use rustix::process::Pid;

use crate::{Site, note};

/// Clients at once, each with one request at a time, on a connection of its own.
pub const CLIENTS: u64 = 16;
/// Answers between one change and the next.
const BETWEEN: u64 = 500;
/// How often [`disturb`] changes something.
pub const CHANGES: u64 = 3;
/// A client that has heard nothing for so long has lost its request.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// What became of the requests so far.
#[derive(Debug, Default)]
struct Counts {
    answered: AtomicU64,
    /// Ended by a server that could not answer any more, and said so: the client asks again.
    cut: AtomicU64,
    lost: AtomicU64,
    over: AtomicBool,
}

impl Counts {
    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    fn losses(&self) -> Losses {
        Losses {
            cut: self.cut.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }

    /// Waits for another few answers.
    fn wait_more(&self) {
        let enough = self.answered() + BETWEEN;
        wait_until("requests are answered", 3 * DEADLINE, || {
            self.answered() >= enough
        });
    }

    /// Asks until it is over.
    fn ask(&self, at: SocketAddr, wanted: &[u8]) {
        while !self.over.load(Ordering::Relaxed) {
            let answer = exchange(at);
            let count = match &answer {
                Ok(answer) if answer.ends_with(wanted) => &self.answered,
                Err(error) if is_silence(error) => &self.lost,
                _ => &self.cut,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What clients did not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Losses {
    /// Ended by a server that could not answer any more.
    pub cut: u64,
    /// Answered by nobody.
    pub lost: u64,
}

/// Nobody said anything.
pub fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Ends it, also when a test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks for a file.
///
/// # Errors
/// Those of connect(2) and write(2).
pub fn ask(at: SocketAddr, path: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&at, DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
    Ok(stream)
}

/// The answer to one request.
///
/// # Errors
/// As [`ask`], and those of read(2).
pub fn exchange(at: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = ask(at, "/small")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// Has `change` happen several times to a server whose answers end with `wanted`, under load.
pub fn disturb(
    site: &Site,
    at: SocketAddr,
    wanted: &[u8],
    mut change: impl FnMut() + Send,
) -> Losses {
    let (counts, start) = (Counts::default(), Instant::now());
    site.lab().peer().enter(|| {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| counts.ask(at, wanted));
            }
            let _end = End(&counts.over);
            for _ in 0..CHANGES {
                counts.wait_more();
                change();
            }
            counts.wait_more();
        });
    });
    let losses = counts.losses();
    note(&format!(
        "{} requests answered, {} cut and {} lost in {:?}",
        counts.answered(),
        losses.cut,
        losses.lost,
        start.elapsed()
    ));
    losses
}

/// The children of the first thread of a process.
pub fn children(of: Pid) -> Vec<Pid> {
    let pid = of.as_raw_nonzero();
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    let pids = list.split_whitespace();
    pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
        .collect()
}
