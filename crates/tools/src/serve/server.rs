//! The event loop of a server: accepts, hands readiness to a protocol, closes, times out. One
//! thread, any [`Sockets`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::signals::Stop;
use crate::sockets::{Errno, Event, Handle, Ready, Sockets};

/// The time of the current turn: one clock read per turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Milliseconds since the server started.
    pub(crate) millis: u64,
    /// The same, microseconds.
    pub(crate) micros: u64,
    /// Seconds since 1970.
    pub(crate) unix: i64,
}

/// What to do with a connection next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Call again when it is ready or at the deadline, [`Now::millis`].
    Wait {
        /// For what.
        interest: Ready,
        /// Until when.
        deadline: u64,
    },
    /// Call again, with nothing ready, at this time ([`Now::micros`]), whatever comes before; there
    /// is no deadline until then.
    Delay {
        /// When.
        until: u64,
    },
    /// All was said and read.
    Close,
    /// All was said, but the peer may still be sending: closing now would destroy our last words
    /// (RFC 9112 §9.6).
    Linger,
    /// Reset it.
    Abort,
}

/// A protocol over accepted connections.
pub(crate) trait Protocol {
    /// State per connection.
    type Conn;
    /// A new connection, and until when its first bytes must come.
    fn accepted<S: Sockets>(&mut self, sockets: &S, socket: Handle, now: Now) -> (Self::Conn, u64);
    /// It is ready.
    fn ready<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        conn: &mut Self::Conn,
        ready: Ready,
        now: Now,
    ) -> Step;
    /// Its deadline passed.
    fn expired<S: Sockets>(
        &mut self,
        sockets: &mut S,
        socket: Handle,
        conn: &mut Self::Conn,
        now: Now,
    ) -> Step;
    /// The server stops: whether the connection may go at once, being between requests.
    fn stop(&mut self, conn: &mut Self::Conn) -> bool;
    /// A turn ends.
    fn turned(&mut self) {}
}

/// Bounds of the loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at a time.
    pub(crate) connections: usize,
    /// How long a stop waits for what is in flight.
    pub(crate) stop_grace: Duration,
}

/// What the loop counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Connections accepted.
    pub(crate) accepted: u64,
    /// Connections reset by us or by the peer.
    pub(crate) aborted: u64,
    /// Connections that ran into a deadline.
    pub(crate) expired: u64,
}

/// Accepts per listener and turn.
const ACCEPTS: usize = 256;
/// The generation that marks the data of listeners.
const LISTENER: u32 = u32::MAX;
/// How long a lingering connection may keep sending, ms.
const LINGER: u64 = 2_000;
/// How long accepting pauses when descriptors or memory run out, ms.
const PAUSE: u64 = 100;

struct Entry<C> {
    socket: Handle,
    interest: Ready,
    deadline: u64,
    lingering: bool,
    conn: C,
}

struct Slot<C> {
    generation: u32,
    entry: Option<Entry<C>>,
}

/// A server running `P` over `S`.
pub(crate) struct Server<'s, S, P: Protocol> {
    sockets: &'s mut S,
    protocol: &'s mut P,
    limits: Limits,
    listeners: Vec<Handle>,
    slots: Vec<Slot<P::Conn>>,
    free: Vec<u32>,
    live: usize,
    start: Instant,
    now: Now,
    unix_offset: i64,
    next_sweep: u64,
    /// Times that [`Step::Delay`] gave, µs, with the data of the connections; the first one first.
    delays: BinaryHeap<Reverse<(u64, u64)>>,
    paused_until: Option<u64>,
    sink: Vec<u8>,
    totals: Totals,
}

impl<'s, S: Sockets, P: Protocol> Server<'s, S, P> {
    /// A server on `listeners`, which are listening already.
    pub(crate) fn new(
        sockets: &'s mut S,
        protocol: &'s mut P,
        listeners: Vec<Handle>,
        limits: Limits,
    ) -> Result<Self, Errno> {
        for (index, listener) in listeners.iter().enumerate() {
            sockets.add(*listener, Ready::IN, listener_data(index))?;
        }
        Ok(Self {
            sockets,
            protocol,
            limits,
            listeners,
            slots: Vec::new(),
            free: Vec::new(),
            live: 0,
            start: Instant::now(),
            now: Now {
                millis: 0,
                micros: 0,
                unix: unix_now(),
            },
            unix_offset: unix_now(),
            next_sweep: u64::MAX,
            delays: BinaryHeap::new(),
            paused_until: None,
            sink: vec![0; 65_536],
            totals: Totals::default(),
        })
    }

    /// Serves until `stop`, then lets requests in flight finish.
    ///
    /// # Errors
    /// Waiting failed: the link is gone.
    pub(crate) fn run(&mut self, stop: &Stop) -> Result<Totals, Errno> {
        let mut events = Vec::with_capacity(512);
        while !stop.requested() {
            self.turn(&mut events)?;
        }
        self.close_listeners();
        let until = self.now.millis + self.limits.stop_grace.as_millis() as u64;
        self.stop_idle();
        while self.live > 0 && self.now.millis < until {
            self.next_sweep = self.next_sweep.min(until);
            self.turn(&mut events)?;
        }
        for index in 0..self.slots.len() {
            self.finish(index, Step::Abort);
        }
        Ok(self.totals)
    }

    fn turn(&mut self, events: &mut Vec<Event>) -> Result<(), Errno> {
        self.sockets.wait(events, self.timeout())?;
        self.tick();
        for event in events.iter() {
            self.dispatch(*event);
        }
        self.end_delays();
        if self.now.millis >= self.next_sweep {
            self.sweep();
        }
        if self
            .paused_until
            .is_some_and(|until| self.now.millis >= until)
        {
            self.resume();
        }
        self.protocol.turned();
        Ok(())
    }

    fn tick(&mut self) {
        let elapsed = self.start.elapsed();
        self.now.millis = elapsed.as_millis() as u64;
        self.now.micros = elapsed.as_micros() as u64;
        self.now.unix = self.unix_offset + elapsed.as_secs() as i64;
    }

    fn timeout(&self) -> Option<Duration> {
        let next = self.next_sweep.min(self.paused_until.unwrap_or(u64::MAX));
        let next =
            (next != u64::MAX).then(|| Duration::from_millis(next.saturating_sub(self.now.millis)));
        let delay = self.delays.peek().map(|Reverse((until, _))| {
            let now = self.start.elapsed().as_micros() as u64;
            Duration::from_micros(until.saturating_sub(now))
        });
        [next, delay].into_iter().flatten().min()
    }

    /// Goes on with the connections whose delays are over.
    fn end_delays(&mut self) {
        while let Some(Reverse((until, data))) = self.delays.peek().copied() {
            if until > self.now.micros {
                return;
            }
            self.delays.pop();
            let ready = Ready::empty();
            self.dispatch(Event { data, ready });
        }
    }

    fn dispatch(&mut self, event: Event) {
        let (index, generation) = (event.data as u32 as usize, (event.data >> 32) as u32);
        if generation == LISTENER {
            self.accept(index);
            return;
        }
        let Some(slot) = self
            .slots
            .get_mut(index)
            .filter(|slot| slot.generation == generation)
        else {
            return;
        };
        let Some(entry) = slot.entry.as_mut() else {
            return;
        };
        let step = if entry.lingering {
            linger(self.sockets, entry, &mut self.sink)
        } else {
            self.protocol.ready(
                self.sockets,
                entry.socket,
                &mut entry.conn,
                event.ready,
                self.now,
            )
        };
        self.finish(index, step);
    }

    fn accept(&mut self, listener: usize) {
        let Some(socket) = self.listeners.get(listener).copied() else {
            return;
        };
        for _ in 0..ACCEPTS {
            if self.live >= self.limits.connections {
                self.pause(u64::MAX - 1);
                return;
            }
            match self.sockets.accept(socket) {
                Ok(accepted) => self.admit(accepted),
                Err(Errno::AGAIN) => return,
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                Err(_) => {
                    self.pause(self.now.millis + PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: Handle) {
        let (conn, deadline) = self.protocol.accepted(self.sockets, socket, self.now);
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                entry: None,
            });
            self.slots.len() as u32 - 1
        });
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        self.totals.accepted += 1;
        if self
            .sockets
            .add(socket, Ready::IN, data(index, slot.generation))
            .is_err()
        {
            self.sockets.abort(socket);
            self.totals.aborted += 1;
            self.free.push(index);
            return;
        }
        slot.entry = Some(Entry {
            socket,
            interest: Ready::IN,
            deadline,
            lingering: false,
            conn,
        });
        self.live += 1;
        self.next_sweep = self.next_sweep.min(deadline);
    }

    /// Does what the protocol said about the connection in slot `index`.
    fn finish(&mut self, index: usize, step: Step) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let Some(entry) = slot.entry.as_mut() else {
            return;
        };
        match step {
            Step::Wait { interest, deadline } => {
                entry.deadline = deadline;
                self.next_sweep = self.next_sweep.min(deadline);
                if entry.interest != interest {
                    entry.interest = interest;
                    if self
                        .sockets
                        .modify(entry.socket, interest, data(index as u32, slot.generation))
                        .is_err()
                    {
                        self.remove(index, true);
                    }
                }
            }
            Step::Delay { until } => {
                let data = data(index as u32, slot.generation);
                self.delays.push(Reverse((until, data)));
                entry.deadline = u64::MAX;
            }
            Step::Linger if !entry.lingering => {
                entry.lingering = true;
                let deadline = self.now.millis + LINGER;
                let step = match self.sockets.shutdown_write(entry.socket) {
                    Ok(()) => Step::Wait {
                        interest: Ready::IN,
                        deadline,
                    },
                    Err(_) => Step::Close,
                };
                self.finish(index, step);
            }
            Step::Linger => {}
            Step::Close => self.remove(index, false),
            Step::Abort => self.remove(index, true),
        }
    }

    fn remove(&mut self, index: usize, abort: bool) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let Some(entry) = slot.entry.take() else {
            return;
        };
        // Listeners have the last generation.
        slot.generation = (slot.generation + 1) % LISTENER;
        self.live -= 1;
        self.free.push(index as u32);
        if abort {
            self.totals.aborted += 1;
            self.sockets.abort(entry.socket);
        } else {
            self.sockets.close(entry.socket);
        }
        if self.paused_until == Some(u64::MAX - 1) {
            self.paused_until = Some(self.now.millis);
        }
    }

    fn sweep(&mut self) {
        self.next_sweep = u64::MAX;
        for index in 0..self.slots.len() {
            let Some(entry) = self
                .slots
                .get_mut(index)
                .and_then(|slot| slot.entry.as_mut())
            else {
                continue;
            };
            if entry.deadline > self.now.millis {
                self.next_sweep = self.next_sweep.min(entry.deadline);
                continue;
            }
            self.totals.expired += 1;
            let step = if entry.lingering {
                Step::Close
            } else {
                self.protocol
                    .expired(self.sockets, entry.socket, &mut entry.conn, self.now)
            };
            self.finish(index, step);
        }
        // At most twenty sweeps a second, however the deadlines lie.
        self.next_sweep = self.next_sweep.max(self.now.millis + 50);
        if self.live == 0 {
            self.next_sweep = u64::MAX;
        }
    }

    fn pause(&mut self, until: u64) {
        if self.paused_until.replace(until).is_none() {
            self.listen_for(Ready::empty());
        }
    }

    fn resume(&mut self) {
        self.paused_until = None;
        self.listen_for(Ready::IN);
    }

    fn listen_for(&mut self, interest: Ready) {
        for (index, listener) in self.listeners.iter().enumerate() {
            // It was added: changing it cannot fail in a way that a server could mend.
            let _ = self
                .sockets
                .modify(*listener, interest, listener_data(index));
        }
    }

    fn close_listeners(&mut self) {
        self.paused_until = None;
        for listener in self.listeners.drain(..) {
            self.sockets.close(listener);
        }
    }

    fn stop_idle(&mut self) {
        for index in 0..self.slots.len() {
            let Some(entry) = self
                .slots
                .get_mut(index)
                .and_then(|slot| slot.entry.as_mut())
            else {
                continue;
            };
            if entry.lingering || self.protocol.stop(&mut entry.conn) {
                self.finish(index, Step::Close);
            }
        }
    }
}

fn data(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

fn listener_data(index: usize) -> u64 {
    data(index as u32, LISTENER)
}

fn unix_now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64)
}

/// Reads and discards until the peer has closed too.
fn linger<S: Sockets, C>(sockets: &mut S, entry: &Entry<C>, sink: &mut [u8]) -> Step {
    match sockets.read(entry.socket, sink) {
        Ok(0) | Err(_) => Step::Close,
        Ok(_) => Step::Wait {
            interest: entry.interest,
            deadline: entry.deadline,
        },
    }
}
