//! The stack's end: slots that a program holds and that have no connection any more.

use super::guests::{NOBODY, home_of, slot_in_home, slot_of};
use super::homes::Homes;
use super::record::Record;

impl Homes<'_> {
    /// The slot of another process has no connection any more: it is closed now, or else by
    /// [`Self::close_abandoned`].
    pub fn abandon(&mut self, slot: u32) {
        self.0.turn_to(slot);
        if let Some(guest) = self.0.guests.at_mut(slot) {
            guest.set_owner(slot_in_home(slot), NOBODY);
        }
        self.0.close_elsewhere(slot);
    }

    /// Closes a slot of a home that was [abandoned](Self::abandon) and that its program has
    /// released since. False: it is none of the kind, and nothing was done.
    pub fn close_abandoned(&mut self, home: u32, slot: u32) -> bool {
        let all = slot_of(home, slot);
        if home_of(all) != home || self.0.owner_of(all) != NOBODY {
            return false;
        }
        self.0.turn_to(all);
        self.0.close_elsewhere(all)
    }

    /// Closes all of a home whose program is gone.
    pub(super) fn close_all_abandoned(&mut self, home: u32) {
        let used = self.0.guests.home(home).map_or(0, |guest| guest.used);
        for slot in 0..used {
            let record = self.0.shared.records.record(slot_of(home, slot));
            if record.is_some_and(Record::is_open) {
                self.close_abandoned(home, slot);
            }
        }
    }
}
