//! What the daemon knows of one program.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;

use mtcp_core::{ConnId, Error, Event, FlowKey, Ready, Token, Undelivered};

use super::end::DaemonEnd;
use crate::Result;

/// What a program may do.
pub trait Policy: Debug + Send + Sync {
    /// Listen on this address; an unspecified one means all.
    ///
    /// # Errors
    /// The error that the call gives: `EACCES` as a rule.
    fn listen(&self, local: SocketAddr) -> Result<()>;

    /// Connect to `remote`, from `local` if it says so.
    ///
    /// # Errors
    /// As [`Policy::listen`].
    fn connect(&self, local: Option<SocketAddr>, remote: SocketAddr) -> Result<()>;

    /// Connections that it may have at a time, those that wait at its listeners included.
    fn connections(&self) -> usize;

    /// Listeners that it may have at a time.
    fn listeners(&self) -> usize;
}

/// Closed connections of a program that are known, the youngest.
const CLOSING: usize = 1 << 16;

/// A connection of the program.
#[derive(Clone, Copy, Debug)]
struct Slot {
    conn: ConnId,
    /// Its name with the program; `None`: it waits at a listener.
    token: Option<Token>,
    /// What has not been told of it, for want of room.
    ready: Ready,
    error: Option<Error>,
}

/// A connection that waits at a listener, and the program has not been told of it.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    listener: Token,
    conn: ConnId,
    key: FlowKey,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) end: DaemonEnd,
    pub(super) policy: Arc<dyn Policy>,
    /// For people: the process.
    pub(super) pid: u32,
    /// By the connection's slot.
    slots: Vec<Option<Slot>>,
    /// How many of them are taken.
    connections: usize,
    /// Closed by the program, and perhaps not gone yet; the oldest first.
    closing: VecDeque<ConnId>,
    /// Not told yet, in order.
    waiting: VecDeque<Waiting>,
    /// Slots of which something has not been told, in order.
    untold: VecDeque<u32>,
    /// Events published since the program was last woken.
    pub(super) unrung: u32,
}

impl Channel {
    pub(super) fn new(end: DaemonEnd, policy: Arc<dyn Policy>, pid: u32) -> Self {
        Self {
            end,
            policy,
            pid,
            slots: Vec::new(),
            connections: 0,
            closing: VecDeque::new(),
            waiting: VecDeque::new(),
            untold: VecDeque::new(),
            unrung: 0,
        }
    }

    /// Whether it may have one connection more.
    pub(super) fn has_room(&self) -> bool {
        self.connections < self.policy.connections()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections
    }

    /// A connection is its own from now on; `token`: unless it waits at a listener.
    pub(super) fn add(&mut self, conn: ConnId, token: Option<Token>) {
        let at = conn.slot as usize;
        if at >= self.slots.len() {
            self.slots.resize((at + 1).next_power_of_two(), None);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            self.connections += usize::from(slot.is_none());
            *slot = Some(Slot {
                conn,
                token,
                ready: Ready::empty(),
                error: None,
            });
        }
    }

    fn slot(&mut self, conn: ConnId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(conn.slot as usize)?.as_mut()?;
        (slot.conn == conn).then_some(slot)
    }

    /// Whether `conn`, as the program says, is a connection of its own.
    #[inline]
    pub(super) fn has(&self, conn: ConnId) -> bool {
        let slot = self.slots.get(conn.slot as usize).copied().flatten();
        slot.is_some_and(|slot| slot.conn == conn)
    }

    /// The program takes a connection that waits. False: there is none of this name.
    pub(super) fn accept(&mut self, conn: ConnId, token: Token) -> bool {
        let slot = self.slot(conn).filter(|slot| slot.token.is_none());
        slot.is_some_and(|slot| {
            slot.token = Some(token);
            true
        })
    }

    /// The program is done with a connection. False: there is none of this name.
    pub(super) fn remove(&mut self, conn: ConnId) -> bool {
        let has = self.has(conn);
        if has && let Some(slot) = self.slots.get_mut(conn.slot as usize) {
            *slot = None;
            self.connections -= 1;
            if self.closing.len() >= CLOSING {
                self.closing.pop_front();
            }
            self.closing.push_back(conn);
        }
        has
    }

    /// What peers have still to acknowledge of what the program has closed; `of` says it of one
    /// connection.
    pub(super) fn undelivered(&mut self, of: impl Fn(ConnId) -> Undelivered) -> Undelivered {
        let mut sum = Undelivered::default();
        self.closing.retain(|&conn| {
            let left = of(conn);
            sum.connections += left.connections;
            sum.bytes += left.bytes;
            left.connections > 0
        });
        sum
    }

    /// All connections.
    pub(super) fn conns(&self) -> impl Iterator<Item = ConnId> {
        self.slots.iter().flatten().map(|slot| slot.conn)
    }

    /// Tells the program of an event, at once or when there is room; what has not been told of a
    /// connection becomes one event.
    #[inline]
    pub(super) fn tell(&mut self, event: &Event) {
        if self.untold.is_empty() && self.waiting.is_empty() && self.end.tell(event) {
            return;
        }
        match *event {
            Event::Accepted {
                listener,
                conn,
                key,
            } => self.waiting.push_back(Waiting {
                listener,
                conn,
                key,
            }),
            Event::Ready {
                conn, ready, error, ..
            } => self.keep(conn, ready, error),
        }
    }

    #[cold]
    fn keep(&mut self, conn: ConnId, ready: Ready, error: Option<Error>) {
        let Some(slot) = self.slot(conn) else {
            return;
        };
        let is_first = slot.ready.is_empty();
        slot.ready |= ready;
        slot.error = slot.error.or(error);
        if is_first && !ready.is_empty() {
            self.untold.push_back(conn.slot);
        }
    }

    /// Tells what there was no room for, as far as there is now.
    pub(super) fn tell_rest(&mut self) {
        self.end.stage_answers();
        while let Some(&Waiting {
            listener,
            conn,
            key,
        }) = self.waiting.front()
        {
            let event = Event::Accepted {
                listener,
                conn,
                key,
            };
            // One that has been refused meanwhile has no slot.
            if self.has(conn) && !self.end.tell(&event) {
                return;
            }
            self.waiting.pop_front();
        }
        while let Some(&at) = self.untold.front() {
            if !self.tell_of(at) {
                return;
            }
            self.untold.pop_front();
        }
    }

    /// What has not been told of the connection in a slot. False: there is no room.
    fn tell_of(&mut self, at: u32) -> bool {
        let slot = self.slots.get_mut(at as usize).and_then(Option::as_mut);
        let Some(slot) = slot.filter(|slot| !slot.ready.is_empty()) else {
            return true;
        };
        let event = Event::Ready {
            conn: slot.conn,
            token: slot.token.unwrap_or(Token::NONE),
            ready: slot.ready,
            error: slot.error,
        };
        if !self.end.tell(&event) {
            return false;
        }
        slot.ready = Ready::empty();
        slot.error = None;
        true
    }
}
