//! What is kept per slot: a cache line, each word of it written by one end only (but for what is
//! said below).

use std::io;

#[cfg(not(loom))]
use crate::region::Region;
use crate::region::{PagePolicy, Plot};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU8, AtomicU32};

use super::status::Status;

/// A direction as its producer keeps it. (What only the producer looks at is with the buffer: see
/// [`Holding`](super::side::Holding).)
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct ProducerWords {
    /// Bytes up to here are the consumer's. Read by the consumer.
    pub(super) tail: AtomicU32,
    /// Descriptor of the block that holds the bytes from `head` on; 0: none. Read by the consumer,
    /// after `tail`.
    pub(super) buffer: AtomicU32,
    /// Bytes up to here were placed, though perhaps with holes after `tail`.
    pub(super) high: AtomicU32,
}

/// A direction as its consumer keeps it.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct ConsumerWords {
    /// Bytes up to here are the producer's again. Read by the producer.
    pub(super) head: AtomicU32,
}

/// Written by the stack, but for what says otherwise.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct StackWords {
    pub(super) recv: ProducerWords,
    pub(super) send: ConsumerWords,
    pub(super) recv_limit: AtomicU32,
    pub(super) send_limit: AtomicU32,
    /// Bytes of the send direction up to here left for the network at least once; counts while
    /// `unsent_low_water` is not `u32::MAX`.
    pub(super) sent: AtomicU32,
    /// The application may write while less than this is unsent, bytes.
    pub(super) unsent_low_water: AtomicU32,
    /// Bits of [`Status`](super::Status).
    pub(super) status: AtomicU32,
    /// How often the slot was granted. The application holds it while this and `released` differ,
    /// by one.
    pub(super) granted: AtomicU8,
    /// Not 0 from `reserve` to `close`; nobody else's business. In the memory of another process it
    /// is who takes what waits (`offer`), and written by both.
    pub(super) open: AtomicU8,
    /// Not 0: the receive direction has outgrown blocks.
    pub(super) recv_outgrown: AtomicU8,
    /// The same of the send direction: the application's, and here because there is room.
    pub(super) send_outgrown: AtomicU8,
}

/// Written by the application; by the stack, too, where it says so.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct AppWords {
    pub(super) send: ProducerWords,
    /// The stack's while the application does not hold the slot.
    pub(super) recv: ConsumerWords,
    /// Receive head at the last window update. The stack's while the application does not hold the
    /// slot.
    pub(super) recv_mark: AtomicU32,
    /// Not 0: at some read since then the stream was (nearly) full. The stack's while the
    /// application does not hold the slot.
    pub(super) was_full: AtomicU8,
    /// Not 0: the slot is in the application's list of those that got no memory.
    pub(super) starved: AtomicU8,
    /// What `granted` was when the application released the slot.
    pub(super) released: AtomicU8,
    /// The application's last write came up short: set by it, cleared by the stack.
    pub(super) wants_space: AtomicU8,
}

/// What `open` is where the application is in the stack's process ...
pub(super) const OPEN: u8 = 1;
/// ... and where it is in another.
pub(super) const OPEN_ELSEWHERE: u8 = 2;

/// One slot. All zero means: never used. Both ends are in one line: they run on one processor, and
/// a million of them idle.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Record {
    pub(super) stack: StackWords,
    pub(super) app: AppWords,
}

/// What the application wrote and the stack has not sent, where that is bounded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsent {
    /// Bytes sent and not consumed.
    sent: u32,
    /// Bytes not sent.
    unsent: u32,
    low_water: u32,
}

/// Written at one go although the low-water mark is lower: a few segments. By crumbs a connection
/// would be slow, and Linux stops no earlier.
const PIECE: u32 = 16 << 10;

impl Record {
    /// Either end may ask. Nothing is told of the bytes by it: the words may be read at any time.
    pub(super) fn unsent(&self) -> Option<Unsent> {
        let low_water = self.stack.unsent_low_water.load(Relaxed);
        if low_water == u32::MAX {
            return None;
        }
        let head = self.stack.send.head.load(Acquire);
        let written = self.app.send.tail.load(Acquire).wrapping_sub(head);
        let sent = self.stack.sent.load(Relaxed).wrapping_sub(head);
        // Consumed since it was last noted, if it seems to be more than there is.
        let sent = if sent > written { 0 } else { sent };
        Some(Unsent {
            sent,
            unsent: written - sent,
            low_water,
        })
    }
}

/// What the stack asks of a record.
impl Record {
    pub(super) fn words(&self) -> [&AtomicU32; 14] {
        let Self { stack, app } = self;
        [
            &stack.recv.tail,
            &stack.recv.buffer,
            &stack.recv.high,
            &stack.send.head,
            &stack.recv_limit,
            &stack.send_limit,
            &stack.sent,
            &stack.unsent_low_water,
            &stack.status,
            &app.send.tail,
            &app.send.buffer,
            &app.send.high,
            &app.recv.head,
            &app.recv_mark,
        ]
    }

    pub(super) fn bytes(&self) -> [&AtomicU8; 8] {
        let Self { stack, app } = self;
        [
            &stack.granted,
            &stack.open,
            &stack.recv_outgrown,
            &stack.send_outgrown,
            &app.was_full,
            &app.starved,
            &app.released,
            &app.wants_space,
        ]
    }

    /// As if it had never been used.
    pub(super) fn clear(&self) {
        // What is zero is not touched: it may have no memory yet.
        for word in self.words() {
            if word.load(Relaxed) != 0 {
                word.store(0, Relaxed);
            }
        }
        for byte in self.bytes() {
            if byte.load(Relaxed) != 0 {
                byte.store(0, Relaxed);
            }
        }
    }

    /// It is, from `reserve` to `close`.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.stack.open.load(Relaxed) != 0
    }

    /// It is, and its application is in this process.
    #[inline(always)]
    pub(super) fn is_open_here(&self) -> bool {
        self.stack.open.load(Relaxed) == OPEN
    }

    /// Bytes received that the application has not read.
    #[inline(always)]
    pub(super) fn recv_unread(&self) -> u32 {
        let head = self.app.recv.head.load(Acquire);
        self.stack.recv.tail.load(Relaxed).wrapping_sub(head)
    }

    /// The index of the first byte that the application has not read.
    pub(super) fn recv_head(&self) -> u32 {
        self.app.recv.head.load(Acquire)
    }

    /// Bytes that may still come in, and the limit.
    #[inline(always)]
    pub(super) fn recv_space(&self) -> (u32, u32) {
        let limit = self.stack.recv_limit.load(Relaxed);
        (limit.saturating_sub(self.recv_unread()), limit)
    }

    /// Bytes written by the application and not acknowledged.
    #[inline(always)]
    pub(super) fn send_len(&self) -> u32 {
        let tail = self.app.send.tail.load(Acquire);
        tail.wrapping_sub(self.stack.send.head.load(Relaxed))
    }

    /// The application's last write came up short.
    #[inline(always)]
    pub(super) fn app_is_short(&self) -> bool {
        self.app.wants_space.load(Relaxed) != 0
    }

    /// So much of the limit is free that it is worth a wake-up: else there is more to come.
    #[inline(always)]
    pub(super) fn has_space(&self) -> bool {
        let limit = self.stack.send_limit.load(Relaxed);
        let unsent = self.send_len();
        if unsent > 0 && unsent > limit - limit / 4 {
            return false; // the rest will be consumed, too
        }
        // The rest will be sent, too.
        !self.unsent().is_some_and(Unsent::is_much)
    }

    #[inline(always)]
    pub(super) fn status(&self) -> Status {
        Status::from_bits_retain(self.stack.status.load(Relaxed))
    }
}

impl ProducerWords {
    /// Bytes from the tail up to the last one placed.
    #[inline(always)]
    pub(super) fn placed(&self) -> u32 {
        let tail = self.tail.load(Relaxed);
        self.high.load(Relaxed).wrapping_sub(tail)
    }

    /// Makes the next `n` bytes readable, at most what was placed.
    #[inline(always)]
    pub(super) fn commit(&self, n: u32) {
        let n = n.min(self.placed());
        let tail = self.tail.load(Relaxed);
        // Release: the bytes, and the block they are in, are visible before the tail that covers
        // them.
        self.tail.store(tail.wrapping_add(n), Release);
    }
}

impl Unsent {
    /// Too much for a wake-up: half of the mark, so that one is worth it.
    pub(super) fn is_much(self) -> bool {
        self.unsent.saturating_mul(2) >= self.low_water
    }

    /// The limit of the send direction that keeps to the mark, bytes.
    pub(super) fn limit(self) -> u32 {
        if self.unsent >= self.low_water {
            0
        } else {
            self.sent.saturating_add(self.low_water.max(PIECE))
        }
    }
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Record>() == 14 * 4 + 8);

/// The application has been granted the slot and has not released it. Only the stack may ask, and
/// rely on `false`: after it, everything the application did to the slot has happened.
#[inline(always)]
pub(super) fn held(record: &Record) -> bool {
    record.app.released.load(Acquire) != record.stack.granted.load(Relaxed)
}

/// All slots' records. Lazily touched: one that was never used costs no memory.
#[cfg(not(loom))]
#[derive(Debug)]
pub(super) struct Records {
    region: Region,
    slots: u32,
}

#[cfg(not(loom))]
impl Records {
    pub(super) fn new(slots: u32, pages: PagePolicy, plot: Option<&mut Plot>) -> io::Result<Self> {
        let bytes = (slots as usize)
            .checked_mul(size_of::<Record>())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            region: Region::on(plot, bytes, pages)?,
            slots,
        })
    }

    /// Has the kernel put memory behind so many.
    pub(super) fn prefault(&mut self, slots: usize) {
        self.region
            .prefault(slots.saturating_mul(size_of::<Record>()));
    }

    pub(super) fn len(&self) -> u32 {
        self.slots
    }

    #[inline(always)]
    pub(super) fn record(&self, slot: u32) -> Option<&Record> {
        if slot >= self.slots {
            return None;
        }
        let records = self.region.as_ptr().cast::<Record>();
        // SAFETY: inside the region, aligned (to a page); zero is a value of atomics, and all
        // access is by shared reference.
        Some(unsafe { &*records.add(slot as usize) })
    }
}

#[cfg(loom)]
#[derive(Debug)]
pub(super) struct Records(Vec<Record>);

#[cfg(loom)]
impl Records {
    pub(super) fn new(slots: u32, _: PagePolicy, _: Option<&mut Plot>) -> io::Result<Self> {
        Ok(Self((0..slots).map(|_| Record::default()).collect()))
    }

    pub(super) fn prefault(&mut self, _: usize) {}

    pub(super) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    pub(super) fn record(&self, slot: u32) -> Option<&Record> {
        self.0.get(slot as usize)
    }
}
