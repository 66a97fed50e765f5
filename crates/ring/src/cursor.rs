//! One SPSC cursor over memory given by pointers: AF_XDP rings, shared-memory links, in-process
//! queues.
//!
//! Indices are free-running `u32`s; an entry's place is its index modulo the size. Each end keeps
//! its own index and a *watermark*, the index up to which it may go by what it last saw of the
//! other end. It looks at the other end's index (one acquire load, one cache miss) only when the
//! watermark is too low for what is wanted, and writes its own (one release store) once per burst.
//!
//! The other end may be hostile: an index that cannot be makes the ring
//! [corrupt](Producer::is_corrupt), for good, and every operation on it a refusal. No index ever
//! leads outside the entries.
//!
//! Each end has one owner: the ends are `Send`, not `Clone`, and every operation that moves an
//! index takes `&mut self`. After `fork` both processes would own both ends; only one of them may
//! go on using each.

use std::fmt;
use std::mem::MaybeUninit;

use crate::prefetch::{prefetch, prefetch_write};
use crate::sync::{AtomicU32, Cell, Ordering};

/// One place in a ring: memory the two ends hand to each other.
pub(crate) type Entry<T> = Cell<MaybeUninit<T>>;

/// Where a ring lies in memory.
///
/// The contract of the two `from_raw`, for as long as the end made from it (or anything moved out
/// of it) lives:
/// - `producer` and `consumer` point to two different aligned `u32`s, only ever accessed
///   atomically;
/// - `entries` points to `size` entries of `T`, aligned, readable and writable, initialised, and of
///   a type for which every bit pattern is a value (the other end may write anything);
/// - no other end of the same kind works on this ring, and nothing else touches an entry this end
///   owns, unless it is outside this process (where the worst it can do is to change values).
#[derive(Debug, Clone, Copy)]
pub struct RawRing<T> {
    /// The producer's index, free-running.
    pub producer: *const AtomicU32,
    /// The consumer's index, free-running.
    pub consumer: *const AtomicU32,
    /// The entries.
    pub entries: *mut T,
    /// Number of entries, a power of two.
    pub size: u32,
}

/// What both ends know of the ring.
struct Ring<T: Copy> {
    producer: *const AtomicU32,
    consumer: *const AtomicU32,
    entries: *const Entry<T>,
    size: u32,
}

impl<T: Copy> Ring<T> {
    #[cfg(not(loom))]
    fn from_raw(raw: RawRing<T>) -> Option<Self> {
        raw.size.is_power_of_two().then_some(Self {
            producer: raw.producer,
            consumer: raw.consumer,
            entries: raw.entries.cast_const().cast(),
            size: raw.size,
        })
    }

    #[inline(always)]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: valid, aligned and only accessed atomically for as long as this lives (contract
        // of the constructors).
        unsafe { &*self.producer }
    }

    #[inline(always)]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &*self.consumer }
    }

    #[inline(always)]
    fn entry(&self, index: u32) -> &Entry<T> {
        // SAFETY: masking keeps the offset below `size`, the number of entries there are (contract
        // of the constructors).
        unsafe { &*self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// The producing end of a ring.
pub struct Producer<T: Copy> {
    ring: Ring<T>,
    /// Our index as published.
    tail: u32,
    /// Entries from `tail` up to here were free when we last looked. Never more than `size` ahead
    /// of `tail`.
    watermark: u32,
    corrupt: bool,
}

// SAFETY: the pointers are used as their one owner's whichever thread that is on; entries are
// `Send` values.
unsafe impl<T: Copy + Send> Send for Producer<T> {}

impl<T: Copy> Producer<T> {
    /// The producing end of a ring in memory; `None` when `size` is not a power of two.
    ///
    /// # Safety
    /// The contract of [`RawRing`].
    #[cfg(not(loom))]
    pub unsafe fn from_raw(ring: RawRing<T>) -> Option<Self> {
        Ring::from_raw(ring).map(Self::over)
    }

    /// # Safety
    /// The contract of [`RawRing`], but for initialised entries: who uses this publishes only what
    /// it has written.
    pub(crate) unsafe fn from_entries(
        producer: *const AtomicU32,
        consumer: *const AtomicU32,
        entries: &[Entry<T>],
    ) -> Self {
        debug_assert!(entries.len().is_power_of_two());
        Self::over(Ring {
            producer,
            consumer,
            entries: entries.as_ptr(),
            size: entries.len() as u32,
        })
    }

    fn over(ring: Ring<T>) -> Self {
        let tail = ring.producer().load(Ordering::Relaxed);
        Self {
            ring,
            tail,
            watermark: tail,
            corrupt: false,
        }
    }

    /// Entries that may be written now. Looks at the consumer's index only when fewer than `want`
    /// are known to be free, so the answer may be less than what there is, but is less than `want`
    /// only when there are not that many. 0 on a corrupt ring.
    #[inline]
    pub fn free(&mut self, want: u32) -> u32 {
        let known = self.watermark.wrapping_sub(self.tail);
        if known >= want && !self.corrupt {
            return known;
        }
        self.refresh()
    }

    #[cold]
    #[inline(never)]
    fn refresh(&mut self) -> u32 {
        // Acquire: the consumer has read the entries it gives back before we overwrite them.
        let head = self.ring.consumer().load(Ordering::Acquire);
        let outstanding = self.tail.wrapping_sub(head);
        self.corrupt |= outstanding > self.ring.size;
        if self.corrupt {
            self.watermark = self.tail;
            return 0;
        }
        self.watermark = head.wrapping_add(self.ring.size);
        self.ring.size - outstanding
    }

    /// Writes the entry `offset` places after the published ones; not visible to the consumer
    /// before [`Self::publish`]. False, and nothing written, when `offset` is not below what
    /// [`Self::free`] last answered.
    #[inline]
    pub fn write(&mut self, offset: u32, value: T) -> bool {
        if offset >= self.watermark.wrapping_sub(self.tail) {
            return false;
        }
        self.ring
            .entry(self.tail.wrapping_add(offset))
            .with_mut(|entry| {
                // SAFETY: between `tail` and the watermark entries are ours. Volatile, for the
                // reader may be another process.
                unsafe { entry.write_volatile(MaybeUninit::new(value)) }
            });
        true
    }

    /// Asks for the entry `offset` places after the published ones, which will be written soon.
    #[inline]
    pub fn prefetch(&self, offset: u32) {
        let entry: *const Entry<T> = self.ring.entry(self.tail.wrapping_add(offset));
        prefetch_write(entry.cast());
    }

    /// Makes the next `n` entries visible to the consumer, at most as many as are known to be free.
    #[inline]
    pub fn publish(&mut self, n: u32) {
        let n = n.min(self.watermark.wrapping_sub(self.tail));
        if n > 0 {
            self.tail = self.tail.wrapping_add(n);
            self.ring.producer().store(self.tail, Ordering::Release);
        }
    }

    /// Writes and publishes one entry.
    ///
    /// # Errors
    /// The ring is full (or corrupt): the value comes back.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        if self.free(1) == 0 {
            return Err(value);
        }
        self.write(0, value);
        self.publish(1);
        Ok(())
    }

    /// Entries published and not yet given back by the consumer. 0 on a corrupt ring.
    pub fn outstanding(&mut self) -> u32 {
        let free = self.free(u32::MAX);
        if self.corrupt {
            0
        } else {
            self.ring.size - free
        }
    }

    /// Number of entries.
    pub fn size(&self) -> u32 {
        self.ring.size
    }

    /// Index of the next entry to be published, free-running.
    pub fn index(&self) -> u32 {
        self.tail
    }

    /// The consumer's index was seen at a place where it cannot be.
    pub fn is_corrupt(&self) -> bool {
        self.corrupt
    }
}

impl<T: Copy> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("size", &self.ring.size)
            .field("tail", &self.tail)
            .field("watermark", &self.watermark)
            .field("corrupt", &self.corrupt)
            .finish_non_exhaustive()
    }
}

/// The consuming end of a ring.
pub struct Consumer<T: Copy> {
    ring: Ring<T>,
    /// Our index as published.
    head: u32,
    /// Entries from `head` up to here were published when we last looked. Never more than `size`
    /// ahead of `head`.
    watermark: u32,
    corrupt: bool,
}

// SAFETY: as for `Producer`.
unsafe impl<T: Copy + Send> Send for Consumer<T> {}

impl<T: Copy> Consumer<T> {
    /// The consuming end of a ring in memory; `None` when `size` is not a power of two.
    ///
    /// # Safety
    /// The contract of [`RawRing`].
    #[cfg(not(loom))]
    pub unsafe fn from_raw(ring: RawRing<T>) -> Option<Self> {
        Ring::from_raw(ring).map(Self::over)
    }

    /// # Safety
    /// The contract of [`RawRing`], but for initialised entries: the producer publishes only what
    /// it has written.
    pub(crate) unsafe fn from_entries(
        producer: *const AtomicU32,
        consumer: *const AtomicU32,
        entries: &[Entry<T>],
    ) -> Self {
        debug_assert!(entries.len().is_power_of_two());
        Self::over(Ring {
            producer,
            consumer,
            entries: entries.as_ptr(),
            size: entries.len() as u32,
        })
    }

    fn over(ring: Ring<T>) -> Self {
        let head = ring.consumer().load(Ordering::Relaxed);
        Self {
            ring,
            head,
            watermark: head,
            corrupt: false,
        }
    }

    /// Entries that may be read now. Looks at the producer's index only when fewer than `want` are
    /// known to be there, so the answer may be less than what there is, but is less than `want`
    /// only when there are not that many. 0 on a corrupt ring.
    #[inline]
    pub fn available(&mut self, want: u32) -> u32 {
        let known = self.watermark.wrapping_sub(self.head);
        if known >= want && !self.corrupt {
            return known;
        }
        self.refresh()
    }

    fn refresh(&mut self) -> u32 {
        // Acquire: what the producer wrote into the entries it published is visible before we read
        // them.
        let tail = self.ring.producer().load(Ordering::Acquire);
        let available = tail.wrapping_sub(self.head);
        self.corrupt |= available > self.ring.size;
        if self.corrupt {
            self.watermark = self.head;
            return 0;
        }
        self.watermark = tail;
        available
    }

    /// A copy of the entry `offset` places after the released ones; `None` when `offset` is not
    /// below what [`Self::available`] last answered. On memory shared with a peer a second read may
    /// give another value: copy once, then check.
    #[inline]
    pub fn read(&self, offset: u32) -> Option<T> {
        if offset >= self.watermark.wrapping_sub(self.head) {
            return None;
        }
        let entry = self.ring.entry(self.head.wrapping_add(offset));
        // SAFETY: between `head` and the watermark entries are ours, and initialised (contract of
        // the constructors). Volatile, so that the compiler reads no entry twice.
        Some(entry.with(|entry| unsafe { entry.read_volatile().assume_init() }))
    }

    /// Asks for the entry that will be read next.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.ring.entry(self.head));
    }

    /// Gives the next `n` entries back to the producer, at most as many as are known to be there.
    #[inline]
    pub fn release(&mut self, n: u32) {
        let n = n.min(self.watermark.wrapping_sub(self.head));
        if n > 0 {
            self.head = self.head.wrapping_add(n);
            self.ring.consumer().store(self.head, Ordering::Release);
        }
    }

    /// Reads and releases one entry.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.available(1) == 0 {
            return None;
        }
        let value = self.read(0);
        self.release(1);
        value
    }

    /// Number of entries.
    pub fn size(&self) -> u32 {
        self.ring.size
    }

    /// Index of the next entry to be read, free-running.
    pub fn index(&self) -> u32 {
        self.head
    }

    /// The producer's index was seen at a place where it cannot be.
    pub fn is_corrupt(&self) -> bool {
        self.corrupt
    }
}

impl<T: Copy> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("size", &self.ring.size)
            .field("head", &self.head)
            .field("watermark", &self.watermark)
            .field("corrupt", &self.corrupt)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
