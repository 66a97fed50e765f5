//! When the scoreboard (RFC 2018 §5, RFC 6675 §3, §4) says that enough segments are missing.

use wire::seq::SeqNumber;

use crate::tcp::ranges::{Range, Ranges};

/// RFC 6675 §2: DupThresh.
pub(crate) const DUP_THRESH: u8 = 3;

/// Whether DupThresh segments are SACKed (RFC 8985 §6.2 step 4). They are counted as RFC 6675 §4
/// does: DupThresh ranges, or more bytes than DupThresh - 1 segments have.
/// RFC 6675 §4-2, §5-2, §5-11.
pub(crate) fn has_dup_thresh(sacked: Ranges<'_>, mss: u32) -> bool {
    let (ranges, bytes) = (sacked.len(), sacked.bytes());
    ranges >= u32::from(DUP_THRESH) || bytes > u32::from(DUP_THRESH - 1) * mss
}

/// The first bytes of `[from, to)` that are not SACKed.
pub(crate) fn first_unsacked(
    sacked: Option<Ranges<'_>>,
    from: SeqNumber,
    to: SeqNumber,
) -> Option<Range> {
    match sacked {
        Some(set) => set.first_gap(from, to),
        None => (from < to).then(|| Range::new(from, to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::ranges::{RangePool, RangeSet};

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
