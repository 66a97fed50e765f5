//! The bytes that applications send: each follows from its position, so that any that is lost,
//! repeated or misplaced shows.

use std::net::{IpAddr, SocketAddr};

/// An endless sequence of bytes, different for each direction of each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    key: u64,
}

impl Pattern {
    /// What the socket `from` sends to the socket `to`.
    pub fn between(seed: u64, from: SocketAddr, to: SocketAddr) -> Self {
        let key = [from, to].iter().fold(mix(seed), |key, socket| {
            let (high, low) = match socket.ip().to_canonical() {
                IpAddr::V4(v4) => (0, u64::from(v4.to_bits())),
                IpAddr::V6(v6) => ((v6.to_bits() >> 64) as u64, v6.to_bits() as u64),
            };
            let key = mix(key ^ high);
            mix(mix(key ^ low) ^ u64::from(socket.port()))
        });
        Self { key }
    }

    fn word(self, index: u64) -> [u8; 8] {
        mix(self.key ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()
    }

    /// The byte at `position`.
    pub fn at(self, position: u64) -> u8 {
        let word = u64::from_le_bytes(self.word(position / 8));
        (word >> (8 * (position % 8))) as u8
    }

    /// Writes the bytes from `position` on.
    pub fn fill(self, position: u64, out: &mut [u8]) {
        let skip = (position % 8) as usize;
        let (first, rest) = out.split_at_mut(out.len().min((8 - skip) % 8));
        for (byte, at) in first.iter_mut().zip(position..) {
            *byte = self.at(at);
        }
        let start = position.div_ceil(8);
        let (words, last) = rest.as_chunks_mut::<8>();
        let end = start + words.len() as u64;
        for (word, index) in words.iter_mut().zip(start..) {
            *word = self.word(index);
        }
        for (byte, from) in last.iter_mut().zip(self.word(end)) {
            *byte = from;
        }
    }

    /// The position of the first of `bytes`, which start at `position`, that is not as it should
    /// be.
    pub fn mismatch(self, position: u64, bytes: &[u8]) -> Option<u64> {
        let mut expected = [0; 512];
        let mut at = position;
        for chunk in bytes.chunks(expected.len()) {
            let expected = expected.get_mut(..chunk.len()).unwrap_or_default();
            self.fill(at, expected);
            if chunk != expected {
                let wrong = chunk.iter().zip(expected.iter());
                let same = wrong.take_while(|(is, should)| is == should).count();
                return Some(at + same as u64);
            }
            at += chunk.len() as u64;
        }
        None
    }
}

/// The finaliser of splitmix64: a bijection that changes half the bits when one changes.
pub(crate) const fn mix(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(seed: u64) -> Pattern {
        let addr = |text: &str| text.parse().unwrap();
        Pattern::between(seed, addr("10.0.0.1:80"), addr("[fd00::1]:9"))
    }

    #[test]
    fn directions_and_seeds_differ() {
        let (a, b) = (
            "10.0.0.1:80".parse().unwrap(),
            "10.0.0.1:81".parse().unwrap(),
        );
        assert_ne!(Pattern::between(1, a, b), Pattern::between(1, b, a));
        assert_ne!(Pattern::between(1, a, b), Pattern::between(2, a, b));
        let mapped = "[::ffff:10.0.0.1]:80".parse().unwrap();
        assert_eq!(Pattern::between(1, a, b), Pattern::between(1, mapped, b));
    }

    #[test]
    fn a_shift_by_any_small_distance_shows() {
        let mut bytes = [0; 64];
        pattern(1).fill(1000, &mut bytes);
        for shift in 1..5000 {
            assert!(pattern(1).mismatch(1000 + shift, &bytes).is_some());
        }
    }

    proptest! {
        #[test]
        fn fill_and_mismatch_agree_with_at(seed in any::<u64>(), position in 0u64..1 << 40, len in 0usize..2000, wrong in any::<usize>()) {
            let pattern = pattern(seed);
            let mut bytes = vec![0; len];
            pattern.fill(position, &mut bytes);
            for (byte, at) in bytes.iter().zip(position..) {
                prop_assert_eq!(*byte, pattern.at(at));
            }
            prop_assert_eq!(pattern.mismatch(position, &bytes), None);
            if len > 0 {
                let wrong = wrong % len;
                bytes[wrong] ^= 1;
                prop_assert_eq!(pattern.mismatch(position, &bytes), Some(position + wrong as u64));
            }
        }
    }
}
