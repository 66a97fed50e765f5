//! Randomness that depends on a seed and on nothing else.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore as _, SeedableRng as _};

/// A bijection of 64-bit numbers whose outputs look random: the finaliser of `SplitMix64`
/// (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[must_use]
pub fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream of `seed` for one purpose; streams of different purposes are independent.
    #[must_use]
    pub fn new(seed: u64, purpose: u64) -> Self {
        let seed = mix(seed ^ mix(purpose));
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Uniform in the open interval (0, 1).
    pub fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Uniform below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// A random order of the numbers below `len`, computed for each position alone: a Feistel network
/// over the next even power of two, walked until it is back below `len`.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    key: u64,
}

impl Permutation {
    /// The order that `seed` has for this purpose.
    #[must_use]
    pub fn new(len: u64, seed: u64, purpose: u64) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Self {
            len,
            half_bits: bits.div_ceil(2).max(1),
            key: mix(seed ^ mix(purpose)),
        }
    }

    /// The number at `position`, which is below the length.
    #[must_use]
    pub fn at(&self, position: u64) -> u64 {
        let mut value = self.round_trip(position);
        while value >= self.len {
            value = self.round_trip(value);
        }
        value
    }

    fn round_trip(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..4 {
            let next = left ^ (mix(self.key ^ (right << 3 | round)) & mask);
            left = right;
            right = next;
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_every_number_once() {
        for len in [1, 2, 3, 7, 16, 17, 1000, 4097] {
            let order = Permutation::new(len, 7, 1);
            let mut seen: Vec<u64> = (0..len).map(|position| order.at(position)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..len), "{len}");
        }
        let straight = Permutation::new(1000, 7, 1);
        let fixed = (0..1000).filter(|&at| straight.at(at) == at).count();
        assert!(fixed < 20, "{fixed} of 1000 stayed where they were");
    }

    #[test]
    fn units_are_uniform() {
        let mut random = Random::new(1, 2);
        let mean = (0..100_000).map(|_| random.unit()).sum::<f64>() / 1e5;
        assert!((0.495..0.505).contains(&mean), "{mean}");
        let mut random = Random::new(1, 3);
        assert!((0..1000).all(|_| random.below(10) < 10));
    }
}
