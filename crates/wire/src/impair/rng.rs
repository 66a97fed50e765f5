//! A small deterministic random generator. Not for secrets.

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore as _, SeedableRng as _};

/// xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021),
/// seeded by splitmix64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: Xoshiro256PlusPlus,
}

impl Rng {
    /// The same seed gives the same numbers, on every machine.
    pub fn new(seed: u64) -> Self {
        let state = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { state }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state.next_u64()
    }

    /// The next number, 32 bits of it.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number below `bound`; 0 if that is 0. The bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included; `low` if `high` is less.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.saturating_sub(low).checked_add(1) {
            Some(span) => low + self.below(span),
            None => self.next_u64(),
        }
    }

    /// True `ppm` times in a million. Draws nothing for 0, so that an unused impairment does not
    /// shift the others.
    pub fn chance_ppm(&mut self, ppm: u32) -> bool {
        ppm != 0 && self.below(1_000_000) < u64::from(ppm)
    }

    /// A duration from zero to `longest`, to the nanosecond. Draws nothing for zero.
    pub fn duration_up_to(&mut self, longest: Duration) -> Duration {
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.between(0, nanos))
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next_u64().to_le_bytes();
            for (to, from) in chunk.iter_mut().zip(random) {
                *to = from;
            }
        }
    }

    /// A generator of its own, whose numbers do not depend on how many the parent draws later.
    pub fn split(&mut self) -> Self {
        Self::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenarios are named by their seeds: these numbers must never change.
    #[test]
    fn a_seed_gives_what_it_always_gave() {
        let mut rng = Rng::new(1);
        assert_eq!(
            std::array::from_fn(|_| rng.next_u64()),
            [
                14_971_601_782_005_023_387,
                13_781_649_495_232_077_965,
                1_847_458_086_238_483_744,
                13_765_271_635_752_736_470,
            ]
        );
    }

    #[test]
    fn bounds_are_kept() {
        let mut rng = Rng::new(1);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.between(5, 3), 5);
        let mut seen = [false; 3];
        for _ in 0..100 {
            seen[rng.between(0, 2) as usize] = true;
            assert!(rng.below(3) < 3);
        }
        assert_eq!(seen, [true; 3]);
        rng.between(0, u64::MAX);
        assert!(!rng.chance_ppm(0) && rng.chance_ppm(1_000_000));
        let mut bytes = [0; 13];
        rng.fill(&mut bytes);
        assert!(bytes[8..].iter().any(|byte| *byte != 0));
        assert_ne!(rng.split().next_u64(), rng.next_u64());
    }
}
