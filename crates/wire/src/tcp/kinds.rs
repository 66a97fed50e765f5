//! Kinds of TCP options.

pub(super) const END: u8 = 0;
pub(super) const NOP: u8 = 1;
pub(super) const MSS: u8 = 2;
pub(super) const WINDOW_SCALE: u8 = 3;
pub(super) const SACK_PERMITTED: u8 = 4;
pub(super) const SACK: u8 = 5;
pub(super) const TIMESTAMPS: u8 = 8;
pub(super) const FAST_OPEN: u8 = 34;
