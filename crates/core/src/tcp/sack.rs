//! The scoreboard: what the peer says it holds out of order (RFC 2018 §5, RFC 6675 §3, §4). Mechanism only.

use wire::time::Instant;

use crate::tcp::conn::Conn;
use crate::tcp::ranges::{Range, Ranges, most_ranges};
use crate::tcp::segment::Segment;
use crate::tcp::tcb::Flags;

/// RFC 6675 §2: DupThresh.
pub(crate) const DUP_THRESH: u8 = 3;

/// Whether DupThresh segments are SACKed (RFC 8985 §6.2 step 4, counted as RFC 6675 §4 does): DupThresh ranges, or more bytes than
/// DupThresh - 1 segments have.
/// RFC 6675 §4-2, §5-2, §5-11.
pub(crate) fn has_dup_thresh(sacked: Ranges<'_>, mss: u32) -> bool {
    let (ranges, bytes) = (sacked.len(), sacked.bytes());
    ranges >= u32::from(DUP_THRESH) || bytes > u32::from(DUP_THRESH - 1) * mss
}

impl Conn<'_> {
    /// Takes the SACK blocks of an acceptable ACK. Whether they say anything new.
    /// RFC 2018 §5-1; RFC 6675 §5-1.
    /// RFC 2883 §7-1.
    pub fn process_sack(&mut self, now: Instant, seg: &Segment<'_>) -> bool {
        if seg.options.sack.is_empty() || !self.has(Flags::SACK) {
            return false;
        }
        let una = self.hot.snd_una.max(seg.ack);
        let mut news = false;
        for (left, right) in seg.options.sack.iter() {
            // RFC 2018 §5 and RFC 2883: blocks below SND.UNA report duplicates; blocks beyond SND.NXT are nonsense. Distances, since a block
            // half the sequence space away is at once above and below.
            let (from, to) = (left - una, right - una);
            if 0 < from && from < to && to <= self.hot.snd_nxt - una {
                news |= self.note_sacked(now, seg, Range::new(left, right));
            }
        }
        news
    }

    /// RFC 2883 §4: the first block reports a duplicate if it lies below the ACK, or inside the second.
    /// RFC 2883 §5-1.
    pub fn reported_duplicate(&self, seg: &Segment<'_>) -> Option<Range> {
        let mut blocks = seg.options.sack.iter();
        let (left, right) = blocks.next().filter(|_| self.has(Flags::SACK))?;
        let inside = blocks.next().is_some_and(|(l, r)| l <= left && right <= r);
        let is_report = left < right && (right <= seg.ack || inside);
        is_report.then(|| Range::new(left, right))
    }

    /// Whether it is news. A full scoreboard takes no more, and what it does not know will be sent again.
    /// RFC 6675 §4-1.
    fn note_sacked(&mut self, now: Instant, seg: &Segment<'_>, block: Range) -> bool {
        let Range { start, end } = block;
        let most = most_ranges(self.hot.flight());
        let ranges = &self.sh.ranges;
        if self.first_unsacked(start, end).is_none()
            || !ranges.accepts(&self.cold.sacked, block, most)
        {
            return false;
        }
        self.on_delivered(now, seg, start, end);
        let before = self.sacked_bytes();
        let sacked = &mut self.cold.sacked;
        let news = self.sh.ranges.insert(sacked, start, end, most).is_ok();
        if news {
            self.set(Flags::SACKED);
            self.note_delivered(now, self.sacked_bytes() - before);
        }
        news
    }

    /// The scoreboard, if anything is on it.
    /// RFC 6675 §3-1; RFC 8985 §4-2.
    pub fn scoreboard(&self) -> Option<Ranges<'_>> {
        self.has(Flags::SACKED)
            .then(|| self.sh.ranges.view(&self.cold.sacked))
    }

    /// Bytes on the scoreboard.
    pub fn sacked_bytes(&self) -> u32 {
        self.scoreboard().map_or(0, Ranges::bytes)
    }

    /// SND.UNA moved.
    pub fn trim_scoreboard(&mut self) {
        if self.has(Flags::SACKED) {
            let (una, sacked) = (self.hot.snd_una, &mut self.cold.sacked);
            self.sh.ranges.remove_below(sacked, una);
            if self.sh.ranges.view(sacked).is_empty() {
                self.clear(Flags::SACKED);
            }
        }
    }

    pub fn forget_scoreboard(&mut self) {
        if self.has(Flags::SACKED) {
            self.sh.ranges.clear(&mut self.cold.sacked);
            self.clear(Flags::SACKED);
        }
    }

    /// RFC 2018 §8: a receiver may discard what it SACKed. If it acknowledges up to a SACKed range and no further, it has.
    pub fn detect_reneging(&mut self) {
        let first = self.scoreboard().and_then(Ranges::first);
        if first.is_some_and(|range| range.start <= self.hot.snd_una) {
            self.forget_scoreboard();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::ranges::{RangePool, RangeSet};
    use wire::seq::SeqNumber;

    fn is_enough(ranges: &[(u32, u32)]) -> bool {
        let mut pool = RangePool::new(1, 1).unwrap();
        let mut set = RangeSet::default();
        for &(start, end) in ranges {
            pool.insert(&mut set, SeqNumber(start), SeqNumber(end), 8)
                .unwrap();
        }
        has_dup_thresh(pool.view(&set), 1000)
    }

    /// RFC 6675 §4-2.
    #[test]
    fn three_ranges_are_enough() {
        assert!(!is_enough(&[(200, 210), (300, 310)]));
        assert!(is_enough(&[(100, 110), (200, 210), (300, 310)]));
    }

    /// RFC 6675 §4-2.
    #[test]
    fn more_bytes_than_two_segments_are_enough() {
        assert!(!is_enough(&[(1000, 3000)]));
        assert!(is_enough(&[(1000, 3001)]));
    }
}
