//! The one SPSC cursor.
use std::sync::atomic::AtomicU32;
/// Where a ring lies in memory. Entries are `T` by value; `size` is a power of two.
#[derive(Debug, Clone, Copy)]
pub struct RawRing<T> {
    /// Free-running producer index.
    pub producer: *const AtomicU32,
    /// Free-running consumer index.
    pub consumer: *const AtomicU32,
    /// `size` entries.
    pub entries: *mut T,
    /// Number of entries, a power of two.
    pub size: u32,
}
/// The producing end.
#[derive(Debug)]
pub struct Producer<T: Copy>(RawRing<T>);
/// The consuming end.
#[derive(Debug)]
pub struct Consumer<T: Copy>(RawRing<T>);
// SAFETY: signatures first.
unsafe impl<T: Copy + Send> Send for Producer<T> {}
// SAFETY: signatures first.
unsafe impl<T: Copy + Send> Send for Consumer<T> {}
impl<T: Copy> Producer<T> {
    /// `None` when `size` is not a power of two.
    /// # Safety
    /// See the module.
    pub unsafe fn from_raw(ring: RawRing<T>) -> Option<Self> {
        todo!()
    }
    /// Free entries, at least `want` if there are; 0 when corrupt.
    pub fn free(&mut self, want: u32) -> u32 {
        todo!()
    }
    /// Writes the entry `offset` past the published ones; false when it is not free.
    pub fn write(&mut self, offset: u32, value: T) -> bool {
        todo!()
    }
    /// Publishes `n` entries.
    pub fn publish(&mut self, n: u32) {
        todo!()
    }
    /// Writes and publishes one.
    /// # Errors
    /// Full: gives the value back.
    pub fn push(&mut self, value: T) -> Result<(), T> {
        todo!()
    }
    /// The peer wrote an impossible index.
    pub fn is_corrupt(&self) -> bool {
        todo!()
    }
}
impl<T: Copy> Consumer<T> {
    /// `None` when `size` is not a power of two.
    /// # Safety
    /// See the module.
    pub unsafe fn from_raw(ring: RawRing<T>) -> Option<Self> {
        todo!()
    }
    /// Entries to read, at least `want` if there are; 0 when corrupt.
    pub fn available(&mut self, want: u32) -> u32 {
        todo!()
    }
    /// Reads the entry `offset` past the released ones; None when it is not available.
    pub fn read(&self, offset: u32) -> Option<T> {
        todo!()
    }
    /// Gives `n` entries back.
    pub fn release(&mut self, n: u32) {
        todo!()
    }
    /// Reads and releases one.
    pub fn pop(&mut self) -> Option<T> {
        todo!()
    }
    /// The peer wrote an impossible index.
    pub fn is_corrupt(&self) -> bool {
        todo!()
    }
}
