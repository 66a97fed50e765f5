//! What is in flight: the log, the scoreboard, the timers that look after it, and what sending
//! changes.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::tcp::flags::LossFlags;
use crate::tcp::loss::congestion::Congestion;
use crate::tcp::loss::log::InFlight;
use crate::tcp::loss::part::{Loss, LossActions};
use crate::tcp::loss::sent::micros;
use crate::tcp::loss::state::Fill;
use crate::tcp::loss::tail::{Probe, probe_timeout};
use crate::tcp::loss::view::LossView;
use crate::tcp::ranges::Range;

/// rrthresh of RFC 7765 §4, segments.
const RESTART_THRESHOLD: u32 = 4;

/// New data that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewData {
    /// The sequence number behind it.
    pub end: SeqNumber,
    /// Bytes of payload.
    pub len: u32,
}

impl Loss<'_> {
    /// The same part, to be read.
    #[inline(always)]
    pub fn view(&self) -> LossView<'_> {
        LossView {
            hot: self.hot,
            cold: self.cold,
            flags: LossFlags::of(self.bits.word()),
            pools: self.pools,
            ranges: self.ranges,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        }
    }

    /// The same part, for a function that is called and not inlined. The borrows of `self` can stay
    /// in registers then, and cost nothing where the function is not called.
    #[inline(always)]
    pub(super) fn apart(&mut self) -> Loss<'_> {
        Loss {
            hot: self.hot,
            cold: self.cold,
            bits: self.bits.reborrow(),
            pools: self.pools,
            ranges: self.ranges,
            counters: self.counters,
            statistics: self.statistics,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            ts_offset: self.ts_offset,
            actions: LossActions::empty(),
        }
    }

    /// The log and the scoreboard.
    #[inline(always)]
    pub(super) fn in_flight(&mut self) -> InFlight<'_> {
        InFlight {
            cold: self.cold,
            bits: self.bits.reborrow(),
            sent: &mut self.pools.sent,
            ranges: self.ranges,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        }
    }

    /// Congestion control.
    #[inline(always)]
    pub fn congestion(&mut self) -> Congestion<'_> {
        Congestion {
            hot: self.hot,
            cold: self.cold,
            pools: self.pools,
        }
    }

    #[inline(always)]
    pub(super) fn has(&self, flags: LossFlags) -> bool {
        self.bits.has(flags)
    }

    #[inline(always)]
    pub(super) fn flight(&self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    #[inline(always)]
    pub(super) fn mss(&self) -> u32 {
        u32::from(self.hot.mss)
    }

    pub(super) fn mark_output(&mut self) {
        self.actions |= LossActions::OUTPUT;
    }

    #[inline(always)]
    pub(super) fn forget_sent_log(&mut self) {
        if self.has(LossFlags::SENT_LOG) {
            self.in_flight().free_sent_log();
        }
    }

    /// Gives back everything that the pools hold for this connection.
    pub fn forget(mut self) {
        self.in_flight().forget_scoreboard();
        self.forget_sent_log();
        let mut congestion = self.congestion();
        congestion.forget_rates();
        congestion.forget_undo();
    }

    /// New data was sent: SND.NXT has not moved yet.
    #[inline(always)]
    pub fn on_new_sent(&mut self, now: Instant, data: NewData) {
        let was_idle = self.flight() == 0;
        if self.has(LossFlags::LOSS) {
            self.apart().on_new_data_of_frto();
        }
        self.log_new(now, data.end);
        self.snd_nxt = data.end;
        let flight = self.flight();
        let room = self.hot.window.cwnd.saturating_sub(flight);
        self.cold.fill = Fill { flight, room };
        self.note_sent(now, was_idle);
        let srtt = self.hot.rtt.srtt();
        self.cold.pacing.on_departed(now, data.len, srtt);
    }

    /// RFC 6298 §3-2.
    #[inline(always)]
    pub fn start_timing(&mut self, now: Instant, end: SeqNumber) {
        self.hot.rtt_seq = end;
        self.hot.rtt_at = micros(now);
        self.bits.insert(LossFlags::TIMING);
    }

    /// The timers of new data. Both deadlines are known before the wheel is told: the probe comes
    /// first.
    #[inline(always)]
    pub fn start_timers_of_new_data(&mut self, now: Instant) {
        if !self.has(LossFlags::TIMING) {
            self.start_timing(now, self.snd_nxt);
        }
        if self.hot.rtx_at == Instant::FAR {
            self.hot.rtx_at = now.after_micros(self.view().rto_micros());
        }
        self.schedule_tail_probe(now);
        self.actions |= LossActions::TIMER;
    }

    /// Data or a FIN was sent again: SND.NXT has not moved yet. `len` is that of the payload.
    /// RFC 6675 §6-1.
    pub fn on_retransmitted(mut self, now: Instant, range: Range, len: u32) -> LossActions {
        // Karn: what was sent twice cannot be timed.
        if range.start < self.hot.rtt_seq {
            self.bits.remove(LossFlags::TIMING);
        }
        self.bits.remove(LossFlags::FORCE_RETRANSMIT);
        if self.has(LossFlags::RECOVERY | LossFlags::LOSS) {
            let stamp = self.tsval(now);
            if let Some(undo) = self.congestion().undo() {
                undo.on_resent(micros(now), stamp, range.len());
            }
        }
        self.in_flight().log_again(micros(now), range);
        self.snd_nxt = self.snd_nxt.max(range.end);
        self.note_sent(now, false);
        let srtt = self.hot.rtt.srtt();
        self.cold.pacing.on_departed(now, len, srtt);
        if self.has(LossFlags::RECOVERY) && range.start == self.snd_una {
            // Its ACK takes a round trip from now, however long ago the last one came. Meanwhile
            // there are ACKs that say what is lost.
            self.start_rtx_timer(now);
        } else {
            self.ensure_rtx_timer(now);
        }
        self.actions
    }

    /// A window probe that carries `range` was sent: SND.NXT has not moved yet.
    /// RFC 9293 SHLD-30.
    pub fn on_window_probe_sent(mut self, now: Instant, range: Range) -> LossActions {
        self.bits.remove(LossFlags::PROBE_DUE | LossFlags::TIMING);
        if range.start < self.snd_nxt {
            self.in_flight().log_again(micros(now), range);
        } else {
            self.log_new(now, range.end);
        }
        self.hot.backoff = self.hot.backoff.saturating_add(1);
        self.start_rtx_timer(now);
        self.actions
    }

    /// A SYN was sent that ends at `end`, for the first time or `again`.
    pub fn on_syn_sent(mut self, now: Instant, again: bool, end: SeqNumber) -> LossActions {
        self.cold.flight_at = micros(now);
        if again {
            // Karn. Only a time-out is a sign of loss.
            self.bits.remove(LossFlags::TIMING);
        } else {
            self.start_timing(now, end);
        }
        self.ensure_rtx_timer(now);
        self.actions
    }

    /// New data up to `end` is being sent: SND.NXT has not moved yet.
    /// RFC 8985 §4-1, §4-3.
    #[inline(always)]
    fn log_new(&mut self, now: Instant, end: SeqNumber) {
        if self.flight() == 0 {
            self.forget_sent_log();
            self.cold.flight_at = micros(now);
        } else {
            let quantum = self.hot.rtt.srtt().as_micros() as u32 / 16;
            self.in_flight().log_behind(micros(now), end, quantum);
        }
    }

    /// Starts (or restarts) the retransmission timer (RFC 6298 §5.1, §5.3).
    /// RFC 6298 §1-1.
    pub fn start_rtx_timer(&mut self, now: Instant) {
        self.hot.rtx_at = now.after_micros(self.view().rto_micros());
        self.actions |= LossActions::TIMER;
    }

    /// RFC 6298 §5.1.
    /// RFC 6298 §5-2.
    fn ensure_rtx_timer(&mut self, now: Instant) {
        if self.hot.rtx_at == Instant::FAR {
            self.start_rtx_timer(now);
        }
    }

    #[inline(always)]
    pub fn stop_rtx_timer(&mut self) {
        self.hot.rtx_at = Instant::FAR;
        self.hot.early_at = Instant::FAR;
        let due = LossFlags::PROBE_DUE | LossFlags::TAIL_PROBE_DUE;
        self.bits
            .remove(LossFlags::PERSIST | LossFlags::REORDER_TIMER | due);
    }

    /// SND.UNA moved, and something is still in flight. `to_send` bytes of the stream are not
    /// acknowledged, sent or not.
    #[inline(always)]
    pub fn restart_timers(&mut self, now: Instant, to_send: u32) {
        self.restart_rtx_timer(now, to_send);
        self.schedule_tail_probe(now);
        self.actions |= LossActions::TIMER;
    }

    /// RFC 6298 §5.3; and RFC 7765 §4: when fewer segments are in flight than DupThresh needs to
    /// find a loss, and no more wait to be sent, the RTO counts from when the first of them was
    /// sent, not from this ACK. There is no setting for it: it costs nothing, it helps most where
    /// there are no tail loss probes, and if it was too early F-RTO says so.
    #[inline(always)]
    fn restart_rtx_timer(&mut self, now: Instant, to_send: u32) {
        let few = RESTART_THRESHOLD * self.mss();
        let is_tail = self.hot.backoff == 0 && self.flight() < few && to_send < few;
        let sent_at = if is_tail {
            self.view().first_sent_at()
        } else {
            None
        };
        let elapsed = sent_at.map_or(0, |at| micros(now).wrapping_sub(at));
        let rto = self.view().rto_micros();
        let left = rto.checked_sub(u64::from(elapsed)).unwrap_or(rto);
        self.hot.rtx_at = now.after_micros(left);
    }

    /// Starts the probe timer (RFC 8985 §7.2), if a probe may be sent.
    /// RFC 8985 §7.2-1, §7.2-2.
    /// RFC 8985 §7.3-1.
    #[inline(always)]
    fn schedule_tail_probe(&mut self, now: Instant) {
        if !self.view().may_probe() {
            return;
        }
        let srtt = self.hot.rtt.srtt_micros();
        let single = self.flight() <= self.mss();
        let pto = probe_timeout(srtt, single);
        self.bits
            .remove(LossFlags::REORDER_TIMER | LossFlags::TAIL_PROBE_DUE);
        self.hot.early_at = now.after_micros(pto).min(self.hot.rtx_at);
    }

    pub(super) fn stop_early_timer(&mut self) {
        self.hot.early_at = Instant::FAR;
        self.bits.remove(LossFlags::REORDER_TIMER);
    }

    /// A tail loss probe went out, with new data or the last segment again. `end`: SND.NXT after
    /// it.
    /// RFC 8985 §7.3-6.
    pub fn on_tail_probe(&mut self, is_new: bool, end: SeqNumber) {
        self.bits.remove(LossFlags::TAIL_PROBE_DUE);
        self.counters.tail_probes += 1;
        self.cold.tail.probe = if is_new { Probe::New } else { Probe::Again };
        self.cold.tail.measured = false;
        self.cold.tail.end = end;
    }

    /// The retransmission timer of a SYN or of data expired.
    /// RFC 6298 §5.5.
    /// RFC 9293 MUST-19; RFC 6298 §5-6.
    pub fn back_off(&mut self, now: Instant) {
        self.hot.backoff = self.hot.backoff.saturating_add(1);
        self.cold.timeout_stamp = self.tsval(now);
    }

    /// The millisecond clock of this connection's timestamps (RFC 7323 §4.1).
    pub(super) fn tsval(&self, now: Instant) -> u32 {
        (now.as_millis() as u32).wrapping_add(self.ts_offset)
    }
}
