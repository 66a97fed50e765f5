//! The two ends of one ring of frames in shared memory.
//!
//! A frame stays in the slot it was written to: there is no free list. An entry of the ring (see
//! [`ring::cursor`]) is the length of the frame in the slot of the same index, and whether it has a
//! checksum that wants to be verified; one that is longer than its slot goes on in those behind it,
//! but not beyond the end of the ring. Beside the indices are two flags by which an end says that
//! it sleeps.
//!
//! The other process may write anything anywhere at any time. What it writes is checked (indices by
//! the cursor, lengths here) and at worst gives wrong bytes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ring::cursor::{Consumer, Producer, RawRing};
use ring::prefetch::{prefetch_read, prefetch_write};
use ring::region::Shared;
use wire::frame::{BURST, LONGEST, RxChecksum, RxFrame, RxMeta, TxChecksum, TxMeta};

use super::config::{CONSUMER_SLEEPS, HEAD, Layout, PRODUCER_SLEEPS, SLOT_LEAD, ShmConfig, TAIL};
use crate::context;

/// Bytes of a frame that are asked for before they are needed: headers, and a short message.
const START: usize = 192;
/// In an entry: the sender has written the checksum of the frame, which may have been anywhere
/// since.
const COMPLETE: u32 = 1 << 31;
/// Of what is handed on: who received it first has looked at its checksum, or trusts the link that
/// it came by.
pub(super) const AS_IT_CAME: TxChecksum = TxChecksum::Partial {
    start: 0,
    offset: 0,
};
/// How many frames before it is written a frame is asked for, and its entry: those in a cache line.
/// Processors that share no cache take 150 ns and more to hand a line over; whoever writes to one
/// that has not come soon waits with all that it writes.
const AHEAD: u32 = 16;
/// Bytes of slots that take so long to copy that the peer had better begin with them than wait for
/// more.
const LONG: usize = 24 << 10;
/// A burst ends with the frame that reaches this part of the slots: the producer fills them again
/// while the next ones are read, and what long frames brought is still in the cache when the
/// application takes it.
const BURST_SHARE: u32 = 4;
/// Frames of a small burst. To lay out the room for a full one takes as long as to read a frame.
const FEW: usize = 4;

/// The other side broke the rules of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Corrupt {
    /// More frames than slots.
    Index,
    /// A frame of no bytes, or longer than its slot.
    Length(u32),
}

/// A word of the control block by which one end tells the other that it sleeps.
#[derive(Debug)]
struct Flag(*const AtomicU32);

impl Flag {
    fn word(&self) -> &AtomicU32 {
        // SAFETY: points into the mapping that the ring end holding this flag keeps alive; aligned,
        // see `Place::flag`; only ever accessed as an atomic.
        unsafe { &*self.0 }
    }

    fn set(&self, asleep: bool) {
        self.word().store(u32::from(asleep), Ordering::Relaxed);
    }

    /// Whether the other end sleeps and must be woken. Whoever gets true wakes it, so the flag can
    /// go.
    fn take(&self) -> bool {
        let asleep = self.word().load(Ordering::Relaxed) != 0;
        if asleep {
            self.set(false);
        }
        asleep
    }
}

/// Which ring of a mapping.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) memory: &'a Arc<Shared>,
    pub(super) config: &'a ShmConfig,
    pub(super) queue: u16,
    pub(super) direction: usize,
}

impl Place<'_> {
    /// A pointer to `offset`, after which `len` bytes are inside the mapping.
    fn pointer(&self, offset: usize, len: usize) -> io::Result<*mut u8> {
        let end = offset.checked_add(len);
        if self.queue >= self.config.queues
            || self.direction > 1
            || end.is_none_or(|end| end > self.memory.len())
        {
            return Err(context::corrupt("shm link: a ring beyond its memory"));
        }
        Ok(self.memory.as_ptr().wrapping_add(offset))
    }

    /// A word of the control block. Offsets are multiples of 4 and mappings begin at a page, so it
    /// is aligned.
    fn word(&self, offset: usize) -> io::Result<*const AtomicU32> {
        let control = Layout::new(self.config).control(self.queue, self.direction);
        let pointer = self.pointer(control + offset, size_of::<AtomicU32>())?;
        Ok(pointer.cast_const().cast())
    }

    fn flag(&self, offset: usize) -> io::Result<Flag> {
        self.word(offset).map(Flag)
    }

    fn raw_ring(&self) -> io::Result<RawRing<u32>> {
        let slots = self.config.slots;
        let at = Layout::new(self.config).lengths(self.queue, self.direction);
        let lengths = self.pointer(at, slots as usize * size_of::<u32>())?;
        Ok(RawRing {
            producer: self.word(TAIL)?,
            consumer: self.word(HEAD)?,
            entries: lengths.cast(),
            size: slots,
        })
    }

    fn slots(&self) -> io::Result<Slots> {
        let at = Layout::new(self.config).slots(self.queue, self.direction);
        let bytes = self.config.slot_bytes as usize;
        Ok(Slots {
            first: self.pointer(at, bytes * self.config.slots as usize)?,
            bytes,
            mask: self.config.slots - 1,
        })
    }
}

/// The memory of the frames.
#[derive(Clone, Copy, Debug)]
struct Slots {
    first: *mut u8,
    /// Bytes per slot.
    bytes: usize,
    mask: u32,
}

impl Slots {
    /// Room for a frame in so many slots, in bytes.
    const fn room(&self, slots: u32) -> usize {
        self.bytes * slots as usize - SLOT_LEAD
    }

    /// Slots that a frame of so many bytes takes.
    const fn taken_by(&self, len: usize) -> u32 {
        // Nearly always; and dividing takes longer than all the rest.
        if len <= self.room(1) {
            return 1;
        }
        (len + SLOT_LEAD).div_ceil(self.bytes) as u32
    }

    /// How many there are.
    const fn count(&self) -> u32 {
        self.mask + 1
    }

    /// Slots from frame `index` on that lie one behind the other: up to the end of the ring.
    const fn run(&self, index: u32) -> u32 {
        self.count() - (index & self.mask)
    }

    /// The first byte of frame `index`, which is free-running. [`Self::room`] bytes follow for as
    /// many slots as [`Self::run`] says.
    fn frame(&self, index: u32) -> *mut u8 {
        let slot = (index & self.mask) as usize;
        self.first.wrapping_add(slot * self.bytes + SLOT_LEAD)
    }
}

/// The end that sends.
#[derive(Debug)]
pub(super) struct TxRing {
    producer: Producer<u32>,
    slots: Slots,
    /// Index of the first frame that is not published: what the cursor counts, too.
    next: u32,
    /// Frames filled in and not published.
    pending: u32,
    consumer_sleeps: Flag,
    producer_sleeps: Flag,
    /// Keeps all pointers valid.
    _memory: Arc<Shared>,
}

// SAFETY: the pointers stay valid wherever the value goes, since it holds the mapping; all shared
// words are atomics; slots are accessed only between the cursor's acquire and release.
unsafe impl Send for TxRing {}

impl TxRing {
    /// Goes on where the one before ended.
    ///
    /// # Safety
    /// There is no other `TxRing` of this place in this process.
    ///
    /// # Errors
    /// The memory is too small for it.
    pub(super) unsafe fn new(place: Place<'_>) -> io::Result<Self> {
        // SAFETY: `raw_ring` checked that indices and entries are in the mapping, which `_memory`
        // keeps; the caller vouches that this is the only producer here.
        let producer = unsafe { Producer::from_raw(place.raw_ring()?) };
        let producer = producer.ok_or_else(|| context::corrupt("shm link: bad ring size"))?;
        let next = producer.index();
        Ok(Self {
            producer,
            slots: place.slots()?,
            next,
            pending: 0,
            consumer_sleeps: place.flag(CONSUMER_SLEEPS)?,
            producer_sleeps: place.flag(PRODUCER_SLEEPS)?,
            _memory: Arc::clone(place.memory),
        })
    }

    /// Lends the next free slot; false when there is none.
    #[inline]
    pub(super) fn push(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        // SAFETY: every run has at least one slot.
        unsafe { self.push_slots(1, fill) }
    }

    /// Lends slots for a frame of up to `len` bytes, or as many as are free, at least one.
    pub(super) fn push_gso(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let first = self.next.wrapping_add(self.pending);
        let wanted = self.slots.taken_by(len.min(LONGEST));
        // SAFETY: not more than the run has.
        unsafe { self.push_slots(wanted.min(self.slots.run(first)), fill) }
    }

    /// # Safety
    /// `wanted` is at most what [`Slots::run`] says of the next slot.
    #[inline(always)]
    unsafe fn push_slots(&mut self, wanted: u32, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let first = self.next.wrapping_add(self.pending);
        let free = self.producer.free(self.pending + wanted);
        if free <= self.pending {
            return false;
        }
        let room = self.slots.room(wanted.min(free - self.pending));
        self.fetch_ahead(first);
        // SAFETY: in the mapping (`Slots`: not beyond `run`, as the caller vouches), and not lent
        // to anyone: the cursor says that the consumer has given these slots back, and we are the
        // only producer.
        let frame = unsafe { std::slice::from_raw_parts_mut(self.slots.frame(first), room) };
        let meta = fill(frame);
        // Lengths fit: a slot has at most 2^17 bytes, and a GSO frame not more. Entries of further
        // slots are never looked at.
        let entry = match meta.checksum {
            TxChecksum::Complete => meta.len as u32 | COMPLETE,
            TxChecksum::Partial { .. } => meta.len as u32,
        };
        if meta.len > 0 && meta.len <= room && self.producer.write(self.pending, entry) {
            self.pending += if wanted == 1 {
                1
            } else {
                self.slots.taken_by(meta.len)
            };
        }
        true
    }

    /// Asks for the start of a frame that will be written soon, and for its entry, if it is the
    /// first of its line. The lines are in the cache of the processor that read them.
    #[inline(always)]
    fn fetch_ahead(&self, first: u32) {
        if first.is_multiple_of(AHEAD) {
            self.producer.prefetch(self.pending + AHEAD);
        }
        let start = self.slots.frame(first.wrapping_add(AHEAD));
        for line in 0..START / 64 {
            prefetch_write(start.wrapping_add(line * 64));
        }
    }

    /// Shows the other side what was pushed. Returns whether there was anything.
    pub(super) fn publish(&mut self) -> bool {
        let n = std::mem::take(&mut self.pending);
        if n > 0 {
            self.producer.publish(n);
            self.next = self.next.wrapping_add(n);
        }
        n > 0
    }

    /// Whether so much waits to be published that the consumer had better begin with it.
    pub(super) const fn has_long(&self) -> bool {
        self.pending as usize * self.slots.bytes >= LONG
    }

    /// Whether frames have been published that the consumer has not given back.
    pub(super) fn is_waiting(&mut self) -> bool {
        self.producer.outstanding() > 0
    }

    /// Whether a slot is free.
    pub(super) fn has_room(&mut self) -> bool {
        self.producer.free(self.pending + 1) > self.pending
    }

    /// Arms or disarms the wake-up that the consumer sends when there is room.
    pub(super) fn set_armed(&self, armed: bool) {
        self.producer_sleeps.set(armed);
    }

    /// Takes the wake-up that the consumer armed for frames, if it did: it is to be notified.
    pub(super) fn take_armed(&self) -> bool {
        self.consumer_sleeps.take()
    }

    pub(super) fn check(&self) -> Result<(), Corrupt> {
        if self.producer.is_corrupt() {
            return Err(Corrupt::Index);
        }
        Ok(())
    }
}

/// Asks for the start of a frame. Its lines are in the cache of the processor that wrote them:
/// asked for together, those of a burst arrive together.
#[inline(always)]
fn fetch_start(frame: *const u8, len: usize) {
    prefetch_read(frame);
    for at in [64, 128] {
        if len <= at {
            return;
        }
        prefetch_read(frame.wrapping_add(at));
    }
}

/// The end that receives.
#[derive(Debug)]
pub(super) struct RxRing {
    consumer: Consumer<u32>,
    slots: Slots,
    /// Index of the next frame: what the cursor counts, too.
    next: u32,
    consumer_sleeps: Flag,
    producer_sleeps: Flag,
    _memory: Arc<Shared>,
}

// SAFETY: as for `TxRing`.
unsafe impl Send for RxRing {}

impl RxRing {
    /// Goes on where the one before ended.
    ///
    /// # Safety
    /// There is no other `RxRing` of this place in this process.
    ///
    /// # Errors
    /// The memory is too small for it.
    pub(super) unsafe fn new(place: Place<'_>) -> io::Result<Self> {
        // SAFETY: as in `TxRing::new`, for the consumer.
        let consumer = unsafe { Consumer::from_raw(place.raw_ring()?) };
        let consumer = consumer.ok_or_else(|| context::corrupt("shm link: bad ring size"))?;
        let next = consumer.index();
        Ok(Self {
            consumer,
            slots: place.slots()?,
            next,
            consumer_sleeps: place.flag(CONSUMER_SLEEPS)?,
            producer_sleeps: place.flag(PRODUCER_SLEEPS)?,
            _memory: Arc::clone(place.memory),
        })
    }

    /// Lends up to [`BURST`] frames and gives their slots back. Frames before a bad one are still
    /// lent; the bad one is the error of this call if it is the first, else of the next.
    pub(super) fn lend(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> Result<usize, Corrupt> {
        let available = self.consumer.available(BURST as u32);
        self.check()?;
        match available as usize {
            0 => Ok(0),
            1..=FEW => self.lend_up_to::<FEW>(available, each),
            _ => self.lend_up_to::<BURST>(available, each),
        }
    }

    fn lend_up_to<const MOST: usize>(
        &mut self,
        available: u32,
        each: impl FnOnce(&[RxFrame<'_>]),
    ) -> Result<usize, Corrupt> {
        let empty = RxFrame {
            bytes: &[],
            meta: RxMeta {
                checksum: RxChecksum::Trusted,
                ..RxMeta::default()
            },
        };
        let mut frames = [empty; MOST];
        let (n, slots) = self.gather(available, &mut frames)?;
        each(frames.get(..n).unwrap_or_default());
        self.consumer.release(slots);
        self.next = self.next.wrapping_add(slots);
        Ok(n)
    }

    /// The frames of the next burst, at least one, and the slots that they take. Their bytes stay
    /// ours until they are released, which only `lend` does, after the last use.
    fn gather<'a>(
        &self,
        available: u32,
        frames: &mut [RxFrame<'a>],
    ) -> Result<(usize, u32), Corrupt> {
        let (mut n, mut slots) = (0, 0);
        let share = (self.slots.count() / BURST_SHARE).max(BURST as u32);
        let enough = available.min(share);
        for frame in frames.iter_mut() {
            let Some(entry) = self.consumer.read(slots).filter(|_| slots < enough) else {
                break;
            };
            let len = entry & !COMPLETE;
            let first = self.next.wrapping_add(slots);
            let taken = self.slots.taken_by(len as usize);
            // A frame is published whole, and does not go beyond the end of the ring.
            let whole = taken == 1 || taken <= self.slots.run(first) && taken <= available - slots;
            if len == 0 || !whole {
                if n == 0 {
                    return Err(Corrupt::Length(entry));
                }
                break;
            }
            let first = self.slots.frame(first);
            // SAFETY: in the mapping (`Slots`, and the length was just checked as the value used
            // here); the producer gave the slots to us and does not write there until we release
            // them.
            frame.bytes = unsafe { std::slice::from_raw_parts(first, len as usize) };
            fetch_start(first, len as usize);
            if entry != len {
                frame.meta.checksum = RxChecksum::Unverified;
            }
            n += 1;
            slots += taken;
        }
        Ok((n, slots))
    }

    /// Gives back what waits, unseen.
    pub(super) fn discard(&mut self) {
        let waiting = self.consumer.available(u32::MAX);
        self.consumer.release(waiting);
        self.next = self.next.wrapping_add(waiting);
    }

    /// Whether frames are waiting.
    pub(super) fn has_frames(&mut self) -> bool {
        self.consumer.available(1) > 0
    }

    /// The same, for who receives them next: asks for the first, which is on its way then.
    pub(super) fn expect_frames(&mut self) -> bool {
        let waiting = self.has_frames();
        if waiting {
            self.consumer.prefetch();
            fetch_start(self.slots.frame(self.next), START);
        }
        waiting
    }

    /// Arms or disarms the wake-up that the producer sends when there are frames.
    pub(super) fn set_armed(&self, armed: bool) {
        self.consumer_sleeps.set(armed);
    }

    /// Takes the wake-up that the producer armed for room, if it did: it is to be notified.
    pub(super) fn take_armed(&self) -> bool {
        self.producer_sleeps.take()
    }

    pub(super) fn check(&self) -> Result<(), Corrupt> {
        if self.consumer.is_corrupt() {
            return Err(Corrupt::Index);
        }
        Ok(())
    }
}
