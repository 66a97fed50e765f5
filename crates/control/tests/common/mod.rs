//! A daemon's end with stacks that only count, and what a hostile program may do to it.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use control::client::{self, Found, Session};
use control::message::{Drops, Hello, MESSAGE_MAX, Request, SOCKETS_IN_PAGE, SocketRow};
use control::place::Place;
use control::policy::{NoNames, Settings};
use control::server::{
    Channel, Client, ClientId, CurrentPolicy, DropReason, Listener, Server, SocketsAnswer, Stacks,
    Usage, Waker,
};
use control::{Build, Error, NetNamespace, Policy};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, recv};

/// In which everything here happens, however busy the machine is.
pub const PROMPT: Duration = Duration::from_secs(60);

/// More than a message holds, most of it in one line.
pub fn settings() -> String {
    let routes = (0..600).map(|n| format!("10.{}.{}.0/24@10.0.0.1 ", n / 250, n % 250));
    let routes: String = routes.collect();
    format!("addr = 10.0.0.2/24\nport = ünter\nroute = {routes}\n")
}

/// Stacks that only count.
#[derive(Debug, Default)]
pub struct Counting {
    pub attached: Mutex<BTreeSet<ClientId>>,
    pub detached: Mutex<Vec<ClientId>>,
    /// Until this ends, the first list is not answered.
    pub gate: Mutex<Option<Receiver<()>>>,
}

impl Stacks for Counting {
    fn count(&self) -> u32 {
        2
    }

    fn links(&self) -> String {
        "loop:x 10.0.0.2/24".into()
    }

    fn settings(&self) -> String {
        settings()
    }

    fn attach(&self, client: &Client) -> Result<Vec<Channel>, Error> {
        self.attached.lock().unwrap().insert(client.id);
        let channel = |stack| {
            let (read, write) = std::io::pipe().unwrap();
            rustix::io::write(&write, &[stack as u8]).unwrap();
            let mut words = control::message::Channel {
                stack,
                descriptors: 0,
                words: [0; 16],
            };
            words.words[0] = client.budget.connections;
            Channel {
                words,
                descriptors: vec![read.into(), write.into()],
            }
        };
        Ok((0..2).map(channel).collect())
    }

    fn detach(&self, client: ClientId) {
        assert!(self.attached.lock().unwrap().remove(&client));
        self.detached.lock().unwrap().push(client);
    }

    fn usage(&self, _: ClientId) -> Usage {
        Usage {
            connections: 3,
            memory: 4096,
            ..Usage::default()
        }
    }

    fn list_sockets(&self, of: Option<u32>, from: u64, answer: SocketsAnswer) {
        // There are 500 places; who asks for those behind finds the stack gone.
        if from > 500 {
            return drop(answer);
        }
        let row = |number: u64| SocketRow {
            uid: of.unwrap_or(0),
            pid: 7,
            state: 1,
            local: ([10, 0, 0, 2], 80).into(),
            remote: ([10, 0, 0, 1], number as u16).into(),
            receive_queue: 0,
            send_queue: 0,
        };
        let places = from..500.min(from + SOCKETS_IN_PAGE as u64);
        let next = if places.end < 500 { places.end } else { 0 };
        // In some pieces there is none.
        let rows = places.filter(|place| place / 100 % 2 == 0).map(row);
        let rows = rows.collect();
        // Not from the thread of the server.
        let gate = self.gate.lock().unwrap().take();
        std::thread::spawn(move || {
            if let Some(gate) = gate {
                let _ = gate.recv();
            }
            answer.send(rows, next);
        });
    }
}

/// A daemon on a thread.
#[derive(Debug)]
pub struct Daemon {
    pub place: Place,
    pub stacks: Arc<Counting>,
    pub policy: Arc<CurrentPolicy>,
    directory: tempfile::TempDir,
    drops: Arc<Mutex<Drops>>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    /// With this in its settings file.
    pub fn new(settings: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        // For other users, too.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let place = Place::shared(directory.path().join("mtcp"));
        let listener = Listener::open(&place, "default", Duration::ZERO).unwrap();
        let stacks = Arc::new(Counting::default());
        let policy = Settings::read(settings, "test", &NoNames).unwrap().policy;
        let policy = Arc::new(CurrentPolicy::new(policy));
        let mut server =
            Server::new(listener, build(), Arc::clone(&stacks), Arc::clone(&policy)).unwrap();
        let (waker, stop) = (server.waker(), Arc::new(AtomicBool::new(false)));
        let drops = Arc::new(Mutex::new(Drops::default()));
        let thread = std::thread::spawn({
            let (stop, drops) = (Arc::clone(&stop), Arc::clone(&drops));
            move || {
                while !stop.load(Ordering::Acquire) {
                    server.turn(None).unwrap();
                    *drops.lock().unwrap() = server.drops();
                }
                server.close();
            }
        });
        Self {
            place,
            stacks,
            policy,
            directory,
            drops,
            stop,
            waker,
            thread: Some(thread),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.place.socket("default")
    }

    pub fn join(&self) -> Result<Session, Error> {
        match client::named(std::slice::from_ref(&self.place), "default", &build())? {
            Found::Session(session) => Ok(session),
            Found::Nobody(error) => Err(error),
        }
    }

    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops.lock().unwrap()[reason as usize]
    }

    /// Until it is so.
    pub fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PROMPT;
        while !is_so(self) {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn set_policy(&self, settings: &str) {
        let settings = Settings::read(settings, "test", &NoNames).unwrap();
        let policy: Policy = settings.policy;
        self.policy.set(policy);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        let result = self.thread.take().unwrap().join();
        assert!(result.is_ok() || std::thread::panicking());
    }
}

pub fn build() -> Build {
    Build::new("0.1.0 (test)", 7)
}

/// A connection that says nothing by itself.
pub fn dial(path: &std::path::Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// What a program says first.
pub fn hello() -> Vec<u8> {
    let hello = Hello {
        build: build().name().into(),
        namespace: NetNamespace::own().unwrap(),
    };
    Request::Hello(hello).emit(&build())
}

/// The daemon closes it within the time in which everything happens here.
pub fn is_dropped(socket: &OwnedFd) -> bool {
    let timeout = rustix::net::sockopt::Timeout::Recv;
    rustix::net::sockopt::set_socket_timeout(socket, timeout, Some(PROMPT)).unwrap();
    let mut bytes = [0; MESSAGE_MAX];
    loop {
        match recv(socket, &mut bytes[..], RecvFlags::empty()) {
            Ok((_, 0)) => return true,
            // What the daemon said first.
            Ok(_) | Err(Errno::CONNRESET) => {}
            Err(_) => return false,
        }
    }
}
