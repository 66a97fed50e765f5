//! RACK (RFC 8985 §6): a segment is lost when one that was sent later has arrived and enough time
//! has passed for reordering. RACK finds lost retransmissions and lost tails, which counting
//! duplicates cannot. It is used when SACK was agreed on.

use wire::time::Instant;

use crate::tcp::flags::LossFlags;
use crate::tcp::loss::actions::LossActions;
use crate::tcp::loss::part::Loss;
use crate::tcp::loss::sent::{Verdict, micros};
use crate::tcp::loss::tail::Probe;
use crate::tcp::ranges::Range;

impl Loss<'_> {
    /// A duplicate was reported (RFC 2883): what was sent again was not lost, so the window for
    /// reordering is too small.
    /// RFC 8985 §4-4, §6.2-5.
    pub(super) fn on_spurious_retransmission(&mut self) {
        self.counters.spurious_retransmits += 1;
        let reported = &mut self.statistics.duplicates_reported;
        *reported = reported.saturating_add(1);
        // What a recovery sends again and arrives twice had been overtaken. A probe, or what a
        // time-out repeats, may have missed its ACK only.
        let is_probe = self.cold.tail.probe != Probe::None;
        self.cold.reordering.seen |= !is_probe && !self.bits.has(LossFlags::LOSS);
        self.cold.reordering.widen(self.snd_una, self.snd_nxt);
    }

    /// RACK_detect_loss: after every ACK that says anything, and when its timer expires. Whether it
    /// found any.
    /// RFC 6675 §5.1-3; RFC 5681 §4.3-5.
    pub(super) fn detect_losses(&mut self, now: Instant, path_probe: Option<Range>) -> bool {
        let unusual = LossFlags::SACKED | LossFlags::RECOVERY | LossFlags::LOSS;
        let uses_rack = self.bits.has(LossFlags::SACK) && self.bits.has(LossFlags::SENT_LOG);
        if !uses_rack || !self.bits.has(unusual) {
            return false;
        }
        let reo_wnd = self.view().reordering_window();
        let pipe = self.view().pipe();
        let Some((log, sacked)) = self.in_flight().log_and_scoreboard() else {
            return false;
        };
        let verdict = log.detect(micros(now), reo_wnd, sacked);
        if verdict.lost {
            self.on_losses(now, verdict, pipe, path_probe);
        }
        self.timers().set_reordering_timer(now, verdict.wait);
        verdict.lost
    }

    /// RFC 6675 §5.1-2.
    fn on_losses(
        &mut self,
        now: Instant,
        verdict: Verdict,
        pipe_before: u32,
        path_probe: Option<Range>,
    ) {
        if verdict.resent_lost {
            self.counters.lost_retransmissions += 1;
            self.leave_frto();
        }
        if self.bits.has(LossFlags::RECOVERY) {
            let pipe = self.view().pipe();
            self.congestion().keep_sndcnt(pipe_before, pipe);
        }
        if !self.bits.has(LossFlags::RECOVERY | LossFlags::LOSS) {
            if path_probe.is_some_and(|probe| self.view().is_only_lost(probe)) {
                self.recover_probe(now);
            } else {
                self.enter_recovery(now);
            }
        } else if verdict.resent_lost && self.bits.has(LossFlags::RECOVERY) {
            self.reduce_again(now);
        }
        self.actions |= LossActions::OUTPUT;
    }

    /// RFC 5681 §4.3: the loss of a retransmission is a second sign of congestion. It counts at
    /// most once per round trip.
    /// RFC 8985 §9.3-3; RFC 5681 §4.3-4.
    fn reduce_again(&mut self, now: Instant) {
        let since = micros(now).wrapping_sub(self.cold.reduced_at);
        if u128::from(since) >= self.hot.rtt.srtt().as_micros() {
            let flight = self.view().pipe().min(self.hot.window.cwnd);
            self.reduce_window(now, flight);
            self.start_prr();
        }
    }

    /// The reordering timer or the probe timer expired. `may_send`: the state and the peer's window
    /// allow it.
    /// RFC 8985 §7.3-7.
    pub fn on_early_timer(
        mut self,
        now: Instant,
        may_send: bool,
        path_probe: Option<Range>,
    ) -> LossActions {
        let reordering = self.bits.has(LossFlags::REORDER_TIMER);
        self.timers().stop_early_timer();
        if reordering {
            self.detect_losses(now, path_probe);
        } else if self.view().flight() > 0 && may_send {
            self.bits.insert(LossFlags::TAIL_PROBE_DUE);
            // RFC 8985 §7.3: the RTO counts from the probe.
            self.timers().start_rtx_timer(now);
            self.actions |= LossActions::OUTPUT;
        }
        self.actions
    }
}
