//! Gives out integers, always the lowest that nobody has: what is indexed by them stays together,
//! and its end can be given back.

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
    /// Words of `used` before this have no bit left.
    low: usize,
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
            low: 0,
            len: 0,
            max,
        })
    }

    /// The lowest that nobody has; `None` if there is none.
    #[inline]
    pub fn alloc(&mut self) -> Option<u32> {
        if self.used.get(self.low).is_none_or(|word| *word == u64::MAX) {
            self.low = self.lowest_word();
        }
        let word = self.used.get_mut(self.low)?;
        let lowest = (self.low * BITS) as u32 + word.trailing_ones();
        if lowest >= self.max {
            return None;
        }
        *word |= *word + 1;
        if *word == u64::MAX {
            self.mark_full();
        }
        self.len += 1;
        Some(lowest)
    }

    /// The first word that is not full.
    #[cold]
    fn lowest_word(&mut self) -> usize {
        let full = self.full.iter().position(|word| *word != u64::MAX);
        let index = full.unwrap_or(self.full.len());
        let within = self.full.get(index).map_or(0, |word| word.trailing_ones());
        let word = index * BITS + within as usize;
        // Words behind the last are not full: this may be the one behind it.
        if word == self.used.len() && word * BITS < self.max as usize {
            self.used.push(0);
        }
        word
    }

    #[cold]
    fn mark_full(&mut self) {
        let index = self.low / BITS;
        if self.full.len() <= index {
            self.full.resize(index + 1, 0);
        }
        if let Some(full) = self.full.get_mut(index) {
            *full |= 1 << (self.low % BITS);
        }
    }

    /// Takes one back; false if nobody had it.
    #[inline]
    pub fn free(&mut self, index: u32) -> bool {
        let (at, bit) = (index as usize / BITS, 1 << (index as usize % BITS));
        let Some(word) = self.used.get_mut(at).filter(|word| **word & bit != 0) else {
            return false;
        };
        if *word == u64::MAX
            && let Some(full) = self.full.get_mut(at / BITS)
        {
            *full &= !(1 << (at % BITS));
        }
        *word &= !bit;
        self.low = self.low.min(at);
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
