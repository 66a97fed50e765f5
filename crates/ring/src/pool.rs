//! A size-classed buffer pool.
use crate::region::PagePolicy;
use std::io;
/// A buffer handed out.
#[derive(Debug)]
pub struct Block(u32);
/// The pool.
#[derive(Debug)]
pub struct Pool(());
impl Pool {
    /// A pool of `bytes`, in blocks of at most `max_block`.
    /// # Errors
    /// The kernel's.
    pub fn new(bytes: usize, max_block: u32, policy: PagePolicy) -> io::Result<Self> {
        todo!()
    }
    /// The smallest block that holds `bytes`.
    pub fn allocate(&mut self, bytes: u32) -> Option<Block> {
        todo!()
    }
    /// Takes it back.
    pub fn free(&mut self, block: Block) {
        todo!()
    }
    /// Its bytes.
    pub fn bytes(&self, block: &Block) -> &[u8] {
        todo!()
    }
    /// Its bytes.
    pub fn bytes_mut(&mut self, block: &mut Block) -> &mut [u8] {
        todo!()
    }
    /// Bytes in blocks handed out.
    pub fn in_use(&self) -> usize {
        todo!()
    }
    /// The most there ever were.
    pub fn high_water(&self) -> usize {
        todo!()
    }
    /// Nothing handed out.
    pub fn is_empty(&self) -> bool {
        todo!()
    }
}
