//! Which ranges of out-of-order data have arrived. The bytes themselves go straight to their place
//! in the receive stream.

use wire::seq::SeqNumber;
use wire::tcp::SackBlocks;

use crate::drops::DropReason;
use crate::tcp::ranges::{Full, Range, RangePool, RangeSet, Ranges};

/// So many of the ranges that changed last are remembered: as many as SACK can report.
const RECENT: usize = SackBlocks::MAX;

/// The ranges that a receiver holds beyond RCV.NXT, and the order in which they came.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Held {
    #[serde(skip)]
    pub(super) set: RangeSet,
    /// A sequence number in each of the ranges that changed last, latest first.
    recent: [Option<SeqNumber>; RECENT],
}

impl Held {
    /// The ranges themselves, which are not in it.
    pub fn ranges(&self, pool: &RangePool) -> Vec<Range> {
        pool.view(&self.set).iter().collect()
    }

    /// The opposite, where there are none. False: there is no room for them.
    pub fn set_ranges(&mut self, pool: &mut RangePool, ranges: &[Range]) -> bool {
        self.set = RangeSet::default();
        pool.restore(&mut self.set, ranges)
    }

    /// Adds `[start, end)`, if the set does not get more than `most` ranges by that.
    pub(super) fn insert(
        &mut self,
        pool: &mut RangePool,
        start: SeqNumber,
        end: SeqNumber,
        most: u32,
    ) -> Result<(), DropReason> {
        let done = pool.insert(&mut self.set, start, end, most);
        done.map_err(|Full| DropReason::TcpRanges)?;
        self.touch(pool.view(&self.set), start);
        Ok(())
    }

    /// Notes that data arrived at `seq`.
    fn touch(&mut self, set: Ranges<'_>, seq: SeqNumber) {
        let range = set.containing(seq);
        let mut kept = [Some(seq), None, None, None];
        let older = self
            .recent
            .iter()
            .flatten()
            .filter(|&&old| set.containing(old) != range);
        for (place, old) in kept.iter_mut().skip(1).zip(older) {
            *place = Some(*old);
        }
        self.recent = kept;
    }

    /// RFC 2018 §4: the first block holds the segment that came last. The most recently reported
    /// ones follow.
    /// RFC 2018 §4-4, §4-5, §4-6.
    pub(super) fn sack_blocks(&self, set: Ranges<'_>) -> SackBlocks {
        let mut blocks = SackBlocks::EMPTY;
        let recent = self.recent.iter().flatten();
        let recent = recent.filter_map(|&seq| set.containing(seq));
        for range in recent.chain(set.iter().take(RECENT)) {
            if !blocks.as_slice().contains(&(range.start, range.end)) {
                blocks.push(range.start, range.end);
            }
        }
        blocks
    }
}

/// RFC 2883 §4: the first block reports the duplicate. If that is above the ACK, the second is the
/// block around it.
/// RFC 2883 §4-1, §4-4, §4-5.
pub(super) fn with_duplicate(duplicate: Range, blocks: &SackBlocks) -> SackBlocks {
    let Range { start, end } = duplicate;
    let mut all = SackBlocks::EMPTY;
    all.push(start, end);
    let around = |&(left, right): &(SeqNumber, SeqNumber)| left <= start && end <= right;
    for (left, right) in blocks.iter().filter(around) {
        all.push(left, right);
    }
    for (left, right) in blocks.iter().filter(|block| !around(block)) {
        all.push(left, right);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let mut pool = RangePool::new(1, 1).unwrap();
        let mut held = Held::default();
        for &(start, end) in ranges {
            held.insert(&mut pool, SeqNumber(start), SeqNumber(end), 8)
                .unwrap();
        }
        let blocks = held.sack_blocks(pool.view(&held.set));
        blocks.iter().map(|(l, r)| (l.0, r.0)).collect()
    }

    #[test]
    fn the_first_block_is_the_latest() {
        // RFC 2018 §4 example, with lost segments in between.
        assert_eq!(
            blocks(&[(5500, 6000), (6500, 7000), (7500, 8000), (8500, 9000)]),
            [(8500, 9000), (7500, 8000), (6500, 7000), (5500, 6000)]
        );
    }

    #[test]
    fn a_grown_range_moves_to_the_front_and_is_reported_once() {
        let blocks = blocks(&[(100, 200), (300, 400), (200, 250)]);
        assert_eq!(blocks, [(100, 250), (300, 400)]);
    }

    #[test]
    fn ranges_that_are_not_recent_fill_the_rest() {
        let blocks = blocks(&[
            (100, 110),
            (200, 210),
            (300, 310),
            (400, 410),
            (500, 510),
            (505, 515),
        ]);
        assert_eq!(blocks, [(500, 515), (400, 410), (300, 310), (200, 210)]);
    }
}
