//! How stacks with the same addresses hand each other frames: each has a queue of one interface, in
//! one process or in several that were forked, and not every frame comes to the queue of the stack
//! that knows it.
//!
//! Memory that all of them map has a ring for each ordered pair of seats. A stack sits down at one
//! ([`Exchange::sit`]) and gets a [`Desk`]: frames go in with the words of [`wire::handed`] behind
//! them, which say who has seen them; the desk gives each to a stack that has not, or back, if
//! there is none. Whose process has ended leaves the seat to the next, with what was under way.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use ring::region::Shared;
use wire::frame::{FrameSink, LINK_HEADERS, RxFrame, TxMeta};
use wire::handed::Handed;

use super::config::{Layout, PAGE, SLOT_LEAD, ShmConfig};
use super::doorbells::{eventfds, signal};
use super::returned::Returned;
use super::ring::{AS_IT_CAME, Place, RxRing, TxRing};
use super::seats::Seats;
use crate::{Port, checksum, context, poll};

/// Frames per ring: several bursts of a peer that sends fast.
const SLOTS: u32 = 512;

/// The memory, and what wakes each seat. Processes that are forked have it, too.
#[derive(Debug)]
pub struct Exchange {
    memory: Arc<Shared>,
    config: ShmConfig,
    seats: Seats,
    doorbells: Vec<OwnedFd>,
}

/// One seat's end of all its rings.
#[derive(Debug)]
pub struct Desk {
    exchange: Arc<Exchange>,
    seat: u8,
    /// By seat; none to itself.
    tx: Vec<Option<TxRing>>,
    rx: Vec<Option<RxRing>>,
    /// The seat to receive from next.
    next: usize,
    scratch: Box<[u8]>,
    returned: Returned,
    dropped: u64,
}

impl Exchange {
    /// For so many seats and frames of `mtu` bytes and their headers.
    ///
    /// # Errors
    /// More than 64 seats, or no memory or descriptors.
    pub fn new(seats: u8, mtu: u16) -> io::Result<Arc<Self>> {
        Self::with(seats, seats, mtu)
    }

    /// For so many processes, each with one queue: there are twice as many seats, as long as they
    /// can be told apart, so that a stack that leaves its queue to another can stay.
    ///
    /// # Errors
    /// As [`Exchange::new`].
    pub fn for_processes(processes: u8, mtu: u16) -> io::Result<Arc<Self>> {
        let double = processes.saturating_mul(2);
        let seats = if double <= Handed::MAX_STACKS {
            double
        } else {
            processes
        };
        Self::with(seats, processes, mtu)
    }

    fn with(seats: u8, shares: u8, mtu: u16) -> io::Result<Arc<Self>> {
        if seats > Handed::MAX_STACKS {
            let most = Handed::MAX_STACKS;
            return Err(context::invalid(format_args!(
                "{seats} stacks are to share an address: at most {most} can"
            )));
        }
        let count = u16::from(seats);
        let bytes =
            (usize::from(mtu) + LINK_HEADERS + SLOT_LEAD + Handed::LEN).next_multiple_of(64);
        let config = ShmConfig {
            queues: count * count.saturating_sub(1) / 2,
            slots: SLOTS,
            slot_bytes: bytes as u32,
            mtu,
        };
        let at = Layout::new(&config).len;
        let memory = Arc::new(Shared::create("mtcp-exchange", at + PAGE)?);
        Ok(Arc::new(Self {
            seats: Seats::new(Arc::clone(&memory), at, seats, shares),
            memory,
            config,
            doorbells: eventfds(count)?,
        }))
    }

    /// How many seats there are.
    pub fn seats(&self) -> u8 {
        self.seats.count()
    }

    /// The seat for who has this share of the queues; `None`: all that there are for it are taken.
    pub fn free_seat(&self, share: u8) -> Option<u8> {
        self.seats.free_for(share)
    }

    /// Whether a process that lives has the queue of this seat.
    pub fn is_served(&self, seat: u8) -> bool {
        self.seats.is_served(seat)
    }

    /// Whether a process asks for a queue.
    pub fn is_wanted(&self) -> bool {
        self.seats.is_wanted()
    }

    /// Asks stacks that could go on without their queue for one. To be repeated until there is one.
    pub fn ask_for_queue(&self) {
        self.seats.ask();
        self.doorbells.iter().for_each(signal);
    }

    /// Wakes whoever sits at it: what it sleeps on may be others now.
    pub fn wake_all(&self) {
        self.doorbells.iter().for_each(signal);
    }

    /// There is one, or it is to be asked for anew.
    pub fn stop_asking(&self) {
        self.seats.stop_asking();
    }

    /// Takes a seat, whoever had it before: it is for who has the queue.
    ///
    /// # Errors
    /// There is no such seat.
    pub fn sit(self: &Arc<Self>, seat: u8) -> io::Result<Desk> {
        if seat >= self.seats() {
            return Err(context::invalid(format_args!("no seat {seat}")));
        }
        let other = |other: u8| (other != seat).then_some(other);
        let tx = |to| other(to).map(|to| self.outgoing(seat, to)).transpose();
        let rx = |from| {
            other(from)
                .map(|from| self.incoming(from, seat))
                .transpose()
        };
        let mut desk = Desk {
            tx: (0..self.seats()).map(tx).collect::<io::Result<_>>()?,
            rx: (0..self.seats()).map(rx).collect::<io::Result<_>>()?,
            seat,
            next: 0,
            scratch: vec![0; self.config.slot_bytes as usize].into(),
            returned: Returned::new(self.config.slot_bytes as usize),
            dropped: 0,
            exchange: Arc::clone(self),
        };
        // What is left of the one before is old.
        desk.rx.iter_mut().flatten().for_each(RxRing::discard);
        self.seats.take(seat);
        Ok(desk)
    }

    fn outgoing(&self, seat: u8, to: u8) -> io::Result<TxRing> {
        // SAFETY: the queue that a seat belongs to has one owner at a time, and so have its ends of
        // the rings.
        unsafe { TxRing::new(self.place(seat, to)) }
    }

    fn incoming(&self, from: u8, seat: u8) -> io::Result<RxRing> {
        // SAFETY: as above.
        unsafe { RxRing::new(self.place(from, seat)) }
    }

    /// The ring in which the one seat gives to the other.
    fn place(&self, from: u8, to: u8) -> Place<'_> {
        let (low, high) = (u16::from(from.min(to)), u16::from(from.max(to)));
        Place {
            memory: &self.memory,
            config: &self.config,
            queue: high * high.saturating_sub(1) / 2 + low,
            direction: usize::from(from > to),
        }
    }
}

impl Desk {
    /// Which seat it is.
    pub fn seat(&self) -> u8 {
        self.seat
    }

    /// How many there are.
    pub fn seats(&self) -> u8 {
        self.exchange.seats()
    }

    /// Whether a process asks for a queue, and this stack could leave it its own.
    pub fn is_asked(&self) -> bool {
        let seats = &self.exchange.seats;
        seats.has_queue(self.seat) && seats.is_asked(self.seat)
    }

    /// Leaves the queue to a process that asks. False: none does any more. From now on what is to
    /// be sent goes through [`Desk::relay`].
    pub fn grant(&mut self) -> bool {
        let granted = self.exchange.seats.grant();
        if granted {
            self.exchange.seats.set_guest(self.seat);
        }
        granted
    }

    /// Has others send what this stack has to, which has no queue.
    pub fn relay(&mut self) -> Relay<'_> {
        Relay(self)
    }

    /// Lends the next burst of one other seat, or of what nobody took.
    #[inline(never)] // What it lies on would else be taken by the receiving of every port, too.
    pub fn receive(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
        if self.returned.has_frames() {
            return self.returned.lend(each);
        }
        let count = self.rx.len();
        for step in 0..count {
            let at = (self.next + step) % count;
            let ring = self.rx.get_mut(at).and_then(Option::as_mut);
            if let Some(ring) = ring
                && ring.has_frames()
            {
                self.next = at + 1;
                // A ring in disorder gives nothing any more.
                return ring.lend(each).unwrap_or_default();
            }
        }
        0
    }

    /// Shows the others what was sent, and wakes who sleeps.
    pub fn flush(&mut self) {
        for (tx, doorbell) in self.tx.iter_mut().zip(&self.exchange.doorbells) {
            let Some(tx) = tx else {
                continue;
            };
            if tx.publish() {
                // Pairs with the fence in `prepare_wait`.
                fence(Ordering::SeqCst);
                if tx.take_armed() {
                    signal(doorbell);
                }
            }
        }
    }

    /// Says that we are about to sleep, and adds what wakes us. False: there is something to do.
    pub fn prepare_wait(&mut self, fds: &mut Vec<RawFd>) -> bool {
        for rx in self.rx.iter().flatten() {
            rx.set_armed(true);
        }
        // Pairs with the fence in `flush`: either the other sees that we sleep, or we see the
        // frame.
        fence(Ordering::SeqCst);
        let has_frames = self.rx.iter_mut().flatten().any(RxRing::has_frames);
        if has_frames || self.returned.has_frames() {
            self.end_wait();
            return false;
        }
        fds.extend(self.doorbell().map(AsRawFd::as_raw_fd));
        true
    }

    /// The sleep is over.
    pub fn end_wait(&mut self) {
        for rx in self.rx.iter().flatten() {
            rx.set_armed(false);
        }
        if let Some(doorbell) = self.doorbell() {
            // It is only a doorbell.
            let _ = rustix::io::read(doorbell, &mut [0u8; 8]);
        }
    }

    /// Sleeps as [`Port::wait`], on `port`, on `others` (descriptors of [`Port::prepare_wait`]) and
    /// for frames from other seats.
    ///
    /// # Errors
    /// As there.
    pub fn wait_beside(
        &mut self,
        port: &mut impl Port,
        others: &[RawFd],
        timeout: Option<Duration>,
        wake: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let mut links = others.to_vec();
        if !self.prepare_wait(&mut links) {
            return Ok(());
        }
        let most = port.prepare_wait(&mut links)?;
        let timeout = [timeout, most].into_iter().flatten().min();
        let slept = poll::on_all(&links, wake, timeout);
        self.end_wait();
        port.wait(Some(Duration::ZERO), None)?;
        slept
    }

    fn doorbell(&self) -> Option<&OwnedFd> {
        self.exchange.doorbells.get(usize::from(self.seat))
    }

    /// Frames that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn route(&mut self, bytes: &[u8]) {
        let Some((frame, words)) = Handed::split(bytes) else {
            return;
        };
        if words.for_all {
            for seat in 0..self.seats() {
                if seat != self.seat && self.can_take(seat) {
                    self.push(seat, bytes);
                }
            }
        } else if let Some(seat) = self.next_to_ask(&words) {
            self.push(seat, bytes);
        } else {
            let tried = u64::MAX;
            let back = |into: &mut [u8]| Handed { tried, ..words }.emit(frame, into);
            self.dropped += u64::from(!self.returned.push(back));
        }
    }

    /// Who is most likely to know it, of those that have not been asked; else the next of them.
    fn next_to_ask(&mut self, words: &Handed) -> Option<u8> {
        let (own, seats) = (self.seat, self.seats());
        let others = (1..seats).map(|step| (own + step) % seats);
        std::iter::once(words.likely)
            .chain(others)
            .find(|&seat| seat < seats && words.tried & 1 << seat == 0 && self.can_take(seat))
    }

    /// Whether somebody sits there. Who has not taken what he got may be gone.
    fn can_take(&mut self, seat: u8) -> bool {
        let tx = self.tx.get_mut(usize::from(seat)).and_then(Option::as_mut);
        tx.is_some_and(|tx| self.exchange.seats.is_taken(seat, tx.is_waiting()))
    }

    /// A stack that has a queue.
    fn carrier(&mut self) -> Option<u8> {
        (0..self.seats()).find(|&seat| self.exchange.seats.has_queue(seat) && self.can_take(seat))
    }

    fn push(&mut self, seat: u8, bytes: &[u8]) {
        let tx = self.tx.get_mut(usize::from(seat)).and_then(Option::as_mut);
        let fill = |into: &mut [u8]| {
            let len = bytes.len().min(into.len());
            into[..len].copy_from_slice(&bytes[..len]);
            TxMeta {
                len,
                checksum: AS_IT_CAME,
                ..TxMeta::default()
            }
        };
        if !tx.is_some_and(|tx| tx.push(fill)) {
            self.dropped += 1;
        }
    }
}

impl FrameSink for Desk {
    /// Takes all: what finds no room is dropped and counted, so that one that does not listen is in
    /// nobody's way.
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let mut scratch = std::mem::take(&mut self.scratch);
        let len = fill(&mut scratch).len;
        self.route(scratch.get(..len).unwrap_or_default());
        self.scratch = scratch;
        true
    }
}

/// Where a stack without a queue puts frames: see [`Desk::relay`].
#[derive(Debug)]
pub struct Relay<'a>(&'a mut Desk);

impl FrameSink for Relay<'_> {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let Some(seat) = self.0.carrier() else {
            return false;
        };
        let tx = self.0.tx.get_mut(usize::from(seat));
        tx.and_then(Option::as_mut).is_some_and(|tx| {
            tx.push(|into| TxMeta {
                len: fill_for_wire(into, fill),
                checksum: AS_IT_CAME,
                ..TxMeta::default()
            })
        })
    }
}

/// Has `fill` write a frame, with the words behind it that ask for it to be sent. Returns the
/// length of both.
fn fill_for_wire(into: &mut [u8], fill: impl FnOnce(&mut [u8]) -> TxMeta) -> usize {
    let room = into.len().saturating_sub(Handed::LEN);
    let words = Handed {
        relay: true,
        ..Handed::default()
    };
    let frame = into.get_mut(..room).unwrap_or_default();
    let meta = fill(frame);
    let len = meta.len;
    // What carries frames to the carrier says nothing of checksums.
    checksum::finish(frame.get_mut(..len).unwrap_or_default(), meta.checksum);
    match len {
        0 => 0,
        len => words.append(len, into),
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.exchange.seats.leave(self.seat);
    }
}

#[cfg(test)]
mod tests;
