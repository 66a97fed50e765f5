//! A small deterministic random generator. Not for secrets.

use std::time::Duration;

/// xoshiro256++ seeded by splitmix64 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The same seed gives the same numbers, on every machine.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let state = std::array::from_fn(|_| splitmix64(&mut x));
        Self { state }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.state;
        let result = s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0);
        let t = s1 << 17;
        let s2 = s2 ^ s0;
        let s3 = s3 ^ s1;
        let s1 = s1 ^ s2;
        let s0 = s0 ^ s3;
        self.state = [s0, s1, s2 ^ t, s3.rotate_left(45)];
        result
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

    /// True `ppm` times in a million. Draws nothing for 0, so that an unused impairment does not shift the others.
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

fn splitmix64(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*x ^ (*x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the authors' reference implementation for this state.
    #[test]
    fn xoshiro_reference() {
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        let expected = [
            41_943_041,
            58_720_359,
            3_588_806_011_781_223,
            3_591_011_842_654_386,
        ];
        assert_eq!(std::array::from_fn(|_| rng.next_u64()), expected);
    }

    /// The same for splitmix64.
    #[test]
    fn splitmix_reference() {
        let mut x = 1_234_567;
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!(std::array::from_fn(|_| splitmix64(&mut x)), expected);
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
