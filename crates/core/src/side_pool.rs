//! Records that few connections have at a time, named by an index that the connection keeps.

use std::io;

use crate::arena::{SavedSlots, Slots};

/// See the module.
#[derive(Debug)]
pub(crate) struct SidePool<T> {
    slots: Slots,
    records: Vec<T>,
}

/// The index of a record that there may be, in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct MaybeIndex(u32);

impl MaybeIndex {
    pub const NONE: Self = Self(u32::MAX);

    pub fn get(self) -> Option<u32> {
        (self != Self::NONE).then_some(self.0)
    }

    pub fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// The index, which is forgotten here.
    pub fn take(&mut self) -> Option<u32> {
        std::mem::replace(self, Self::NONE).get()
    }
}

impl Default for MaybeIndex {
    fn default() -> Self {
        Self::NONE
    }
}

impl From<Option<u32>> for MaybeIndex {
    fn from(index: Option<u32>) -> Self {
        index.map_or(Self::NONE, Self)
    }
}

/// A pool on its way to another process.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct SavedPool<T> {
    slots: SavedSlots,
    records: Vec<T>,
}

impl<T> SavedPool<T> {
    pub fn records(&self) -> &[T] {
        &self.records
    }
}

impl<T: Clone> SidePool<T> {
    pub fn save(&self) -> SavedPool<T> {
        SavedPool {
            slots: self.slots.save(),
            records: self.records.clone(),
        }
    }

    /// Takes over what another had, where there is nothing yet. False, and nothing done: it
    /// contradicts itself, or it is too much.
    pub fn restore(&mut self, saved: SavedPool<T>) -> bool {
        let is_sound = saved.records.len() == saved.slots.len();
        if !is_sound || !self.slots.restore(&saved.slots) {
            return false;
        }
        self.records = saved.records;
        true
    }
}

impl<T> SidePool<T> {
    /// Address space for `max` records is reserved; memory is touched as they are used.
    pub fn new(max: u32) -> io::Result<Self> {
        let mut records = Vec::new();
        records.try_reserve_exact(max as usize)?;
        Ok(Self {
            slots: Slots::new(max)?,
            records,
        })
    }

    /// Keeps `record`; `None` if there is no room.
    pub fn insert(&mut self, record: T) -> Option<u32> {
        let slot = self.slots.alloc()?;
        match self.records.get_mut(slot as usize) {
            Some(entry) => *entry = record,
            None => self.records.push(record),
        }
        Some(slot)
    }

    /// The same with a copy, which goes from memory to memory: a large one has no room on the
    /// stacks of threads of a program.
    pub fn insert_copy(&mut self, record: &T) -> Option<u32>
    where
        T: Copy,
    {
        let slot = self.slots.alloc()?;
        match self.records.get_mut(slot as usize) {
            Some(entry) => entry.clone_from(record),
            None => self.records.extend_from_slice(std::slice::from_ref(record)),
        }
        Some(slot)
    }

    pub fn free(&mut self, slot: u32) {
        self.slots.free(slot);
    }

    /// Whether the record is in use, its slot having been used so often before.
    pub fn is_live(&self, slot: u32, generation: u32) -> bool {
        self.slots.is_live(slot, generation)
    }

    /// How often the slot had been used before.
    pub fn generation(&self, slot: u32) -> u32 {
        self.slots.generation(slot)
    }

    pub fn at(&self, slot: u32) -> Option<&T> {
        self.records.get(slot as usize)
    }

    pub fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.records.get_mut(slot as usize)
    }

    /// Records in use.
    /// The slots that are in use.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter()
    }

    /// The records in them.
    pub fn live(&self) -> impl Iterator<Item = &T> {
        self.slots().filter_map(|slot| self.at(slot))
    }

    pub fn len(&self) -> u32 {
        self.slots.len()
    }
}

impl<T: Default> SidePool<T> {
    /// A fresh record.
    pub fn alloc(&mut self) -> Option<u32> {
        self.insert(T::default())
    }
}
