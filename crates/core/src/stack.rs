//! The stack as its drivers see it.

use std::io;

use wire::frame::{FrameSink, RxFrame};
use wire::time::Instant;

use crate::{AppStreams, Command, Config, Error, Event, PortId, Reply};

/// One TCP/IP stack: one core's share of the connections, driven by one thread, deterministic.
///
/// Feed it with [`receive`](Self::receive) (frames from a port), [`execute`](Self::execute) (calls of the application) and
/// [`advance`](Self::advance) (time), in any order; then drain it, in this order: [`transmit`](Self::transmit) for each port,
/// [`poll_event`](Self::poll_event) until `None`, [`next_deadline`](Self::next_deadline). `now` never decreases. Nothing here blocks,
/// reads a clock, takes a lock, allocates per packet or panics on input. What is due but not transmitted stays due: a driver that lets
/// the application react to events *before* it calls `transmit` gets ACKs that ride on data.
///
/// Bytes do not pass through here: they are in the streams ([`AppStreams`]) that [`Stack::new`] returns, and which another thread may own.
#[derive(Debug)]
pub struct Stack {}

impl Stack {
    /// A stack and the application's end of its byte streams.
    ///
    /// # Errors
    /// `config` contradicts itself (says what), or memory could not be reserved.
    pub fn new(config: Config) -> io::Result<(Self, AppStreams)> {}

    /// Takes a burst of frames (at most [`wire::frame::BURST`] are processed in one pass) that arrived on `port`.
    pub fn receive(&mut self, now: Instant, port: PortId, frames: &[RxFrame<'_>]) {}

    /// Carries out one call of the application.
    ///
    /// # Errors
    /// The call was refused; nothing changed.
    pub fn execute(&mut self, now: Instant, command: Command) -> Result<Reply, Error> {}

    /// Fires the timers that are due, a bounded number; [`next_deadline`](Self::next_deadline) says if more are.
    pub fn advance(&mut self, now: Instant) {}

    /// Writes what is due on `port` into frames of `sink`: control segments, then ACKs, then data, until nothing is due or the sink is full.
    pub fn transmit(&mut self, now: Instant, port: PortId, sink: &mut impl FrameSink) {}

    /// The next thing that the application should know.
    pub fn poll_event(&mut self) -> Option<Event> {}

    /// When [`advance`](Self::advance) wants to be called next; [`Instant::ZERO`]-like past values mean now; `None`: no timer runs.
    pub fn next_deadline(&self) -> Option<Instant> {}
}
