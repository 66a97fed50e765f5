//! The daemon's end of the control socket: one thread that waits for nobody.

mod client;
mod clients;
mod drops;
mod listener;
mod pages;
mod reserve;
mod serve;
mod sockets;
mod stacks;
mod waker;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

use crate::lock::Lock;
use crate::message::{self, ClientRow, Refused, Welcome};
use crate::policy::Credentials;
use crate::{Build, Error, Policy};

pub use client::{Client, ClientId};
pub use drops::DropReason;
pub use listener::Listener;
pub use pages::SocketsAnswer;
pub use stacks::{Channel, Stacks, Usage};
pub use waker::Waker;

use clients::Clients;
use pages::Pages;
use reserve::Reserve;

/// Connections that are accepted in one turn.
const ACCEPTS_MAX: usize = 32;
/// Descriptors that tell of something in one turn.
const EVENTS_MAX: usize = 64;

/// What names the listener and the wake-up among programs, whose ids come behind.
const LISTENER: u64 = 0;
const WAKE: u64 = 1;
const FIRST_CLIENT: u64 = 2;

/// The policy that counts now; whoever asks may hold on to it for a question or two.
#[derive(Debug, Default)]
pub struct CurrentPolicy(RwLock<Arc<Policy>>);

impl CurrentPolicy {
    /// It is `policy`.
    pub fn new(policy: Policy) -> Self {
        Self(RwLock::new(Arc::new(policy)))
    }

    /// What counts now.
    pub fn get(&self) -> Arc<Policy> {
        let current = self.0.read();
        Arc::clone(&current.unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// From now on it is `policy`. Who is attached stays so.
    pub fn set(&self, policy: Policy) {
        let mut current = self
            .0
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *current = Arc::new(policy);
    }
}

/// The daemon's end.
#[derive(Debug)]
pub struct Server<S> {
    stacks: Arc<S>,
    policy: Arc<CurrentPolicy>,
    build: Build,
    welcome: Welcome,
    listener: Listener,
    clients: Clients,
    epoll: OwnedFd,
    wake: Waker,
    pages: Pages,
    reserve: Reserve,
    start: Instant,
}

impl<S: Stacks> Server<S> {
    /// Serves `listener`.
    ///
    /// # Errors
    /// No descriptors, or no `/proc`.
    pub fn new(
        listener: Listener,
        build: Build,
        stacks: Arc<S>,
        policy: Arc<CurrentPolicy>,
    ) -> Result<Self, Error> {
        let welcome = Welcome {
            build: build.name().to_owned(),
            name: listener.name().to_owned(),
            namespace: crate::NetNamespace::own()?,
            pid: std::process::id(),
            stacks: stacks.count(),
            links: stacks.links(),
        };
        let open = || -> Result<_, Errno> {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let data = |id| epoll::EventData::new_u64(id);
            epoll::add(
                &epoll,
                listener.socket(),
                data(LISTENER),
                epoll::EventFlags::IN,
            )?;
            epoll::add(&epoll, &wake, data(WAKE), epoll::EventFlags::IN)?;
            Ok((epoll, Waker(Arc::new(wake)), Reserve::new()?))
        };
        let (epoll, wake, reserve) = open().map_err(|errno| {
            let cause = format!("cannot serve the control socket: {errno}");
            Error::new(errno, cause, "raise the limit of open files (ulimit -n)")
        })?;
        Ok(Self {
            stacks,
            policy,
            build,
            welcome,
            listener,
            clients: Clients::new(FIRST_CLIENT),
            epoll,
            pages: Pages::new(wake.clone()),
            wake,
            reserve,
            start: Instant::now(),
        })
    }

    /// What ends a turn from another thread.
    pub fn waker(&self) -> Waker {
        self.wake.clone()
    }

    /// Programs that are connected.
    pub fn connected(&self) -> usize {
        self.clients.len()
    }

    /// Programs that are attached.
    pub fn attached(&self) -> usize {
        self.clients.attached()
    }

    /// How often programs were turned away or dropped.
    pub fn drops(&self) -> message::Drops {
        self.clients.drops.counts()
    }

    /// Waits for what comes, at most for `timeout`, and deals with all of it that is there.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let now = Instant::now();
        let until_hello = self
            .clients
            .next_deadline()
            .map(|end| end.saturating_duration_since(now));
        let timeout = [timeout, until_hello].into_iter().flatten().min();
        let timeout = timeout.map(|timeout| {
            // Rounded up, so that nothing is looked for too early, again and again.
            let timeout = timeout + Duration::from_micros(999);
            Timespec {
                tv_sec: timeout.as_secs().min(1 << 30) as i64,
                tv_nsec: timeout.subsec_nanos().into(),
            }
        });
        let mut events = Vec::with_capacity(EVENTS_MAX);
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut events),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in events {
            match event.data.u64() {
                LISTENER => self.accept(),
                WAKE => {
                    let _ = rustix::io::read(&*self.wake.0, &mut [0; 8]);
                    self.pass_sockets_on();
                }
                id => self.serve(ClientId(id)),
            }
        }
        for id in self.clients.expired(Instant::now()) {
            self.drop_client(id, Some(DropReason::NoHello));
        }
        Ok(())
    }

    /// Ends what serves nobody: closes it if no program is connected and none starts or joins now.
    /// With what is returned, programs that want to start another wait until this process is gone.
    ///
    /// # Errors
    /// The lock cannot be opened.
    pub fn end_if_idle(&mut self, start_lock: &Path) -> Result<Option<Lock>, Error> {
        let Ok(lock) = Lock::take(start_lock, Duration::ZERO)? else {
            return Ok(None);
        };
        // Who connected without the lock.
        self.accept();
        if self.clients.len() > 0 {
            return Ok(None);
        }
        self.close();
        Ok(Some(lock))
    }

    /// Nobody can connect from now on, and who waits to be accepted is told so. Called when the
    /// daemon ends; the rest goes with the server.
    pub fn close(&mut self) {
        self.listener.unlink();
        while let Ok(socket) = self.listener.accept() {
            self.clients.drops.count(DropReason::Ending);
            self.refuse(&socket, &drops::refusal(DropReason::Ending));
        }
    }

    fn refuse(&self, socket: &OwnedFd, error: &Error) {
        let refused = Refused {
            build: self.build.name().to_owned(),
            errno: error.errno(),
            line: error.to_string(),
        };
        let bytes = message::Reply::Refused(refused).emit(&self.build);
        // It is dropped in any case.
        let _ = crate::socket::send(socket, &bytes, &[], rustix::net::SendFlags::DONTWAIT);
    }

    fn drop_client(&mut self, id: ClientId, reason: Option<DropReason>) {
        let Some(gone) = self.clients.remove(id) else {
            return;
        };
        let _ = epoll::delete(&self.epoll, gone.socket.as_fd());
        if gone.is_attached() {
            self.stacks.detach(id);
        }
        let Some(reason) = reason else {
            return;
        };
        self.refuse(&gone.socket, &drops::refusal(reason));
        self.clients.drops.count(reason);
        log::warn!(
            "a program of user {} was dropped: {}",
            gone.client.credentials.uid,
            reason.text()
        );
    }

    /// Whose programs and sockets `who` may see: their own; `None`: all, for root and the user whom
    /// the daemon is.
    fn seen_by(who: &Credentials) -> Option<u32> {
        let sees_all = who.is_root() || who.uid == rustix::process::geteuid().as_raw();
        (!sees_all).then_some(who.uid)
    }

    /// Rows of those programs that `who` may see, from `from` on, and where to go on.
    fn rows(&self, who: &Credentials, from: u64) -> (Vec<ClientRow>, u64) {
        let of = Self::seen_by(who);
        let mut rows = Vec::new();
        for (client, since) in self.clients.attached_from(from) {
            if of.is_some_and(|of| of != client.credentials.uid) {
                continue;
            }
            if rows.len() == message::CLIENTS_IN_PAGE {
                return (rows, client.id.0);
            }
            let usage = self.stacks.usage(client.id);
            rows.push(ClientRow {
                id: client.id.0,
                pid: client.credentials.pid,
                uid: client.credentials.uid,
                connections: usage.connections,
                listeners: usage.listeners,
                events: usage.events,
                channels: self.welcome.stacks,
                memory: usage.memory,
                seconds: since.elapsed().as_secs(),
                command: client.command.clone(),
            });
        }
        (rows, 0)
    }
}
