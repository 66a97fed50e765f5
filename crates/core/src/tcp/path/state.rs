//! The state of the path part: what the cold column of the control block embeds, and what is left
//! of it while a connection idles.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::ip::LIFETIME;
use crate::tcp::clock::near;
use crate::tcp::ranges::Range;

/// After so many acknowledged bytes other connections are told again that full segments get
/// through.
const PROOF_INTERVAL: u32 = 1 << 20;

/// What a connection knows of its path beside the MTU in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PathSearch {
    /// Largest packet that is still worth a probe, bytes.
    high: u16,
    /// A probe has failed: the next one halves the interval.
    failed: bool,
    /// Size of the packet that probes, bytes. 0: no probe is in flight.
    size: u16,
    /// The data in the probe; counts with `size`.
    probe: Range,
    /// The next probe goes no earlier than this.
    next_at: Instant,
    /// MTU of an ICMP error that is not believed yet. 0: there is none.
    claimed: u16,
    /// The segment that the error is about; counts with `claimed`.
    claimed_seq: SeqNumber,
    /// A segment of full size was sent.
    sent_full: bool,
    /// The end of the first segment of full size; counts with `sent_full`.
    full_end: SeqNumber,
    /// Up to this other connections know that segments of full size get through.
    proven_to: SeqNumber,
    /// The size was lowered because of time-outs, and nothing was acknowledged since.
    suspected: bool,
    /// So many more probes of the old size have to be lost before the connection believes that
    /// lowering it was right. 0: that is not in question.
    trials: u8,
}

impl PathSearch {
    pub fn new(link_mtu: u16) -> Self {
        Self {
            high: link_mtu,
            failed: false,
            size: 0,
            probe: Range::default(),
            next_at: Instant::ZERO,
            claimed: 0,
            claimed_seq: SeqNumber(0),
            sent_full: false,
            full_end: SeqNumber(0),
            proven_to: SeqNumber(0),
            suspected: false,
            trials: 0,
        }
    }

    /// A search that begins at `next_at`.
    pub(super) fn until(link_mtu: u16, next_at: Instant) -> Self {
        Self {
            next_at,
            ..Self::new(link_mtu)
        }
    }

    /// Sets what means nothing without a probe or a claim, and with nothing in flight, to what it
    /// is after unpacking.
    pub fn forget_probe(&mut self, now: Instant, una: SeqNumber) {
        let Self {
            high: _,
            failed: _,
            size,
            probe,
            next_at,
            claimed,
            claimed_seq,
            sent_full,
            full_end,
            proven_to,
            suspected: _,
            trials: _,
        } = self;
        if *size == 0 {
            *probe = Range::default();
        }
        if *claimed == 0 {
            *claimed_seq = SeqNumber(0);
        }
        *next_at = if *next_at <= now {
            Instant::ZERO
        } else {
            Instant::from_millis(next_at.as_nanos().div_ceil(1_000_000))
        };
        if *sent_full {
            *full_end = una;
            *proven_to = told_at(una, untold(una, *proven_to));
        }
    }

    /// The compact form. It has no place for a probe, a claim or a suspicion; the owner of the
    /// record compares. Whether a probe has failed is kept elsewhere, as one bit.
    pub fn finding(&self, una: SeqNumber) -> Finding {
        Finding {
            next_at: self.next_at.as_millis() as u32,
            high: self.high,
            untold: if self.sent_full {
                untold(una, self.proven_to)
            } else {
                NEVER_FULL
            },
        }
    }

    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether a larger packet than the `mtu` in use is worth a probe.
    #[inline(always)]
    pub fn is_open(&self, mtu: u16) -> bool {
        mtu < self.high
    }

    /// The range of the probe that is in flight, if there is one.
    #[inline(always)]
    pub fn probe(&self) -> Option<Range> {
        (self.size != 0).then_some(self.probe)
    }

    /// Whether the size was lowered because of time-outs, and nothing was acknowledged since.
    #[inline(always)]
    pub fn is_suspected(&self) -> bool {
        self.suspected
    }

    /// Whether a segment as large as those in use has been acknowledged.
    #[inline(always)]
    pub fn is_size_proven(&self, una: SeqNumber) -> bool {
        self.sent_full && una >= self.full_end
    }

    /// Whether other connections are to be told that segments of the present size get through.
    #[inline(always)]
    pub fn owes_proof(&self, una: SeqNumber) -> bool {
        self.is_size_proven(una) && una.0.wrapping_sub(self.proven_to.0) > PROOF_INTERVAL
    }

    pub(super) fn prove(&mut self, una: SeqNumber) {
        self.proven_to = una;
    }

    /// What SND.UNA has left behind stays behind, although sequence numbers wrap around.
    #[inline(always)]
    pub fn forget_before(&mut self, una: SeqNumber) {
        if self.sent_full && una > self.full_end {
            self.full_end = una;
        }
        if una > self.claimed_seq {
            self.claimed = 0;
        }
    }

    /// A segment of full size was sent, which ends at `end`.
    #[inline(always)]
    pub fn on_full_sent(&mut self, end: SeqNumber) {
        if !self.sent_full {
            self.sent_full = true;
            self.full_end = end;
            self.proven_to = SeqNumber(end.0.wrapping_sub(PROOF_INTERVAL + 1));
        }
    }

    /// An ICMP error about the segment at `seq` says `mtu`. If that segment is the probe, no larger
    /// one is worth trying; the size in use is `least`.
    pub(super) fn bound_probe(&mut self, seq: SeqNumber, mtu: u16, least: u16) {
        let is_probe = self.size != 0 && seq >= self.probe.start && seq < self.probe.end;
        if is_probe && mtu < self.size {
            self.high = mtu.max(least);
        }
    }

    /// An ICMP error claims that the segment at `seq` was too big for a link of `mtu` bytes.
    pub(super) fn claim(&mut self, mtu: u16, seq: SeqNumber) {
        self.claimed = mtu;
        self.claimed_seq = seq;
    }

    /// The MTU that was claimed, if a time-out with SND.UNA at `una` confirms it.
    pub(super) fn confirmed_claim(&self, una: SeqNumber) -> Option<u16> {
        (self.claimed != 0 && una <= self.claimed_seq).then_some(self.claimed)
    }

    /// The size was lowered because of time-outs. `trials` probes of the old one are to tell
    /// whether that was right.
    pub(super) fn suspect(&mut self, trials: u8) {
        self.suspected = true;
        self.trials = trials;
    }

    pub(super) fn trust(&mut self) {
        self.suspected = false;
    }

    /// Whether it is in question that lowering the size was right.
    pub(super) fn is_on_trial(&self) -> bool {
        self.trials > 0
    }

    pub(super) fn end_trials(&mut self) {
        self.trials = 0;
    }

    /// Whether the time of the next probe has come, and no probe is in flight.
    pub(super) fn may_probe(&self, now: Instant) -> bool {
        self.size == 0 && now >= self.next_at
    }

    /// The size of the next probe, if `low` is in use: the largest, or the middle once that failed.
    pub(super) fn next_size(&self, low: u16) -> u16 {
        if self.failed {
            low + (self.high - low).div_ceil(2)
        } else {
            self.high
        }
    }

    /// A packet of `size` bytes that holds `range` probes the path.
    pub(super) fn begin_probe(&mut self, range: Range, size: u16) {
        self.size = size;
        self.probe = range;
    }

    /// The size of the probe, if it got through: everything before `una` is acknowledged.
    pub(super) fn passed(&self, una: SeqNumber) -> Option<u16> {
        (self.size != 0 && una >= self.probe.end).then_some(self.size)
    }

    /// A larger size is in use from now on. The search goes on from there.
    pub(super) fn raise(&mut self) {
        *self = Self {
            failed: self.failed,
            ..Self::new(self.high)
        };
    }

    /// The probe is lost, and other probes of its size are to follow, the next at `next_at`. False
    /// if it was the last.
    pub(super) fn try_again(&mut self, next_at: Instant) -> bool {
        let has_more = self.trials > 1;
        if has_more {
            self.trials -= 1;
            self.size = 0;
            self.next_at = next_at;
        }
        has_more
    }

    /// The probe did not get through: the next one, at `next_at`, is smaller.
    pub(super) fn fail(&mut self, next_at: Instant) {
        self.high = self.high.min(self.size - 1);
        self.failed = true;
        self.size = 0;
        self.next_at = next_at;
    }

    /// The peer does not take more than what fits `mtu`.
    pub(super) fn end_at(&mut self, mtu: u16) {
        self.high = mtu;
    }

    /// Whether less than `worth` bytes per packet are left to gain over `mtu`.
    pub(super) fn is_exhausted(&self, mtu: u16, worth: u16) -> bool {
        self.failed && self.high.saturating_sub(mtu) < worth
    }

    /// Nothing more can be gained for now. In ten minutes the path may have changed.
    pub(super) fn rest(&mut self, now: Instant, link_mtu: u16) {
        self.high = link_mtu;
        self.failed = false;
        self.next_at = now + LIFETIME;
    }
}

/// What a connection with nothing in flight knows of its path beside the MTU in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finding {
    /// When the next probe may go: milliseconds, low 32 bits. 0: at once.
    next_at: u32,
    high: u16,
    /// Bytes that got through without other connections being told, in [`UNIT`]s; or
    /// [`NEVER_FULL`].
    untold: u16,
}

/// Bytes.
const UNIT: u32 = 64;
/// No segment of full size was sent.
const NEVER_FULL: u16 = u16::MAX;

/// How far `una` is from what other connections were told, rounded up. It is no more than what it
/// takes to tell them.
fn untold(una: SeqNumber, told: SeqNumber) -> u16 {
    let bytes = una.0.wrapping_sub(told.0).min(PROOF_INTERVAL + 1);
    bytes.div_ceil(UNIT) as u16
}

fn told_at(una: SeqNumber, untold: u16) -> SeqNumber {
    una - u32::from(untold) * UNIT
}

impl Finding {
    /// The state that this was made from. `failed`: a probe had failed.
    pub fn search(&self, now: Instant, una: SeqNumber, failed: bool) -> PathSearch {
        let mut search = PathSearch::new(self.high);
        search.failed = failed;
        if self.next_at != 0 {
            search.next_at = near(now, self.next_at);
        }
        if self.untold != NEVER_FULL {
            search.sent_full = true;
            search.full_end = una;
            search.proven_to = told_at(una, self.untold);
        }
        search
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_once_stays_acknowledged() {
        let mut search = PathSearch::new(1500);
        search.on_full_sent(SeqNumber(1000));
        search.claim(600, SeqNumber(2000));
        for una in (0..8u32).map(|i| SeqNumber(i.wrapping_mul(1 << 30)) + 3000) {
            search.forget_before(una);
            let claim = search.confirmed_claim(una);
            assert_eq!((search.is_size_proven(una), claim), (true, None), "{una:?}");
        }
    }

    #[test]
    fn a_search_halves_the_interval_once_a_probe_has_failed() {
        let mut search = PathSearch::new(9000);
        assert_eq!(search.next_size(1500), 9000);
        search.begin_probe(Range::new(SeqNumber(0), SeqNumber(8960)), 9000);
        assert!(!search.may_probe(Instant::ZERO));
        let later = Instant::from_millis(30_000);
        search.fail(later);
        assert_eq!(search.next_size(1500), 1500 + 3750);
        assert!(!search.may_probe(Instant::ZERO) && search.may_probe(later));
        let half = search.next_size(1500);
        search.begin_probe(Range::new(SeqNumber(0), SeqNumber(5210)), half);
        assert_eq!(search.passed(SeqNumber(5209)), None);
        assert_eq!(search.passed(SeqNumber(5210)), Some(half));
        search.raise();
        assert_eq!(search.next_size(half), half + (8999 - half).div_ceil(2));
        assert!(!search.is_exhausted(half, 8) && search.is_exhausted(8999 - 7, 8));
    }
}
