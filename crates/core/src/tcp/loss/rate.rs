//! Rate samples for algorithms that model the path, congestion control and pacing.

use std::time::Duration;

use wire::time::Instant;

use crate::cc::{self, AckSample, RateSample};
use crate::config::CongestionControl;
use crate::tcp::flags::LossFlags;
use crate::tcp::loss::pacing::Pacing;
use crate::tcp::loss::part::{Loss, LossActions};
use crate::tcp::loss::rates::{Before, NONE, Rates};
use crate::tcp::loss::sent::micros;

/// What loss-based algorithms are paced at if the configuration asks for it, in percent of `cwnd`
/// per round trip: enough to double in slow start, and to fill the window afterwards.
const SLOW_START_PERCENT: u64 = 200;
const AVOIDANCE_PERCENT: u64 = 120;

/// What an ACK of new data says to congestion control, besides what the loss part knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    /// Sequence numbers newly acknowledged.
    pub acked: u32,
    /// What was in flight before, sequence numbers.
    pub flight: u32,
    /// Those of `acked` that the receiver says met congestion (ECN-CE).
    pub marked: u32,
    /// Data sent before a retransmission time-out was still being recovered.
    pub after_timeout: bool,
}

impl Loss<'_> {
    fn rates(&mut self) -> Option<&mut Rates> {
        self.pools.rates.at_mut(self.cold.rate.log.get()?)
    }

    /// Begins to keep rates, if the algorithm wants them.
    #[inline]
    fn start_rates(&mut self) {
        if self.cold.congestion.models_path() && !self.cold.rate.log.is_some() {
            self.cold.rate.log = self.pools.rates.insert_copy(&NONE).into();
        }
    }

    /// Another algorithm takes over with the window that there is (Linux tcp(7): TCP_CONGESTION).
    /// `seed` differs between connections.
    pub fn change_congestion(
        mut self,
        now: Instant,
        kind: CongestionControl,
        seed: u32,
        open: bool,
    ) {
        self.forget_undo();
        self.forget_rates();
        self.cold
            .congestion
            .begin(kind, seed, &mut self.pools.models);
        if open {
            self.start_model(now);
        }
    }

    /// The connection is open: its algorithm hears of what was measured so far.
    #[inline(always)]
    fn start_model(&mut self, now: Instant) {
        self.start_rates();
        let srtt = self.hot.rtt.srtt_micros().unwrap_or(0);
        let (window, models) = (&self.hot.window, &mut self.pools.models);
        self.cold
            .congestion
            .on_established(now, window, srtt, models);
    }

    /// The handshake is complete. RFC 5681 §3.1: the window is one segment if a SYN was lost, the
    /// initial window otherwise. RFC 6298 §5.7: the RTO is 3 s if a SYN was lost and nothing could
    /// be measured.
    /// RFC 6298 §5-8; RFC 5681 §3.1-2, §3.1-3.
    /// RFC 7413 §4.2.2-7.
    #[inline(always)]
    pub fn start_windows(&mut self, now: Instant, syn_lost: bool) {
        let mss = self.mss();
        self.hot.window.cwnd = cc::initial_window(self.pools.initial_window, mss);
        if syn_lost {
            self.hot.window.cwnd = mss;
            if !self.hot.rtt.is_known() {
                self.hot.rtt.set_rto(Duration::from_secs(3));
            }
        }
        self.hot.backoff = 0;
        self.start_model(now);
        self.pace();
    }

    #[inline(always)]
    pub(super) fn forget_rates(&mut self) {
        if let Some(index) = self.cold.rate.log.take() {
            self.pools.rates.free(index);
        }
        self.cold.congestion.forget(&mut self.pools.models);
    }

    /// An ACK is about to be processed, and the algorithm models the path. `unsent`: there is data
    /// that was never sent.
    pub fn begin_rate_sample(mut self, unsent: bool) -> Option<Before> {
        self.check_application_limited(unsent);
        let in_flight = self.view().in_network();
        self.rates().map(|rates| Before {
            delivered: rates.delivered,
            in_flight,
        })
    }

    /// Bytes are acknowledged for the first time.
    #[inline]
    pub(super) fn note_delivered(&mut self, now: Instant, bytes: u32) {
        if let Some(rates) = self.rates() {
            rates.delivered += u64::from(bytes);
            rates.delivered_at = micros(now);
        }
    }

    /// OnPacketSent (§4.1.2.2). `was_idle`: nothing was in flight.
    #[inline(always)]
    pub(super) fn note_sent(&mut self, now: Instant, was_idle: bool) {
        if self.cold.rate.log.is_some() {
            self.apart().keep_rate(now, was_idle);
        }
    }

    #[inline(never)]
    fn keep_rate(mut self, now: Instant, was_idle: bool) {
        if was_idle {
            self.restart_model(now);
        }
        let in_flight = self.view().in_network();
        let quantum = self.hot.rtt.srtt().as_micros() as u32 / 16;
        if let Some(rates) = self.rates() {
            rates.push(micros(now), in_flight, quantum);
        }
    }

    /// Data after a silence: the application had none, unless the peer had no room.
    fn restart_model(&mut self, now: Instant) {
        if !self.has(LossFlags::PERSIST) {
            self.mark_application_limited();
        }
        if let Some(rates) = self.rates() {
            rates.restart(micros(now));
        }
        let (window, models) = (&mut self.hot.window, &mut self.pools.models);
        self.cold.congestion.on_restart(window, now, models);
        self.pace();
    }

    /// CheckIfApplicationLimited (§4.1.2.4).
    fn check_application_limited(&mut self, unsent: bool) {
        let view = self.view();
        let has_more = unsent || view.has_lost();
        if !has_more && view.pipe() < self.hot.window.cwnd {
            self.mark_application_limited();
        }
    }

    fn mark_application_limited(&mut self) {
        let in_flight = self.view().in_network();
        if let Some(rates) = self.rates() {
            rates.mark_application_limited(in_flight);
        }
    }

    /// What was in flight before a timer expired, and is no more, counts as lost.
    pub fn note_flight_lost(mut self, before: u32) {
        let after = self.view().modelled_flight();
        if let (Some(after), Some(rates)) = (after, self.rates()) {
            rates.lost += u64::from(before.saturating_sub(after));
        }
    }

    /// An ACK has been processed: what it says about the path.
    pub fn finish_rate_sample(mut self, now: Instant, before: Before) {
        let Some(sample) = self.rate_sample(now, before) else {
            return;
        };
        let (window, models) = (&mut self.hot.window, &mut self.pools.models);
        self.cold.congestion.on_rate(window, &sample, models);
        if self.cold.congestion.ignores_rate(models) {
            self.mark_application_limited();
        }
        self.pace();
    }

    fn rate_sample(&mut self, now: Instant, before: Before) -> Option<RateSample> {
        let (mss, min_rtt) = (self.mss(), self.cold.min_rtt.micros());
        let mut sample = RateSample {
            now,
            mss,
            srtt: self.hot.rtt.srtt().as_micros() as u32,
            rtt: self.view().rtt_of_newest(now),
            total_delivered: 0,
            total_lost: 0,
            newly_acked: 0,
            in_flight: self.view().in_network(),
            is_cwnd_limited: before.in_flight.saturating_add(mss) > self.hot.window.cwnd,
            in_recovery: self.has(LossFlags::RECOVERY | LossFlags::LOSS),
            has_sack: self.has(LossFlags::SACK),
            delivery_rate: 0,
            send_elapsed: 0,
            interval: 0,
            delivered: 0,
            prior_delivered: 0,
            at_send: cc::Loss::default(),
            of_lost: cc::Loss::default(),
        };
        let newest = self.cold.rate.newest;
        let rates = self.rates()?;
        rates.on_ack(micros(now), before, newest, min_rtt, &mut sample);
        Some(sample)
    }

    /// An ACK acknowledged new data outside of fast recovery.
    #[inline(always)]
    pub fn control_congestion(&mut self, now: Instant, ack: &Acked) {
        let sample = AckSample {
            now,
            acked: ack.acked,
            marked: ack.marked,
            flight: self.cold.fill.flight.max(ack.flight),
            unfilled: self.view().unfilled(ack.flight),
            mss: self.mss(),
            srtt: self.hot.rtt.srtt(),
            rtt: self.view().rtt_of_newest(now),
            round_start: self.begins_round(),
            after_timeout: ack.after_timeout,
        };
        self.cold.congestion.on_ack(&mut self.hot.window, &sample);
    }

    /// Rounds as RFC 9406 §4.2 and RFC 8257 §3.3 count them: each lasts until what was in flight
    /// when it began is acknowledged.
    #[inline(always)]
    fn begins_round(&mut self) -> bool {
        let begins = self.snd_una >= self.cold.round_end;
        if begins {
            self.cold.round_end = self.snd_nxt;
        }
        begins
    }

    /// The peer says that data met congestion (RFC 3168 §6.1.2). Returns whether the window was as
    /// small as it can be.
    pub fn on_congestion_marks(&mut self) -> bool {
        let flight = self.flight().min(self.hot.window.cwnd);
        let mss = self.mss();
        let is_least = self.hot.window.cwnd <= mss;
        let (window, models) = (&mut self.hot.window, &mut self.pools.models);
        self.cold.congestion.on_ecn(window, flight, mss, models);
        // What was saved before a loss must not take this reduction back.
        self.forget_undo();
        is_least
    }

    /// The window of an algorithm that has no rate of its own has changed.
    pub fn repace(mut self) {
        self.pace();
    }

    /// Sets the rate: that of the algorithm, or one that spreads its window, and no more than the
    /// application allows (SO_MAX_PACING_RATE).
    pub(super) fn pace(&mut self) {
        let rate = self.cold.congestion.pacing_rate(&mut self.pools.models);
        let rate = rate.or_else(|| self.window_rate());
        self.cold.pacing.set_rate(rate);
    }

    /// The application allows `most` bytes per second from now on.
    pub fn limit_rate(mut self, most: Option<u64>) {
        self.cold.pacing = Pacing::new(most);
        self.pace();
    }

    /// The rate of an algorithm that has none of its own.
    fn window_rate(&self) -> Option<u64> {
        if !self.pools.pacing {
            return None;
        }
        let micros = self.hot.rtt.srtt_micros().filter(|&micros| micros > 0)?;
        let window = &self.hot.window;
        let percent = if window.cwnd < window.ssthresh / 2 {
            SLOW_START_PERCENT
        } else {
            AVOIDANCE_PERCENT
        };
        Some(u64::from(window.cwnd) * percent * 10_000 / u64::from(micros))
    }

    /// Whether a data segment may leave now. If not, the connection is looked at again when it may.
    #[inline(always)]
    pub fn may_depart(&mut self, now: Instant) -> bool {
        let may = self.cold.pacing.may_depart(now);
        if !may {
            self.actions |= LossActions::RELEASE;
        }
        may
    }

    /// What waited may leave.
    pub fn on_release_timer(mut self) -> LossActions {
        self.cold.pacing.release();
        self.mark_output();
        self.actions
    }
}
