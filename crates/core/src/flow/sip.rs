//! SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF") of inputs whose length
//! is known: every segment that comes is hashed once, and a hash for inputs of any length takes
//! half as long again.

use std::fmt;

/// A secret key, as the state in which every hash under it begins.
#[derive(Clone, Copy)]
pub(crate) struct Sip13([u64; 4]);

impl fmt::Debug for Sip13 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the secret.
        f.write_str("Sip13")
    }
}

impl Sip13 {
    pub fn new(key: &[u8; 16]) -> Self {
        let (words, _) = key.as_chunks::<8>();
        let [k0, k1] = [0, 1].map(|i| u64::from_le_bytes(words[i]));
        Self([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    /// The state in which hashes begin: as secret as the key.
    pub fn state(&self) -> [u64; 4] {
        self.0
    }

    /// The hash of `words`, little-endian, with 4 bytes behind them.
    #[inline(always)]
    pub fn hash<const WORDS: usize>(&self, words: [u64; WORDS], last: [u8; 4]) -> u64 {
        let len = (WORDS * 8 + last.len()) as u64;
        let mut state = self.0;
        for word in words {
            state = absorb(state, word);
        }
        state = absorb(state, len << 56 | u64::from(u32::from_le_bytes(last)));
        state[2] ^= 0xff;
        let [v0, v1, v2, v3] = round(round(round(state)));
        v0 ^ v1 ^ v2 ^ v3
    }
}

#[inline(always)]
fn absorb([v0, v1, v2, v3]: [u64; 4], word: u64) -> [u64; 4] {
    let [v0, v1, v2, v3] = round([v0, v1, v2, v3 ^ word]);
    [v0 ^ word, v1, v2, v3]
}

#[inline(always)]
fn round([mut v0, mut v1, mut v2, mut v3]: [u64; 4]) -> [u64; 4] {
    v0 = v0.wrapping_add(v1);
    v2 = v2.wrapping_add(v3);
    v1 = v1.rotate_left(13) ^ v0;
    v3 = v3.rotate_left(16) ^ v2;
    v0 = v0.rotate_left(32).wrapping_add(v3);
    v2 = v2.wrapping_add(v1);
    v3 = v3.rotate_left(21) ^ v0;
    v1 = v1.rotate_left(17) ^ v2;
    [v0, v1, v2.rotate_left(32), v3]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    use super::*;

    fn bytes(words: &[u64], last: [u8; 4]) -> Vec<u8> {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        words.chain(last).collect()
    }

    proptest! {
        #[test]
        fn it_is_siphash_of_the_same_bytes(key: [u8; 16], one: [u64; 1], four: [u64; 4], last: [u8; 4]) {
            let (ours, known) = (Sip13::new(&key), SipHasher13::new_with_key(&key));
            prop_assert_eq!(ours.hash([], last), known.hash(&last));
            prop_assert_eq!(ours.hash(one, last), known.hash(&bytes(&one, last)));
            prop_assert_eq!(ours.hash(four, last), known.hash(&bytes(&four, last)));
        }
    }
}
