//! A bad network in front of any port: loss, duplication, reordering, corruption, delay and jitter,
//! seeded, in either direction.
//!
//! What happens to a frame is decided by [`wire::impair`]; here frames are held until they are due.
//! Time is that of [`Port::begin`]. A direction without impairments is left alone altogether.

mod lane;
mod spec;
mod store;

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use wire::frame::{
    BURST, Capabilities, FrameSink, LINK_HEADERS, LONGEST, RxChecksum, RxFrame, RxMeta, TxMeta,
};
use wire::time::Instant;

pub use self::lane::Injected;
use self::lane::Lane;
pub use self::spec::FaultSpec;
use crate::port::leave_to_inner;
use crate::{Port, checksum};

/// Frames held back in each direction, at most; more are lost, as in a router with a queue of this
/// length.
const SLOTS: u32 = 8192;
/// Bursts taken from the inner port by one `receive`, at most, while none of their frames is due.
const BURSTS_PER_RECEIVE: usize = 8;

/// A port behind a bad network.
///
/// Damage must be noticed, so checksums are real here: the stack has to write its own (if frames it
/// sends are impaired), and frames that the inner port trusts without a checksum get one before
/// they are damaged, and arrive unverified.
#[derive(Debug)]
pub struct Fault<P> {
    inner: P,
    now: Instant,
    rx: Option<Lane>,
    tx: Option<Lane>,
    /// What the stack fills in before it is known what becomes of it.
    outgoing: Box<[u8]>,
}

impl<P: Port> Fault<P> {
    /// Impairs `inner`. Ports that share a spec (queues of one link) give a different `stream`
    /// each, so that they do not suffer in step; the same spec and stream on the same frames at the
    /// same times always do the same.
    pub fn new(inner: P, spec: &FaultSpec, stream: u64) -> Self {
        let frame_len = usize::from(inner.capabilities().mtu) + LINK_HEADERS;
        let seed = stream.wrapping_mul(2);
        Self {
            inner,
            now: Instant::ZERO,
            rx: Lane::new(spec.rx, seed, SLOTS, frame_len.max(LONGEST)),
            tx: Lane::new(spec.tx, seed | 1, SLOTS, frame_len),
            outgoing: vec![0; frame_len].into_boxed_slice(),
        }
    }

    /// The port behind.
    pub const fn inner(&self) -> &P {
        &self.inner
    }

    /// What was done so far to frames that we receive, and to frames that we send.
    pub fn injected(&self) -> (Injected, Injected) {
        let of = |lane: &Option<Lane>| lane.as_ref().map_or(Injected::default(), |l| l.injected);
        (of(&self.rx), of(&self.tx))
    }

    /// Hands what is due to the inner port, as far as it takes it.
    fn forward(&mut self) {
        let Some(lane) = &mut self.tx else {
            return;
        };
        while let Some(bytes) = lane.store.peek(self.now) {
            let taken = self.inner.send(|frame| match frame.get_mut(..bytes.len()) {
                Some(to) => {
                    to.copy_from_slice(bytes);
                    TxMeta {
                        len: bytes.len(),
                        ..TxMeta::default()
                    }
                }
                None => TxMeta::default(),
            });
            if !taken {
                return;
            }
            if let Some(slot) = lane.store.take(self.now) {
                lane.store.release(slot);
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        let of = |lane: &Option<Lane>| lane.as_ref().and_then(|lane| lane.store.next_due());
        [of(&self.rx), of(&self.tx)].into_iter().flatten().min()
    }
}

/// Takes frames in until one is due or the inner port has no more. Returns whether one is due.
#[inline(never)]
fn admit_received<P: Port>(inner: &mut P, lane: &mut Lane, now: Instant) -> bool {
    for _ in 0..BURSTS_PER_RECEIVE {
        let n = inner.receive(|frames| {
            for frame in frames {
                lane.admit(now, frame.bytes, |copy| {
                    if frame.meta.checksum == RxChecksum::Trusted {
                        checksum::complete(copy);
                    }
                });
            }
        });
        let due = lane.store.peek(now).is_some();
        if due || n == 0 {
            return due;
        }
    }
    false
}

/// Lends what is due, at most a burst.
#[inline(never)]
fn lend(lane: &mut Lane, now: Instant, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
    let mut slots = [0u32; BURST];
    let mut n = 0;
    for slot in &mut slots {
        let Some(next) = lane.store.take(now) else {
            break;
        };
        *slot = next;
        n += 1;
    }
    let slots = slots.get(..n).unwrap_or_default();
    let empty = RxFrame {
        bytes: &[],
        meta: RxMeta::default(),
    };
    let mut frames = [empty; BURST];
    for (frame, slot) in frames.iter_mut().zip(slots) {
        frame.bytes = lane.store.bytes(*slot);
    }
    each(frames.get(..n).unwrap_or_default());
    for slot in slots {
        lane.store.release(*slot);
    }
    n
}

impl<P: Port> FrameSink for Fault<P> {
    fn send_gso(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        if self.tx.is_none() {
            return self.inner.send_gso(len, fill);
        }
        self.send(fill)
    }

    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        if self.tx.is_none() {
            return self.inner.send(fill);
        }
        if self.tx.as_ref().is_some_and(|lane| lane.store.is_full()) {
            self.forward();
        }
        let Some(lane) = &mut self.tx else {
            return false;
        };
        // Full of frames that the inner port does not take: so do not we. Full of delayed frames:
        // the new one is lost.
        if lane.store.is_full() && lane.store.peek(self.now).is_some() {
            return false;
        }
        let meta = fill(&mut self.outgoing);
        if let Some(bytes) = self.outgoing.get(..meta.len)
            && !bytes.is_empty()
        {
            lane.admit(self.now, bytes, |copy| {
                checksum::finish(copy, meta.checksum)
            });
        }
        true
    }
}

impl<P: Port> Port for Fault<P> {
    leave_to_inner!();

    fn begin(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.inner.begin(now);
    }

    // Not inlined: what it lies on would else be taken by the receiving of every other kind of
    // port, too.
    #[inline(never)]
    fn receive(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
        let Some(lane) = &mut self.rx else {
            return self.inner.receive(each);
        };
        if admit_received(&mut self.inner, lane, self.now) {
            lend(lane, self.now, each)
        } else {
            0
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.forward();
        self.inner.flush()
    }

    fn wait(&mut self, timeout: Option<Duration>, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let until_due = self.due().map(|due| due.since(self.now));
        let timeout = match (timeout, until_due) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.inner.wait(timeout, wake)
    }

    fn next_deadline(&self) -> Option<Instant> {
        match (self.due(), self.inner.next_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn prepare_wait(&mut self, fds: &mut Vec<RawFd>) -> io::Result<Option<Duration>> {
        self.inner.prepare_wait(fds)
    }

    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.capabilities();
        Capabilities {
            tx_checksum: inner.tx_checksum && self.tx.is_none(),
            // What happens to frames that we send happens to one packet at a time.
            tx_gso: if self.tx.is_none() { inner.tx_gso } else { 0 },
            ..inner
        }
    }

    fn losses(&self) -> (u64, u64) {
        let (rx, tx) = self.inner.losses();
        let of = |lane: &Option<Lane>| lane.as_ref().map_or(0, Lane::losses);
        (rx + of(&self.rx), tx + of(&self.tx))
    }
}

#[cfg(test)]
mod tests;
