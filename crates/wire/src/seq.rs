//! Sequence numbers: arithmetic and comparison modulo 2^32 (RFC 9293 §3.4).

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A TCP sequence number. `a < b` means that `a` comes before `b` within half the number space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// Signed distance from `other` to `self`, in bytes.
    pub const fn distance_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// The later of two.
    pub fn max(self, other: Self) -> Self {
        if self > other { self } else { other }
    }

    /// The earlier of two.
    pub fn min(self, other: Self) -> Self {
        if self < other { self } else { other }
    }
}

impl PartialOrd for SeqNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.distance_from(*other).cmp(&0))
    }
}

impl Add<u32> for SeqNumber {
    type Output = Self;

    fn add(self, rhs: u32) -> Self {
        Self(self.0.wrapping_add(rhs))
    }
}

impl AddAssign<u32> for SeqNumber {
    fn add_assign(&mut self, rhs: u32) {
        *self = *self + rhs;
    }
}

impl Sub<u32> for SeqNumber {
    type Output = Self;

    fn sub(self, rhs: u32) -> Self {
        Self(self.0.wrapping_sub(rhs))
    }
}

/// Bytes from `rhs` up to `self`, modulo 2^32.
impl Sub for SeqNumber {
    type Output = u32;

    fn sub(self, rhs: Self) -> u32 {
        self.0.wrapping_sub(rhs.0)
    }
}

impl fmt::Debug for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn comparison_wraps() {
        let high = SeqNumber(u32::MAX - 1);
        let low = high + 4;
        assert_eq!(low, SeqNumber(2));
        assert!(high < low);
        assert!(low > high);
        assert_eq!(low - high, 4);
        assert_eq!(high.distance_from(low), -4);
        assert_eq!((high.max(low), high.min(low)), (low, high));
        assert_eq!(low - 4u32, high);
    }

    proptest! {
        #[test]
        fn order_within_half_the_space(start in any::<u32>(), by in 1u32..1 << 31) {
            let (a, b) = (SeqNumber(start), SeqNumber(start) + by);
            prop_assert!(a < b);
            prop_assert!(b > a);
            prop_assert_ne!(a, b);
            prop_assert_eq!(b - a, by);
            prop_assert_eq!(b.distance_from(a), by as i32);
        }
    }
}
