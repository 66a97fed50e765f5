//! What a producer keeps for all slots: its pool's accounts, outgrown blocks, and which slots have a buffer.

use std::io;

use crate::pool::{Block, Ledger, MIN_BLOCK};
use crate::region::{Column, PagePolicy};
use crate::sync::Ordering::Relaxed;

use super::Shared;
use super::lane::{Reader, Writer};
use super::memory::Memory;
use super::record::{ConsumerWords, ProducerWords, Record};

/// So many slots may keep a drained buffer until their turn comes: what is used again at once need not be given back before. With more of
/// them, drained ones must not pile up.
const AT_EASE: usize = 1024;

/// One direction of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Recv,
    Send,
}

impl Direction {
    #[inline(always)]
    pub(super) fn producer(self, record: &Record) -> &ProducerWords {
        match self {
            Self::Recv => &record.stack.recv,
            Self::Send => &record.app.send,
        }
    }

    #[inline(always)]
    pub(super) fn consumer(self, record: &Record) -> &ConsumerWords {
        match self {
            Self::Recv => &record.app.recv,
            Self::Send => &record.stack.send,
        }
    }

    #[inline(always)]
    pub(super) fn memory(self, shared: &Shared) -> &Memory {
        match self {
            Self::Recv => &shared.recv_memory,
            Self::Send => &shared.send_memory,
        }
    }

    /// The consumer's view of a slot.
    ///
    /// # Safety
    /// The caller is the consumer of this direction.
    #[inline(always)]
    pub(super) unsafe fn reader<'a>(self, shared: &'a Shared, record: &'a Record) -> Reader<'a> {
        // SAFETY: the caller's contract.
        unsafe {
            Reader::new(
                self.producer(record),
                self.consumer(record),
                self.memory(shared),
            )
        }
    }
}

/// A producer's side of one direction.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) direction: Direction,
    pub(super) ledger: Ledger,
    /// The next outgrown block of the same slot, by place of a block in units of the smallest one.
    links: Column<u32>,
    /// Slots with a buffer.
    attached: Column<u32>,
    /// Where the sweep goes on.
    hand: usize,
    /// Slots that got a buffer since the last sweep.
    fresh: usize,
}

impl Side {
    pub(super) fn recv(slots: u32, bytes: usize, max_buffer: u32) -> io::Result<Self> {
        Self::new(Direction::Recv, slots, bytes, max_buffer)
    }

    pub(super) fn send(slots: u32, bytes: usize, max_buffer: u32) -> io::Result<Self> {
        Self::new(Direction::Send, slots, bytes, max_buffer)
    }

    fn new(direction: Direction, slots: u32, bytes: usize, max_buffer: u32) -> io::Result<Self> {
        let ledger = Ledger::new(bytes, max_buffer)?;
        Ok(Self {
            direction,
            links: Column::new(ledger.bytes() / MIN_BLOCK, PagePolicy::Small)?,
            attached: Column::with_capacity(slots as usize, PagePolicy::Small)?,
            ledger,
            hand: 0,
            fresh: 0,
        })
    }

    /// The producer's view of a slot.
    ///
    /// # Safety
    /// The caller is the producer of this direction of `shared`, `record` is the slot's, and this is its side.
    #[inline(always)]
    pub(super) unsafe fn writer<'a>(
        &'a mut self,
        shared: &'a Shared,
        slot: u32,
        record: &'a Record,
    ) -> Writer<'a> {
        // SAFETY: the caller's contract.
        unsafe { Writer::new(self, shared, slot, record) }
    }

    /// Remembers that `slot` has a buffer now.
    pub(super) fn attach(&mut self, slot: u32, words: &ProducerWords) {
        // Never full: there is room for every slot, and none is in it twice.
        if self.attached.push(slot).is_ok() {
            words.attached.store(self.attached.len() as u32, Relaxed);
            self.fresh += 1;
        }
    }

    /// Remembers that the slot of `words` has none any more.
    pub(super) fn detach(&mut self, shared: &Shared, words: &ProducerWords) {
        let place = words.attached.load(Relaxed);
        words.attached.store(0, Relaxed);
        let Some(index) = place.checked_sub(1).map(|index| index as usize) else {
            return;
        };
        self.attached.swap_remove(index);
        let moved = self.attached.get(index).copied();
        if let Some(record) = moved.and_then(|slot| shared.records.record(slot)) {
            let words = self.direction.producer(record);
            words.attached.store(place, Relaxed);
        }
    }

    /// The slot the sweep looks at next; the ones with a buffer take turns.
    pub(super) fn next_attached(&mut self) -> Option<u32> {
        if self.hand == 0 {
            self.hand = self.attached.len();
        }
        // Downwards: when the slot looked at is removed, the one that takes its place has been looked at.
        self.hand = self.hand.min(self.attached.len()).checked_sub(1)?;
        self.attached.get(self.hand).copied()
    }

    pub(super) fn attached(&self) -> usize {
        self.attached.len()
    }

    /// More slots have a buffer than may keep it in vain.
    pub(super) fn is_crowded(&self) -> bool {
        self.attached.len() > AT_EASE
    }

    /// How many slots a sweep looks at that was asked to look at `budget`: when it is crowded, two more for each slot that got a buffer
    /// since the last sweep. Then there are never many more with a drained buffer than with one in use.
    pub(super) fn turns(&mut self, budget: usize) -> usize {
        let fresh = std::mem::take(&mut self.fresh);
        let more = if self.is_crowded() { 2 * fresh } else { 0 };
        (budget + more).min(self.attached.len())
    }

    /// A slot of which `used` bytes are not consumed has room in its buffer, or could have a larger one without being unfair.
    pub(super) fn has_room(&self, words: &ProducerWords, used: u32) -> bool {
        let current = Block::from_descriptor(words.buffer.load(Relaxed));
        let room = current
            .as_ref()
            .is_some_and(|block| block.capacity() > used);
        let floor = current.map(|block| block.class());
        let fair = floor.is_none_or(|class| class < self.ledger.fair_class());
        room || (fair && self.ledger.can_allocate(floor))
    }

    /// Puts an outgrown block in front of those before it; returns the new front.
    pub(super) fn retire(&mut self, block: &Block, before: u32) -> u32 {
        if let Some(link) = self.links.get_mut(block.offset() / MIN_BLOCK) {
            *link = before;
        }
        block.descriptor()
    }

    /// Frees a list of outgrown blocks.
    pub(super) fn free_retired(&mut self, front: u32) {
        let mut next = front;
        while let Some(block) = Block::from_descriptor(next) {
            next = self
                .links
                .get(block.offset() / MIN_BLOCK)
                .copied()
                .unwrap_or(0);
            self.ledger.free(block);
        }
    }
}
