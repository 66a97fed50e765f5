//! Ordered sets of sequence ranges: what a receiver holds out of order, and what a sender knows to
//! be held.
//!
//! In a fast long path every second segment of a window may be missing, and a window is thousands
//! of segments; most sets have one range, and most connections none. So sets are trees of nodes
//! from one pool, which grow with the holes. Whatever an ACK or a segment asks of a set costs the
//! logarithm of its size; ranges that are joined or forgotten cost once what it took to add them.

mod range;
mod tree;

use std::io;

use wire::seq::SeqNumber;

pub(crate) use range::Range;
use tree::{NIL, Trees};

/// Ranges that a set may have in any case.
pub(crate) const FEW: u32 = 32;
/// Most disjoint ranges of a set: every second segment of 1024 bytes missing from a window of 16
/// MiB.
const MOST: u32 = 8192;
/// Ranges that every set finds room for, however many the others have.
const OWN: u32 = 8;
/// Room for all others: 32 of the largest sets at a time.
const SHARED: u32 = 32 * MOST;

/// The set, or the pool, is full, and the range touches none that is in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Disjoint ranges that do not touch, in ascending order. All lie within half the sequence space.
/// Only a handle: see [`RangePool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeSet {
    root: u32,
    len: u32,
}

impl Default for RangeSet {
    fn default() -> Self {
        Self { root: NIL, len: 0 }
    }
}

/// How many ranges a set may have that spans `window` bytes: segments of half a KiB fit in with a
/// hole between any two, crumbs do not.
pub(crate) fn most_ranges(window: u32) -> u32 {
    (window >> 10).clamp(FEW, MOST)
}

/// Where sets keep their ranges.
#[derive(Debug)]
pub(crate) struct RangePool {
    trees: Trees,
    /// Sets that are not empty.
    sets: u32,
    /// Ranges that sets have beyond [`OWN`].
    shared: u32,
}

/// A set to look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranges<'a> {
    trees: &'a Trees,
    set: RangeSet,
}

impl RangePool {
    /// For at most so many sets; `seed` is secret.
    pub fn new(sets: u32, seed: u64) -> io::Result<Self> {
        let most = u64::from(sets) * u64::from(OWN) + u64::from(SHARED);
        Ok(Self {
            trees: Trees::new(usize::try_from(most).unwrap_or(usize::MAX), seed)?,
            sets: 0,
            shared: 0,
        })
    }

    /// How many sets are not empty.
    pub fn sets(&self) -> u32 {
        self.sets
    }

    pub fn view(&self, set: &RangeSet) -> Ranges<'_> {
        Ranges {
            trees: &self.trees,
            set: *set,
        }
    }

    /// Adds `[start, end)`, joined with what it overlaps or touches, if the set does not get more
    /// than `most` ranges by that.
    pub fn insert(
        &mut self,
        set: &mut RangeSet,
        start: SeqNumber,
        end: SeqNumber,
        most: u32,
    ) -> Result<(), Full> {
        if end <= start {
            return Ok(());
        }
        if !self.accepts(set, Range::new(start, end), most) {
            return Err(Full);
        }
        let trees = &mut self.trees;
        let (before, rest) = trees.split(set.root, |range| range.end < start);
        let (touching, behind) = trees.split(rest, |range| range.start <= end);
        let first = trees.find(touching, |_| false);
        let last = trees.last(touching);
        let joined = Range::new(
            first.map_or(start, |first| start.min(first.start)),
            last.map_or(end, |last| end.max(last.end)),
        );
        let gone = trees.fell(touching);
        let node = trees.plant(joined);
        let front = trees.merge(before, node);
        let root = trees.merge(front, behind);
        let len = set.len + 1 - gone;
        self.replace(set, RangeSet { root, len });
        Ok(())
    }

    /// Whether `insert` would take it.
    pub fn accepts(&self, set: &RangeSet, range: Range, most: u32) -> bool {
        let has_room = set.len < most && (set.len < OWN || self.shared < SHARED);
        has_room || self.view(set).touches(range.start, range.end)
    }

    /// Keeps the books.
    fn replace(&mut self, set: &mut RangeSet, new: RangeSet) {
        let beyond = |set: &RangeSet| set.len.saturating_sub(OWN);
        self.shared = self.shared + beyond(&new) - beyond(set);
        self.sets = self.sets + u32::from(new.len > 0) - u32::from(set.len > 0);
        *set = new;
    }

    /// Forgets everything before `seq`.
    pub fn remove_below(&mut self, set: &mut RangeSet, seq: SeqNumber) {
        let first = self.view(set).first();
        if first.is_none_or(|first| first.start >= seq) {
            return;
        }
        let trees = &mut self.trees;
        let (gone, rest) = trees.split(set.root, |range| range.end <= seq);
        let (cut, behind) = trees.split(rest, |range| range.start < seq);
        let len = set.len - trees.fell(gone);
        let root = match trees.last(cut) {
            Some(range) => {
                trees.fell(cut);
                let node = trees.plant(Range::new(seq, range.end));
                trees.merge(node, behind)
            }
            None => behind,
        };
        self.replace(set, RangeSet { root, len });
    }

    /// Fills an empty set with ranges that another process had. False: there is no room for them,
    /// or they are no ranges.
    pub fn restore(&mut self, set: &mut RangeSet, ranges: &[Range]) -> bool {
        let from = ranges.first().map_or(SeqNumber(0), |first| first.start);
        let mut last = 0;
        let mut put = |range: &Range| {
            let (start, end) = (range.start - from, range.end - from);
            let is_behind = start >= last && start < end && end <= u32::MAX / 2;
            last = end;
            is_behind && self.insert(set, range.start, range.end, MOST).is_ok()
        };
        ranges.iter().all(&mut put)
    }

    /// Forgets everything.
    pub fn clear(&mut self, set: &mut RangeSet) {
        self.trees.fell(set.root);
        self.replace(set, RangeSet::default());
    }
}

impl<'a> Ranges<'a> {
    pub fn is_empty(self) -> bool {
        self.set.len == 0
    }

    /// How many there are.
    pub fn len(self) -> u32 {
        self.set.len
    }

    /// Bytes in all of them.
    pub fn bytes(self) -> u32 {
        self.trees.bytes(self.set.root)
    }

    pub fn first(self) -> Option<Range> {
        self.trees.find(self.set.root, |_| false)
    }

    /// The first range that ends behind `seq`.
    fn reaching(self, seq: SeqNumber) -> Option<Range> {
        self.trees.find(self.set.root, |range| range.end <= seq)
    }

    /// All of them in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Range> + 'a {
        std::iter::successors(self.first(), move |range| self.reaching(range.end))
    }

    /// Whether `[start, end)` overlaps or touches any.
    fn touches(self, start: SeqNumber, end: SeqNumber) -> bool {
        let first = self.trees.find(self.set.root, |range| range.end < start);
        first.is_some_and(|range| range.start <= end)
    }

    /// The first part of `[start, end)` that is in the set.
    pub fn first_overlap(self, start: SeqNumber, end: SeqNumber) -> Option<Range> {
        let range = self.reaching(start)?;
        let overlap = Range::new(start.max(range.start), end.min(range.end));
        (overlap.start < overlap.end).then_some(overlap)
    }

    /// The first part of `[start, end)` that is not in the set.
    pub fn first_gap(self, start: SeqNumber, end: SeqNumber) -> Option<Range> {
        let from = self.containing(start).map_or(start, |range| range.end);
        let next = self.reaching(from);
        let to = next.map_or(end, |range| end.min(range.start));
        (from < to).then(|| Range::new(from, to))
    }

    /// Bytes of `[start, end)` that are in the set.
    pub fn covered(self, start: SeqNumber, end: SeqNumber) -> u32 {
        let before = |seq| self.trees.bytes_before(self.set.root, seq);
        if start < end {
            before(end) - before(start)
        } else {
            0
        }
    }

    /// The range that contains `seq`.
    pub fn containing(self, seq: SeqNumber) -> Option<Range> {
        self.reaching(seq).filter(|range| range.start <= seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn seq(n: u32) -> SeqNumber {
        SeqNumber(n)
    }

    fn pool() -> RangePool {
        RangePool::new(2, 0x5eed).unwrap()
    }

    /// A set with its pool.
    struct Alone(RangePool, RangeSet);

    impl Alone {
        fn new(ranges: &[(u32, u32)]) -> Self {
            let mut alone = Self(pool(), RangeSet::default());
            for &(start, end) in ranges {
                alone.insert(start, end).unwrap();
            }
            alone
        }

        fn insert(&mut self, start: u32, end: u32) -> Result<(), Full> {
            self.0.insert(&mut self.1, seq(start), seq(end), FEW)
        }

        fn view(&self) -> Ranges<'_> {
            self.0.view(&self.1)
        }

        fn shown(&self) -> Vec<(u32, u32)> {
            let ranges = self.view().iter();
            ranges.map(|range| (range.start.0, range.end.0)).collect()
        }
    }

    fn shown(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
        Alone::new(ranges).shown()
    }

    #[test]
    fn touching_and_overlapping_ranges_join() {
        assert_eq!(shown(&[(10, 20), (20, 30)]), [(10, 30)]);
        assert_eq!(shown(&[(20, 30), (10, 20)]), [(10, 30)]);
        assert_eq!(shown(&[(10, 20), (30, 40), (15, 35)]), [(10, 40)]);
        assert_eq!(shown(&[(10, 40), (20, 30)]), [(10, 40)]);
        assert_eq!(shown(&[(30, 40), (10, 20)]), [(10, 20), (30, 40)]);
    }

    #[test]
    fn gaps_are_found_in_order() {
        let set = Alone::new(&[(10, 20), (30, 40)]);
        let gap = |start, end| {
            let gap = set.view().first_gap(seq(start), seq(end));
            gap.map(|gap| (gap.start.0, gap.end.0))
        };
        assert_eq!(gap(0, 50), Some((0, 10)));
        assert_eq!(gap(10, 50), Some((20, 30)));
        assert_eq!(gap(15, 25), Some((20, 25)));
        assert_eq!(gap(30, 50), Some((40, 50)));
        assert_eq!(gap(32, 40), None);
        assert_eq!(gap(12, 20), None);
    }

    #[test]
    fn wraps_around() {
        let mut set = Alone::new(&[(u32::MAX - 5, 5), (10, 12)]);
        assert_eq!(set.view().covered(seq(u32::MAX - 10), seq(20)), 13);
        set.0.remove_below(&mut set.1, seq(2));
        assert_eq!(set.shown(), [(2, 5), (10, 12)]);
    }

    #[test]
    fn a_full_set_still_joins() {
        let mut set = Alone::new(&[]);
        for i in 0..FEW {
            set.insert(i * 10, i * 10 + 5).unwrap();
        }
        assert_eq!(set.insert(1000, 1001), Err(Full));
        assert_eq!(set.insert(5, 10), Ok(()));
        assert_eq!(set.insert(1000, 1001), Ok(()));
    }

    #[test]
    fn limits_grow_with_the_window() {
        assert_eq!(most_ranges(64 << 10), 64);
        assert_eq!(most_ranges(1000), FEW);
        assert_eq!(most_ranges(1 << 30), MOST);
        // Every second segment of 1 Gbit/s and 100 ms.
        assert!(most_ranges(12_500_000) >= 12_500_000 / 1448 / 2);
    }

    /// However greedy some are, every set gets its share, and gives back what it had.
    #[test]
    fn nobody_is_crowded_out() {
        let mut pool = RangePool::new(64, 1).unwrap();
        let mut sets = [RangeSet::default(); 64];
        let fill = |pool: &mut RangePool, set: &mut RangeSet| {
            let mut ranges = (0..MOST).map(|i| (seq(2 * i), seq(2 * i + 1)));
            ranges.all(|(start, end)| pool.insert(set, start, end, MOST).is_ok())
        };
        let full = sets
            .iter_mut()
            .filter_map(|set| fill(&mut pool, set).then_some(()));
        assert!(full.count() >= 32);
        assert!(sets.iter().all(|set| pool.view(set).len() >= OWN));
        assert_eq!(pool.sets(), 64);
        for set in &mut sets {
            pool.clear(set);
        }
        assert_eq!((pool.sets(), pool.shared), (0, 0));
        assert!(fill(&mut pool, &mut sets[0]));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_bytes(
            base in any::<u32>(),
            ops in prop::collection::vec((0u32..400, 1u32..20, 0u8..8), 1..120),
        ) {
            let mut pool = pool();
            let mut set = RangeSet::default();
            let mut oracle = BTreeSet::new();
            let at = |n: u32| SeqNumber(base.wrapping_add(n));
            for (start, len, kind) in ops {
                let len = if kind < 4 { 1 } else { len };
                if kind == 0 {
                    pool.remove_below(&mut set, at(start / 4));
                    oracle.retain(|&n| n >= start / 4);
                } else if pool.insert(&mut set, at(start), at(start + len), FEW).is_ok() {
                    oracle.extend(start..start + len);
                }
                let view = pool.view(&set);
                let ranges: Vec<_> = view.iter().collect();
                let bytes: BTreeSet<u32> =
                    ranges.iter().flat_map(|range| range.start - at(0)..range.end - at(0)).collect();
                prop_assert_eq!(&bytes, &oracle);
                prop_assert_eq!((view.len(), view.bytes()), (ranges.len() as u32, oracle.len() as u32));
                prop_assert_eq!(view.covered(at(50), at(120)), oracle.range(50..120).count() as u32);
                let gap = view.first_gap(at(50), at(120)).map(|gap| gap.start - at(0));
                prop_assert_eq!(gap, (50..120).find(|n| !oracle.contains(n)));
                let overlap = view.first_overlap(at(50), at(120)).map(|range| range.start - at(0));
                prop_assert_eq!(overlap, oracle.range(50..120).next().copied());
                for pair in ranges.windows(2) {
                    prop_assert!(pair[0].end < pair[1].start);
                }
            }
            pool.clear(&mut set);
            prop_assert_eq!((pool.sets(), pool.shared, pool.view(&set).is_empty()), (0, 0, true));
        }
    }
}
