//! Two contexts on a simulated link.
#![allow(dead_code)] // each test file uses its share

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use io::sim::{SimConfig, pair};
use mtcp::{Config, Context, Domain, Errno, SocketId, service};

/// Nothing in these tests takes this long.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub const CLIENT: &str = "10.0.0.1";
pub const SERVER: &str = "10.0.0.2";
pub const CLIENT6: &str = "fd00::1";
pub const SERVER6: &str = "fd00::2";

/// Where the stack of a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On the thread that calls.
    Inline,
    /// There, or on a thread that stands in for it.
    Paired,
    /// With a daemon.
    Service,
}

/// All of them.
pub const MODES: [Mode; 3] = [Mode::Inline, Mode::Paired, Mode::Service];

pub fn addr(host: &str, port: u16) -> SocketAddr {
    SocketAddr::new(host.parse::<IpAddr>().unwrap(), port)
}

pub fn config(mode: Mode, addresses: &str) -> Config {
    let mut config = Config {
        mode: match mode {
            Mode::Paired => mtcp::Mode::Paired,
            Mode::Inline | Mode::Service => mtcp::Mode::Inline,
        },
        max_concurrency: 4096,
        spin: Duration::ZERO,
        huge_pages: false,
        ..Config::default()
    };
    config.set("addr", addresses).unwrap();
    config
}

/// Client and server contexts.
pub fn contexts(client: Mode, server: Mode) -> (Context, Context) {
    contexts_with(client, server, |_| {})
}

/// The same, with settings changed.
pub fn contexts_with(
    client: Mode,
    server: Mode,
    change: impl Fn(&mut Config),
) -> (Context, Context) {
    let (a, b) = pair(SimConfig::default()).unwrap();
    let make = |port, mode, addresses: &str, core| {
        let mut config = config(mode, addresses);
        change(&mut config);
        match mode {
            Mode::Service => service::on_thread(port, &config).unwrap(),
            _ => Context::on_port(port, &config, core).unwrap(),
        }
    };
    let client = make(a, client, &format!("{CLIENT}/24 {CLIENT6}/64"), 0);
    let server = make(b, server, &format!("{SERVER}/24 {SERVER6}/64"), 1);
    (client, server)
}

/// Two inline contexts, driven by the test.
pub struct World {
    pub client: Context,
    pub server: Context,
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl Fn(&mut Config)) -> Self {
        let (client, server) = contexts_with(Mode::Inline, Mode::Inline, change);
        Self { client, server }
    }

    /// Lets frames go back and forth until all is said.
    pub fn settle(&mut self) {
        for _ in 0..8 {
            // A lost link is seen by the calls that the test makes.
            let _ = self.client.poll();
            let _ = self.server.poll();
        }
    }

    /// Goes on until `done`, at most until the deadline.
    pub fn until<T>(&mut self, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            self.settle();
            if let Some(result) = done(self) {
                return result;
            }
            assert!(start.elapsed() < DEADLINE, "nothing happens");
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// A listener on the server, non-blocking.
    pub fn listen(&mut self, port: u16) -> SocketId {
        let listener = self.server.socket(Domain::V4).unwrap();
        self.server.set_nonblocking(listener, true).unwrap();
        self.server.bind(listener, addr("0.0.0.0", port)).unwrap();
        self.server.listen(listener, 1024).unwrap();
        listener
    }

    /// A socket on the client that connects, non-blocking.
    pub fn connect(&mut self, port: u16) -> SocketId {
        let socket = self.client.socket(Domain::V4).unwrap();
        self.client.set_nonblocking(socket, true).unwrap();
        assert_eq!(
            self.client.connect(socket, addr(SERVER, port)),
            Err(Errno::EINPROGRESS)
        );
        socket
    }

    pub fn accept(&mut self, listener: SocketId) -> SocketId {
        self.until(|world| match world.server.accept(listener) {
            Ok((socket, _)) => {
                world.server.set_nonblocking(socket, true).unwrap();
                Some(socket)
            }
            Err(error) => {
                assert_eq!(error, Errno::EAGAIN);
                None
            }
        })
    }

    /// A connection: `(client's socket, server's socket, listener)`.
    pub fn connection(&mut self, port: u16) -> (SocketId, SocketId, SocketId) {
        let listener = self.listen(port);
        let client = self.connect(port);
        let server = self.accept(listener);
        self.settle();
        assert_eq!(self.client.connect(client, addr(SERVER, port)), Ok(()));
        (client, server, listener)
    }
}

/// Bytes that say where they are.
pub fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len)
        .map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8)
        .collect()
}

/// Runs the two sides on threads of their own; both must end before the deadline.
pub fn on_threads(client: impl FnOnce() + Send + 'static, server: impl FnOnce() + Send + 'static) {
    let start = Instant::now();
    let threads = [thread::spawn(client), thread::spawn(server)];
    for thread in threads {
        while !thread.is_finished() {
            assert!(start.elapsed() < DEADLINE, "a side hangs");
            thread::sleep(Duration::from_millis(1));
        }
        thread.join().unwrap();
    }
}
