//! The protocol of one direction of one slot; see the [module](super) for what it promises.
//!
//! Who may touch which byte, and why:
//! - The consumer reads bytes from its head up to a tail it has loaded, and loads `buffer` *after*
//!   that tail. The producer stores `buffer` *before* any tail beyond what the block before held.
//!   So the block the consumer finds holds every byte it may read.
//! - The producer writes bytes from its tail up to head + capacity of the newest block, by a head
//!   it has loaded: never one that the consumer may still read.
//! - An outgrown block is only read, by both ends, until the consumer's head has reached the tail
//!   at which it was outgrown (`switch`). Then no byte in it is between head and tail, so the
//!   consumer has no use for it, and holds no pieces of it: they lie after head, and moving head
//!   takes `&mut`. The same goes for any block when head equals tail.

use crate::pool::{Block, class_for};
use crate::sync::AtomicU8;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

use super::error::StreamError;
use super::memory::Memory;
use super::pieces::Pieces;
use super::record::{ConsumerWords, ProducerWords, Record};
use super::side::{Direction, Side};

/// What is known of the words of a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trust {
    /// They are in order: whoever asks wrote them, or has looked at each.
    Known,
    /// Another process may have written anything.
    Doubted,
}

impl Direction {
    /// As its application, or its stack, reads or writes it. The stack keeps its own words, and
    /// those of an application that it has looked at, where no other process writes.
    #[inline(always)]
    fn trust(self, of_application: Self) -> Trust {
        if self == of_application {
            Trust::Doubted
        } else {
            Trust::Known
        }
    }
}

/// A block used as a ring.
#[derive(Debug, Clone, Copy)]
struct Buffer {
    offset: usize,
    capacity: u32,
}

impl Buffer {
    /// The block that a word of the record names; none, if that is in doubt and there is none such.
    #[inline(always)]
    fn of(descriptor: u32, memory: &Memory, trust: Trust) -> Option<Self> {
        let limit = match trust {
            Trust::Known => u32::MAX,
            Trust::Doubted => memory.limit(),
        };
        // 0, which is none, is beyond any limit.
        if descriptor.wrapping_sub(1) >= limit {
            return None;
        }
        Block::from_descriptor(descriptor).map(|block| Self {
            offset: block.offset(),
            capacity: block.capacity(),
        })
    }

    /// Where the byte of index `index` lies, and how many follow it before the ring wraps.
    #[inline(always)]
    fn place(self, index: u32) -> (usize, u32) {
        let within = index & (self.capacity - 1);
        (self.offset + within as usize, self.capacity - within)
    }
}

/// Asks the processor for the line that the byte after the tail goes to.
#[inline(always)]
pub(super) fn prefetch_tail(producer: &ProducerWords, memory: &Memory) {
    if let Some(buffer) = Buffer::of(producer.buffer.load(Relaxed), memory, Trust::Doubted) {
        let (place, _) = buffer.place(producer.tail.load(Relaxed));
        memory.prefetch_write(place);
    }
}

/// The consumer's view.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    producer: &'a ProducerWords,
    consumer: &'a ConsumerWords,
    memory: &'a Memory,
    trust: Trust,
}

impl<'a> Reader<'a> {
    /// The consumer's view of a slot.
    ///
    /// # Safety
    /// The caller is the one consumer of this direction, whose memory this is, and moves the head
    /// only when no pieces are in use.
    #[inline(always)]
    pub(super) unsafe fn of(direction: Direction, memory: &'a Memory, record: &'a Record) -> Self {
        Self {
            producer: direction.producer(record),
            consumer: direction.consumer(record),
            memory,
            trust: direction.trust(Direction::Recv),
        }
    }

    /// Bytes to be consumed.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        let tail = self.producer.tail.load(Acquire);
        tail.wrapping_sub(self.consumer.head.load(Relaxed))
    }

    /// The index of the first byte to be consumed.
    pub(super) fn head(&self) -> u32 {
        self.consumer.head.load(Relaxed)
    }

    /// At most `len` bytes from `offset` on, of the `there` that there are: the block, the index of
    /// the first, and how many.
    #[inline(always)]
    fn range(&self, there: u32, offset: u32, len: usize) -> Option<(Buffer, u32, u32)> {
        let available = there.checked_sub(offset)?;
        let n = available.min(u32::try_from(len).unwrap_or(u32::MAX));
        if n == 0 {
            return None;
        }
        let descriptor = self.producer.buffer.load(Acquire);
        let buffer = Buffer::of(descriptor, self.memory, self.trust)?;
        let n = match self.trust {
            Trust::Known => n,
            Trust::Doubted => n.min(buffer.capacity),
        };
        let first = self.consumer.head.load(Relaxed).wrapping_add(offset);
        Some((buffer, first, n))
    }

    /// At most `len` bytes from `offset` on, in two pieces.
    #[inline]
    pub(super) fn pieces(&self, offset: u32, len: u32) -> Pieces<'a> {
        let Some((buffer, first, n)) = self.range(self.len(), offset, len as usize) else {
            return Pieces::EMPTY;
        };
        let (place, straight) = buffer.place(first);
        let one = n.min(straight);
        // SAFETY: bytes between head and tail, in the block that holds them (see above).
        unsafe {
            Pieces::at(
                self.memory.piece(place, one as usize),
                self.memory.piece(buffer.offset, (n - one) as usize),
            )
        }
    }

    /// Copies from `offset` on, of the first `there` bytes, which are there; returns how many.
    #[inline(always)]
    pub(super) fn copy(&self, there: u32, offset: u32, into: &mut [u8]) -> usize {
        let Some((buffer, first, n)) = self.range(there, offset, into.len()) else {
            return 0;
        };
        let (place, straight) = buffer.place(first);
        let one = n.min(straight) as usize;
        let n = n as usize;
        let (front, back) = into.split_at_mut(one.min(into.len()));
        // SAFETY: bytes between head and tail, in the block that holds them (see above).
        unsafe { self.memory.read(place, front) };
        if n > one {
            let back = back.split_at_mut(n - one).0;
            // SAFETY: as above.
            unsafe { self.memory.read(buffer.offset, back) };
        }
        n
    }

    /// Gives the next `n` bytes back to the producer, at most what there is; returns how many. No
    /// pieces may be in use.
    #[inline]
    pub(super) fn advance(&self, n: u32) -> u32 {
        let n = n.min(self.len());
        let head = self.consumer.head.load(Relaxed);
        // Release: what we read is read before the producer writes there.
        self.consumer.head.store(head.wrapping_add(n), Release);
        n
    }
}

/// The producer's view.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    side: &'a mut Side,
    slot: u32,
    producer: &'a ProducerWords,
    consumer: &'a ConsumerWords,
    outgrown: &'a AtomicU8,
    memory: &'a Memory,
    trust: Trust,
}

impl<'a> Writer<'a> {
    /// The producer's view of a slot.
    ///
    /// # Safety
    /// The caller is the producer of this direction, `record` is the slot's, and `side` and
    /// `memory` are those of the direction.
    #[inline(always)]
    pub(super) unsafe fn of(
        direction: Direction,
        side: &'a mut Side,
        memory: &'a Memory,
        slot: u32,
        record: &'a Record,
    ) -> Self {
        debug_assert_eq!(side.direction, direction);
        Self {
            side,
            slot,
            producer: direction.producer(record),
            consumer: direction.consumer(record),
            outgrown: direction.outgrown(record),
            memory,
            trust: direction.trust(Direction::Send),
        }
    }

    #[inline(always)]
    fn tail(&self) -> u32 {
        self.producer.tail.load(Relaxed)
    }

    /// Bytes not yet consumed. Never less than there are, for head only grows.
    #[inline(always)]
    pub(super) fn used(&self) -> u32 {
        // Acquire: the consumer has read what it gives back before we write there.
        let head = self.consumer.head.load(Acquire);
        self.tail().wrapping_sub(head)
    }

    fn buffer(&self) -> Option<Buffer> {
        let descriptor = self.producer.buffer.load(Relaxed);
        Buffer::of(descriptor, self.memory, self.trust)
    }

    fn capacity(&self) -> u32 {
        self.buffer().map_or(0, |buffer| buffer.capacity)
    }

    /// Places bytes `offset` after the tail, all or none, so that no more than `limit` bytes are
    /// held.
    #[inline]
    pub(super) fn place(
        &mut self,
        offset: u32,
        bytes: &[u8],
        limit: u32,
    ) -> Result<(), StreamError> {
        let used = self.used();
        let end = u64::from(used) + u64::from(offset) + bytes.len() as u64;
        if end > u64::from(limit) {
            return Err(StreamError::BeyondLimit);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.reclaim();
        let end = end as u32; // at most `limit`
        let buffer = match self.buffer() {
            Some(buffer) if buffer.capacity >= end => buffer,
            _ => self.grow_to(used, end)?,
        };
        self.put(buffer, offset, bytes);
        Ok(())
    }

    /// Appends and commits as many bytes as fit, so that no more than `limit` are held; returns how
    /// many.
    #[inline]
    pub(super) fn append(&mut self, bytes: &[u8], limit: u32) -> u32 {
        let used = self.used();
        let room = limit.saturating_sub(used);
        let n = room.min(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        if n == 0 {
            return 0;
        }
        self.reclaim();
        if self.capacity() < used + n {
            self.grow_towards(used, used + n);
        }
        let Some(buffer) = self.buffer() else {
            return 0;
        };
        let n = n.min(buffer.capacity.saturating_sub(used));
        let bytes = bytes.get(..n as usize).unwrap_or(bytes);
        self.put(buffer, 0, bytes);
        self.producer.commit(n);
        n
    }

    /// `offset + bytes.len()` is at most the buffer's capacity less what is used.
    #[inline]
    fn put(&mut self, buffer: Buffer, offset: u32, bytes: &[u8]) {
        let tail = self.tail();
        let (place, straight) = buffer.place(tail.wrapping_add(offset));
        let (one, two) = bytes.split_at(bytes.len().min(straight as usize));
        // SAFETY: bytes between tail and head + capacity of the newest block (see above).
        unsafe { self.memory.write(place, one) };
        if !two.is_empty() {
            // SAFETY: as above.
            unsafe { self.memory.write(buffer.offset, two) };
        }
        let end = offset + bytes.len() as u32;
        if end > self.placed() {
            self.producer.high.store(tail.wrapping_add(end), Relaxed);
        }
    }

    #[inline(always)]
    fn placed(&self) -> u32 {
        self.producer.placed()
    }

    #[cold]
    #[inline(never)]
    fn grow_to(&mut self, used: u32, capacity: u32) -> Result<Buffer, StreamError> {
        let class = class_for(capacity).ok_or(StreamError::BeyondLimit)?;
        let block = self.side.ledger.allocate(class);
        let block = block.ok_or(StreamError::NoMemory)?;
        Ok(self.replace(used, block))
    }

    /// As `grow_to`, but content with less when there is no more, or no more than is fair.
    #[cold]
    #[inline(never)]
    fn grow_towards(&mut self, used: u32, capacity: u32) {
        let current = Block::from_descriptor(self.producer.buffer.load(Relaxed));
        let floor = current.map(|block| block.class());
        let ledger = &mut self.side.ledger;
        let class = class_for(capacity).map(|class| class.min(ledger.fair_class(floor, used)));
        let block = class.and_then(|class| ledger.allocate_down_to(class, floor));
        if let Some(block) = block {
            self.replace(used, block);
        }
    }

    /// Makes the larger `block` the buffer, with everything the one before holds; that one is
    /// retired.
    fn replace(&mut self, used: u32, block: Block) -> Buffer {
        let new = Buffer {
            offset: block.offset(),
            capacity: block.capacity(),
        };
        match Block::from_descriptor(self.producer.buffer.load(Relaxed)) {
            None => {
                self.producer.buffer.store(block.descriptor(), Release);
                self.side.attach(self.slot);
            }
            Some(old) => self.outgrow(used, old, &block),
        }
        new
    }

    /// `block` takes the place of `old`.
    #[inline(never)]
    fn outgrow(&mut self, used: u32, old: Block, block: &Block) {
        let tail = self.tail();
        let [from, into] =
            [&old, block].map(|block| Buffer::of(block.descriptor(), self.memory, self.trust));
        if let (Some(from), Some(into)) = (from, into) {
            let len = used.saturating_add(self.placed()).min(from.capacity);
            self.copy(from, into, tail.wrapping_sub(used), len);
        }
        // Release: the copied bytes are visible to who finds the block.
        self.producer.buffer.store(block.descriptor(), Release);
        let switch = (used > 0).then_some(tail);
        if switch.is_some() {
            self.outgrown.store(1, Relaxed);
        }
        self.side.succeed(old, block, switch);
    }

    /// Copies `len` bytes from index `first` on from one ring to another.
    fn copy(&self, old: Buffer, new: Buffer, first: u32, len: u32) {
        let mut done = 0;
        while done < len {
            let (from, left) = old.place(first.wrapping_add(done));
            let (into, room) = new.place(first.wrapping_add(done));
            let n = (len - done).min(left).min(room);
            // SAFETY: two different blocks; no one writes the old one, for only we could, and no
            // one else knows the new one.
            unsafe { self.memory.copy(from, into, n as usize) };
            done += n;
        }
    }

    /// Frees outgrown blocks that the consumer is done with.
    #[inline(always)]
    pub(super) fn reclaim(&mut self) {
        if self.outgrown.load(Relaxed) != 0 {
            self.reclaim_outgrown();
        }
    }

    #[cold]
    fn reclaim_outgrown(&mut self) {
        let head = self.consumer.head.load(Acquire);
        // Whoever has outgrown blocks has a buffer.
        let block = Block::from_descriptor(self.producer.buffer.load(Relaxed));
        if block.is_none_or(|block| self.side.free_retired(&block, head)) {
            self.outgrown.store(0, Relaxed);
        }
    }

    /// Frees what can be freed: outgrown blocks, and the buffer if it is drained and need not keep
    /// bytes out of order. True when the direction owns no memory any more and did before.
    #[inline(always)]
    pub(super) fn trim(&mut self, keep_out_of_order: bool) -> bool {
        let drained = self.used() == 0 && !(keep_out_of_order && self.placed() > 0);
        // After that: when all was consumed, no outgrown block is left.
        self.reclaim();
        let Some(block) = Block::from_descriptor(self.producer.buffer.load(Relaxed)) else {
            return false;
        };
        if drained {
            self.producer.high.store(self.tail(), Relaxed);
            self.producer.buffer.store(0, Release);
            self.side.ledger.free(block);
        }
        drained
    }

    /// A write of one byte would find room.
    pub(super) fn can_grow(&self) -> bool {
        self.side.has_room(self.producer, self.used())
    }

    /// Joins free blocks of the pool, so that `can_grow` sees all there is.
    pub(super) fn join_kept(&mut self) {
        self.side.ledger.join_kept();
    }
}
