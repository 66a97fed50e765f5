//! The scoreboard: what the peer says it holds out of order (RFC 2018 §5, RFC 6675 §3, §4). Mechanism only.

use wire::seq::SeqNumber;

use crate::tcp::conn::Conn;
use crate::tcp::ranges::RangeSet;
use crate::tcp::segment::Segment;
use crate::tcp::tcb::Flags;

/// RFC 6675 §2: DupThresh.
pub(crate) const DUP_THRESH: u8 = 3;

/// IsLost (RFC 6675 §4): everything not SACKed before the result is lost; DupThresh ranges, or more than DupThresh - 1 segments, above it
/// have been SACKed.
pub(crate) fn lost_edge(sacked: &RangeSet, mss: u32) -> Option<SeqNumber> {
    let mut bytes = 0;
    for (n, range) in (1u8..).zip(sacked.as_slice().iter().rev()) {
        bytes += range.len();
        if n >= DUP_THRESH || bytes > u32::from(DUP_THRESH - 1) * mss {
            return Some(range.start);
        }
    }
    None
}

impl Conn<'_> {
    /// Takes the SACK blocks of an acceptable ACK. Whether they say anything new.
    pub fn process_sack(&mut self, seg: &Segment<'_>) -> bool {
        if seg.options.sack.is_empty() || !self.has(Flags::SACK) {
            return false;
        }
        let una = self.hot.snd_una.max(seg.ack);
        let mut news = false;
        for (left, right) in seg.options.sack.iter() {
            // RFC 2018 §5 and RFC 2883: blocks below SND.UNA report duplicates; blocks beyond SND.NXT are nonsense.
            if left < right && left > una && right <= self.hot.snd_nxt {
                news |= self.note_sacked(left, right);
            }
        }
        news
    }

    fn note_sacked(&mut self, left: SeqNumber, right: SeqNumber) -> bool {
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
        before < right - left && set.insert(left, right).is_ok()
    }

    /// The scoreboard, if anything is on it.
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

    /// Bytes of `[from, to)` that are not SACKed.
    pub fn unsacked(&self, from: SeqNumber, to: SeqNumber) -> u32 {
        if to <= from {
            return 0;
        }
        let sacked = self.scoreboard().map_or(0, |set| set.covered(from, to));
        (to - from).saturating_sub(sacked)
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

    #[test]
    fn three_ranges_above_make_a_hole_lost() {
        let two = set(&[(200, 210), (300, 310)]);
        assert_eq!(lost_edge(&two, 1000), None);
        let three = set(&[(100, 110), (200, 210), (300, 310)]);
        assert_eq!(lost_edge(&three, 1000), Some(SeqNumber(100)));
        let four = set(&[(100, 110), (200, 210), (300, 310), (400, 410)]);
        assert_eq!(lost_edge(&four, 1000), Some(SeqNumber(200)));
    }

    #[test]
    fn more_than_two_segments_above_make_a_hole_lost() {
        assert_eq!(lost_edge(&set(&[(1000, 3000)]), 1000), None);
        assert_eq!(
            lost_edge(&set(&[(1000, 3001)]), 1000),
            Some(SeqNumber(1000))
        );
    }
}
