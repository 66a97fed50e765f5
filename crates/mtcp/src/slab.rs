//! Things with small numbers.

/// A growing array whose holes are reused, the youngest first.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Puts `value` in and says where.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
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

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.entries.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
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
        assert_eq!(slab.iter().map(|(_, c)| *c).collect::<String>(), "cb");
    }
}
