//! The options of sockets. Very many have the same: one record for all that were set alike one
//! after the other.

use std::io;

use crate::command::Options;
use crate::id::OptionsId;
use crate::side_pool::{SavedPool, SidePool};

/// Records that are looked through for the same.
const RECENT: usize = 4;

/// See [`OptionSets`]: which record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct SetId(u32);

impl SetId {
    /// No record.
    pub const NONE: Self = Self(u32::MAX);
}

#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Set {
    options: Options,
    users: u32,
}

/// The options of all connections and listeners.
#[derive(Debug)]
pub(crate) struct OptionSets {
    sets: SidePool<Set>,
    /// The records taken last, the last first.
    recent: [SetId; RECENT],
    /// What a name without a record stands for.
    none: Options,
}

/// All of them on their way to another process.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct SavedOptionSets {
    sets: SavedPool<Set>,
    recent: [SetId; RECENT],
}

impl OptionSets {
    pub fn save(&self) -> SavedOptionSets {
        SavedOptionSets {
            sets: self.sets.save(),
            recent: self.recent,
        }
    }

    /// False: it contradicts itself.
    pub fn restore(&mut self, saved: SavedOptionSets) -> bool {
        self.recent = saved.recent;
        self.sets.restore(saved.sets)
    }

    /// For so many users.
    pub fn new(users: u32) -> io::Result<Self> {
        Ok(Self {
            sets: SidePool::new(users)?,
            recent: [SetId::NONE; RECENT],
            none: Options::default(),
        })
    }

    /// A record of `options` for one more user: `known`, if that is still there.
    #[inline]
    pub fn take_known(&mut self, known: OptionsId, options: &Options) -> SetId {
        let OptionsId { slot, generation } = known;
        if self.sets.is_live(slot, generation) {
            debug_assert_eq!(self.at(SetId(slot)), options);
            return self.share(SetId(slot));
        }
        self.take(options)
    }

    /// What to call a record so that it can be known again.
    pub fn name(&self, id: SetId) -> OptionsId {
        OptionsId {
            slot: id.0,
            generation: self.sets.generation(id.0),
        }
    }

    /// A record of `options` for one more user.
    pub fn take(&mut self, options: &Options) -> SetId {
        // By itself: in a loop, each of the many fields is kept at hand for the next turn.
        let last = self.recent[0];
        if self.is(last, options) {
            return self.share(last);
        }
        self.take_older(options)
    }

    #[inline(never)]
    fn take_older(&mut self, options: &Options) -> SetId {
        let place = self.recent.iter().position(|&id| self.is(id, options));
        let Some(place) = place else {
            return self.make(options);
        };
        if let Some(until) = self.recent.get_mut(..=place) {
            until.rotate_right(1);
        }
        self.share(self.recent[0])
    }

    fn is(&self, id: SetId, options: &Options) -> bool {
        let set = self.sets.at(id.0).filter(|set| set.users > 0);
        set.is_some_and(|set| set.options == *options)
    }

    fn make(&mut self, options: &Options) -> SetId {
        let set = Set {
            options: *options,
            users: 1,
        };
        let id = self.sets.insert(set).map_or(SetId::NONE, SetId);
        self.recent.rotate_right(1);
        self.recent[0] = id;
        id
    }

    /// The same for one more user.
    pub fn share(&mut self, id: SetId) -> SetId {
        if let Some(set) = self.sets.at_mut(id.0) {
            set.users += 1;
        }
        id
    }

    /// A user is gone.
    pub fn release(&mut self, id: SetId) {
        let Some(set) = self.sets.at_mut(id.0) else {
            return;
        };
        set.users = set.users.saturating_sub(1);
        if set.users == 0 {
            self.sets.free(id.0);
        }
    }

    pub fn at(&self, id: SetId) -> &Options {
        self.sets.at(id.0).map_or(&self.none, |set| &set.options)
    }

    /// Different records in use.
    #[cfg(test)]
    pub fn len(&self) -> u32 {
        self.sets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clamped(bytes: u32) -> Options {
        Options {
            window_clamp: Some(bytes),
            ..Options::default()
        }
    }

    #[test]
    fn what_is_set_alike_is_one_record_until_the_last_user_goes() {
        let mut sets = OptionSets::new(8).unwrap();
        let (one, two) = (sets.take(&clamped(1)), sets.take(&clamped(2)));
        assert_eq!(sets.take(&clamped(1)), one);
        assert_ne!(one, two);
        sets.release(one);
        assert_eq!((sets.at(one), sets.len()), (&clamped(1), 2));
        sets.release(one);
        assert_eq!(sets.len(), 1);
        // The name is free for others, and what it stood for is not found any more.
        let three = sets.take(&clamped(3));
        assert_eq!((three, *sets.at(three)), (one, clamped(3)));
        assert_ne!(sets.take(&clamped(1)), one);
    }

    #[test]
    fn a_record_is_known_until_its_last_user_goes() {
        let mut sets = OptionSets::new(8).unwrap();
        let one = sets.take(&clamped(1));
        let name = sets.name(one);
        assert_eq!(sets.take_known(name, &clamped(1)), one);
        sets.release(one);
        assert_eq!(sets.take_known(name, &clamped(1)), one);
        sets.release(one);
        sets.release(one);
        // The place is somebody else's.
        let two = sets.take(&clamped(2));
        assert_eq!(two, one);
        let other = sets.take_known(name, &clamped(1));
        assert_eq!((sets.at(other), sets.at(two)), (&clamped(1), &clamped(2)));
        let none = sets.take_known(OptionsId::NONE, &clamped(2));
        assert_eq!((none, sets.len()), (two, 2));
        // What found no room has no name.
        assert_eq!(sets.name(SetId::NONE).slot, OptionsId::NONE.slot);
        assert!(!sets.sets.is_live(OptionsId::NONE.slot, 0));
    }

    #[test]
    fn those_taken_last_are_found_again() {
        let mut sets = OptionSets::new(16).unwrap();
        let first = sets.take(&clamped(0));
        for other in 1..10 {
            sets.take(&clamped(other));
            assert_eq!(sets.take(&clamped(0)), first);
        }
        assert_eq!(sets.len(), 10);
    }

    #[test]
    fn without_room_the_defaults_hold() {
        let mut sets = OptionSets::new(1).unwrap();
        let (_one, two) = (sets.take(&clamped(1)), sets.take(&clamped(2)));
        assert_eq!(*sets.at(two), Options::default());
        sets.release(two);
        assert_eq!(sets.len(), 1);
    }
}
