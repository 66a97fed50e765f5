//! Transactions in the order in which they began, although they end in another.

use std::collections::BTreeMap;

use crate::Transaction;

/// When a transaction began, microseconds, and which one of those that began then.
pub(super) type Place = (u64, u64);

/// Those that began before one that has not ended wait for it.
#[derive(Debug, Default)]
pub(super) struct Order {
    waiting: BTreeMap<Place, Option<Transaction>>,
    begun: u64,
    ready_until: Option<u64>,
}

impl Order {
    /// A transaction begins.
    pub(super) fn begin(&mut self, time_us: u64) -> Place {
        self.begun += 1;
        // Packets of a capture may go back in time a little; a log does not.
        let time_us = self.ready_until.map_or(time_us, |until| until.max(time_us));
        let place = (time_us, self.begun);
        self.waiting.insert(place, None);
        place
    }

    /// It ended.
    pub(super) fn end(&mut self, place: Place, transaction: Transaction) {
        self.waiting.insert(place, Some(transaction));
    }

    /// It is not one for the log.
    pub(super) fn leave_out(&mut self, place: Place) {
        self.waiting.remove(&place);
    }

    /// The next one of the log, if all before it have ended.
    pub(super) fn pop(&mut self) -> Option<Transaction> {
        let first = self.waiting.first_entry()?;
        if first.get().is_none() {
            return None;
        }
        let (place, transaction) = first.remove_entry();
        self.ready_until = Some(place.0);
        transaction
    }
}
