//! The listening side: takes one peer after the other, each with memory of its own, and hands its
//! queues to the ports.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ring::region::Shared;

use super::config::{Layout, ShmConfig, Side};
use super::connection::{Connection, Doorbells, Queue};
use super::doorbells::{doorbells, eventfds, signal};
use super::handshake;
use super::socket::Listener;
use crate::{context, poll};

/// Peers that one call takes or refuses, at most: whoever connects again and again must not keep
/// us.
const ACCEPTS: usize = 16;

/// What the ports of a listening side share.
#[derive(Debug)]
pub(super) struct Endpoint {
    listener: Listener,
    pub(super) config: ShmConfig,
    /// What tells our ports of the next peer. No peer has them.
    doorbells: Vec<OwnedFd>,
    peer: Mutex<Option<Arc<Connection>>>,
    /// Counts peers; 0: none yet.
    generation: AtomicU64,
}

impl Endpoint {
    pub(super) fn bind(path: &Path, config: ShmConfig) -> io::Result<Self> {
        config.check()?;
        Ok(Self {
            listener: Listener::bind(path)?,
            config,
            doorbells: eventfds(config.queues)?,
            peer: Mutex::default(),
            generation: AtomicU64::new(0),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.listener.fd.as_fd()
    }

    pub(super) fn path(&self) -> &Path {
        self.listener.path()
    }

    /// A descriptor of our own for the doorbell of queue `index`.
    pub(super) fn doorbell(&self, index: u16) -> io::Result<OwnedFd> {
        match self.doorbells.get(usize::from(index)) {
            Some(doorbell) => doorbell.try_clone(),
            None => Err(context::invalid("shm link: no such queue")),
        }
    }

    /// Which peer is the present one, by number.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Forgets a peer that has left.
    pub(super) fn forget_lost(&self) {
        let mut peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        if peer.as_ref().is_some_and(|peer| peer.is_lost()) {
            *peer = None;
        }
    }

    /// Whether a peer knocks.
    pub(super) fn has_caller(&self) -> bool {
        let knocks = poll::readable(self.fd(), None, Some(Duration::ZERO));
        knocks.is_ok_and(|events| !events.is_empty())
    }

    /// Takes the next peer, refuses others. Never blocks.
    pub(super) fn take_callers(&self) -> io::Result<()> {
        let mut peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..ACCEPTS {
            let Some(socket) = self.listener.accept()? else {
                break;
            };
            if peer.is_some() {
                handshake::send_refusal(&socket, &self.config);
            } else {
                *peer = self.welcome(socket)?;
            }
        }
        Ok(())
    }

    /// `None` if the peer has left again already.
    fn welcome(&self, socket: OwnedFd) -> io::Result<Option<Arc<Connection>>> {
        let explain = |error| {
            context::error(
                format_args!("shm link {}: no memory for a peer", self.path().display()),
                error,
            )
        };
        let memory = Shared::create("mtcp-shm", Layout::new(&self.config).len).map_err(explain)?;
        memory.seal().map_err(explain)?;
        let (own, their_peers) = doorbells(self.config.queues)?;
        let (their_own, peer) = doorbells(self.config.queues)?;
        let (config, memory_fd) = (&self.config, memory.fd());
        let offer = handshake::send_offer(&socket, config, memory_fd, &their_peers, &their_own);
        if let Err(error) = offer {
            log::debug!("shm link {}: {error}", self.path().display());
            return Ok(None);
        }
        let memory = Arc::new(memory);
        let doorbells = Doorbells { own, peer };
        let connection = Connection::new(self.config, Side::Listener, memory, socket, doorbells);
        // Whoever sees the new number looks for the connection behind the lock that we hold.
        self.generation.fetch_add(1, Ordering::Release);
        self.doorbells.iter().for_each(signal);
        Ok(Some(Arc::new(connection)))
    }

    /// Queue `index` of the present peer, unless it is the peer of number `seen`, which is then
    /// brought up to date.
    pub(super) fn attach(&self, index: u16, seen: &mut u64) -> io::Result<Option<Queue>> {
        if *seen == self.generation() {
            return Ok(None);
        }
        let peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = self.generation();
        match &*peer {
            Some(connection) => connection.take_queue(index).map(Some),
            None => Ok(None),
        }
    }
}
