//! The shared-memory link between threads and between processes. A second process is this test
//! binary, started again.
#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use io::Port;
use io::shm::{ShmConfig, ShmPort, ShmRole};
use wire::frame::{FrameSink, TxMeta};

/// For everything that must come to an end. Generous: machines may be busy.
const DEADLINE: Duration = Duration::from_secs(120);
const NAP: Duration = Duration::from_millis(100);
const MILLION: u64 = 1_000_000;

/// What frame `n` looks like: 16 to 79 bytes that depend on `n`.
fn pattern(n: u64) -> (usize, [u8; 80]) {
    let mut bytes = [0; 80];
    for (k, word) in bytes.chunks_exact_mut(8).enumerate() {
        let value = n.wrapping_add(k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&value.to_le_bytes());
    }
    (16 + (n % 64) as usize, bytes)
}

fn send(port: &mut ShmPort, n: u64) -> bool {
    port.send(|frame| {
        let (len, bytes) = pattern(n);
        frame[..len].copy_from_slice(&bytes[..len]);
        TxMeta {
            len,
            ..TxMeta::default()
        }
    })
}

/// Receives a burst and checks that it is frames `next` and following. Returns how many.
fn receive(port: &mut ShmPort, next: u64) -> u64 {
    let mut n = next;
    port.receive(|frames| {
        for frame in frames {
            let (len, bytes) = pattern(n);
            assert!(frame.bytes == &bytes[..len], "frame {n} is not itself");
            n += 1;
        }
    });
    n - next
}

/// Sends and receives `count` frames, in order and unharmed.
fn exchange(port: &mut ShmPort, count: u64) {
    let start = Instant::now();
    let (mut sent, mut received) = (0, 0);
    while sent < count || received < count {
        let got = receive(port, received);
        received += got;
        let before = sent;
        while sent < count && sent - before < 64 && send(port, sent) {
            sent += 1;
        }
        if got == 0 && sent == before {
            port.wait(Some(NAP), None).unwrap();
        } else if received < count || sent < count {
            port.flush().unwrap();
        }
        assert!(
            start.elapsed() < DEADLINE,
            "{sent} sent, {received} received"
        );
    }
    // The last words, which the peer may not stay to hear the end of.
    let _ = port.flush();
}

/// Answers each frame with the same.
fn echo(port: &mut ShmPort, count: u64) {
    let start = Instant::now();
    let mut n = 0;
    while n < count {
        let got = receive(port, n);
        for k in n..n + got {
            assert!(send(port, k));
        }
        n += got;
        if got == 0 {
            port.wait(Some(NAP), None).unwrap();
        } else {
            let _ = port.flush();
        }
        assert!(start.elapsed() < DEADLINE);
    }
}

fn ping(port: &mut ShmPort, count: u64) {
    let start = Instant::now();
    for n in 0..count {
        assert!(send(port, n));
        port.flush().unwrap();
        while receive(port, n) == 0 {
            // Long enough to fail if a wake-up is lost.
            port.wait(Some(DEADLINE), None).unwrap();
            assert!(start.elapsed() < DEADLINE / 2, "a wake-up was lost");
        }
    }
}

fn until_connected(port: &mut ShmPort) {
    let start = Instant::now();
    while !port.is_connected() {
        port.wait(Some(NAP), None).unwrap();
        assert!(start.elapsed() < DEADLINE);
    }
}

fn one(mut ports: Vec<ShmPort>) -> ShmPort {
    ports.remove(0)
}

fn open(path: &Path, role: ShmRole) -> ShmPort {
    one(ShmPort::open(path, role, ShmConfig::default()).unwrap())
}

/// Connects to a process that may not listen yet.
fn connect_soon(path: &Path) -> ShmPort {
    let start = Instant::now();
    loop {
        match ShmPort::open(path, ShmRole::Connect, ShmConfig::default()) {
            Ok(ports) => return one(ports),
            Err(error) => assert!(start.elapsed() < DEADLINE, "{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_million_frames_each_way_between_threads() {
    let (a, b) = ShmPort::pair(ShmConfig::default()).unwrap();
    let (mut a, mut b) = (one(a), one(b));
    let other = thread::spawn(move || {
        exchange(&mut b, MILLION);
        b
    });
    exchange(&mut a, MILLION);
    other.join().unwrap();
}

#[test]
fn a_small_ring_wraps_and_blocks_and_loses_nothing() {
    let config = ShmConfig {
        slots: 2,
        ..ShmConfig::default()
    };
    let (a, b) = ShmPort::pair(config).unwrap();
    let (mut a, mut b) = (one(a), one(b));
    let other = thread::spawn(move || exchange(&mut b, 20_000));
    exchange(&mut a, 20_000);
    other.join().unwrap();
}

#[test]
fn no_wake_up_is_lost_between_threads() {
    let (a, b) = ShmPort::pair(ShmConfig::default()).unwrap();
    let (mut a, mut b) = (one(a), one(b));
    let other = thread::spawn(move || echo(&mut b, 50_000));
    ping(&mut a, 50_000);
    other.join().unwrap();
}

/// This binary as another process: a role, what to do, and where.
struct Peer {
    child: Child,
}

impl Peer {
    fn start(task: &str, path: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "peer_process", "--ignored", "--nocapture"])
            .env("MTCP_SHM_TASK", task)
            .env("MTCP_SHM_PATH", path)
            .spawn()
            .unwrap();
        Self { child }
    }

    fn finish(mut self) {
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Gone already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "not a test: what the second process of the others runs"]
fn peer_process() {
    let task = std::env::var("MTCP_SHM_TASK").unwrap();
    let path = PathBuf::from(std::env::var_os("MTCP_SHM_PATH").unwrap());
    match task.as_str() {
        "connect exchange" => exchange(&mut connect_soon(&path), MILLION),
        "connect ping" => ping(&mut connect_soon(&path), 1000),
        "auto ping" => ping(&mut open(&path, ShmRole::Auto), 1000),
        "listen echo" => {
            let mut port = open(&path, ShmRole::Listen);
            until_connected(&mut port);
            echo(&mut port, u64::MAX);
        }
        other => panic!("no task {other}"),
    }
}

fn directory() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link");
    (dir, path)
}

#[test]
fn a_million_frames_each_way_between_processes() {
    let (_dir, path) = directory();
    let mut port = open(&path, ShmRole::Listen);
    let peer = Peer::start("connect exchange", &path);
    until_connected(&mut port);
    exchange(&mut port, MILLION);
    peer.finish();
}

#[test]
fn a_listener_serves_one_process_after_another() {
    let (_dir, path) = directory();
    let mut port = open(&path, ShmRole::Auto);
    for task in ["connect ping", "auto ping", "connect ping"] {
        let peer = Peer::start(task, &path);
        until_connected(&mut port);
        echo(&mut port, 1000);
        peer.finish();
    }
}

#[test]
fn a_killed_process_is_noticed_and_its_successor_can_be_reached() {
    let (_dir, path) = directory();
    for _ in 0..2 {
        // The second listener finds the first one's socket file.
        let peer = Peer::start("listen echo", &path);
        let mut port = connect_soon(&path);
        ping(&mut port, 1000);
        let before = Instant::now();
        peer.kill();
        assert!(path.exists());
        let error = loop {
            match port.wait(Some(DEADLINE), None) {
                Ok(()) => assert!(before.elapsed() < DEADLINE / 2),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
        assert!(error.to_string().contains("link"), "{error}");
    }
}

#[test]
fn a_listener_outlives_a_killed_peer() {
    let (_dir, path) = directory();
    let mut port = open(&path, ShmRole::Listen);
    let peer = Peer::start("connect exchange", &path);
    until_connected(&mut port);
    peer.kill();
    let start = Instant::now();
    while port.is_connected() {
        while port.receive(|_| {}) > 0 {}
        port.wait(Some(NAP), None).unwrap();
        assert!(start.elapsed() < DEADLINE);
    }
    let peer = Peer::start("connect ping", &path);
    until_connected(&mut port);
    echo(&mut port, 1000);
    peer.finish();
}
