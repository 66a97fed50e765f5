//! The narrower borrows of the part, and what sending changes: the log of what is in flight, and
//! the timers that look after it.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::tcp::flags::LossFlags;
use crate::tcp::loss::actions::LossActions;
use crate::tcp::loss::congestion::Congestion;
use crate::tcp::loss::log::InFlight;
use crate::tcp::loss::part::Loss;
use crate::tcp::loss::sent::micros;
use crate::tcp::loss::state::Fill;
use crate::tcp::loss::timers::Timers;
use crate::tcp::loss::view::LossView;
use crate::tcp::ranges::Range;

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
            ts_offset: self.ts_offset,
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
            statistics: self.statistics,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        }
    }

    /// The timers, and the round trips that they follow from.
    #[inline(always)]
    pub fn timers(&mut self) -> Timers<'_> {
        Timers {
            hot: self.hot,
            cold: self.cold,
            bits: self.bits.reborrow(),
            pools: self.pools,
            actions: &mut self.actions,
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

    /// Gives back everything that the pools hold for this connection.
    pub fn forget(mut self) {
        self.in_flight().forget_scoreboard();
        if self.bits.has(LossFlags::SENT_LOG) {
            self.in_flight().free_sent_log();
        }
        let mut congestion = self.congestion();
        congestion.forget_rates();
        congestion.forget_undo();
    }

    /// New data was sent: SND.NXT has not moved yet.
    #[inline(always)]
    pub fn on_new_sent(&mut self, now: Instant, data: NewData) {
        let was_idle = self.view().flight() == 0;
        if self.bits.has(LossFlags::LOSS) {
            self.congestion().on_new_data_of_frto();
        }
        self.log_new(now, data.end);
        self.snd_nxt = data.end;
        let flight = self.view().flight();
        let room = self.hot.window.cwnd.saturating_sub(flight);
        self.cold.fill = Fill { flight, room };
        self.note_sent(now, was_idle);
        let srtt = self.hot.rtt.srtt();
        self.cold.pacing.on_departed(now, data.len, srtt);
    }

    /// The timers of new data. Both deadlines are known before the wheel is told: the probe comes
    /// first.
    #[inline(always)]
    pub fn start_timers_of_new_data(&mut self, now: Instant) {
        let (end, pto) = (self.snd_nxt, self.view().pto());
        let mut timers = self.timers();
        if !timers.bits.has(LossFlags::TIMING) {
            timers.start_timing(now, end);
        }
        timers.ensure_rtx_timer(now);
        timers.schedule_tail_probe(now, pto);
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
        if self.bits.has(LossFlags::RECOVERY | LossFlags::LOSS) {
            let stamp = self.view().tsval(now);
            if let Some(undo) = self.congestion().undo() {
                undo.on_resent(micros(now), stamp, range.len());
            }
        }
        self.in_flight().log_again(micros(now), range);
        self.snd_nxt = self.snd_nxt.max(range.end);
        self.note_sent(now, false);
        let srtt = self.hot.rtt.srtt();
        self.cold.pacing.on_departed(now, len, srtt);
        if self.bits.has(LossFlags::RECOVERY) && range.start == self.snd_una {
            // Its ACK takes a round trip from now, however long ago the last one came. Meanwhile
            // there are ACKs that say what is lost.
            self.timers().start_rtx_timer(now);
        } else {
            self.timers().ensure_rtx_timer(now);
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
        self.timers().start_rtx_timer(now);
        self.actions
    }

    /// A SYN was sent that ends at `end`, for the first time or `again`.
    pub fn on_syn_sent(mut self, now: Instant, again: bool, end: SeqNumber) -> LossActions {
        self.cold.flight_at = micros(now);
        if again {
            // Karn. Only a time-out is a sign of loss.
            self.bits.remove(LossFlags::TIMING);
        } else {
            self.timers().start_timing(now, end);
        }
        self.timers().ensure_rtx_timer(now);
        self.actions
    }

    /// New data up to `end` is being sent: SND.NXT has not moved yet.
    /// RFC 8985 §4-1, §4-3.
    #[inline(always)]
    fn log_new(&mut self, now: Instant, end: SeqNumber) {
        if self.view().flight() == 0 {
            if self.bits.has(LossFlags::SENT_LOG) {
                self.in_flight().free_sent_log();
            }
            self.cold.flight_at = micros(now);
        } else {
            let quantum = self.hot.rtt.srtt().as_micros() as u32 / 16;
            self.in_flight().log_behind(micros(now), end, quantum);
        }
    }

    /// SND.UNA moved, and something is still in flight. `to_send` bytes of the stream are not
    /// acknowledged, sent or not.
    #[inline(always)]
    pub fn restart_timers(&mut self, now: Instant, to_send: u32) {
        let view = self.view();
        let (sent_at, pto) = (view.tail_sent_at(to_send), view.pto());
        let mut timers = self.timers();
        timers.restart_rtx_timer(now, sent_at);
        timers.schedule_tail_probe(now, pto);
    }
}
