//! What a producer keeps for all slots: its pool's accounts, outgrown blocks, and which slots have
//! a buffer.

use std::io;

use crate::pool::{Block, CLASSES, Ledger, MIN_BLOCK};
use crate::prefetch::prefetch;
use crate::region::{Column, PagePolicy, Zeroable};
use crate::sync::AtomicU8;
use crate::sync::Ordering::Relaxed;

use super::record::{ConsumerWords, ProducerWords, Record, Records};
use super::thrift::Thrift;

/// So many slots may keep a drained buffer until their turn comes: what is used again at once need
/// not be given back before. With more of them, drained ones must not pile up.
pub(super) const AT_EASE: usize = 1024;
/// So many turns before a sweep looks at a slot it asks for its record.
const AHEAD: usize = 4;

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

    /// Not 0: there are outgrown blocks. The producer's.
    #[inline(always)]
    pub(super) fn outgrown(self, record: &Record) -> &AtomicU8 {
        match self {
            Self::Recv => &record.stack.recv_outgrown,
            Self::Send => &record.stack.send_outgrown,
        }
    }
}

/// What the producer keeps of a slot that has outgrown blocks, by place of its buffer in units of
/// the smallest block.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Holding {
    /// Outgrown blocks, youngest first, linked by `next`; 0: none.
    retired: u32,
    /// They hold bytes up to here: they are free when `head` gets here.
    switch: u32,
    /// Of an outgrown block: the next one of the same slot.
    next: u32,
}

// SAFETY: zero is a value of every field.
unsafe impl Zeroable for Holding {}

/// A producer's side of one direction.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) direction: Direction,
    pub(super) ledger: Ledger,
    holdings: Column<Holding>,
    /// Slots with a buffer, and some that had one: a sweep takes those off. To find them at once
    /// would take memory that nobody asked for.
    attached: Column<u32>,
    /// Which slots are in it, a bit each.
    listed: Column<u64>,
    /// Where the sweep goes on.
    hand: usize,
    /// How many they were after the last sweep.
    swept: usize,
    pub(super) thrift: Thrift,
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
            holdings: Column::new(ledger.bytes() / MIN_BLOCK, PagePolicy::Small)?,
            attached: Column::with_capacity(slots as usize, PagePolicy::Small)?,
            listed: Column::new((slots as usize).div_ceil(64), PagePolicy::Small)?,
            ledger,
            hand: 0,
            swept: 0,
            thrift: Thrift::default(),
        })
    }

    fn holding(&mut self, block: &Block) -> Option<&mut Holding> {
        self.holdings.get_mut(block.offset() / MIN_BLOCK)
    }

    /// Remembers that `slot` has a buffer now.
    pub(super) fn attach(&mut self, slot: u32) {
        let Some(listed) = self.listed.get_mut(slot as usize / 64) else {
            return;
        };
        let bit = 1 << (slot % 64);
        if *listed & bit == 0 {
            *listed |= bit;
            // Never full: there is room for every slot, and none is in it twice.
            let _ = self.attached.push(slot);
        }
    }

    /// Takes the slot that the sweep has looked at off the list, if it has no buffer any more.
    pub(super) fn end_look(&mut self, records: &Records, base: u32, slot: u32) {
        let record = records.record(base + slot);
        let buffer = record.map(|record| self.direction.producer(record).buffer.load(Relaxed));
        if buffer.and_then(Block::from_descriptor).is_some() {
            return;
        }
        self.attached.swap_remove(self.hand);
        if let Some(listed) = self.listed.get_mut(slot as usize / 64) {
            *listed &= !(1 << (slot % 64));
        }
    }

    /// The slot the sweep looks at next; the ones with a buffer take turns. Asks for the record of
    /// one that comes soon; those of these slots begin at `base`.
    pub(super) fn next_attached(&mut self, records: &Records, base: u32) -> Option<u32> {
        if self.hand == 0 {
            self.hand = self.attached.len();
        }
        // Downwards: when the slot looked at is removed, the one that takes its place has been
        // looked at.
        self.hand = self.hand.checked_sub(1)?;
        let soon = self.hand.checked_sub(AHEAD);
        let soon = soon.and_then(|at| self.attached.get(at).copied());
        if let Some(record) = soon.and_then(|slot| records.record(base + slot)) {
            prefetch(record);
        }
        self.attached.get(self.hand).copied()
    }

    /// Slots that sweeps look at: all with a buffer are among them.
    pub(super) fn attached(&self) -> usize {
        self.attached.len()
    }

    /// More slots may have a buffer than may keep it in vain.
    pub(super) fn is_crowded(&self) -> bool {
        self.attached.len() > AT_EASE
    }

    /// How many slots a sweep looks at that was asked to look at `budget`: when it is crowded, two
    /// more for each slot by which those in the list have become more since the last sweep. Then
    /// there are never many more with a drained buffer than with one in use.
    pub(super) fn turns(&self, budget: usize) -> usize {
        let fresh = self.attached.len().saturating_sub(self.swept);
        let more = if self.is_crowded() { 2 * fresh } else { 0 };
        (budget + more).min(self.attached.len())
    }

    /// The sweep is over.
    pub(super) fn end_sweep(&mut self) {
        self.swept = self.attached.len();
    }

    /// A slot of which `used` bytes are not consumed has room in its buffer, or could have a larger
    /// one without being unfair.
    pub(super) fn has_room(&self, words: &ProducerWords, used: u32) -> bool {
        let current = Block::from_descriptor(words.buffer.load(Relaxed));
        let room = current
            .as_ref()
            .is_some_and(|block| block.capacity() > used);
        let floor = current.map(|block| block.class());
        let fair = floor.is_none_or(|class| class < self.ledger.fair_class(floor, used));
        room || (fair && self.ledger.can_allocate(floor))
    }

    /// The slot with the buffer `old` has the buffer `new` now. If bytes up to `switch` are still
    /// in the old one, that is outgrown.
    pub(super) fn succeed(&mut self, old: Block, new: &Block, switch: Option<u32>) {
        // Taken: who has the block next begins without outgrown ones.
        let mut holding = self.holding(&old).map(std::mem::take).unwrap_or_default();
        if let Some(switch) = switch {
            if let Some(outgrown) = self.holding(&old) {
                outgrown.next = holding.retired;
            }
            (holding.retired, holding.switch) = (old.descriptor(), switch);
        } else {
            self.ledger.free(old);
        }
        if let Some(entry) = self.holding(new) {
            *entry = holding;
        }
    }

    /// Frees the outgrown blocks of the slot with this buffer, if the consumer has got to `head`
    /// and needs them no more. False if not.
    pub(super) fn free_retired(&mut self, block: &Block, head: u32) -> bool {
        let Some(holding) = self.holding(block) else {
            return true;
        };
        if head.wrapping_sub(holding.switch) > u32::MAX / 2 {
            return false;
        }
        let mut next = std::mem::take(&mut holding.retired);
        // Each is larger than the one that it took the place of.
        for _ in 0..CLASSES {
            let Some(block) = Block::from_descriptor(next) else {
                break;
            };
            next = self.holding(&block).map_or(0, |holding| holding.next);
            self.ledger.free(block);
        }
        true
    }

    /// The outgrown blocks of the slot with this buffer, youngest first, and where the consumer has
    /// to be until they are free.
    pub(super) fn retired(&self, block: &Block) -> (u32, Vec<u32>) {
        let entry = |block: &Block| self.holdings.get(block.offset() / MIN_BLOCK);
        let Some(holding) = entry(block) else {
            return Default::default();
        };
        let next = |descriptor: &u32| Some(entry(&Block::from_descriptor(*descriptor)?)?.next);
        let all = std::iter::successors(Some(holding.retired), next);
        let all = all.take_while(|&descriptor| descriptor != 0);
        (holding.switch, all.take(CLASSES).collect())
    }

    /// The opposite, where these blocks are free. False: one of them is none, or in use.
    pub(super) fn claim_retired(&mut self, block: &Block, switch: u32, retired: &[u32]) -> bool {
        if retired.len() > CLASSES {
            return false;
        }
        let mut before = 0;
        for &descriptor in retired.iter().rev() {
            let outgrown = Block::from_descriptor(descriptor);
            let Some(outgrown) = outgrown.filter(|block| self.ledger.claim(block)) else {
                return false;
            };
            if let Some(entry) = self.holding(&outgrown) {
                entry.next = before;
            }
            before = descriptor;
        }
        if let Some(entry) = self.holding(block) {
            (entry.retired, entry.switch) = (before, switch);
        }
        true
    }
}
