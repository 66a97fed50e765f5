//! A pool of buffers in nine sizes: 512 bytes, 2 KiB, 8 KiB, 32 KiB, 128 KiB, 512 KiB, 2 MiB, 8
//! MiB, 32 MiB.
//!
//! Blocks of the largest size are carved from the region one after the other, split into four when
//! a smaller one is needed, and joined again when all four are free, so memory moves between the
//! sizes. A few freed blocks of each small size are kept as they are, last in first out: the next
//! connection gets memory that is still in the cache. Nothing is allocated from the heap after the
//! pool was made; untouched parts of the region cost nothing. Memory once touched is kept for
//! reuse; who has it in streams gives what is not used for a while to the kernel.

mod block;
mod class;
mod ledger;

pub use block::Block;
#[cfg(not(loom))]
pub(crate) use block::descriptors;
pub(crate) use class::{CLASSES, MIN_BLOCK, class_bytes, class_for};
#[cfg(not(loom))]
pub(crate) use ledger::pool_bytes;
pub(crate) use ledger::{Hand, Ledger};

use std::io;

use crate::region::{PagePolicy, Region};

/// Buffers from one region, with one owner.
#[derive(Debug)]
pub struct Pool {
    ledger: Ledger,
    region: Region,
}

impl Pool {
    /// A pool of `bytes` (rounded up to 512) in blocks of at most `max_block` bytes (rounded up to
    /// a size there is).
    ///
    /// # Errors
    /// As [`Region::new`]; `InvalidInput` beyond 1 TiB.
    pub fn new(bytes: usize, max_block: u32, policy: PagePolicy) -> io::Result<Self> {
        let ledger = Ledger::new(bytes, max_block)?;
        let region = Region::new(ledger.bytes(), policy)?;
        Ok(Self { ledger, region })
    }

    /// A block of at least `bytes`, the smallest size that fits. Its contents are whatever they
    /// were. `None`: the pool is exhausted, or no block is that large.
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
