//! The scoreboard: what the peer says it holds out of order (RFC 2018 §5, RFC 6675 §3, §4). Mechanism only.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::tcp::conn::Conn;
use crate::tcp::ranges::{Range, RangeSet};
use crate::tcp::segment::Segment;
use crate::tcp::tcb::Flags;

/// RFC 6675 §2: DupThresh.
pub(crate) const DUP_THRESH: u8 = 3;

/// Whether DupThresh segments are SACKed (RFC 8985 §6.2 step 4, counted as RFC 6675 §4 does): DupThresh ranges, or more bytes than
/// DupThresh - 1 segments have.
/// RFC 6675 §4-2, §5-2, §5-11.
pub(crate) fn has_dup_thresh(sacked: &RangeSet, mss: u32) -> bool {
    let ranges = sacked.as_slice();
    let bytes: u32 = ranges.iter().map(|range| range.len()).sum();
    ranges.len() >= usize::from(DUP_THRESH) || bytes > u32::from(DUP_THRESH - 1) * mss
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
                self.on_delivered(now, seg, left, right);
                news |= self.note_sacked(now, left, right);
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

    /// RFC 6675 §4-1.
    fn note_sacked(&mut self, now: Instant, left: SeqNumber, right: SeqNumber) -> bool {
        if !self.has(Flags::SACKED) {
            let Some(slot) = self.sh.sacked.alloc() else {
                return false;
            };
            self.cold.sacked = slot;
            self.set(Flags::SACKED);
        }
        let Some(set) = self.sh.sacked.at_mut(self.cold.sacked) else {
            return false;
        };
        let before = set.covered(left, right);
        // A full scoreboard forgets what the peer said: it will be sent again.
        let news = before < right - left && set.insert(left, right).is_ok();
        if news {
            self.note_delivered(now, right - left - before);
        }
        news
    }

    /// The scoreboard, if anything is on it.
    /// RFC 6675 §3-1; RFC 8985 §4-2.
    pub fn scoreboard(&self) -> Option<&RangeSet> {
        if self.has(Flags::SACKED) {
            self.sh.sacked.at(self.cold.sacked)
        } else {
            None
        }
    }

    /// SND.UNA moved.
    pub fn trim_scoreboard(&mut self) {
        let una = self.hot.snd_una;
        if !self.has(Flags::SACKED) {
            return;
        }
        if let Some(set) = self.sh.sacked.at_mut(self.cold.sacked) {
            set.remove_below(una);
            if !set.is_empty() {
                return;
            }
        }
        self.forget_scoreboard();
    }

    pub fn forget_scoreboard(&mut self) {
        if self.has(Flags::SACKED) {
            self.sh.sacked.free(self.cold.sacked);
            self.clear(Flags::SACKED);
        }
    }

    /// RFC 2018 §8: a receiver may discard what it SACKed. If it acknowledges up to a SACKed range and no further, it has.
    pub fn detect_reneging(&mut self) {
        let first = self.scoreboard().and_then(RangeSet::first);
        if first.is_some_and(|range| range.start <= self.hot.snd_una) {
            self.forget_scoreboard();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(u32, u32)]) -> RangeSet {
        let mut set = RangeSet::default();
        for &(start, end) in ranges {
            set.insert(SeqNumber(start), SeqNumber(end)).unwrap();
        }
        set
    }

    /// RFC 6675 §4-2.
    #[test]
    fn three_ranges_are_enough() {
        assert!(!has_dup_thresh(&set(&[(200, 210), (300, 310)]), 1000));
        let three = set(&[(100, 110), (200, 210), (300, 310)]);
        assert!(has_dup_thresh(&three, 1000));
    }

    /// RFC 6675 §4-2.
    #[test]
    fn more_bytes_than_two_segments_are_enough() {
        assert!(!has_dup_thresh(&set(&[(1000, 3000)]), 1000));
        assert!(has_dup_thresh(&set(&[(1000, 3001)]), 1000));
    }
}
