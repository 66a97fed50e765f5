//! Out-of-order data. The bytes go straight to their place in the receive stream; what is kept here is which ranges are there.

use wire::seq::SeqNumber;
use wire::tcp::SackBlocks;

use crate::drops::Drop;
use crate::event::Ready;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::ranges::{Full, Range, RangePool, RangeSet, Ranges, most_ranges};

/// How many of the last changed ranges are remembered: as many as SACK can report.
const RECENT: usize = SackBlocks::MAX;

/// The ranges a receiver holds beyond RCV.NXT, and in which order they came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    set: RangeSet,
    /// A sequence number in each of the ranges that changed last, latest first.
    recent: [Option<SeqNumber>; RECENT],
}

impl Held {
    /// Adds `[start, end)`, if the set does not get more than `most` ranges by that.
    fn insert(
        &mut self,
        pool: &mut RangePool,
        start: SeqNumber,
        end: SeqNumber,
        most: u32,
    ) -> Result<(), Drop> {
        let done = pool.insert(&mut self.set, start, end, most);
        done.map_err(|Full| Drop::TcpRanges)?;
        self.touch(pool.view(&self.set), start);
        Ok(())
    }

    /// Notes that something arrived at `seq`.
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

    /// RFC 2018 §4: the first block holds the segment that came last; then the most recently reported ones.
    /// RFC 2018 §4-4, §4-5, §4-6.
    fn sack_blocks(&self, set: Ranges<'_>) -> SackBlocks {
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

/// RFC 2883 §4: the first block reports the duplicate; if that is above the ACK, the second is the block around it.
/// RFC 2883 §4-1, §4-4, §4-5.
fn with_duplicate(duplicate: Range, blocks: &SackBlocks) -> SackBlocks {
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

impl Conn<'_> {
    /// Places `bytes`, whose first has sequence number `start` (inside the window), and moves RCV.NXT over what is complete now.
    /// Bytes that had arrived before are not overwritten.
    /// RFC 2018 §8-2.
    pub fn accept_bytes(&mut self, start: SeqNumber, bytes: &[u8]) -> Result<(), Drop> {
        let end = start + bytes.len() as u32;
        self.write_new(start, bytes)?;
        if start == self.hot.rcv_nxt {
            self.advance_rcv_nxt(end);
            Ok(())
        } else {
            self.hold(start, end)
        }
    }

    fn write_new(&mut self, start: SeqNumber, bytes: &[u8]) -> Result<(), Drop> {
        if self.has(Flags::HOLES) {
            self.write_around(start, bytes)
        } else {
            self.write_piece(start, bytes)
        }
    }

    /// Where ranges are held.
    #[inline(never)]
    fn write_around(&mut self, start: SeqNumber, bytes: &[u8]) -> Result<(), Drop> {
        let end = start + bytes.len() as u32;
        let mut from = start;
        while let Some(gap) = self.gap(from, end) {
            let skip = (gap.start - start) as usize;
            let piece = bytes
                .get(skip..skip + gap.len() as usize)
                .unwrap_or_default();
            self.write_piece(gap.start, piece)?;
            from = gap.end;
        }
        Ok(())
    }

    #[inline]
    fn write_piece(&mut self, seq: SeqNumber, bytes: &[u8]) -> Result<(), Drop> {
        let offset = seq - self.hot.rcv_nxt;
        self.sh
            .streams
            .write_at(self.slot, offset, bytes)
            .map_err(|_| Drop::TcpMemory)
    }

    /// What is held out of order, if anything is.
    fn held(&self) -> Option<Ranges<'_>> {
        let held = self.has(Flags::HOLES).then_some(self.cold.held)?;
        let held = self.sh.held.at(held)?;
        Some(self.sh.ranges.view(&held.set))
    }

    fn gap(&self, from: SeqNumber, end: SeqNumber) -> Option<Range> {
        match self.held() {
            Some(held) => held.first_gap(from, end),
            None => Some(Range::new(from, end)).filter(|range| range.start < range.end),
        }
    }

    /// Commits up to `end`, and further if that reaches ranges held.
    fn advance_rcv_nxt(&mut self, end: SeqNumber) {
        let end = self.join_held(end);
        let n = end - self.hot.rcv_nxt;
        self.sh.streams.commit(self.slot, n);
        self.hot.rcv_nxt = end;
        self.cold.statistics.bytes_received += u64::from(n);
        self.sh.counters.tcp_bytes_in += u64::from(n);
        self.notify(Ready::READABLE);
    }

    fn join_held(&mut self, end: SeqNumber) -> SeqNumber {
        if !self.has(Flags::HOLES) {
            return end;
        }
        let sh = &mut *self.sh;
        let Some(held) = sh.held.at_mut(self.cold.held) else {
            return end;
        };
        let touching = sh.ranges.view(&held.set).containing(end);
        let end = touching.map_or(end, |range| range.end);
        sh.ranges.remove_below(&mut held.set, end);
        if sh.ranges.view(&held.set).is_empty() {
            self.forget_held();
        }
        end
    }

    /// RFC 9293 SHLD-31.
    fn hold(&mut self, start: SeqNumber, end: SeqNumber) -> Result<(), Drop> {
        if !self.has(Flags::HOLES) {
            self.cold.held = self.sh.held.alloc().ok_or(Drop::TcpRanges)?;
            self.set(Flags::HOLES);
        }
        let most = most_ranges(self.hot.rcv_wnd());
        let sh = &mut *self.sh;
        let held = sh.held.at_mut(self.cold.held).ok_or(Drop::TcpRanges)?;
        held.insert(&mut sh.ranges, start, end, most)?;
        sh.counters.out_of_order += 1;
        Ok(())
    }

    /// Gives the set of ranges back.
    #[inline]
    pub fn forget_held(&mut self) {
        if self.has(Flags::HOLES) {
            self.free_held();
        }
    }

    #[cold]
    fn free_held(&mut self) {
        let sh = &mut *self.sh;
        if let Some(held) = sh.held.at_mut(self.cold.held) {
            sh.ranges.clear(&mut held.set);
        }
        sh.held.free(self.cold.held);
        self.clear(Flags::HOLES);
    }

    /// What an ACK has to report.
    pub fn sack_blocks(&self) -> SackBlocks {
        // RFC 2018 §4-1.
        if !(self.has(Flags::HOLES | Flags::DUPLICATE) && self.has(Flags::SACK)) {
            return SackBlocks::EMPTY;
        }
        let held = self.has(Flags::HOLES).then_some(self.cold.held);
        let held = held.and_then(|held| self.sh.held.at(held));
        let blocks = held.map_or(SackBlocks::EMPTY, |held| {
            held.sack_blocks(self.sh.ranges.view(&held.set))
        });
        if self.has(Flags::DUPLICATE) {
            with_duplicate(self.cold.duplicate, &blocks)
        } else {
            blocks
        }
    }

    /// `[from, to)`, perhaps part of a segment (RFC 2883 §4.2), had arrived before: the next ACK says so. The last report counts, should
    /// there be several (RFC 2883 §4: once each).
    /// RFC 2883 §4-3.
    pub fn note_duplicate(&mut self, from: SeqNumber, to: SeqNumber) {
        if self.has(Flags::SACK) && from < to {
            self.cold.duplicate = Range::new(from, to);
            self.set(Flags::DUPLICATE);
        }
    }

    /// The first part of `[from, to)` that is held.
    pub fn first_held(&self, from: SeqNumber, to: SeqNumber) -> Option<Range> {
        self.held()?.first_overlap(from, to)
    }
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
