//! Gives out integers, always the lowest that nobody has: what is indexed by them stays together, and its end can be given back.

use std::io;

/// Bits of a word.
const BITS: usize = u64::BITS as usize;

/// The integers `0..max`.
#[derive(Debug)]
pub(crate) struct Lowest {
    /// A bit for each, up to the highest in use at least.
    used: Vec<u64>,
    /// A bit for each word of `used`: all of its bits are set.
    full: Vec<u64>,
    /// Words of `full` before this have no bit left.
    from: usize,
    len: u32,
    max: u32,
}

impl Lowest {
    /// Address space is reserved at once, memory is touched as they are used.
    pub fn new(max: u32) -> io::Result<Self> {
        let words = (max as usize).div_ceil(BITS);
        let (mut used, mut full) = (Vec::new(), Vec::new());
        used.try_reserve_exact(words)?;
        full.try_reserve_exact(words.div_ceil(BITS) + 1)?;
        Ok(Self {
            used,
            full,
            from: 0,
            len: 0,
            max,
        })
    }

    /// The lowest that nobody has; `None` if there is none.
    pub fn alloc(&mut self) -> Option<u32> {
        while self.full.get(self.from) == Some(&u64::MAX) {
            self.from += 1;
        }
        let full = self.full.get(self.from).copied().unwrap_or(0);
        let word = self.from * BITS + full.trailing_ones() as usize;
        let bits = self.used.get(word).copied().unwrap_or(0);
        let lowest = (word * BITS) as u32 + bits.trailing_ones();
        if lowest >= self.max {
            return None;
        }
        let bits = bits | (bits + 1);
        match self.used.get_mut(word) {
            Some(used) => *used = bits,
            // The words behind the last have no bit set: this is the one behind it.
            None => self.used.push(bits),
        }
        if bits == u64::MAX {
            self.mark_full(word);
        }
        self.len += 1;
        Some(lowest)
    }

    fn mark_full(&mut self, word: usize) {
        if self.full.len() == word / BITS {
            self.full.push(0);
        }
        if let Some(full) = self.full.get_mut(word / BITS) {
            *full |= 1 << (word % BITS);
        }
    }

    /// Takes one back; false if nobody had it.
    pub fn free(&mut self, index: u32) -> bool {
        let (word, bit) = (index as usize / BITS, 1 << (index as usize % BITS));
        let Some(used) = self.used.get_mut(word).filter(|used| **used & bit != 0) else {
            return false;
        };
        *used &= !bit;
        if let Some(full) = self.full.get_mut(word / BITS) {
            *full &= !(1 << (word % BITS));
        }
        self.from = self.from.min(word / BITS);
        self.len -= 1;
        true
    }

    /// The highest that somebody has.
    pub fn highest(&mut self) -> Option<u32> {
        while self.used.last() == Some(&0) {
            self.used.pop();
        }
        let last = self.used.last()?;
        Some((self.used.len() * BITS) as u32 - 1 - last.leading_zeros())
    }

    /// How many are in use.
    pub fn len(&self) -> u32 {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn as_many_as_there_are() {
        let max = 70 * 64 + 3;
        let mut lowest = Lowest::new(max).unwrap();
        for index in 0..max {
            assert_eq!(lowest.alloc(), Some(index));
        }
        assert_eq!(lowest.alloc(), None);
        assert!(lowest.free(4100) && lowest.free(70) && !lowest.free(70));
        assert_eq!((lowest.alloc(), lowest.alloc()), (Some(70), Some(4100)));
        assert_eq!((lowest.alloc(), lowest.len()), (None, max));
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(ops in prop::collection::vec((0u8..5, 0u32..400), 0..600)) {
            let mut lowest = Lowest::new(300).unwrap();
            let mut oracle = BTreeSet::new();
            for (op, index) in ops {
                if op < 3 {
                    let free = (0..300).find(|index| !oracle.contains(index));
                    prop_assert_eq!(lowest.alloc(), free);
                    oracle.extend(free);
                } else {
                    prop_assert_eq!(lowest.free(index), oracle.remove(&index));
                    prop_assert_eq!(lowest.highest(), oracle.last().copied());
                }
                prop_assert_eq!(lowest.len() as usize, oracle.len());
            }
        }
    }
}
