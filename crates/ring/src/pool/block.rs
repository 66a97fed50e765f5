//! What a pool hands out.

use std::num::NonZeroU32;
use std::ops::Range;

use super::class::{MIN_SHIFT, class_bytes};

/// In a pool of so many bytes, descriptors are below this: all that are, if that is a power of two,
/// name a block inside, for none starts beyond its own last bit.
#[cfg(not(loom))]
pub(crate) fn descriptors(bytes: usize) -> u32 {
    u32::try_from(bytes >> (MIN_SHIFT - 1)).unwrap_or(u32::MAX)
}

/// A buffer handed out by a [`Pool`](super::Pool); give it back with
/// [`Pool::free`](super::Pool::free).
///
/// In halves of the smallest size: where it starts, and in the lowest bit its own half size, of
/// which that is a multiple.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a block that is not freed is lost"]
pub struct Block(NonZeroU32);

impl Block {
    pub(super) fn new(class: usize, index: u32) -> Option<Self> {
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
    pub(super) fn index(&self) -> u32 {
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

    pub(super) fn range(&self) -> Range<usize> {
        self.offset()..self.offset() + self.capacity() as usize
    }
}
