//! Tail loss probes (RFC 8985 §7): when ACKs fail to come for two round trips, one segment asks for them, long before the RTO. If the
//! probe arrives and more is missing, its SACK starts recovery.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::tcp::conn::Conn;
use crate::tcp::output::{Kind, Plan};
use crate::tcp::ranges::Range;
use crate::tcp::segment::Segment;
use crate::tcp::tcb::Flags;

/// PTO before a round-trip time is known (RFC 8985 §7.2), µs.
const UNKNOWN_RTT_PTO: u64 = 1_000_000;
/// A shorter PTO would cost a timer per round trip and connection on fast networks: µs.
const MIN_PTO: u64 = 4_000;
/// How long a peer may sit on the ACK of a lone segment (RFC 8985 §7.2, TLP.max_ack_delay), µs. Linux waits for 40 ms and up to a tick of
/// 10 ms more, FreeBSD and macOS for up to 100 ms; a busy machine is late. Each probe that is too early costs both ends a segment.
const MAX_ACK_DELAY: u32 = 100_000;

/// The probe that has been sent and not been resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Probe {
    #[default]
    None,
    /// It carried new data.
    New,
    /// It repeated the last segment (TLP.is_retrans).
    Again,
}

/// What a connection remembers of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TailProbe {
    pub probe: Probe,
    /// SND.NXT after it was sent.
    pub end: SeqNumber,
    /// A round trip was measured since the last one.
    pub measured: bool,
}

impl TailProbe {
    pub fn new(iss: SeqNumber) -> Self {
        Self {
            probe: Probe::None,
            end: iss,
            measured: false,
        }
    }
}

/// RFC 8985 §7.2: TLP_calc_PTO, before it is bounded by the RTO. All in µs.
/// RFC 8985 §7.2-2, §7.2-3.
fn probe_timeout(srtt: Option<u32>, single: bool) -> u64 {
    let steady = |srtt| (2 * u64::from(srtt)).max(MIN_PTO);
    match srtt {
        Some(srtt) if single => steady(srtt) + u64::from(MAX_ACK_DELAY),
        Some(srtt) => steady(srtt),
        None => UNKNOWN_RTT_PTO,
    }
}

impl Conn<'_> {
    /// Starts the probe timer (RFC 8985 §7.2): with SACK, nothing SACKed, no recovery, and only if a probe may be sent.
    /// RFC 8985 §7.2-1, §7.2-2.
    /// RFC 8985 §7.3-1.
    pub fn schedule_tail_probe(&mut self, now: Instant) {
        let unfit = Flags::SACKED | Flags::RECOVERY | Flags::LOSS | Flags::PERSIST;
        if !self.has(Flags::SACK) || self.has(unfit) || !self.may_probe() {
            return;
        }
        let srtt = self.hot.rtt.srtt_micros();
        let single = self.hot.flight() <= u32::from(self.hot.mss);
        let pto = probe_timeout(srtt, single);
        self.clear(Flags::REORDER_TIMER | Flags::TAIL_PROBE_DUE);
        self.hot.early_at = now.after_micros(pto).min(self.hot.rtx_at);
        self.wake_at(self.hot.early_at);
    }

    /// RFC 8985 §7.3-1, §7.3-2, §7.3-3: one probe at a time, and none before a round trip was measured since the last: probes that are sent
    /// again spoil the measurements by which the timer would adapt to a longer path. The RTO timer runs in any case.
    fn may_probe(&self) -> bool {
        self.cold.tail.probe == Probe::None && self.cold.tail.measured
    }

    /// The reordering timer or the probe timer expired.
    /// RFC 8985 §7.3-7.
    pub fn on_early_timer(&mut self, now: Instant) {
        let reordering = self.has(Flags::REORDER_TIMER);
        self.stop_early_timer();
        if reordering {
            self.detect_losses(now);
        } else if self.hot.flight() > 0 && self.hot.snd_wnd > 0 && self.hot.state.may_transmit() {
            self.set(Flags::TAIL_PROBE_DUE);
            // RFC 8985 §7.3: the RTO counts from the probe.
            self.start_rtx_timer(now);
            self.mark_output();
        }
    }

    /// TLP_send_probe (RFC 8985 §7.3): new data if there is some, whatever the congestion window says; else the last segment again.
    /// RFC 8985 §7.3-4, §7.3-5.
    #[cold]
    pub fn plan_tail_probe(&mut self) -> Option<Plan> {
        let plan = self.plan_new_probe().or_else(|| self.plan_last_again());
        if plan.is_none() {
            self.clear(Flags::TAIL_PROBE_DUE);
        }
        plan
    }

    fn plan_new_probe(&self) -> Option<Plan> {
        let nxt = self.hot.snd_nxt;
        let end = self.sendable_end();
        let len = if end > nxt { end - nxt } else { 0 };
        (len > 0).then(|| self.segment(Kind::TailProbe, nxt, len.min(self.segment_room())))
    }

    fn plan_last_again(&self) -> Option<Plan> {
        let (una, nxt) = (self.hot.snd_una, self.hot.snd_nxt);
        let last = self.segment_room() + u32::from(self.hot.fin_sent());
        let start = if nxt - una > last { nxt - last } else { una };
        let gap = self.first_unsacked(start, nxt)?;
        self.plan_again(Kind::TailProbe, gap)
    }

    /// RFC 8985 §7.3-6.
    pub fn on_tail_probe_sent(&mut self, now: Instant, plan: &Plan) {
        let is_new = plan.seq >= self.hot.snd_nxt;
        self.clear(Flags::TAIL_PROBE_DUE);
        self.sh.counters.tail_probes += 1;
        self.cold.tail.probe = if is_new { Probe::New } else { Probe::Again };
        self.cold.tail.measured = false;
        if is_new {
            self.on_new_sent(now, plan);
        } else {
            self.on_retransmitted(now, plan);
        }
        self.cold.tail.end = self.hot.snd_nxt;
    }

    /// TLP_process_ack (RFC 8985 §7.4.2). `duplicate` is the range that a D-SACK reports.
    /// RFC 8985 §7.4.2-1, §7.4.2-2.
    pub fn on_ack_of_tail_probe(
        &mut self,
        now: Instant,
        seg: &Segment<'_>,
        duplicate: Option<Range>,
    ) {
        let end = self.cold.tail.end;
        if self.cold.tail.probe == Probe::None || seg.ack < end {
            return;
        }
        let is_duplicate =
            seg.ack == self.hot.snd_una && seg.payload.is_empty() && seg.options.sack.is_empty();
        let reported = |range: Range| range.end + 1 >= end;
        if self.cold.tail.probe == Probe::New || duplicate.is_some_and(reported) {
            self.cold.tail.probe = Probe::None;
        } else if seg.ack > end {
            // It repaired a loss that nothing else has noticed.
            self.cold.tail.probe = Probe::None;
            let flight = self.hot.flight().min(self.hot.window.cwnd);
            self.reduce_window(now, flight);
        } else if is_duplicate {
            // The peer got both.
            self.cold.tail.probe = Probe::None;
        }
    }

    /// Something else has taken over.
    /// RFC 8985 §7.1-1.
    pub fn forget_tail_probe(&mut self) {
        self.cold.tail.probe = Probe::None;
        self.clear(Flags::TAIL_PROBE_DUE);
    }

    /// The first bytes of `[from, to)` that are not SACKed.
    pub fn first_unsacked(&self, from: SeqNumber, to: SeqNumber) -> Option<Range> {
        match self.scoreboard() {
            Some(set) => set.first_gap(from, to),
            None => (from < to).then(|| Range::new(from, to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8985 §7.2-2, §7.2-3.
    #[test]
    fn probe_timeouts_of_rfc_8985() {
        assert_eq!(probe_timeout(None, true), 1_000_000);
        assert_eq!(probe_timeout(Some(50_000), false), 100_000);
        assert_eq!(probe_timeout(Some(50_000), true), 200_000);
        assert_eq!(probe_timeout(Some(90), false), 4_000);
    }
}
