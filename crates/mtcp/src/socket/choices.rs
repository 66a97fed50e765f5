//! What the application chose for sockets. Mostly the same for very many: one record for all that
//! were set alike one after the other.

use std::time::Duration;

use mtcp_core::OptionsId;
use mtcp_core::command::{Keepalive, Options};

use super::{MtuDiscovery, SocketOption};
use crate::slab::Slab;

/// Records that are looked through for the same.
const RECENT: usize = 4;

/// Linux: 2 hours, 75 seconds, 9 probes.
/// RFC 9293 MUST-28.
const KEEPALIVE: Keepalive = Keepalive {
    idle: Duration::from_secs(7200),
    interval: Duration::from_secs(75),
    count: 9,
};

/// What the application chose for a socket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Choices {
    pub(crate) options: Options,
    pub(crate) keepalive: Keepalive,
    /// Bytes without which a stream is not readable.
    pub(crate) recv_low_water: u32,
    /// How long calls wait; `None`: for ever.
    pub(crate) recv_timeout: Option<Duration>,
    pub(crate) send_timeout: Option<Duration>,
    /// SO_INCOMING_CPU as it was set.
    pub(crate) incoming_cpu: Option<i32>,
    /// IP_MTU_DISCOVER and IPV6_MTU_DISCOVER.
    pub(crate) mtu_discovery: (MtuDiscovery, MtuDiscovery),
}

impl Choices {
    /// `options`, and what Linux does.
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            keepalive: KEEPALIVE,
            recv_low_water: 1,
            recv_timeout: None,
            send_timeout: None,
            incoming_cpu: None,
            mtu_discovery: Default::default(),
        }
    }
}

/// Which record. Whoever has one is a user of it, until it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChoicesId(u32);

#[derive(Clone, Copy, Debug)]
struct Record {
    choices: Choices,
    users: u32,
    /// What the stack calls the options.
    known: OptionsId,
}

/// What an option made of a record.
#[derive(Clone, Copy, Debug)]
struct Change {
    before: ChoicesId,
    option: SocketOption,
    after: ChoicesId,
}

/// The records of all sockets.
#[derive(Debug)]
pub(crate) struct ChoiceSets {
    records: Slab<Record>,
    /// Of sockets that nothing was chosen for.
    usual: ChoicesId,
    /// What an id without a record stands for.
    none: Choices,
    /// The choices made last: programs choose the same few things, one after the other, for each
    /// socket.
    recent: [ChoicesId; RECENT],
    /// The change made last.
    change: Option<Change>,
}

impl ChoiceSets {
    pub(crate) fn new(usual: Choices) -> Self {
        let mut records = Slab::new();
        let users = 1 + RECENT as u32;
        let id = ChoicesId(records.insert(Record {
            choices: usual,
            users,
            known: OptionsId::NONE,
        }));
        Self {
            records,
            usual: id,
            none: usual,
            recent: [id; RECENT],
            change: None,
        }
    }

    pub(crate) fn at(&self, id: ChoicesId) -> &Choices {
        let record = self.records.get(id.0);
        record.map_or(&self.none, |record| &record.choices)
    }

    /// What the stack called the options when a socket with them connected last.
    pub(crate) fn known(&self, id: ChoicesId) -> OptionsId {
        let record = self.records.get(id.0);
        record.map_or(OptionsId::NONE, |record| record.known)
    }

    /// Notes what the stack calls the options.
    pub(crate) fn note_known(&mut self, id: ChoicesId, known: OptionsId) {
        if let Some(record) = self.records.get_mut(id.0) {
            record.known = known;
        }
    }

    /// The record of sockets that nothing was chosen for.
    pub(crate) fn usual_id(&self) -> ChoicesId {
        self.usual
    }

    /// What sockets that nothing was chosen for have from now on.
    pub(crate) fn set_usual(&mut self, choices: &Choices) {
        let id = self.take(choices);
        let before = std::mem::replace(&mut self.usual, id);
        self.release(before);
    }

    /// For a socket that nothing was chosen for.
    pub(crate) fn usual(&mut self) -> ChoicesId {
        self.share(self.usual)
    }

    /// The same for one more user.
    pub(crate) fn share(&mut self, id: ChoicesId) -> ChoicesId {
        if let Some(record) = self.records.get_mut(id.0) {
            record.users += 1;
        }
        id
    }

    /// What a connection has of the choices of its listener.
    pub(crate) fn inherited(&mut self, id: ChoicesId) -> ChoicesId {
        if self.at(id).options.defer_accept == 0 {
            return self.share(id);
        }
        let mut own = *self.at(id);
        own.options.defer_accept = 0;
        self.take(&own)
    }

    /// A user is gone.
    pub(crate) fn release(&mut self, id: ChoicesId) {
        let Some(record) = self.records.get_mut(id.0) else {
            return;
        };
        record.users -= 1;
        if record.users == 0 {
            self.records.remove(id.0);
        }
    }

    /// A record of `choices`, for one more user.
    pub(crate) fn take(&mut self, choices: &Choices) -> ChoicesId {
        let is_same = |&&id: &&ChoicesId| self.at(id) == choices;
        if let Some(&same) = self.recent.iter().find(is_same) {
            return self.share(same);
        }
        let record = Record {
            choices: *choices,
            users: 2,
            known: OptionsId::NONE,
        };
        let id = ChoicesId(self.records.insert(record));
        self.recent.rotate_right(1);
        let oldest = std::mem::replace(&mut self.recent[0], id);
        self.release(oldest);
        id
    }

    /// What `option` makes of `before`, for one more user, if that was the last change that was
    /// noted.
    pub(crate) fn changed(&mut self, before: ChoicesId, option: SocketOption) -> Option<ChoicesId> {
        let change = self.change.as_ref();
        let after = change
            .filter(|change| change.before == before && change.option == option)?
            .after;
        Some(self.share(after))
    }

    /// Notes what `option`, and nothing else, made of `before`.
    pub(crate) fn note_change(
        &mut self,
        before: ChoicesId,
        option: SocketOption,
        after: ChoicesId,
    ) {
        let change = Change {
            before: self.share(before),
            option,
            after: self.share(after),
        };
        if let Some(old) = self.change.replace(change) {
            self.release(old.before);
            self.release(old.after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn low_water(bytes: u32) -> Choices {
        Choices {
            recv_low_water: bytes,
            ..Choices::new(Options::default())
        }
    }

    #[test]
    fn what_is_chosen_alike_is_one_record() {
        let mut sets = ChoiceSets::new(low_water(1));
        assert_eq!(sets.take(&low_water(1)), sets.usual());
        let two = sets.take(&low_water(2));
        assert_eq!(sets.take(&low_water(2)), two);
        assert_eq!(
            (*sets.at(two), *sets.at(sets.usual)),
            (low_water(2), low_water(1))
        );
    }

    #[test]
    fn records_go_with_their_last_user_and_are_not_found_any_more() {
        let mut sets = ChoiceSets::new(low_water(1));
        for n in 2..100 {
            let (id, again) = (sets.take(&low_water(n)), sets.take(&low_water(n)));
            assert_eq!((id, *sets.at(id)), (again, low_water(n)));
            sets.release(id);
            assert_eq!(*sets.at(again), low_water(n));
            sets.release(again);
        }
        // The usual one, and those that are looked through.
        assert_eq!(sets.records.iter().count(), 1 + RECENT);
    }

    #[test]
    fn a_change_is_known_as_long_as_it_is_the_last() {
        let mut sets = ChoiceSets::new(low_water(1));
        let (one, two) = (sets.usual(), sets.take(&low_water(2)));
        let [on, off] = [true, false].map(SocketOption::NoDelay);
        assert_eq!(sets.changed(one, on), None);
        sets.note_change(one, on, two);
        assert_eq!(sets.changed(one, on), Some(two));
        assert_eq!(
            (sets.changed(one, off), sets.changed(two, on)),
            (None, None)
        );
        // Nobody but the change has it, and it is what it was.
        sets.release(two);
        sets.release(two);
        for n in 3..20 {
            let id = sets.take(&low_water(n));
            sets.release(id);
        }
        assert_eq!(
            sets.changed(one, on).map(|id| *sets.at(id)),
            Some(low_water(2))
        );
        sets.note_change(one, off, one);
        assert_eq!(
            (sets.changed(one, on), sets.changed(one, off)),
            (None, Some(one))
        );
    }
}
