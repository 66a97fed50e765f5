//! The sizes of blocks.

/// Sizes there are; each is four times the one before.
pub(crate) const CLASSES: usize = 9;
/// The smallest size as a power of two (loom looks at every byte, so it gets small ones). Short
/// messages go round in a block of the smallest size, from line to line: with larger ones, those of
/// a thousand connections do not fit into a processor's cache.
pub(super) const MIN_SHIFT: u32 = if cfg!(loom) { 1 } else { 9 };
/// The smallest size, bytes.
pub(crate) const MIN_BLOCK: usize = 1 << MIN_SHIFT;

/// Size of the blocks of a class, bytes.
#[inline(always)]
pub(crate) const fn class_bytes(class: usize) -> u32 {
    1 << (MIN_SHIFT + 2 * class as u32)
}

/// The smallest class whose blocks hold `bytes`; `None` when none does.
#[inline]
pub(crate) const fn class_for(bytes: u32) -> Option<usize> {
    let bits = u32::BITS - bytes.saturating_sub(1).leading_zeros();
    let class = bits.saturating_sub(MIN_SHIFT).div_ceil(2) as usize;
    if class < CLASSES { Some(class) } else { None }
}
