//! The stack's end: slots that a program holds and that have no connection any more.

use super::guests::{NOBODY, home_of, slot_in_home, slot_of};
use super::record::{Record, held};
use super::stack::StackStreams;

impl StackStreams {
    /// The slot of another process has no connection any more: it is closed now, or else by
    /// [`Self::close_abandoned`].
    pub fn abandon(&mut self, slot: u32) {
        self.turn_to(slot);
        if let Some(guest) = self.guests.at_mut(slot) {
            guest.set_owner(slot_in_home(slot), NOBODY);
        }
        self.close_elsewhere(slot);
    }

    /// Closes a slot of a home that was [abandoned](Self::abandon) and that its program has
    /// released since. False: it is none of the kind, and nothing was done.
    pub fn close_abandoned(&mut self, home: u32, slot: u32) -> bool {
        let all = slot_of(home, slot);
        if home_of(all) != home || self.owner_of(all) != NOBODY {
            return false;
        }
        self.turn_to(all);
        self.close_elsewhere(all)
    }

    /// Closes all of a home whose program is gone.
    pub(super) fn close_all_abandoned(&mut self, home: u32) {
        let used = self.guests.home(home).map_or(0, |guest| guest.used);
        for slot in 0..used {
            let record = self.shared.records.record(slot_of(home, slot));
            if record.is_some_and(Record::is_open) {
                self.close_abandoned(home, slot);
            }
        }
    }

    /// Whether the application holds the slot.
    pub fn is_held(&self, slot: u32) -> bool {
        self.shared.records.record(slot).is_some_and(held)
    }
}
