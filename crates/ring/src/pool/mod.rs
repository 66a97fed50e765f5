//! A pool of buffers in nine sizes: 512 bytes, 2 KiB, 8 KiB, 32 KiB, 128 KiB, 512 KiB, 2 MiB, 8 MiB, 32 MiB.
//!
//! Blocks of the largest size are carved from the region one after the other, split into four when a smaller one is needed, and
//! joined again when all four are free, so memory moves between the sizes. A few freed blocks of each small size are kept as they
//! are, last in first out: the next connection gets memory that is still in the cache. Nothing is allocated from the heap after
//! the pool was made; untouched parts of the region cost nothing. Memory once touched is kept for reuse; who has it in streams gives what is not
//! used for a while to the kernel.

mod ledger;

use ledger::MIN_SHIFT;
pub(crate) use ledger::{Hand, Ledger, MIN_BLOCK, class_bytes, class_for, pool_bytes};

use std::io;
use std::num::NonZeroU32;
use std::ops::Range;

use crate::region::{PagePolicy, Region};

/// A buffer handed out by a [`Pool`]; give it back with [`Pool::free`].
///
/// In halves of the smallest size: where it starts, and in the lowest bit its own half size, of which that is a multiple.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a block that is not freed is lost"]
pub struct Block(NonZeroU32);

impl Block {
    fn new(class: usize, index: u32) -> Option<Self> {
        let start = index.checked_mul(2)?;
        let descriptor = (start | 1).checked_mul(class_bytes(class) >> MIN_SHIFT)?;
        NonZeroU32::new(descriptor).map(Self)
    }

    /// The block that [`Self::descriptor`] was taken from; 0 is none.
    #[inline(always)]
    pub(crate) fn from_descriptor(descriptor: u32) -> Option<Self> {
        NonZeroU32::new(descriptor).map(Self)
    }

    /// All of it in a word; never 0.
    #[inline(always)]
    pub(crate) fn descriptor(&self) -> u32 {
        self.0.get()
    }

    #[inline(always)]
    pub(crate) fn class(&self) -> usize {
        (self.0.trailing_zeros() / 2) as usize
    }

    /// Which block of its class.
    #[inline(always)]
    fn index(&self) -> u32 {
        self.0.get() >> self.0.trailing_zeros() >> 1
    }

    /// Its lowest bit.
    #[inline(always)]
    fn size(&self) -> u32 {
        self.0.get() & self.0.get().wrapping_neg()
    }

    /// Where it starts in the region.
    #[inline(always)]
    pub(crate) fn offset(&self) -> usize {
        ((self.0.get() ^ self.size()) as usize) << (MIN_SHIFT - 1)
    }

    /// Its size, bytes.
    #[inline(always)]
    pub fn capacity(&self) -> u32 {
        self.size() << MIN_SHIFT
    }

    fn range(&self) -> Range<usize> {
        self.offset()..self.offset() + self.capacity() as usize
    }
}

/// Buffers from one region, with one owner.
#[derive(Debug)]
pub struct Pool {
    ledger: Ledger,
    region: Region,
}

impl Pool {
    /// A pool of `bytes` (rounded up to 512) in blocks of at most `max_block` bytes (rounded up to a size there is).
    ///
    /// # Errors
    /// As [`Region::new`]; `InvalidInput` beyond 1 TiB.
    pub fn new(bytes: usize, max_block: u32, policy: PagePolicy) -> io::Result<Self> {
        let ledger = Ledger::new(bytes, max_block)?;
        let region = Region::new(ledger.bytes(), policy)?;
        Ok(Self { ledger, region })
    }

    /// A block of at least `bytes`, the smallest size that fits. Its contents are whatever they were. `None`: the pool is
    /// exhausted, or no block is that large.
    pub fn allocate(&mut self, bytes: u32) -> Option<Block> {
        self.ledger.allocate(class_for(bytes)?)
    }

    /// Takes a block back. A block of another pool does no harm beyond wrong accounts.
    pub fn free(&mut self, block: Block) {
        self.ledger.free(block);
    }

    /// The block's bytes (none, for one of another pool that lies outside this one).
    pub fn bytes(&self, block: &Block) -> &[u8] {
        self.region
            .as_slice()
            .get(block.range())
            .unwrap_or_default()
    }

    /// The block's bytes (none, for one of another pool that lies outside this one).
    pub fn bytes_mut(&mut self, block: &mut Block) -> &mut [u8] {
        self.region
            .as_mut_slice()
            .get_mut(block.range())
            .unwrap_or_default()
    }

    /// Bytes of all blocks, handed out or not.
    pub fn capacity(&self) -> usize {
        self.ledger.bytes()
    }

    /// Bytes of the blocks handed out.
    pub fn in_use(&self) -> usize {
        self.ledger.in_use()
    }

    /// The most [`Self::in_use`] ever was.
    pub fn high_water(&self) -> usize {
        self.ledger.high_water()
    }

    /// Nothing is handed out.
    pub fn is_empty(&self) -> bool {
        self.ledger.in_use() == 0
    }

    /// What pages it lies in.
    pub fn kind(&self) -> PagePolicy {
        self.region.kind()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
