//! The sender's timers as one borrow, with the round trips that they follow from: the
//! retransmission timer (RFC 6298), the tail loss probe and the reordering timer (RFC 8985).

use std::time::Duration;

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::tcp::flags::{Bits, LossFlags};
use crate::tcp::loss::actions::LossActions;
use crate::tcp::loss::sent::micros;
use crate::tcp::loss::state::{Cold, Hot, Pools};
use crate::tcp::loss::tail::Probe;

/// See the module.
#[derive(Debug)]
pub(crate) struct Timers<'a> {
    pub hot: &'a mut Hot,
    pub cold: &'a mut Cold,
    pub bits: Bits<'a, LossFlags>,
    pub pools: &'a mut Pools,
    /// What has come up so far.
    pub actions: &'a mut LossActions,
}

/// A round trip took so many µs.
fn take_measurement(hot: &mut Hot, cold: &mut Cold, pools: &mut Pools, now: Instant, micros: u32) {
    hot.rtt.sample(micros, pools.rto_bounds);
    pools.near_rtt.take(micros);
    cold.tail.measured = true;
    // RFC 6298 §5: a measurement collapses the back-off.
    hot.backoff = 0;
    cold.min_rtt.take(now, micros.max(1));
}

impl Timers<'_> {
    /// What ends at `end` is sent at `now` and timed.
    /// RFC 6298 §3-2.
    #[inline(always)]
    pub fn start_timing(&mut self, now: Instant, end: SeqNumber) {
        self.time_since(micros(now), end);
    }

    /// The same, if it was sent at `sent_at` (µs, low 32 bits).
    #[inline(always)]
    pub fn time_since(&mut self, sent_at: u32, end: SeqNumber) {
        self.hot.rtt_seq = end;
        self.hot.rtt_at = sent_at;
        self.bits.insert(LossFlags::TIMING);
    }

    /// The segment that was timed is acknowledged.
    #[inline(always)]
    pub fn take_timed(&mut self, now: Instant) {
        self.bits.remove(LossFlags::TIMING);
        self.take_measurement(now, micros(now).wrapping_sub(self.hot.rtt_at));
    }

    /// A round trip took so many µs.
    #[inline(always)]
    pub fn take_measurement(&mut self, now: Instant, micros: u32) {
        take_measurement(self.hot, self.cold, self.pools, now, micros);
    }

    /// RTO with back-off, µs.
    #[inline(always)]
    fn rto_micros(&self) -> u64 {
        let max = self.pools.rto_bounds.max;
        self.hot.rtt.backed_off_micros(self.hot.backoff, max)
    }

    /// Starts (or restarts) the retransmission timer (RFC 6298 §5.1, §5.3).
    /// RFC 6298 §1-1.
    #[inline(always)]
    pub fn start_rtx_timer(&mut self, now: Instant) {
        self.hot.rtx_at = now.after_micros(self.rto_micros());
        *self.actions |= LossActions::TIMER;
    }

    /// RFC 6298 §5.1.
    /// RFC 6298 §5-2.
    #[inline(always)]
    pub fn ensure_rtx_timer(&mut self, now: Instant) {
        if self.hot.rtx_at == Instant::FAR {
            self.start_rtx_timer(now);
        }
    }

    /// RFC 6298 §5.3. `sent_at`: the RTO counts from then (µs, low 32 bits), and not from now.
    #[inline(always)]
    pub fn restart_rtx_timer(&mut self, now: Instant, sent_at: Option<u32>) {
        let elapsed = sent_at.map_or(0, |at| micros(now).wrapping_sub(at));
        let rto = self.rto_micros();
        let left = rto.checked_sub(u64::from(elapsed)).unwrap_or(rto);
        self.hot.rtx_at = now.after_micros(left);
        *self.actions |= LossActions::TIMER;
    }

    #[inline(always)]
    pub fn stop_rtx_timer(&mut self) {
        self.hot.rtx_at = Instant::FAR;
        self.hot.early_at = Instant::FAR;
        let due = LossFlags::PROBE_DUE | LossFlags::TAIL_PROBE_DUE;
        self.bits
            .remove(LossFlags::PERSIST | LossFlags::REORDER_TIMER | due);
    }

    /// The retransmission timer of a SYN or of data expired, when our timestamp was `stamp`.
    /// RFC 6298 §5.5.
    /// RFC 9293 MUST-19; RFC 6298 §5-6.
    #[inline(always)]
    pub fn back_off(&mut self, stamp: u32) {
        self.hot.backoff = self.hot.backoff.saturating_add(1);
        self.cold.timeout_stamp = stamp;
    }

    /// Starts the probe timer (RFC 8985 §7.2) with `pto` µs, if a probe may be sent.
    /// RFC 8985 §7.2-1, §7.2-2.
    /// RFC 8985 §7.3-1.
    #[inline(always)]
    pub fn schedule_tail_probe(&mut self, now: Instant, pto: Option<u64>) {
        let Some(pto) = pto else {
            return;
        };
        self.bits
            .remove(LossFlags::REORDER_TIMER | LossFlags::TAIL_PROBE_DUE);
        self.hot.early_at = now.after_micros(pto).min(self.hot.rtx_at);
        *self.actions |= LossActions::TIMER;
    }

    /// The reordering timer shares its place with the probe time-out: neither runs when the other
    /// may.
    /// RFC 8985 §6.2-7.
    pub fn set_reordering_timer(&mut self, now: Instant, wait: Option<u32>) {
        if let Some(wait) = wait {
            self.hot.early_at = now + Duration::from_micros(u64::from(wait));
            self.bits.insert(LossFlags::REORDER_TIMER);
            *self.actions |= LossActions::TIMER;
        } else if self.bits.has(LossFlags::REORDER_TIMER) {
            self.stop_early_timer();
        }
    }

    #[inline(always)]
    pub fn stop_early_timer(&mut self) {
        self.hot.early_at = Instant::FAR;
        self.bits.remove(LossFlags::REORDER_TIMER);
    }

    /// A tail loss probe went out, with new data or the last segment again. `end`: SND.NXT after
    /// it.
    /// RFC 8985 §7.3-6.
    #[inline(always)]
    pub fn on_tail_probe(&mut self, is_new: bool, end: SeqNumber) {
        self.bits.remove(LossFlags::TAIL_PROBE_DUE);
        self.cold.tail.probe = if is_new { Probe::New } else { Probe::Again };
        self.cold.tail.measured = false;
        self.cold.tail.end = end;
    }

    /// Something else has taken over.
    /// RFC 8985 §7.1-1.
    #[inline(always)]
    pub fn forget_tail_probe(&mut self) {
        self.cold.tail.probe = Probe::None;
        self.bits.remove(LossFlags::TAIL_PROBE_DUE);
    }
}
