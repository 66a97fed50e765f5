//! What the daemon knows of one program.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use mtcp_core::{ConnId, Error, Event, FlowKey, Ready, Token, Undelivered};
use ring::stream::StreamsConfig;

use super::end::DaemonEnd;
use crate::Result;
use crate::config::room;

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

    /// The program was refused what the policy allows: why, and what to do. Whoever keeps the log
    /// tells it as often as refusals of the policy.
    fn tell(&self, why: &str);

    /// Connections that it may have at a time, those that wait at its listeners included.
    fn connections(&self) -> usize;

    /// Listeners that it may have at a time.
    fn listeners(&self) -> usize;

    /// Bytes of buffers that it may have.
    fn memory(&self) -> usize;
}

/// What a program has, for other threads.
#[derive(Debug, Default)]
pub struct Usage {
    connections: AtomicU32,
    listeners: AtomicU32,
}

impl Usage {
    /// Connections, those that wait at its listeners included.
    pub fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }

    /// Listeners.
    pub fn listeners(&self) -> u32 {
        self.listeners.load(Relaxed)
    }
}

/// Who a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Nobody else's.
    pub id: u64,
    /// For people: the process.
    pub pid: u32,
    /// The user: another user's sockets are not listed to it.
    pub uid: u32,
}

/// Connections of a program at most: as many as its streams have numbers for.
const MAX_SLOTS: u32 = 1 << 16;
/// The largest buffer of one direction, bytes.
const MAX_BUFFER: u32 = 32 << 20;
/// So many events may wait for a program that sleeps while the link has more for us: a hand-over
/// for each burst costs a third of what two processes on one processor do.
const HAND_OVER_MAX: usize = 256;
/// So many always may.
const HAND_OVER_MIN: usize = 64;

/// Closed connections of a program that are known, the youngest.
const CLOSING: usize = 1 << 16;

/// Who takes what comes on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taker {
    /// The program has it, and calls its socket so.
    Program(Token),
    /// It waits at the listener that the stack knows by this token.
    Listener(Token),
}

/// A connection of the program.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Its name with the stack.
    conn: ConnId,
    /// Its name with the program: its slot in the streams there, and how many connections the
    /// program had had before.
    name: ConnId,
    taker: Taker,
    /// What has not been told of it, for want of room.
    ready: Ready,
    error: Option<Error>,
}

impl Slot {
    /// The program's name of the socket, if it has one.
    fn token(&self) -> Token {
        match self.taker {
            Taker::Program(token) => token,
            Taker::Listener(_) => Token::NONE,
        }
    }

    /// The stack's token of the listener where it waits, as far as the program has said.
    fn waits_at(&self) -> Option<Token> {
        match self.taker {
            Taker::Program(_) => None,
            Taker::Listener(token) => Some(token),
        }
    }
}

/// A connection that waits at a listener, and the program has not been told of it.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    listener: Token,
    name: ConnId,
    key: FlowKey,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) end: DaemonEnd,
    pub(super) program: Identity,
    pub(super) policy: Arc<dyn Policy>,
    usage: Arc<Usage>,
    /// Where the streams of its connections lie.
    pub(super) home: u32,
    /// By the slot in the streams.
    slots: Vec<Option<Slot>>,
    /// How many of them are taken.
    connections: usize,
    /// How many connections it has had.
    serial: u32,
    listeners: usize,
    /// The stack's names of what the program has closed, and what may not be gone yet; the oldest
    /// first.
    closing: VecDeque<ConnId>,
    /// Not told yet, in order.
    waiting: VecDeque<Waiting>,
    /// Slots of which something has not been told, in order.
    untold: VecDeque<u32>,
    /// Events published since the program was last woken.
    pub(super) unrung: u32,
    /// The kernel's socket that stands for what it listens at next.
    pub(super) cookie: Option<u64>,
    /// It was woken on the daemon's processor, and it has not been seen since whether it runs.
    pub(super) handed_over: bool,
}

impl Channel {
    pub(super) fn new(
        end: DaemonEnd,
        program: Identity,
        policy: Arc<dyn Policy>,
        usage: Arc<Usage>,
        home: u32,
    ) -> Self {
        Self {
            end,
            program,
            policy,
            usage,
            home,
            listeners: 0,
            slots: Vec::new(),
            connections: 0,
            serial: 0,
            closing: VecDeque::new(),
            waiting: VecDeque::new(),
            untold: VecDeque::new(),
            unrung: 0,
            cookie: None,
            handed_over: false,
        }
    }

    /// Whether it may have one connection more.
    pub(super) fn has_room(&self) -> bool {
        self.connections < self.policy.connections()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections
    }

    /// Whether it may have one listener more.
    pub(super) fn may_listen(&self) -> bool {
        self.listeners < self.policy.listeners()
    }

    pub(super) fn add_listener(&mut self) {
        self.count_listeners(self.listeners + 1);
    }

    pub(super) fn remove_listener(&mut self) {
        self.count_listeners(self.listeners.saturating_sub(1));
    }

    fn count_listeners(&mut self, count: usize) {
        self.listeners = count;
        self.usage.listeners.store(shown(count), Relaxed);
    }

    fn count_connections(&mut self, count: usize) {
        self.connections = count;
        self.usage.connections.store(shown(count), Relaxed);
    }

    /// A connection, with its bytes in this slot of the streams, is its own from now on. Returns
    /// its name with the program.
    pub(super) fn add(&mut self, conn: ConnId, slot: u32, taker: Taker) -> ConnId {
        let name = ConnId {
            slot,
            generation: self.serial,
        };
        self.serial = self.serial.wrapping_add(1);
        let at = slot as usize;
        if at >= self.slots.len() {
            self.slots.resize((at + 1).next_power_of_two(), None);
        }
        if let Some(place) = self.slots.get_mut(at) {
            let is_new = place.is_none();
            *place = Some(Slot {
                conn,
                name,
                taker,
                ready: Ready::empty(),
                error: None,
            });
            self.count_connections(self.connections + usize::from(is_new));
        }
        name
    }

    fn slot(&mut self, name: ConnId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(name.slot as usize)?.as_mut()?;
        (slot.name == name).then_some(slot)
    }

    /// The stack's name of what the program calls `name`. `None`: it has no such connection.
    #[inline]
    pub(super) fn conn(&self, name: ConnId) -> Option<ConnId> {
        self.look(name).map(|(conn, _)| conn)
    }

    /// The same, and whether it waits at a listener, as far as the program has said.
    #[inline]
    pub(super) fn look(&self, name: ConnId) -> Option<(ConnId, bool)> {
        let slot = self.slots.get(name.slot as usize)?.as_ref()?;
        (slot.name == name).then_some((slot.conn, slot.waits_at().is_some()))
    }

    /// The program gives back a connection that went to another one before it accepted it. The
    /// listener where that waited.
    pub(super) fn forget(&mut self, name: ConnId) -> Option<Token> {
        let listener = self.slot(name)?.waits_at();
        *self.slots.get_mut(name.slot as usize)? = None;
        self.count_connections(self.connections.saturating_sub(1));
        listener
    }

    /// The program takes a connection that waits, and where. `None`: there is none of this name.
    pub(super) fn accept(&mut self, name: ConnId, token: Token) -> Option<(ConnId, Token)> {
        let slot = self.slot(name)?;
        let listener = slot.waits_at()?;
        slot.taker = Taker::Program(token);
        Some((slot.conn, listener))
    }

    /// The program is done with a connection. `None`: there is none of this name.
    pub(super) fn remove(&mut self, name: ConnId) -> Option<ConnId> {
        let conn = self.conn(name)?;
        *self.slots.get_mut(name.slot as usize)? = None;
        self.count_connections(self.connections.saturating_sub(1));
        if self.closing.len() >= CLOSING {
            self.closing.pop_front();
        }
        self.closing.push_back(conn);
        Some(conn)
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

    /// The program's names of all connections.
    pub(super) fn names(&self) -> impl Iterator<Item = ConnId> {
        self.slots.iter().flatten().map(|slot| slot.name)
    }

    /// The stack's names of all connections.
    pub(super) fn conns(&self) -> impl Iterator<Item = ConnId> {
        self.slots.iter().flatten().map(|slot| slot.conn)
    }

    /// How many events may wait for the program while it sleeps and the link has more: those of a
    /// quarter of its connections, so that the peers of the others have something to do while it
    /// works.
    pub(super) fn hand_over(&self) -> u32 {
        shown((self.connections / 4).clamp(HAND_OVER_MIN, HAND_OVER_MAX))
    }

    /// Tells the program of a connection that waits at its listener.
    pub(super) fn tell_accepted(&mut self, listener: Token, name: ConnId, key: FlowKey) {
        self.unrung += 1;
        let event = Event::Accepted {
            listener,
            conn: name,
            key,
        };
        if !self.keeps_back() && self.end.tell(&event) {
            return;
        }
        self.waiting.push_back(Waiting {
            listener,
            name,
            key,
        });
    }

    /// Tells the program of what became true of the connection in a slot, at once or when there is
    /// room; what has not been told of a connection becomes one event.
    #[inline]
    pub(super) fn tell(&mut self, at: u32, ready: Ready, error: Option<Error>) {
        self.unrung += 1;
        let keeps_back = self.keeps_back();
        let slot = self.slots.get_mut(at as usize).and_then(Option::as_mut);
        let Some(slot) = slot else {
            return;
        };
        let event = Event::Ready {
            conn: slot.name,
            token: slot.token(),
            ready,
            error,
        };
        if !keeps_back && self.end.tell(&event) {
            return;
        }
        if slot.ready.is_empty() && !ready.is_empty() {
            self.untold.push_back(at);
        }
        slot.ready |= ready;
        slot.error = slot.error.or(error);
    }

    /// Whether something has not been told, which comes first.
    fn keeps_back(&self) -> bool {
        !self.untold.is_empty() || !self.waiting.is_empty()
    }

    /// Tells what there was no room for, as far as there is now.
    pub(super) fn tell_rest(&mut self) {
        self.end.stage_answers();
        while let Some(&Waiting {
            listener,
            name,
            key,
        }) = self.waiting.front()
        {
            let event = Event::Accepted {
                listener,
                conn: name,
                key,
            };
            // One that has been refused meanwhile has no slot.
            if self.conn(name).is_some() && !self.end.tell(&event) {
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
            conn: slot.name,
            token: slot.token(),
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

/// Streams for what a program may have.
pub(super) fn streams_config(policy: &dyn Policy) -> StreamsConfig {
    let slots = u32::try_from(policy.connections()).unwrap_or(u32::MAX);
    let pool = room::program_memory(policy.memory()) / 2;
    StreamsConfig {
        slots: slots.min(MAX_SLOTS),
        recv_pool_bytes: pool,
        send_pool_bytes: pool,
        max_buffer: MAX_BUFFER,
        prefault: 0,
    }
}

/// A number for other threads.
fn shown(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
