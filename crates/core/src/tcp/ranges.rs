//! A bounded, ordered set of sequence ranges: what a receiver holds out of order, and what a sender knows to be held.

use wire::seq::SeqNumber;

/// Most disjoint ranges of a set.
pub(crate) const MAX_RANGES: usize = 32;

/// A range of sequence numbers, the end not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Range {
    pub start: SeqNumber,
    pub end: SeqNumber,
}

impl Range {
    pub fn new(start: SeqNumber, end: SeqNumber) -> Self {
        Self { start, end }
    }

    pub fn len(self) -> u32 {
        self.end - self.start
    }
}

/// The set is full, and the range touches none that is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Disjoint ranges that do not touch, in ascending order. All lie within half the sequence space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeSet {
    len: u8,
    ranges: [Range; MAX_RANGES],
}

impl Default for RangeSet {
    fn default() -> Self {
        Self {
            len: 0,
            ranges: [Range::default(); MAX_RANGES],
        }
    }
}

impl RangeSet {
    pub fn as_slice(&self) -> &[Range] {
        self.ranges.get(..usize::from(self.len)).unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn first(&self) -> Option<Range> {
        self.as_slice().first().copied()
    }

    /// Adds `[start, end)`, joined with what it overlaps or touches.
    pub fn insert(&mut self, start: SeqNumber, end: SeqNumber) -> Result<(), Full> {
        if end <= start {
            return Ok(());
        }
        let ranges = self.as_slice();
        let from = ranges.partition_point(|range| range.end < start);
        let to = ranges.partition_point(|range| range.start <= end);
        if from == to {
            return self.insert_at(from, Range::new(start, end));
        }
        let joined = Range::new(
            start.min(self.ranges[from].start),
            end.max(self.ranges[to - 1].end),
        );
        self.ranges[from] = joined;
        self.remove(from + 1, to);
        Ok(())
    }

    fn insert_at(&mut self, at: usize, range: Range) -> Result<(), Full> {
        let len = usize::from(self.len);
        if len == MAX_RANGES {
            return Err(Full);
        }
        self.ranges.copy_within(at..len, at + 1);
        self.ranges[at] = range;
        self.len += 1;
        Ok(())
    }

    fn remove(&mut self, from: usize, to: usize) {
        let len = usize::from(self.len);
        self.ranges.copy_within(to..len, from);
        self.len -= (to - from) as u8;
    }

    /// Forgets everything before `seq`.
    pub fn remove_below(&mut self, seq: SeqNumber) {
        let gone = self.as_slice().partition_point(|range| range.end <= seq);
        self.remove(0, gone);
        if let Some(first) = self.ranges.first_mut()
            && self.len > 0
        {
            first.start = first.start.max(seq);
        }
    }

    /// The first part of `[start, end)` that is not in the set.
    pub fn first_gap(&self, start: SeqNumber, end: SeqNumber) -> Option<Range> {
        let ranges = self.as_slice();
        let mut from = start;
        let next = ranges.partition_point(|range| range.end <= start);
        let mut to = end;
        for range in ranges.get(next..).unwrap_or_default() {
            if range.start > from {
                to = to.min(range.start);
                break;
            }
            from = range.end;
        }
        (from < to).then(|| Range::new(from, to))
    }

    /// Bytes of `[start, end)` that are in the set.
    pub fn covered(&self, start: SeqNumber, end: SeqNumber) -> u32 {
        self.as_slice()
            .iter()
            .map(|range| (range.start.max(start), range.end.min(end)))
            .filter(|(from, to)| from < to)
            .map(|(from, to)| to - from)
            .sum()
    }

    /// The range that contains `seq`.
    pub fn containing(&self, seq: SeqNumber) -> Option<Range> {
        let ranges = self.as_slice();
        let at = ranges.partition_point(|range| range.end <= seq);
        ranges.get(at).copied().filter(|range| range.start <= seq)
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

    fn set(ranges: &[(u32, u32)]) -> RangeSet {
        let mut set = RangeSet::default();
        for &(start, end) in ranges {
            set.insert(seq(start), seq(end)).unwrap();
        }
        set
    }

    fn shown(set: &RangeSet) -> Vec<(u32, u32)> {
        set.as_slice()
            .iter()
            .map(|range| (range.start.0, range.end.0))
            .collect()
    }

    #[test]
    fn touching_and_overlapping_ranges_join() {
        assert_eq!(shown(&set(&[(10, 20), (20, 30)])), [(10, 30)]);
        assert_eq!(shown(&set(&[(20, 30), (10, 20)])), [(10, 30)]);
        assert_eq!(shown(&set(&[(10, 20), (30, 40), (15, 35)])), [(10, 40)]);
        assert_eq!(shown(&set(&[(10, 40), (20, 30)])), [(10, 40)]);
        assert_eq!(shown(&set(&[(30, 40), (10, 20)])), [(10, 20), (30, 40)]);
    }

    #[test]
    fn gaps_are_found_in_order() {
        let set = set(&[(10, 20), (30, 40)]);
        let gap = |start, end| {
            set.first_gap(seq(start), seq(end))
                .map(|gap| (gap.start.0, gap.end.0))
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
        let mut set = set(&[(u32::MAX - 5, 5), (10, 12)]);
        assert_eq!(set.covered(seq(u32::MAX - 10), seq(20)), 13);
        set.remove_below(seq(2));
        assert_eq!(shown(&set), [(2, 5), (10, 12)]);
    }

    #[test]
    fn a_full_set_still_joins() {
        let mut set = RangeSet::default();
        for i in 0..MAX_RANGES as u32 {
            set.insert(seq(i * 10), seq(i * 10 + 5)).unwrap();
        }
        assert_eq!(set.insert(seq(1000), seq(1001)), Err(Full));
        assert_eq!(set.insert(seq(5), seq(10)), Ok(()));
        assert_eq!(set.insert(seq(1000), seq(1001)), Ok(()));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_bytes(
            base in any::<u32>(),
            ops in prop::collection::vec((0u32..200, 1u32..20, 0u8..8), 1..60),
        ) {
            let mut set = RangeSet::default();
            let mut oracle = BTreeSet::new();
            let at = |n: u32| SeqNumber(base.wrapping_add(n));
            for (start, len, kind) in ops {
                if kind == 0 {
                    set.remove_below(at(start));
                    oracle.retain(|&n| n >= start);
                } else if set.insert(at(start), at(start + len)).is_ok() {
                    oracle.extend(start..start + len);
                }
                let bytes: BTreeSet<u32> = set
                    .as_slice()
                    .iter()
                    .flat_map(|range| range.start - at(0)..range.end - at(0))
                    .collect();
                prop_assert_eq!(&bytes, &oracle);
                prop_assert_eq!(set.covered(at(50), at(120)), oracle.range(50..120).count() as u32);
                let gap = set.first_gap(at(50), at(120)).map(|gap| gap.start - at(0));
                prop_assert_eq!(gap, (50..120).find(|n| !oracle.contains(n)));
                for pair in set.as_slice().windows(2) {
                    prop_assert!(pair[0].end < pair[1].start);
                }
            }
        }
    }
}
