//! Larger segments: probes of what the path takes, and what becomes of them.

use std::time::Duration;

use wire::time::Instant;

use crate::tcp::flags::PathFlags;
use crate::tcp::options::{TIMESTAMPS_LEN, headers_len};
use crate::tcp::path::part::PathPart;
use crate::tcp::ranges::Range;

/// The pause between two probes of a size that time-outs have put in question.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The pause between a probe that failed and the next probe.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);
/// A search that would gain fewer bytes per packet than this is over.
const WORTH_PROBING: u16 = 8;
/// So many segments follow a probe, so that its loss is noticed at once (RFC 4821 §7.4).
const SEGMENTS_BEHIND: u32 = 3;

/// With any of these, a lost probe could not be told from other losses.
const UNFIT: PathFlags = PathFlags::SACKED
    .union(PathFlags::RECOVERY)
    .union(PathFlags::LOSS);

impl PathPart<'_> {
    /// Whether new data is to go in a larger segment than the others: the bytes of payload of that,
    /// if so. `available` bytes of data are there, and the peer's window takes `usable` bytes.
    /// `has_variable` says that the segment would carry options that come and go: with them the
    /// packet would be larger than the path is to be tried with.
    /// RFC 4821 §7.4-1, §7.4-2.
    pub fn plan_probe(
        mut self,
        now: Instant,
        available: u32,
        usable: u32,
        has_variable: bool,
    ) -> Option<u32> {
        self.settle_probe(now);
        let flags = self.view.flags;
        let may_probe = flags.contains(PathFlags::SACK) && !flags.intersects(UNFIT);
        if !self.search.may_probe(now) || !may_probe || has_variable {
            return None;
        }
        let len = u32::from(self.view.mss_for(self.search.next_size(*self.mtu)));
        let mss = u32::from(*self.mss);
        if len <= mss {
            // The peer does not take more.
            self.search.end_at(*self.mtu);
            return None;
        }
        let needed = len + SEGMENTS_BEHIND * mss;
        let room = available.min(usable).min(self.view.cwnd);
        (needed <= room).then_some(len)
    }

    /// A segment that is larger than the others was sent: `len` bytes of payload, which span
    /// `range`.
    pub fn on_probe_sent(self, range: Range, len: u32) {
        let stamps = if self.view.flags.contains(PathFlags::TIMESTAMPS) {
            TIMESTAMPS_LEN
        } else {
            0
        };
        let size = len as u16 + headers_len(self.view.is_ipv4()) + stamps;
        self.search.begin_probe(range, size);
        self.counters.mtu_probes += 1;
    }

    /// Tells other connections that segments of the present size get through.
    pub fn prove(self, now: Instant) {
        self.search.prove(self.view.snd_una);
        self.paths.prove(now, self.view.dst, *self.mtu);
    }

    /// A probe that was acknowledged, and never sent again, got through.
    /// RFC 4821 §7.6.1-1.
    fn settle_probe(&mut self, now: Instant) {
        let Some(size) = self.search.passed(self.view.snd_una) else {
            return;
        };
        self.search.raise();
        *self.mtu = size;
        self.fit_segments();
        self.learn(now);
        self.end_search(now);
    }

    /// `range` is sent again: if it was the probe's, that did not get through (RFC 4821 §7.6.2).
    /// RFC 4821 §7.6.2-1.
    pub fn on_resent(mut self, now: Instant, range: Range) {
        let is_probe = |probe: Range| range.start < probe.end && range.end > probe.start;
        if !self.search.probe().is_some_and(is_probe) {
            return;
        }
        if !self.search.try_again(now + RETRY_INTERVAL) {
            self.on_probe_failed(now);
        }
    }

    fn on_probe_failed(&mut self, now: Instant) {
        if self.search.is_on_trial() {
            self.believe_in_black_hole(now);
        }
        self.search.fail(now + PROBE_INTERVAL);
        self.end_search(now);
    }

    /// RFC 4821 §7.3-1, §7.3-2.
    fn end_search(&mut self, now: Instant) {
        if self.search.is_exhausted(*self.mtu, WORTH_PROBING) {
            let link_mtu = self.link_mtu();
            self.search.rest(now, link_mtu);
        }
    }
}
