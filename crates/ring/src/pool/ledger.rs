//! Which blocks are free: the pool without its memory.

mod unused;

pub(crate) use unused::Hand;

use std::io;

use super::block::Block;
use super::class::{CLASSES, MIN_BLOCK, class_bytes, class_for};
use crate::region::{Column, PagePolicy, Zeroable};

/// Children of a split block.
const SPLIT: u32 = 4;
/// All children of a split block are free.
const WHOLE: u32 = (1 << SPLIT) - 1;
/// Most freed blocks of one size that are kept unjoined: as many as the connections of two bursts
/// give back before others ask.
const KEEP: usize = 128;
/// Most bytes of one size that are kept unjoined.
const KEEP_BYTES: usize = 256 << 10;
/// Most bytes that a block's descriptor can address.
const MAX_BYTES: usize = MIN_BLOCK << 31;

/// A split block: which of its children are free, and its neighbours in the list of those that have
/// any.
#[derive(Debug, Clone, Copy)]
struct Split {
    free: u32,
    /// Index + 1; 0: none.
    previous: u32,
    /// Index + 1; 0: none.
    next: u32,
}

// SAFETY: three integers.
unsafe impl Zeroable for Split {}

/// The free blocks of one class below the largest.
#[derive(Debug)]
struct Level {
    /// By index of the split block (of the class above).
    splits: Column<Split>,
    /// A split block with a free child: index + 1; 0: none.
    first: u32,
    /// Freed blocks not joined, youngest last.
    kept: Vec<u32>,
    keep: usize,
}

impl Level {
    /// The free list of `class` in a pool of `bytes`; the children of the incomplete block at the
    /// end are free.
    fn new(class: usize, bytes: usize) -> io::Result<Self> {
        let children = bytes / class_bytes(class) as usize;
        let complete = children / SPLIT as usize;
        let keep = (KEEP_BYTES / class_bytes(class) as usize).min(KEEP);
        let mut level = Self {
            splits: Column::new(complete + 1, PagePolicy::Small)?,
            first: 0,
            kept: Vec::with_capacity(keep),
            keep,
        };
        for child in (complete * SPLIT as usize)..children {
            level.put(child as u32);
        }
        Ok(level)
    }

    fn split(&mut self, parent: u32) -> Option<&mut Split> {
        self.splits.get_mut(parent as usize)
    }

    fn link(&mut self, parent: u32) {
        let next = std::mem::replace(&mut self.first, parent + 1);
        if let Some(split) = self.split(parent) {
            (split.previous, split.next) = (0, next);
        }
        if let Some(split) = self.split(next.wrapping_sub(1)) {
            split.previous = parent + 1;
        }
    }

    fn unlink(&mut self, parent: u32) {
        let Some(&mut Split { previous, next, .. }) = self.split(parent) else {
            return;
        };
        match self.split(previous.wrapping_sub(1)) {
            Some(split) => split.next = next,
            None => self.first = next,
        }
        if let Some(split) = self.split(next.wrapping_sub(1)) {
            split.previous = previous;
        }
    }

    /// Takes this child if it is free.
    fn take_this(&mut self, index: u32) -> bool {
        let parent = index / SPLIT;
        let bit = 1 << (index % SPLIT);
        let Some(split) = self.split(parent).filter(|split| split.free & bit != 0) else {
            return false;
        };
        split.free &= !bit;
        if split.free == 0 {
            self.unlink(parent);
        }
        true
    }

    /// A free block of this class.
    fn take(&mut self) -> Option<u32> {
        let parent = self.first.checked_sub(1)?;
        let split = self.split(parent)?;
        let child = split.free.trailing_zeros();
        split.free &= split.free.wrapping_sub(1);
        if split.free == 0 {
            self.unlink(parent);
        }
        Some(parent * SPLIT + child)
    }

    /// Takes a block back. The block it is a part of, when that is all free now.
    fn put(&mut self, index: u32) -> Option<u32> {
        let parent = index / SPLIT;
        let split = self.split(parent)?;
        let before = split.free;
        split.free |= 1 << (index % SPLIT);
        if split.free == WHOLE {
            split.free = 0;
            self.unlink(parent);
            return Some(parent);
        }
        if before == 0 {
            self.link(parent);
        }
        None
    }
}

/// Who has which block.
#[derive(Debug)]
pub(crate) struct Ledger {
    bytes: usize,
    /// The classes below the largest.
    levels: Vec<Level>,
    /// Free blocks of the largest class among those carved.
    largest: Column<u32>,
    /// Blocks of the largest class carved so far.
    carved: u32,
    in_use: usize,
    /// The most in use since it was last asked what is unused, ...
    recent: usize,
    /// ... and before that, since unused memory was last given back, ...
    touched: usize,
    /// ... or ever.
    high_water: usize,
}

/// What a pool that is to have so many bytes has.
pub(crate) fn pool_bytes(bytes: usize) -> io::Result<usize> {
    let whole = bytes.max(1).checked_next_multiple_of(MIN_BLOCK);
    whole.filter(|&bytes| bytes <= MAX_BYTES).ok_or_else(|| {
        let message = format!("a pool of {bytes} bytes is too large");
        io::Error::new(io::ErrorKind::InvalidInput, message)
    })
}

impl Ledger {
    pub(crate) fn new(bytes: usize, max_block: u32) -> io::Result<Self> {
        let bytes = pool_bytes(bytes)?;
        let mut top = class_for(max_block).unwrap_or(CLASSES - 1);
        while class_bytes(top) as usize > bytes {
            top -= 1;
        }
        let levels = (0..top).map(|class| Level::new(class, bytes));
        Ok(Self {
            bytes,
            levels: levels.collect::<io::Result<_>>()?,
            largest: Column::with_capacity(bytes / class_bytes(top) as usize, PagePolicy::Small)?,
            carved: 0,
            in_use: 0,
            recent: 0,
            touched: 0,
            high_water: 0,
        })
    }

    /// Bytes of all blocks.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn in_use(&self) -> usize {
        self.in_use
    }

    pub(crate) fn high_water(&self) -> usize {
        self.high_water.max(self.recent)
    }

    /// A block of `class`; `None` when there is none and none can be had by splitting or joining.
    pub(crate) fn allocate(&mut self, class: usize) -> Option<Block> {
        let kept = self
            .levels
            .get_mut(class)
            .and_then(|level| level.kept.pop());
        let index = match kept {
            Some(index) => index,
            None => self.take_or_join(class)?,
        };
        self.in_use += class_bytes(class) as usize;
        self.recent = self.recent.max(self.in_use);
        Block::new(class, index)
    }

    /// A block of `class` where none is kept. Apart, as is [`Self::put_or_join`]: what mostly
    /// happens then saves no registers.
    #[inline(never)]
    fn take_or_join(&mut self, class: usize) -> Option<u32> {
        if let Some(index) = self.take(class) {
            return Some(index);
        }
        self.join_kept();
        self.take(class)
    }

    /// A block of `class`, or else of the largest class below it and above `floor` (above nothing,
    /// if `None`).
    pub(crate) fn allocate_down_to(&mut self, class: usize, floor: Option<usize>) -> Option<Block> {
        let lowest = floor.map_or(0, |floor| floor + 1);
        (lowest..=class)
            .rev()
            .find_map(|class| self.allocate(class))
    }

    /// The largest class that one owner of many may grow to, of those who have a block of the class
    /// `owned` that holds `used` bytes: the fuller the pool, the smaller, so that who never gives
    /// anything back leaves something for a great many others. The last eighth is for those whose
    /// bytes are taken: each begins with the smallest block, and gets a larger one when that is
    /// drained.
    pub(crate) fn fair_class(&self, owned: Option<usize>, used: u32) -> usize {
        let eighth = (self.bytes / 8).max(1);
        if self.in_use < 4 * eighth {
            return self.levels.len();
        }
        let most = match self.in_use / eighth {
            4..6 => (self.bytes >> 11).max(MIN_BLOCK << 6),
            6 => (self.bytes >> 13).max(MIN_BLOCK << 4),
            _ => (self.bytes >> 15).max(MIN_BLOCK << 4),
        };
        let fits = |&class: &usize| class_bytes(class) as usize <= most;
        let fair = (0..self.levels.len()).rev().find(fits).unwrap_or(0);
        if self.in_use < 7 * eighth {
            return fair;
        }
        match owned {
            None => 0,
            Some(class) if used > 0 => class.min(fair),
            Some(class) => (class + 1).min(fair),
        }
    }

    /// A block of a class above `floor` (any, if `None`) can be had now, without joining.
    pub(crate) fn can_allocate(&self, floor: Option<usize>) -> bool {
        let lowest = floor.map_or(0, |floor| floor + 1);
        let top = self.levels.len();
        let level_has = |level: &Level| level.first != 0 || !level.kept.is_empty();
        lowest <= top
            && (self.levels.iter().skip(lowest).any(level_has)
                || !self.largest.is_empty()
                || (self.carved as usize) < self.largest.capacity())
    }

    pub(crate) fn free(&mut self, block: Block) {
        let (class, index) = (block.class(), block.index());
        // Whatever word it was made from.
        let is_known = class <= self.levels.len();
        if !is_known || index as usize >= self.bytes / class_bytes(class) as usize {
            return; // not one of ours
        }
        self.in_use = self.in_use.saturating_sub(class_bytes(class) as usize);
        match self.levels.get_mut(class) {
            Some(level) if level.kept.len() < level.keep => level.kept.push(index),
            _ => self.put_or_join(class, index),
        }
    }

    /// Keeps a freed block as it is where as many are kept as may be, and joins the older half; or
    /// none is kept.
    #[inline(never)]
    fn put_or_join(&mut self, class: usize, index: u32) {
        let keep = self.levels.get(class).map_or(0, |level| level.keep);
        if keep == 0 {
            return self.put(class, index);
        }
        self.join(class, keep.div_ceil(2));
        if let Some(level) = self.levels.get_mut(class) {
            level.kept.push(index);
        }
    }

    /// Puts the oldest `count` kept blocks of a class back where they can be joined.
    fn join(&mut self, class: usize, count: usize) {
        for position in 0..count {
            let kept = self.levels.get(class).map(|level| &level.kept);
            let Some(&index) = kept.and_then(|kept| kept.get(position)) else {
                return;
            };
            self.put(class, index);
        }
        if let Some(level) = self.levels.get_mut(class) {
            level.kept.drain(..count.min(level.kept.len()));
        }
    }

    /// Joins whatever can be joined.
    pub(crate) fn join_kept(&mut self) {
        for class in 0..self.levels.len() {
            let count = self.levels.get(class).map_or(0, |level| level.kept.len());
            self.join(class, count);
        }
    }

    /// A free block of `class`, splitting a larger one if need be.
    fn take(&mut self, class: usize) -> Option<u32> {
        let Some(level) = self.levels.get_mut(class) else {
            return self.take_largest(class);
        };
        if let Some(index) = level.take() {
            return Some(index);
        }
        let parent = self.take(class + 1)?;
        let level = self.levels.get_mut(class)?;
        for child in 1..SPLIT {
            level.put(parent * SPLIT + child);
        }
        Some(parent * SPLIT)
    }

    fn take_largest(&mut self, class: usize) -> Option<u32> {
        if class != self.levels.len() {
            return None;
        }
        if let Some(index) = self.largest.pop() {
            return Some(index);
        }
        let fresh = ((self.carved as usize) < self.largest.capacity()).then_some(self.carved)?;
        self.carved += 1;
        Some(fresh)
    }

    /// Takes this block, which another ledger of as much memory gave out, where none was freed yet.
    /// False: it is in use, or none of these.
    pub(crate) fn claim(&mut self, block: &Block) -> bool {
        let (class, index) = (block.class(), block.index());
        let top = self.levels.len();
        let ancestor = |level: usize| index.checked_shr(2 * (level - class) as u32).unwrap_or(0);
        // Not every word is one of a block.
        if class > top || class_bytes(class) != block.capacity() {
            return false;
        }
        let free = (class..=top).find(|&level| self.take_this(level, ancestor(level)));
        let Some(free) = free else {
            return false;
        };
        for level in class..free {
            let kept = ancestor(level);
            let first = kept - kept % SPLIT;
            for child in (first..first + SPLIT).filter(|&child| child != kept) {
                self.put(level, child);
            }
        }
        self.in_use += class_bytes(class) as usize;
        self.recent = self.recent.max(self.in_use);
        true
    }

    /// Takes a block if it is free as a whole.
    fn take_this(&mut self, class: usize, index: u32) -> bool {
        if let Some(level) = self.levels.get_mut(class) {
            return level.take_this(index);
        }
        if let Some(at) = self.largest.iter().position(|&free| free == index) {
            return self.largest.swap_remove(at).is_some();
        }
        let is_fresh = index >= self.carved && (index as usize) < self.largest.capacity();
        if is_fresh {
            for skipped in self.carved..index {
                let _ = self.largest.push(skipped);
            }
            self.carved = index + 1;
        }
        is_fresh
    }

    /// Takes a block back, joining it with its neighbours as far as they are free.
    fn put(&mut self, class: usize, index: u32) {
        let Some(level) = self.levels.get_mut(class) else {
            // Full only when a block came back twice: forget it.
            let _ = self.largest.push(index);
            return;
        };
        if let Some(parent) = level.put(index) {
            self.put(class + 1, parent);
        }
    }
}
