//! Mapped memory.
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{BorrowedFd, OwnedFd};
/// Which pages to ask for; also which one got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PagePolicy {
    /// 2 MB pages if reserved, else as `Transparent`.
    Huge,
    /// Normal pages that the kernel may join to 2 MB pages.
    #[default]
    Transparent,
    /// Normal pages.
    Small,
}
/// An anonymous mapping.
#[derive(Debug)]
pub struct Region(());
impl Region {
    /// Maps at least `bytes` of zeroed memory; touched lazily.
    /// # Errors
    /// The kernel's.
    pub fn new(bytes: usize, policy: PagePolicy) -> io::Result<Self> {
        todo!()
    }
    /// What one got.
    pub fn kind(&self) -> PagePolicy {
        todo!()
    }
    /// Bytes.
    pub fn len(&self) -> usize {
        todo!()
    }
    /// No bytes.
    pub fn is_empty(&self) -> bool {
        todo!()
    }
    /// First byte.
    pub fn as_ptr(&self) -> *mut u8 {
        todo!()
    }
}
/// Types for which all bytes zero is a value.
/// # Safety
/// It must be.
pub unsafe trait Zeroable: Copy {}
/// A fixed-capacity array in a region.
#[derive(Debug)]
pub struct Column<T: Copy>(Vec<T>);
impl<T: Copy> Column<T> {
    /// `capacity` zeroes.
    /// # Errors
    /// The kernel's.
    pub fn new(capacity: usize, policy: PagePolicy) -> io::Result<Self>
    where
        T: Zeroable,
    {
        todo!()
    }
    /// Room for `capacity` entries, none of them there; grows by `push` and `resize`.
    /// # Errors
    /// The kernel's.
    pub fn with_capacity(capacity: usize, policy: PagePolicy) -> io::Result<Self> {
        todo!()
    }
    /// `capacity` times `value` (touches all of it).
    /// # Errors
    /// The kernel's.
    pub fn filled(capacity: usize, value: T, policy: PagePolicy) -> io::Result<Self> {
        todo!()
    }
    /// Appends.
    /// # Errors
    /// Full: gives the value back.
    pub fn push(&mut self, value: T) -> Result<(), T> {
        todo!()
    }
    /// Removes the last.
    pub fn pop(&mut self) -> Option<T> {
        todo!()
    }
    /// Grows (with `value`) or shrinks; false when beyond the capacity.
    pub fn resize(&mut self, len: usize, value: T) -> bool {
        todo!()
    }
    /// Most entries.
    pub fn capacity(&self) -> usize {
        todo!()
    }
    /// Hint: loads the entry early.
    pub fn prefetch(&self, index: usize) {
        todo!()
    }
}
impl<T: Copy> Deref for Column<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}
impl<T: Copy> DerefMut for Column<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
/// A memfd mapping shared with another process, which may write any byte at any time.
#[derive(Debug)]
pub struct Shared(());
impl Shared {
    /// Creates and maps.
    /// # Errors
    /// The kernel's.
    pub fn create(name: &str, bytes: usize) -> io::Result<Self> {
        todo!()
    }
    /// Forbids any later change of size and of seals (F_SEAL_SHRINK, GROW, SEAL).
    /// # Errors
    /// The kernel's.
    pub fn seal(&self) -> io::Result<()> {
        todo!()
    }
    /// Maps one received; refuses files without F_SEAL_SHRINK and sizes other than 1..=`max_bytes`.
    /// # Errors
    /// Not a sealed memfd, too large, or the kernel's.
    pub fn from_fd(fd: OwnedFd, max_bytes: usize) -> io::Result<Self> {
        todo!()
    }
    /// The memfd.
    pub fn fd(&self) -> BorrowedFd<'_> {
        todo!()
    }
    /// Bytes.
    pub fn len(&self) -> usize {
        todo!()
    }
    /// No bytes.
    pub fn is_empty(&self) -> bool {
        todo!()
    }
    /// First byte (page aligned).
    pub fn as_ptr(&self) -> *mut u8 {
        todo!()
    }
    /// Copies out; false when out of range.
    pub fn read_at(&self, offset: usize, into: &mut [u8]) -> bool {
        todo!()
    }
    /// Copies in; false when out of range.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> bool {
        todo!()
    }
}
