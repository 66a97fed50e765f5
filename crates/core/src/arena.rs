//! Slot allocator: generations and a free list. The owner keeps its own columns, indexed by the
//! slots given out here.

use std::io;

/// In the word of a slot: it is given out. The rest is its generation.
const LIVE: u32 = 1;

/// Gives out the integers `0..max`, each with a count of how often it had been used before.
///
/// Address space for the largest size is reserved at once and touched slot by slot: fresh slots are
/// used only when no freed one is left, and the one freed last (whose memory is warm) is given out
/// first.
#[derive(Debug)]
pub struct Slots {
    /// A generation above the bit `LIVE` for each.
    slots: Vec<u32>,
    /// The one freed last is the last.
    free: Vec<u32>,
    max: u32,
}

/// Slots on their way to another process.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct SavedSlots {
    words: Vec<u32>,
    free: Vec<u32>,
}

impl SavedSlots {
    /// Slots that were ever given out.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Every free one is on the list of those, once, and no other.
    fn is_sound(&self) -> bool {
        let is_free = |word: &&u32| **word & LIVE == 0;
        let mut unlisted: Vec<bool> = self.words.iter().map(|word| is_free(&word)).collect();
        let mut take = |&slot: &u32| {
            let entry = unlisted.get_mut(slot as usize);
            entry.is_some_and(std::mem::take)
        };
        let all_free = self.free.iter().all(&mut take);
        all_free && self.free.len() == self.words.iter().filter(is_free).count()
    }
}

impl Slots {
    pub(crate) fn save(&self) -> SavedSlots {
        SavedSlots {
            words: self.slots.clone(),
            free: self.free.clone(),
        }
    }

    /// Takes over what another had, where nothing was given out yet. False, and nothing done: it
    /// contradicts itself, or it is too much.
    pub(crate) fn restore(&mut self, saved: &SavedSlots) -> bool {
        let fits = self.slots.is_empty() && saved.len() <= self.max as usize;
        if !fits || !saved.is_sound() {
            return false;
        }
        self.slots.extend_from_slice(&saved.words);
        self.free.extend_from_slice(&saved.free);
        true
    }

    /// At most `max` slots at a time (and less than 2^30, so that ids can carry tag bits).
    ///
    /// # Errors
    /// Out of memory, or `max` is too large.
    pub fn new(max: u32) -> io::Result<Self> {
        if max >= 1 << 30 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "more than 2^30 slots",
            ));
        }
        let (mut slots, mut free) = (Vec::new(), Vec::new());
        slots.try_reserve_exact(max as usize)?;
        free.try_reserve_exact(max as usize)?;
        Ok(Self { slots, free, max })
    }

    /// A slot that nobody has; `None` when all are live.
    pub fn alloc(&mut self) -> Option<u32> {
        let Some(slot) = self.free.pop() else {
            return self.grow();
        };
        *self.slots.get_mut(slot as usize)? |= LIVE;
        Some(slot)
    }

    fn grow(&mut self) -> Option<u32> {
        let slot = self.slots.len() as u32;
        if slot >= self.max {
            return None;
        }
        self.slots.push(LIVE);
        Some(slot)
    }

    /// Takes a slot back; every id that names it is stale from now on. False (and nothing happens)
    /// if it was not live.
    pub fn free(&mut self, slot: u32) -> bool {
        match self.slots.get_mut(slot as usize) {
            Some(word) if *word & LIVE != 0 => {
                // The generation after this one: `LIVE` is the lowest bit.
                *word = word.wrapping_add(LIVE);
                self.free.push(slot);
                true
            }
            _ => false,
        }
    }

    /// Whether `slot` is given out, in this generation.
    pub fn is_live(&self, slot: u32, generation: u32) -> bool {
        self.slots
            .get(slot as usize)
            .is_some_and(|&word| word & LIVE != 0 && word >> 1 == generation)
    }

    /// Whether `slot` is given out.
    pub fn has(&self, slot: u32) -> bool {
        self.is_live(slot, self.generation(slot))
    }

    /// How often `slot` had been used before; the generation of its present user if it is live.
    pub fn generation(&self, slot: u32) -> u32 {
        self.slots.get(slot as usize).map_or(0, |word| word >> 1)
    }

    /// Live slots.
    pub fn len(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Most slots that can be live at a time.
    pub fn capacity(&self) -> u32 {
        self.max
    }

    /// Slots below this have been used at least once: columns need not be longer.
    pub fn high_water(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The live slots in ascending order; for shutdown and statistics, not for hot paths.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..)
            .zip(&self.slots)
            .filter(|(_, word)| **word & LIVE != 0)
            .map(|(slot, _)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_freed_slot_comes_back_first_with_another_generation() {
        let mut slots = Slots::new(2).unwrap();
        let a = slots.alloc().unwrap();
        let b = slots.alloc().unwrap();
        assert_eq!((a, b, slots.alloc()), (0, 1, None));
        assert!(slots.free(a));
        assert!(!slots.free(a), "twice");
        assert!(!slots.is_live(a, 0));
        assert_eq!(slots.alloc(), Some(a));
        assert!(slots.is_live(a, 1) && !slots.is_live(a, 0));
        assert!(!slots.free(7));
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(ops in prop::collection::vec((any::<bool>(), 0u32..12), 0..300)) {
            let mut slots = Slots::new(8).unwrap();
            let mut live = BTreeMap::new();
            for (is_alloc, pick) in ops {
                if is_alloc {
                    match slots.alloc() {
                        Some(slot) => prop_assert!(live.insert(slot, slots.generation(slot)).is_none()),
                        None => prop_assert_eq!(live.len(), 8),
                    }
                } else {
                    prop_assert_eq!(slots.free(pick), live.remove(&pick).is_some());
                }
                prop_assert_eq!(slots.len() as usize, live.len());
                prop_assert!(live.iter().all(|(&slot, &generation)| slots.is_live(slot, generation)));
                prop_assert!(slots.iter().eq(live.keys().copied()));
            }
        }
    }
}
