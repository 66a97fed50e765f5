//! Who watches whom, and what may be ready: lists of entries, no search, no scan.
//!
//! As in Linux, an entry is queued in its instance when something it is interested in may have
//! become true. Whether it is true is looked up only when the application waits. A level-triggered
//! entry that is true is queued again at the end, so that all get their turn.

use super::events::{Events, Interest};
use crate::SocketId;
use crate::slab::Slab;
use crate::socket::table::NONE;

/// Bits that say how, not what.
const HOW: Events = Events::ET.union(Events::ONESHOT);
/// Always of interest.
const ALWAYS: Events = Events::ERR.union(Events::HUP);

/// One socket in one instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    instance: u32,
    pub(crate) socket: SocketId,
    pub(crate) events: Events,
    /// Of [`Interest::data`], in two words: it need not be aligned.
    data: [u32; 2],
    previous: u32,
    next: u32,
    /// The next entry that watches the same socket.
    sibling: u32,
    /// Low bits of [`Self::done`].
    done: u16,
    queued: Queued,
    /// After a one-shot report there is nothing more to report.
    pub(crate) disarmed: bool,
}

const _: () = assert!(size_of::<Option<Entry>>() == 36);

/// Why an entry is in the ready list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queued {
    /// It is not.
    No,
    /// Something may have become true that has not been reported.
    News,
    /// It has been reported, and is true as long as it is.
    Level,
}

impl Entry {
    fn set_interest(&mut self, interest: Interest) {
        self.events = interest.events;
        self.data = [interest.data as u32, (interest.data >> 32) as u32];
        self.disarmed = false;
        self.set_done(Events::empty());
    }

    pub(crate) fn data(&self) -> u64 {
        let [low, high] = self.data;
        u64::from(high) << 32 | u64::from(low)
    }

    /// What to report.
    pub(crate) fn armed(&self) -> Events {
        if self.disarmed {
            Events::empty()
        } else {
            self.events.difference(HOW) | ALWAYS
        }
    }

    /// Reported already of what is true, where bits are reported one at a time. All that can be
    /// true is in the low 16 bits.
    pub(crate) fn done(&self) -> Events {
        Events::from_bits_truncate(self.done.into())
    }

    pub(crate) fn set_done(&mut self, done: Events) {
        self.done = done.bits() as u16;
    }
}

/// One epoll instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instance {
    head: u32,
    tail: u32,
    /// How many are in the ready list for [news](Queued::News) ...
    news: u32,
    /// ... and for a [level](Queued::Level). Each changes alone: where both change they become one
    /// vector, and to load that after a store to one half of it is to wait until all stores before
    /// have left the store buffer, those to lines of other processors among them.
    levels: u32,
}

impl Instance {
    /// How many are in the ready list for this reason, which is one.
    fn count(&mut self, why: Queued) -> &mut u32 {
        match why {
            Queued::News => &mut self.news,
            Queued::No | Queued::Level => &mut self.levels,
        }
    }
}

/// All instances and entries of a context.
#[derive(Debug)]
pub(crate) struct Watch {
    entries: Slab<Entry>,
    instances: Slab<Instance>,
}

impl Watch {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Slab::new(),
            instances: Slab::new(),
        }
    }

    pub(crate) fn create(&mut self) -> u32 {
        self.instances.insert(Instance {
            head: NONE,
            tail: NONE,
            news: 0,
            levels: 0,
        })
    }

    /// Whether there is no instance.
    pub(crate) fn is_empty(&self) -> bool {
        self.instances.iter().next().is_none()
    }

    /// Entries of an instance, to be removed before it.
    pub(crate) fn members(&self, instance: u32) -> Vec<(u32, SocketId)> {
        let of = |(index, entry): (u32, &Entry)| {
            (entry.instance == instance).then_some((index, entry.socket))
        };
        self.entries.iter().filter_map(of).collect()
    }

    pub(crate) fn destroy(&mut self, instance: u32) {
        self.instances.remove(instance);
    }

    pub(crate) fn queued(&self, instance: u32) -> u32 {
        self.instances
            .get(instance)
            .map_or(0, |instance| instance.news + instance.levels)
    }

    /// Whether there may be something that has not been reported, other than levels that stay true.
    pub(crate) fn has_news(&self, instance: u32) -> bool {
        self.instances
            .get(instance)
            .is_some_and(|instance| instance.news > 0)
    }

    /// The entry of `instance` among those that watch a socket.
    pub(crate) fn find(&self, first: u32, instance: u32) -> Option<u32> {
        let mut index = first;
        while let Some(entry) = self.entries.get(index) {
            if entry.instance == instance {
                return Some(index);
            }
            index = entry.sibling;
        }
        None
    }

    /// What is asked for of a socket that `first` and its siblings watch, in an instance. `None`:
    /// nothing, or it was reported the one time that was asked for.
    pub(crate) fn interest(&self, (first, instance): (u32, u32)) -> Option<Interest> {
        let entry = self.entries.get(self.find(first, instance)?)?;
        (!entry.disarmed).then(|| Interest {
            events: entry.events,
            data: entry.data(),
        })
    }

    /// A new entry, to be queued unless nothing can be true yet that it is interested in. Returns
    /// it as the new first of those that watch the socket.
    pub(crate) fn add(
        &mut self,
        instance: u32,
        socket: SocketId,
        interest: Interest,
        first: u32,
    ) -> u32 {
        let mut entry = Entry {
            instance,
            socket,
            events: Events::empty(),
            data: [0; 2],
            previous: NONE,
            next: NONE,
            sibling: first,
            done: 0,
            queued: Queued::No,
            disarmed: false,
        };
        entry.set_interest(interest);
        self.entries.insert(entry)
    }

    /// Replaces the interest of an entry, arms and queues it.
    pub(crate) fn modify(&mut self, index: u32, interest: Interest) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.set_interest(interest);
            self.queue(index);
        }
    }

    /// Removes an entry. Returns the new first of those that watch the socket.
    pub(crate) fn remove(&mut self, index: u32, first: u32) -> u32 {
        self.unqueue(index);
        let Some(entry) = self.entries.remove(index) else {
            return first;
        };
        if first == index {
            return entry.sibling;
        }
        let mut at = first;
        while let Some(other) = self.entries.get_mut(at) {
            if other.sibling == index {
                other.sibling = entry.sibling;
                break;
            }
            at = other.sibling;
        }
        first
    }

    /// Removes all entries that watch a socket.
    pub(crate) fn remove_all(&mut self, first: u32) {
        let mut at = first;
        while at != NONE {
            at = self.remove(at, at);
        }
    }

    /// Queues those that watch a socket and are interested in any of `edges`.
    #[inline]
    pub(crate) fn news(&mut self, first: u32, edges: Events) {
        let mut index = first;
        while let Some(entry) = self.entries.get_mut(index) {
            let sibling = entry.sibling;
            if entry.armed().intersects(edges) {
                entry.set_done(entry.done().difference(edges));
                self.queue(index);
            }
            index = sibling;
        }
    }

    /// Asks for the entry at `index`, if there is one.
    pub(crate) fn prefetch(&self, index: u32) {
        self.entries.prefetch(index);
    }

    pub(crate) fn entry_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.entries.get_mut(index)
    }

    /// There may be news: appends to the ready list, unless it is there.
    pub(crate) fn queue(&mut self, index: u32) {
        self.append(index, Queued::News);
    }

    /// What was reported stays true: appends to the ready list.
    pub(crate) fn requeue(&mut self, index: u32) {
        self.append(index, Queued::Level);
    }

    fn append(&mut self, index: u32, why: Queued) {
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        let Some(instance) = self.instances.get_mut(entry.instance) else {
            return;
        };
        if entry.queued == Queued::News {
            return;
        }
        let before = std::mem::replace(&mut entry.queued, why);
        *instance.count(why) += 1;
        if before == Queued::Level {
            instance.levels -= 1;
            return;
        }
        entry.previous = instance.tail;
        entry.next = NONE;
        let tail = std::mem::replace(&mut instance.tail, index);
        match self.entries.get_mut(tail) {
            Some(last) => last.next = index,
            None => instance.head = index,
        }
    }

    /// Takes out of the ready list, if it is there.
    pub(crate) fn unqueue(&mut self, index: u32) {
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        let Some(instance) = self.instances.get_mut(entry.instance) else {
            return;
        };
        let why = std::mem::replace(&mut entry.queued, Queued::No);
        if why == Queued::No {
            return;
        }
        *instance.count(why) -= 1;
        let (previous, next) = (entry.previous, entry.next);
        match self.entries.get_mut(previous) {
            Some(before) => before.next = next,
            None => instance.head = next,
        }
        match self.entries.get_mut(next) {
            Some(after) => after.previous = previous,
            None => instance.tail = previous,
        }
    }

    /// The ready list: each socket, and what to report of it.
    pub(crate) fn queue_of(&self, instance: u32) -> Vec<(SocketId, Events)> {
        let mut next = self
            .instances
            .get(instance)
            .map_or(NONE, |instance| instance.head);
        let mut list = Vec::new();
        while let Some(entry) = self.entries.get(next) {
            list.push((entry.socket, entry.armed()));
            next = entry.next;
        }
        list
    }

    /// Takes the first of the ready list.
    pub(crate) fn pop(&mut self, instance: u32) -> Option<u32> {
        let head = self.instances.get(instance)?.head;
        self.entries.get(head)?;
        self.unqueue(head);
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(
        watch: &mut Watch,
        instance: u32,
        socket: SocketId,
        interest: Interest,
        first: u32,
    ) -> u32 {
        let index = watch.add(instance, socket, interest, first);
        watch.queue(index);
        index
    }

    fn interest(events: Events) -> Interest {
        Interest { events, data: 0 }
    }

    fn drain(watch: &mut Watch, instance: u32) -> Vec<u32> {
        std::iter::from_fn(|| watch.pop(instance)).collect()
    }

    #[test]
    fn entries_are_queued_once_and_in_order() {
        let mut watch = Watch::new();
        let ep = watch.create();
        let entries: Vec<u32> = (0..3)
            .map(|s| add(&mut watch, ep, SocketId(s), interest(Events::IN), NONE))
            .collect();
        watch.queue(entries[0]);
        assert_eq!(watch.queued(ep), 3);
        assert_eq!(drain(&mut watch, ep), entries);
        assert_eq!(watch.queued(ep), 0);
        watch.queue(entries[2]);
        watch.queue(entries[1]);
        watch.unqueue(entries[2]);
        watch.unqueue(entries[2]);
        assert_eq!(drain(&mut watch, ep), [entries[1]]);
    }

    #[test]
    fn what_was_reported_is_news_no_more() {
        let mut watch = Watch::new();
        let ep = watch.create();
        let entries =
            [0, 1, 2].map(|s| add(&mut watch, ep, SocketId(s), interest(Events::IN), NONE));
        for &entry in &entries {
            assert!(watch.has_news(ep));
            assert_eq!(watch.pop(ep), Some(entry));
            watch.requeue(entry);
        }
        assert!(!watch.has_news(ep));
        assert_eq!(watch.queued(ep), 3);
        // More has come for one that is there.
        watch.queue(entries[1]);
        watch.queue(entries[1]);
        assert!(watch.has_news(ep));
        assert_eq!(watch.pop(ep), Some(entries[0]));
        assert!(watch.has_news(ep));
        watch.requeue(entries[1]);
        assert!(watch.has_news(ep), "it has not been reported");
        watch.remove(entries[1], NONE);
        assert!(!watch.has_news(ep));
        assert_eq!(drain(&mut watch, ep), [entries[2]]);
    }

    #[test]
    fn news_reaches_those_who_care_in_every_instance() {
        let mut watch = Watch::new();
        let (a, b) = (watch.create(), watch.create());
        let socket = SocketId(5);
        let first = add(&mut watch, a, socket, interest(Events::IN), NONE);
        let first = add(&mut watch, b, socket, interest(Events::OUT), first);
        drain(&mut watch, a);
        drain(&mut watch, b);
        watch.news(first, Events::IN);
        assert_eq!((watch.queued(a), watch.queued(b)), (1, 0));
        watch.news(first, Events::HUP);
        assert_eq!((watch.queued(a), watch.queued(b)), (1, 1));
    }

    #[test]
    fn removal_keeps_the_other_watchers() {
        let mut watch = Watch::new();
        let instances: Vec<u32> = (0..3).map(|_| watch.create()).collect();
        let mut first = NONE;
        for &ep in &instances {
            first = add(&mut watch, ep, SocketId(1), interest(Events::IN), first);
        }
        let middle = watch.find(first, instances[1]).unwrap();
        first = watch.remove(middle, first);
        assert!(watch.find(first, instances[1]).is_none());
        assert!(
            watch.find(first, instances[0]).is_some() && watch.find(first, instances[2]).is_some()
        );
        assert_eq!(watch.queued(instances[1]), 0);
        watch.remove_all(first);
        assert_eq!(
            (watch.queued(instances[0]), watch.queued(instances[2])),
            (0, 0)
        );
        assert!(watch.members(instances[0]).is_empty());
    }
}
