//! Things with small numbers.

use ring::prefetch::prefetch_all;

/// A growing array whose holes are reused, the youngest first.
#[derive(Debug)]
pub struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Puts `value` in and says where.
    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop()
            && let Some(entry) = self.entries.get_mut(index as usize)
        {
            *entry = Some(value);
            return index;
        }
        self.entries.push(Some(value));
        // One per socket at most, and sockets are numbered in 32 bits.
        u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
    }

    /// What is at `index`.
    pub fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_ref()
    }

    /// Hints the processor to load what is at `index` early; nothing when there is nothing.
    pub fn prefetch(&self, index: u32) {
        if let Some(entry) = self.entries.get(index as usize) {
            prefetch_all(entry);
        }
    }

    /// As [`Slab::get`], to change.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    /// Takes out what is at `index`, which is free then.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.entries.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(value)
    }

    /// All of them, to change.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().flatten()
    }

    /// All of them, with where they are.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..)
            .zip(&self.entries)
            .filter_map(|(index, entry)| Some((index, entry.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_reused() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.insert('c'), a);
        assert_eq!(slab.get(b), Some(&'b'));
        slab.prefetch(b);
        slab.prefetch(99);
        assert_eq!(slab.iter().map(|(_, c)| *c).collect::<String>(), "cb");
    }
}
