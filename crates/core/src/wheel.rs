//! The timing wheel: hierarchical, ticks of 1 ms, O(1) to set, move and cancel.

use std::io;
use std::time::Duration;

use wire::time::Instant;

use crate::flow::{index, tag};

/// Each level has 256 slots and each slot of a level spans the whole level below. Six levels reach
/// beyond [`Instant::FAR`].
const LEVELS: usize = 6;
const BITS: u32 = 8;
const SLOTS: usize = 1 << BITS;
const NIL: u32 = u32::MAX;
/// In `next`: not scheduled.
const IDLE: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Node {
    next: u32,
    prev: u32,
    /// Tick at which it is due.
    expires: u64,
}

const IDLE_NODE: Node = Node {
    next: IDLE,
    prev: NIL,
    expires: 0,
};

#[derive(Debug)]
struct Level {
    heads: [u32; SLOTS],
    occupied: [u64; SLOTS / 64],
}

impl Level {
    const EMPTY: Self = Self {
        heads: [NIL; SLOTS],
        occupied: [0; SLOTS / 64],
    };

    fn mark(&mut self, slot: usize, head: u32) {
        self.heads[slot % SLOTS] = head;
        let bit = 1u64 << (slot % 64);
        let word = &mut self.occupied[(slot / 64) % (SLOTS / 64)];
        *word = if head == NIL {
            *word & !bit
        } else {
            *word | bit
        };
    }

    /// The first occupied slot at or after `from`.
    fn first_from(&self, from: usize) -> Option<usize> {
        (from / 64..SLOTS / 64).find_map(|i| {
            let mask = if i == from / 64 {
                u64::MAX << (from % 64)
            } else {
                u64::MAX
            };
            let word = self.occupied[i] & mask;
            (word != 0).then(|| i * 64 + word.trailing_zeros() as usize)
        })
    }
}

/// Timers named by the ids of [`crate::flow`] (two tag bits and a slot), at most one per id.
///
/// A timer sits on the level of the highest byte in which its tick differs from `current`, in the
/// slot which that byte names; so every occupied slot of every level lies ahead of `current`, and
/// moving `current` to the start of an occupied slot spreads that slot's timers over the levels
/// below. A timer moves at most once per level. A timer never fires early; it fires at most 1 ms
/// late.
#[derive(Debug)]
pub struct Wheel {
    levels: Box<[Level; LEVELS]>,
    /// One column of nodes for each tag, as long as the highest slot used needs.
    nodes: [Vec<Node>; 4],
    capacities: [u32; 4],
    current: u64,
    len: u32,
}

fn slot_of(tick: u64, level: usize) -> usize {
    (tick >> (BITS * level as u32)) as usize % SLOTS
}

impl Wheel {
    /// For the slots `0..capacities[tag]` of each tag. Address space is reserved at once, memory is
    /// touched as slots are used.
    ///
    /// # Errors
    /// Out of memory, or a capacity beyond 2^30 - 2.
    pub fn new(capacities: [u32; 4]) -> io::Result<Self> {
        if capacities.iter().any(|&capacity| capacity > (1 << 30) - 2) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "more than 2^30 - 2 timers",
            ));
        }
        let mut nodes: [Vec<Node>; 4] = Default::default();
        for (column, capacity) in nodes.iter_mut().zip(capacities) {
            column.try_reserve_exact(capacity as usize)?;
        }
        let levels = Box::new([const { Level::EMPTY }; LEVELS]);
        Ok(Self {
            levels,
            nodes,
            capacities,
            current: 0,
            len: 0,
        })
    }

    /// Timers that are set.
    pub fn count(&self) -> u32 {
        self.len
    }

    /// Sets the timer `id` to fire at `at`, instead of when it would have fired. False if `id` is
    /// beyond the capacity of its tag.
    pub fn schedule(&mut self, id: u32, at: Instant) -> bool {
        match self.node(id).map(|node| node.next == IDLE) {
            Some(true) => self.len += 1,
            Some(false) => {
                self.unlink(id);
            }
            None if self.grow(id) => self.len += 1,
            None => return false,
        }
        // Rounded up: never early.
        let expires = at.as_nanos().div_ceil(1_000_000).max(self.current);
        self.link(id, expires);
        true
    }

    /// Stops the timer `id`; false if it was not set.
    #[inline]
    pub fn cancel(&mut self, id: u32) -> bool {
        let is_scheduled = self.unlink(id);
        self.len -= u32::from(is_scheduled);
        is_scheduled
    }

    /// Whether the timer `id` is set.
    #[cfg(test)]
    pub fn is_scheduled(&self, id: u32) -> bool {
        self.node(id).is_some_and(|node| node.next != IDLE)
    }

    /// When the timer `id` fires, if it is set.
    pub fn deadline(&self, id: u32) -> Option<Instant> {
        let node = self.node(id).filter(|node| node.next != IDLE)?;
        Some(Instant::from_millis(node.expires))
    }

    /// The next timer that is due at `now`, which stops it; `None` when no more are due.
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let target = now.as_millis().max(self.current);
        loop {
            let due = self.levels[0].heads[slot_of(self.current, 0)];
            if due != NIL {
                self.cancel(due);
                return Some(due);
            }
            // All that is set lies ahead of `current`: a spinning driver asks many times in a tick.
            if self.current == target {
                return None;
            }
            match self.next_slot() {
                Some((level, start)) if start <= target => {
                    self.current = start;
                    self.cascade(level, slot_of(start, level));
                }
                _ => {
                    self.current = target;
                    return None;
                }
            }
        }
    }

    /// When [`pop_due`](Self::pop_due) wants to be called: never later than the first timer is due;
    /// earlier, at most once for each level, when that one is so far away that it sits on a higher
    /// level.
    pub fn next_deadline(&self) -> Option<Instant> {
        let (_, start) = self.next_slot()?;
        Some(Instant::ZERO + Duration::from_millis(start))
    }

    /// The first occupied slot: its level and the tick at which it begins.
    fn next_slot(&self) -> Option<(usize, u64)> {
        if self.len == 0 {
            return None;
        }
        self.levels.iter().enumerate().find_map(|(level, slots)| {
            let shift = BITS * level as u32;
            let slot = slots.first_from(slot_of(self.current, level))?;
            let upper = self.current >> (shift + BITS) << BITS;
            Some((level, (upper | slot as u64) << shift))
        })
    }

    fn cascade(&mut self, level: usize, slot: usize) {
        if level == 0 {
            return;
        }
        let mut id = self.levels[level].heads[slot];
        self.levels[level].mark(slot, NIL);
        while let Some(&Node { next, expires, .. }) = self.node(id) {
            self.link(id, expires);
            id = next;
        }
    }

    fn place(&self, expires: u64) -> (usize, usize) {
        let differing = 63 - (expires ^ self.current | 1).leading_zeros();
        let level = ((differing / BITS) as usize).min(LEVELS - 1);
        (level, slot_of(expires, level))
    }

    fn link(&mut self, id: u32, expires: u64) {
        let (level, slot) = self.place(expires);
        let next = self.levels[level].heads[slot];
        if let Some(node) = self.node_mut(next) {
            node.prev = id;
        }
        if let Some(node) = self.node_mut(id) {
            *node = Node {
                next,
                prev: NIL,
                expires,
            };
            self.levels[level].mark(slot, id);
        }
    }

    /// False if it was not linked.
    #[inline]
    fn unlink(&mut self, id: u32) -> bool {
        let Some(node) = self.node_mut(id).filter(|node| node.next != IDLE) else {
            return false;
        };
        let Node {
            next,
            prev,
            expires,
        } = std::mem::replace(node, IDLE_NODE);
        if let Some(after) = self.node_mut(next) {
            after.prev = prev;
        }
        if let Some(before) = self.node_mut(prev) {
            before.next = next;
        } else {
            let (level, slot) = self.place(expires);
            self.levels[level].mark(slot, next);
        }
        true
    }

    fn node(&self, id: u32) -> Option<&Node> {
        self.nodes[tag(id)].get(index(id))
    }

    fn node_mut(&mut self, id: u32) -> Option<&mut Node> {
        self.nodes[tag(id)].get_mut(index(id))
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, id: u32) -> bool {
        let (tag, index) = (tag(id), index(id));
        let column = &mut self.nodes[tag];
        if index >= column.len() && index < self.capacities[tag] as usize {
            column.resize(index + 1, IDLE_NODE);
        }
        index < column.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn rounds_up_and_never_fires_early() {
        let mut wheel = Wheel::new([4, 0, 0, 0]).unwrap();
        assert!(wheel.schedule(1, Instant::from_micros(1_001)));
        assert_eq!(wheel.pop_due(Instant::from_micros(1_999)), None);
        assert_eq!(wheel.next_deadline(), Some(ms(2)));
        assert_eq!(wheel.pop_due(ms(2)), Some(1));
        assert_eq!(
            (wheel.pop_due(ms(2)), wheel.next_deadline(), wheel.count()),
            (None, None, 0)
        );
    }

    #[test]
    fn a_timer_in_the_past_is_due_at_once() {
        let mut wheel = Wheel::new([4, 0, 0, 0]).unwrap();
        assert_eq!(wheel.pop_due(ms(70_000)), None);
        wheel.schedule(3, ms(5));
        assert_eq!(wheel.pop_due(ms(70_000)), Some(3));
    }

    #[test]
    fn ids_beyond_the_capacity_of_their_tag_are_refused() {
        let mut wheel = Wheel::new([1, 2, 0, 0]).unwrap();
        assert!(!wheel.schedule(1, ms(1)));
        assert!(wheel.schedule(1 << 30 | 1, ms(1)));
        assert!(
            !wheel.schedule(u32::MAX, ms(1))
                && !wheel.cancel(u32::MAX)
                && !wheel.is_scheduled(u32::MAX - 1)
        );
        assert_eq!(wheel.pop_due(ms(9)), Some(1 << 30 | 1));
        assert!(Wheel::new([1 << 30, 0, 0, 0]).is_err());
    }

    #[test]
    fn the_end_of_time_can_be_scheduled() {
        let mut wheel = Wheel::new([4, 0, 0, 0]).unwrap();
        wheel.schedule(0, Instant::FAR);
        assert_eq!(wheel.pop_due(ms(1 << 40)), None);
        assert!(wheel.cancel(0));
    }

    #[test]
    fn following_the_deadlines_takes_few_steps() {
        let mut wheel = Wheel::new([4, 0, 0, 0]).unwrap();
        wheel.schedule(0, ms(7_200_123));
        let mut now = Instant::ZERO;
        for steps in 0.. {
            assert!(steps <= LEVELS, "no progress");
            now = now.max(wheel.next_deadline().unwrap());
            if wheel.pop_due(now).is_some() {
                break;
            }
        }
        assert_eq!(now, ms(7_200_123));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Schedule(u32, u64),
        Cancel(u32),
        Advance(u64),
        Follow,
    }

    fn op() -> impl Strategy<Value = Op> {
        let id = (0u32..3, 0u32..20).prop_map(|(tag, slot)| tag << 30 | slot);
        let delay = prop_oneof![0u64..300, 0u64..70_000, 0u64..20_000_000, 0u64..(1 << 36)];
        prop_oneof![
            4 => (id.clone(), delay.clone()).prop_map(|(id, delay)| Op::Schedule(id, delay)),
            1 => id.prop_map(Op::Cancel),
            2 => delay.prop_map(Op::Advance),
            2 => Just(Op::Follow),
        ]
    }

    fn advance(wheel: &mut Wheel, oracle: &mut BTreeMap<u32, u64>, now: u64) {
        let due: BTreeSet<u32> = oracle
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(&id, _)| id)
            .collect();
        let mut popped = Vec::new();
        while let Some(id) = wheel.pop_due(ms(now)) {
            popped.push(
                oracle
                    .remove(&id)
                    .map(|at| (at, id))
                    .expect("an id that was set"),
            );
        }
        assert!(popped.is_sorted_by_key(|&(at, _)| at), "in order of time");
        assert_eq!(
            popped.iter().map(|&(_, id)| id).collect::<BTreeSet<_>>(),
            due
        );
    }

    proptest! {
        #[test]
        fn behaves_like_a_sorted_map(start in 0u64..(1 << 34), ops in prop::collection::vec(op(), 0..200)) {
            let mut wheel = Wheel::new([20, 20, 20, 0]).unwrap();
            let mut oracle = BTreeMap::new();
            let mut now = start;
            wheel.pop_due(ms(now));
            for op in ops {
                match op {
                    Op::Schedule(id, delay) => {
                        prop_assert!(wheel.schedule(id, ms(now + delay)));
                        oracle.insert(id, now + delay);
                    }
                    Op::Cancel(id) => prop_assert_eq!(wheel.cancel(id), oracle.remove(&id).is_some()),
                    Op::Advance(by) => {
                        now += by;
                        advance(&mut wheel, &mut oracle, now);
                    }
                    Op::Follow => if let Some(at) = wheel.next_deadline() {
                        now = now.max(at.as_millis());
                        advance(&mut wheel, &mut oracle, now);
                    }
                }
                prop_assert_eq!(wheel.count() as usize, oracle.len());
                let first = oracle.values().min().copied();
                prop_assert_eq!(wheel.next_deadline().is_some(), first.is_some());
                if let (Some(at), Some(first)) = (wheel.next_deadline(), first) {
                    prop_assert!(at.as_millis() <= first);
                }
                for id in (0..20).flat_map(|slot| [slot, 1 << 30 | slot, 2 << 30 | slot]) {
                    prop_assert_eq!(wheel.is_scheduled(id), oracle.contains_key(&id));
                }
            }
        }
    }
}
