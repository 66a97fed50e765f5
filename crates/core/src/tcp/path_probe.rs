//! The path's MTU as TCP finds it out itself (RFC 4821, RFC 8899): what to make of time-outs of large segments and of ICMP errors that
//! may be forged (RFC 5927 §7), and larger segments that probe whether the path takes them.
//!
//! A smaller size is taken on an ICMP error about a segment in flight, unless segments of the present size have arrived before: then only
//! if that segment times out as well. Two time-outs in a row of full-sized segments, without any error, may be a black hole (four, if such
//! segments have arrived before), or congestion: a smaller size is taken, and the old one probed at once. Only when that fails time and
//! again do other connections to the host learn of it, and not even then while others get such segments through.
//! The size goes up again by probes: segments of new data that are larger than the others. When one is lost, that is no sign of congestion.

use std::time::Duration;

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::ip::LIFETIME;
use crate::tcp::conn::{Conn, near};
use crate::tcp::flags::Flags;
use crate::tcp::options::{TIMESTAMPS_LEN, effective_mss, headers_len};
use crate::tcp::output::{Kind, Plan};
use crate::tcp::ranges::Range;

/// Time-outs in a row after which a smaller size is tried; and if the size has got through before, when something else is likelier.
const BLACK_HOLE_TIMEOUTS: u8 = 2;
const BLACK_HOLE_TIMEOUTS_IF_PROVEN: u8 = 4;
/// MAX_PROBES of RFC 8899 §5.1.2: so many probes of the old size are lost before a black hole is believed in, and the pause between them.
const MAX_PROBES: u8 = 3;
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The sizes to fall back on, bytes: RFC 8200 §5 has every link carry the first, RFC 1122 §3.3.3 every host take the second. IPv6 does
/// not go below the first.
const FALLBACKS: [u16; 2] = [1280, 576];
/// Bytes that are acknowledged between two words to other connections that full segments get through.
const PROOF_INTERVAL: u32 = 1 << 20;
/// Between a probe that failed and the next probe.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);
/// A search that would gain fewer bytes per packet than this is over.
const WORTH_PROBING: u16 = 8;
/// Segments behind a probe, so that its loss is noticed at once (RFC 4821 §7.4).
const SEGMENTS_BEHIND: u32 = 3;

/// What a connection knows of its path beside the MTU in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathSearch {
    /// Largest packet that is still worth a probe, bytes.
    high: u16,
    /// A probe has failed: look in the middle.
    pub(super) failed: bool,
    /// Size of the packet that probes, bytes; 0: none is in flight.
    size: u16,
    probe: Range,
    next_at: Instant,
    /// MTU of an ICMP error that is not believed yet (0: none), and the segment that it is about.
    claimed: u16,
    claimed_seq: SeqNumber,
    /// A segment of full size was sent; the first one ended there.
    sent_full: bool,
    full_end: SeqNumber,
    /// Up to there others know that segments of full size get through.
    proven_to: SeqNumber,
    /// The size was lowered because of time-outs, and nothing was acknowledged since.
    suspected: bool,
    /// Probes of the old size that are yet to be lost before that is believed to have been right; 0: it is not in question.
    trials: u8,
}

impl PathSearch {
    /// Sets what means nothing without a probe or a claim, and with nothing in flight, to what it is at first.
    pub fn forget_probe(&mut self, now: Instant, una: SeqNumber) {
        if self.size == 0 {
            self.probe = Range::default();
        }
        if self.claimed == 0 {
            self.claimed_seq = SeqNumber(0);
        }
        self.next_at = if self.next_at <= now {
            Instant::ZERO
        } else {
            Instant::from_millis(self.next_at.as_nanos().div_ceil(1_000_000))
        };
        if self.sent_full {
            self.full_end = una;
            self.proven_to = told_at(una, untold(una, self.proven_to));
        }
    }

    /// The rest of it, if there is no probe and no claim, but for whether a probe has failed.
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

    /// The range of the probe that is in flight, if there is one.
    pub fn probe(&self) -> Option<Range> {
        (self.size != 0).then_some(self.probe)
    }

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

    /// What SND.UNA has left behind stays behind, although sequence numbers wrap around.
    fn forget_before(&mut self, una: SeqNumber) {
        if self.sent_full && una > self.full_end {
            self.full_end = una;
        }
        if una > self.claimed_seq {
            self.claimed = 0;
        }
    }

    /// Nothing more can be gained for now; in ten minutes the path may have changed.
    fn rest(&mut self, now: Instant, link_mtu: u16) {
        self.high = link_mtu;
        self.failed = false;
        self.next_at = now + LIFETIME;
    }
}

/// What a connection with nothing in flight knows of its path beside the MTU in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finding {
    /// When the next probe may go: milliseconds, low 32 bits; 0: at once.
    next_at: u32,
    high: u16,
    /// Bytes that got through and others were not told of, in [`UNIT`]s; or [`NEVER_FULL`].
    untold: u16,
}

/// Bytes.
const UNIT: u32 = 64;
/// No segment of full size was sent.
const NEVER_FULL: u16 = u16::MAX;

/// How far `una` is from what others were told, rounded up; no more than it takes to tell them.
fn untold(una: SeqNumber, told: SeqNumber) -> u16 {
    let bytes = una.0.wrapping_sub(told.0).min(PROOF_INTERVAL + 1);
    bytes.div_ceil(UNIT) as u16
}

fn told_at(una: SeqNumber, untold: u16) -> SeqNumber {
    una - u32::from(untold) * UNIT
}

impl Finding {
    /// What it was made from.
    pub fn search(&self, now: Instant, una: SeqNumber) -> PathSearch {
        let mut search = PathSearch::new(self.high);
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

/// Whether new data is to go as a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbePlan {
    No,
    /// As soon as there is room for it.
    Wait,
    Now(Plan),
}

fn fallback(mtu: u16, is_ipv4: bool) -> Option<u16> {
    let steps = if is_ipv4 { 2 } else { 1 };
    FALLBACKS.into_iter().take(steps).find(|&step| step < mtu)
}

impl Conn<'_> {
    fn link_mtu(&self) -> u16 {
        let port = usize::from(self.hot.port.0);
        let interface = self.sh.config.interfaces.get(port);
        interface.map_or(self.cold.path.mtu, |interface| interface.capabilities.mtu)
    }

    /// What other connections have found out.
    pub fn adopt_path_mtu(&mut self, now: Instant) -> bool {
        let known = self.sh.net.paths.find(now, self.key.remote().ip());
        match known.filter(|known| known.mtu < self.cold.path.mtu) {
            Some(known) => {
                self.limit_path(known.mtu, known.until);
                true
            }
            None => false,
        }
    }

    fn limit_path(&mut self, mtu: u16, next_at: Instant) {
        self.cold.search = PathSearch {
            next_at,
            ..PathSearch::new(self.link_mtu())
        };
        self.cold.path.mtu = mtu;
        self.fit_segments();
    }

    fn learn_path_mtu(&mut self, now: Instant) {
        let (dst, mtu) = (self.key.remote().ip(), self.cold.path.mtu);
        self.sh.net.paths.learn(now, dst, mtu);
    }

    /// An ICMP error says that the segment at `seq` was too big for a link of `mtu` bytes.
    pub fn on_too_big(&mut self, now: Instant, mtu: u16, seq: SeqNumber) {
        let search = &mut self.cold.search;
        let is_probe = search.size != 0 && seq >= search.probe.start && seq < search.probe.end;
        if is_probe && mtu < search.size {
            search.high = mtu.max(self.cold.path.mtu);
        }
        if mtu >= self.cold.path.mtu {
            return;
        }
        // RFC 5927 §7.2: it is news that such segments do not get through. Their time-out will confirm it.
        if self.is_size_proven() {
            self.cold.search.claimed = mtu;
            self.cold.search.claimed_seq = seq;
            return;
        }
        self.lower_path_mtu(now, mtu);
    }

    /// Whether a segment as large as those in use has been acknowledged.
    fn is_size_proven(&self) -> bool {
        let search = &self.cold.search;
        search.sent_full && self.hot.snd_una >= search.full_end
    }

    /// RFC 1191 §6.3, RFC 8201 §5.2: smaller segments from now on, and again what was too big. That is no sign of congestion.
    /// RFC 1191 §3-2, §3-3, §6.3-1, §6.4-1; RFC 8201 §4-2, §4-3, §5.4-1.
    /// RFC 8201 §4-1; RFC 5927 §7.2-1.
    fn lower_path_mtu(&mut self, now: Instant, mtu: u16) {
        self.limit_path(mtu, now + LIFETIME);
        self.learn_path_mtu(now);
        if self.hot.state.may_transmit() && self.hot.flight() > 0 {
            self.go_back(now);
        }
    }

    /// The retransmission timer expired: is the size of the segments to blame?
    /// RFC 4821 §7.7-1.
    pub fn review_path(&mut self, now: Instant) {
        let search = self.cold.search;
        let is_full = self.hot.flight() >= u32::from(self.hot.loss.mss);
        let patience = if self.is_size_proven() {
            BLACK_HOLE_TIMEOUTS_IF_PROVEN
        } else {
            BLACK_HOLE_TIMEOUTS
        };
        let in_a_row = self.hot.retries.is_multiple_of(patience);
        if search.claimed != 0 && self.hot.snd_una <= search.claimed_seq {
            self.limit_path(search.claimed, now + LIFETIME);
            self.learn_path_mtu(now);
        } else if is_full
            && !self.adopt_path_mtu(now)
            && in_a_row
            && let Some(mtu) = fallback(self.cold.path.mtu, self.key.is_ipv4())
        {
            // RFC 4821 §7.7.
            self.limit_path(mtu, now);
            self.cold.search.suspected = true;
            self.cold.search.trials = MAX_PROBES;
        }
    }

    /// Something was acknowledged: were smaller segments what it took? Behind a full queue it only looks like that, and probes will tell;
    /// without SACK there are none.
    pub fn confirm_path(&mut self, now: Instant) {
        if self.cold.search.suspected {
            self.cold.search.suspected = false;
            if !self.has(Flags::SACK) {
                self.believe_in_black_hole(now);
            }
        }
    }

    fn believe_in_black_hole(&mut self, now: Instant) {
        self.cold.search.trials = 0;
        self.sh.counters.black_holes += 1;
        let proven = self.sh.net.paths.proven(now, self.key.remote().ip());
        if proven.is_none_or(|proven| proven <= self.cold.path.mtu) {
            self.learn_path_mtu(now);
        }
    }

    /// Tells other connections now and then that segments of the present size get through.
    fn prove_path(&mut self, now: Instant) {
        let una = self.hot.snd_una;
        let told = self.cold.search.proven_to;
        if self.is_size_proven() && una.0.wrapping_sub(told.0) > PROOF_INTERVAL {
            self.cold.search.proven_to = una;
            let (dst, mtu) = (self.key.remote().ip(), self.cold.path.mtu);
            self.sh.net.paths.prove(now, dst, mtu);
        }
    }

    /// Whether new data, so much of it available and allowed by the peer's window, is to go in a larger segment than the others.
    /// RFC 4821 §7.4-1, §7.4-2.
    pub fn plan_path_probe(&mut self, now: Instant, available: u32, usable: u32) -> ProbePlan {
        if self.cold.path.mtu >= self.cold.search.high {
            return ProbePlan::No;
        }
        self.settle_path_probe(now);
        let unfit = Flags::SACKED | Flags::RECOVERY | Flags::LOSS;
        let search = &self.cold.search;
        if search.size != 0 || now < search.next_at || !self.has(Flags::SACK) || self.has(unfit) {
            return ProbePlan::No;
        }
        let len = u32::from(self.mss_for(self.next_size()));
        let mss = u32::from(self.hot.loss.mss);
        // With options that come and go the packet would be larger than the path is to be tried with.
        if self.segment_room() < mss {
            return ProbePlan::No;
        }
        if len <= mss {
            // The peer does not take more.
            self.cold.search.high = self.cold.path.mtu;
            return ProbePlan::No;
        }
        let needed = len + SEGMENTS_BEHIND * mss;
        if needed > available || needed > usable || needed > self.hot.loss.window.cwnd {
            return ProbePlan::No;
        }
        if !self.loss_view().cwnd_allows(len) {
            return ProbePlan::Wait;
        }
        ProbePlan::Now(self.segment(Kind::New, self.hot.snd_nxt, len))
    }

    fn next_size(&self) -> u16 {
        let (low, high) = (self.cold.path.mtu, self.cold.search.high);
        if self.cold.search.failed {
            low + (high - low).div_ceil(2)
        } else {
            high
        }
    }

    fn mss_for(&self, mtu: u16) -> u16 {
        effective_mss(
            &self.sh.config,
            self.cold.peer_mss,
            mtu,
            self.key.is_ipv4(),
            self.has(Flags::TIMESTAMPS),
            self.options(),
        )
    }

    /// Makes segments as large as path, peer and options let them be.
    /// RFC 1191 §6.4-2.
    pub fn fit_segments(&mut self) {
        self.hot.loss.mss = self.mss_for(self.cold.path.mtu);
    }

    /// New data went out in a segment of full size, or larger: then it is a probe.
    pub fn on_full_segment_sent(&mut self, now: Instant, plan: &Plan) {
        let range = Range::new(plan.seq, plan.end());
        self.prove_path(now);
        let search = &mut self.cold.search;
        search.forget_before(self.hot.snd_una);
        if plan.cut != 0 || plan.len <= u32::from(self.hot.loss.mss) {
            if !search.sent_full {
                search.sent_full = true;
                search.full_end = range.end;
                search.proven_to = SeqNumber(range.end.0.wrapping_sub(PROOF_INTERVAL + 1));
            }
            return;
        }
        let stamps = if self.hot.has(Flags::TIMESTAMPS) {
            TIMESTAMPS_LEN
        } else {
            0
        };
        search.size = plan.len as u16 + headers_len(self.key.is_ipv4()) + stamps;
        search.probe = range;
        self.sh.counters.mtu_probes += 1;
    }

    /// A probe that was acknowledged, and never sent again, got through.
    /// RFC 4821 §7.6.1-1.
    fn settle_path_probe(&mut self, now: Instant) {
        let search = self.cold.search;
        if search.size == 0 || self.hot.snd_una < search.probe.end {
            return;
        }
        self.cold.search = PathSearch {
            high: search.high,
            failed: search.failed,
            ..PathSearch::new(search.high)
        };
        self.cold.path.mtu = search.size;
        self.fit_segments();
        self.learn_path_mtu(now);
        self.end_search(now);
    }

    /// `range` is sent again: if it was the probe's, that did not get through (RFC 4821 §7.6.2).
    /// RFC 4821 §7.6.2-1.
    pub fn on_resent_over_probe(&mut self, now: Instant, range: Range) {
        let search = &self.cold.search;
        let overlaps = range.start < search.probe.end && range.end > search.probe.start;
        if search.size == 0 || !overlaps {
            return;
        }
        if search.trials > 1 {
            let search = &mut self.cold.search;
            search.trials -= 1;
            search.size = 0;
            search.next_at = now + RETRY_INTERVAL;
        } else {
            self.on_probe_failed(now);
        }
    }

    fn on_probe_failed(&mut self, now: Instant) {
        if self.cold.search.trials > 0 {
            self.believe_in_black_hole(now);
        }
        let search = &mut self.cold.search;
        search.high = search.high.min(search.size - 1);
        search.failed = true;
        search.size = 0;
        search.next_at = now + PROBE_INTERVAL;
        self.end_search(now);
    }

    /// RFC 4821 §7.3-1, §7.3-2.
    fn end_search(&mut self, now: Instant) {
        let link_mtu = self.link_mtu();
        let low = self.cold.path.mtu;
        let search = &mut self.cold.search;
        if search.failed && search.high.saturating_sub(low) < WORTH_PROBING {
            search.rest(now, link_mtu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_once_stays_acknowledged() {
        let mut search = PathSearch {
            sent_full: true,
            full_end: SeqNumber(1000),
            claimed: 600,
            claimed_seq: SeqNumber(2000),
            ..PathSearch::new(1500)
        };
        for una in (0..8u32).map(|i| SeqNumber(i.wrapping_mul(1 << 30)) + 3000) {
            search.forget_before(una);
            assert_eq!(
                (una >= search.full_end, search.claimed),
                (true, 0),
                "{una:?}"
            );
        }
    }

    #[test]
    fn sizes_to_fall_back_on() {
        assert_eq!(fallback(9000, true), Some(1280));
        assert_eq!(fallback(1280, true), Some(576));
        assert_eq!(fallback(576, true), None);
        assert_eq!(fallback(1500, false), Some(1280));
        assert_eq!(fallback(1280, false), None);
    }
}
