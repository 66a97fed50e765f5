//! Loss recovery: RACK (RFC 8985) with SACK, RFC 6582 (NewReno) without, limited transmit (RFC
//! 3042) and go-back after a time-out.
//!
//! Recovery consists of a log and an estimate. What the log says is lost, less what is SACKed, is
//! to be retransmitted. `pipe` is what is still thought to be in the network. Sending anything
//! needs `pipe` to stay below `cwnd`, which each ACK of a recovery sets by proportional rate
//! reduction (`prr`). Without SACK, `cwnd` stands at `ssthresh` then, and each duplicate ACK says
//! that one segment has left the network: that is RFC 6582's inflation of `cwnd`, told from the
//! other side.

use wire::time::Instant;

use crate::tcp::flags::LossFlags;
use crate::tcp::loss::actions::LossActions;
use crate::tcp::loss::part::Loss;
use crate::tcp::loss::prr::Prr;
use crate::tcp::loss::sent::micros;
use crate::tcp::loss::tail::Probe;
use crate::tcp::loss::undo::Frto;
use crate::tcp::ranges::Range;
use crate::tcp::segment::Segment;

impl Loss<'_> {
    /// RFC 6582 §3.2 step 3, partial acknowledgments: the next segment is lost too. With SACK the
    /// log knows.
    /// RFC 6582 §3.2-4, §5-1.
    pub(super) fn on_partial_ack(&mut self, acked: u32) {
        if !self.bits.has(LossFlags::SACK) {
            let deflate = acked.saturating_sub(self.view().mss());
            self.cold.departed.bytes = self.cold.departed.bytes.saturating_sub(deflate);
            self.cold.departed.most = self.view().flight();
            let mss = self.view().mss();
            self.in_flight().lose_first(mss);
        }
        self.actions |= LossActions::OUTPUT;
    }

    /// RFC 6582 §3.2 step 3, full acknowledgments.
    /// RFC 5681 §3.2-8, §4.3-3.
    /// RFC 6582 §3.2-3.
    pub(super) fn leave_recovery(&mut self, now: Instant) {
        let mss = self.view().mss();
        if self.bits.has(LossFlags::SACK) {
            // RFC 8985 §6.2-5.
            self.cold.reordering.relax();
            self.congestion().end_prr();
        } else {
            let flight = self.view().flight();
            let window = &mut self.hot.window;
            window.cwnd = window.ssthresh.min(flight.max(mss) + mss);
        }
        self.hot.dup_acks = 0;
        self.cold.departed.bytes = 0;
        self.recover_the_rest(now);
    }

    /// A recovery is over. What was sent after it began may be lost as well: that is the next one.
    pub(super) fn recover_the_rest(&mut self, now: Instant) {
        let lost = self.view().has_lost();
        self.end_recovery();
        if lost && self.bits.has(LossFlags::SACK) {
            self.enter_recovery(now);
        } else if lost && let Some(log) = self.in_flight().sent_log() {
            log.forgive(micros(now));
        }
    }

    pub(super) fn end_recovery(&mut self) {
        self.bits
            .remove(LossFlags::RECOVERY | LossFlags::LOSS | LossFlags::FORCE_RETRANSMIT);
    }

    /// RFC 6675 §5 (4), RFC 6582 §3.2 step 2: once per window.
    /// RFC 6675 §5-4, §5-5, §5-6; RFC 5681 §3.2-4, §4.3-1.
    pub(super) fn enter_recovery(&mut self, now: Instant) {
        // What limited transmit sent beyond `cwnd` does not count (RFC 5681 §3.2 step 2). What ACKs
        // of the same burst took away does.
        let flight = self.hot.window.cwnd - self.view().unfilled(self.view().flight());
        self.cold.recover = self.snd_nxt;
        self.cold.departed.most = self.view().flight();
        let undo = self.undo_state(Frto::Off);
        self.reduce_window(now, flight);
        self.congestion().set_undo(undo);
        self.timers().stop_early_timer();
        self.timers().forget_tail_probe();
        self.bits
            .insert(LossFlags::RECOVERY | LossFlags::FORCE_RETRANSMIT);
        self.start_prr();
        if !self.bits.has(LossFlags::SACK) {
            let mss = self.view().mss();
            self.in_flight().lose_first(mss);
        }
        self.counters.fast_retransmits += 1;
        self.actions |= LossActions::OUTPUT;
    }

    /// Only the probe of a larger size was lost: it is repaired, and the window stays as it is
    /// (RFC 4821 §7.6.2).
    pub(super) fn recover_probe(&mut self, now: Instant) {
        let saved = self.congestion().save();
        self.enter_recovery(now);
        self.congestion().restore(&saved);
        self.cold.prr = Prr::default();
        self.congestion().forget_undo();
    }

    /// The answer to congestion, with `flight` bytes outstanding.
    pub(super) fn reduce_window(&mut self, now: Instant, flight: u32) {
        self.congestion().reduce(now, flight);
        self.actions |= LossActions::REDUCED;
    }

    /// The retransmission timer expired (RFC 5681 §3.1, RFC 6675 §5.1, RFC 8985 §6.3).
    /// RFC 2018 §5.1-1; RFC 5681 §3.1-10, §3.1-12.
    /// RFC 5682 §2.1-1.
    pub fn on_timeout(mut self, now: Instant) -> LossActions {
        let mss = self.view().mss();
        let first = !self.bits.has(LossFlags::LOSS);
        let flight = self.view().flight().min(self.hot.window.cwnd.max(mss));
        let undo = self.undo_state_of_timeout();
        self.congestion().on_timeout(flight, first);
        self.actions |= LossActions::REDUCED;
        self.mark_lost(now, self.view().age_of_loss());
        self.congestion().set_undo(undo);
        self.actions
    }

    /// Everything in flight counts as lost.
    pub fn go_back(mut self, now: Instant) -> LossActions {
        self.mark_lost(now, 0);
        self.actions
    }

    /// Everything that was sent at least `age` µs ago, and the first segment in any case, counts as
    /// lost.
    /// RFC 6298 §5-5, §5-1; RFC 2018 §5-4; RFC 6675 §5.1-1.
    /// RFC 6582 §3.2-6.
    fn mark_lost(&mut self, now: Instant, age: u32) {
        self.in_flight().detect_reneging();
        if let Some((log, sacked)) = self.in_flight().log_and_scoreboard() {
            log.lose_older_than(age, micros(now), sacked);
        }
        self.cold.recover = self.snd_nxt;
        self.cold.departed.bytes = 0;
        self.cold.prr = Prr::default();
        self.congestion().forget_undo();
        self.hot.dup_acks = 0;
        self.timers().stop_early_timer();
        self.timers().forget_tail_probe();
        self.bits.remove(LossFlags::RECOVERY | LossFlags::TIMING);
        self.bits
            .insert(LossFlags::LOSS | LossFlags::FORCE_RETRANSMIT);
        self.actions |= LossActions::OUTPUT;
    }

    /// A recovery began, or another reduction in the course of it. Until an ACK says more, nothing
    /// but the first retransmission goes. Algorithms that model the path decide themselves.
    /// RFC 9937 §6.1-1, §6.2-3; RFC 8985 §9.3-2.
    pub(super) fn start_prr(&mut self) {
        if !self.bits.has(LossFlags::SACK) || self.cold.congestion.models_path() {
            self.cold.prr = Prr::default();
            return;
        }
        let outstanding = self.snd_nxt - self.view().delivered();
        self.cold.prr = Prr::new(outstanding.max(1));
        self.hot.window.cwnd = self.view().pipe().max(self.view().mss());
    }

    /// A segment with `len` bytes of payload was sent: it counts in a fast recovery.
    #[inline(always)]
    pub fn on_sent(&mut self, len: u32) {
        if self.bits.has(LossFlags::RECOVERY) {
            self.cold.prr.on_sent(len);
        }
    }

    /// The ACK of a predicted segment, which reports nothing, resolves the tail loss probe.
    pub fn on_ack_of_tail_probe(mut self, now: Instant, seg: &Segment<'_>) -> LossActions {
        self.resolve_tail_probe(now, seg, None);
        self.actions
    }

    /// TLP_process_ack (RFC 8985 §7.4.2). `duplicate` is the range that a D-SACK reports.
    /// RFC 8985 §7.4.2-1, §7.4.2-2.
    pub(super) fn resolve_tail_probe(
        &mut self,
        now: Instant,
        seg: &Segment<'_>,
        duplicate: Option<Range>,
    ) {
        if !self.view().resolves_tail_probe(seg.ack) {
            return;
        }
        let end = self.cold.tail.end;
        let is_duplicate =
            seg.ack == self.snd_una && seg.payload.is_empty() && seg.options.sack.is_empty();
        let reported = |range: Range| range.end + 1 >= end;
        if self.cold.tail.probe == Probe::New || duplicate.is_some_and(reported) {
            self.cold.tail.probe = Probe::None;
        } else if seg.ack > end {
            // It repaired a loss that nothing else has noticed.
            self.cold.tail.probe = Probe::None;
            let flight = self.view().flight().min(self.hot.window.cwnd);
            self.reduce_window(now, flight);
        } else if is_duplicate {
            // The peer got both.
            self.cold.tail.probe = Probe::None;
        }
    }
}
