//! Congestion control as one borrow: the algorithm, its window and its model, the log of rates that
//! feeds the model, the pacing that comes of it, and the undo state of the last reduction.

use std::time::Duration;

use wire::time::Instant;

use crate::cc::{self, RateSample, Saved, initial_window};
use crate::config::CongestionControl;
use crate::tcp::loss::pacing::Pacing;
use crate::tcp::loss::prr::{Delivery, Prr};
use crate::tcp::loss::rates::{NONE, Rates};
use crate::tcp::loss::sent::micros;
use crate::tcp::loss::state::{Cold, Hot, Pools};
use crate::tcp::loss::undo::Undo;

/// What loss-based algorithms are paced at if the configuration asks for it, in percent of `cwnd`
/// per round trip: enough to double in slow start, and to fill the window afterwards.
const SLOW_START_PERCENT: u64 = 200;
const AVOIDANCE_PERCENT: u64 = 120;

/// See the module.
#[derive(Debug)]
pub(crate) struct Congestion<'a> {
    pub hot: &'a mut Hot,
    pub cold: &'a mut Cold,
    pub pools: &'a mut Pools,
}

impl<'a> Congestion<'a> {
    pub(super) fn undo(self) -> Option<&'a mut Undo> {
        self.pools.undos.at_mut(self.cold.undo.get()?)
    }
}

impl Congestion<'_> {
    pub(super) fn rates(&mut self) -> Option<&mut Rates> {
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
    pub fn change(mut self, now: Instant, kind: CongestionControl, seed: u32, open: bool) {
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
        let mss = u32::from(self.hot.mss);
        self.hot.window.cwnd = initial_window(self.pools.initial_window, mss);
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

    /// A window of one segment cannot shrink: the next segment waits for an RTO that is doubled
    /// `times` times.
    pub fn hold_back(self, now: Instant, times: u8) {
        let max = self.pools.rto_bounds.max;
        let wait = self.hot.rtt.backed_off_micros(times, max);
        self.cold.pacing.hold_until(now.after_micros(wait));
    }

    /// New data is about to be sent after a silence of an RTO: the ACK clock has stopped (RFC 5681
    /// §4.1).
    /// RFC 5681 §4.1-1.
    /// RFC 6928 §2-3.
    #[inline(never)]
    pub fn restart_after_idle(self) {
        let mss = u32::from(self.hot.mss);
        let initial = initial_window(self.pools.initial_window, mss);
        self.cold.congestion.on_idle(&mut self.hot.window, initial);
    }

    #[inline(always)]
    pub(super) fn forget_rates(&mut self) {
        if let Some(index) = self.cold.rate.log.take() {
            self.pools.rates.free(index);
        }
        self.cold.congestion.forget(&mut self.pools.models);
    }

    /// Bytes are acknowledged for the first time.
    #[inline]
    pub(super) fn note_delivered(mut self, now: Instant, bytes: u32) {
        if let Some(rates) = self.rates() {
            rates.delivered += u64::from(bytes);
            rates.delivered_at = micros(now);
        }
    }

    /// Data is sent after nothing had been in flight.
    pub(super) fn restart_model(&mut self, now: Instant) {
        let (window, models) = (&mut self.hot.window, &mut self.pools.models);
        self.cold.congestion.on_restart(window, now, models);
        self.pace();
    }

    /// What an ACK said about the path. Whether rates measured from now on say nothing.
    pub(super) fn on_rate(&mut self, sample: &RateSample) -> bool {
        let (window, models) = (&mut self.hot.window, &mut self.pools.models);
        self.cold.congestion.on_rate(window, sample, models);
        self.cold.congestion.ignores_rate(models)
    }

    /// The answer to a loss, with `flight` bytes outstanding.
    pub(super) fn reduce(&mut self, now: Instant, flight: u32) {
        let mss = u32::from(self.hot.mss);
        self.cold.reduced_at = micros(now);
        self.forget_undo();
        let (window, models) = (&mut self.hot.window, &mut self.pools.models);
        self.cold
            .congestion
            .on_congestion_event(window, flight, mss, models);
    }

    /// The answer to a time-out, the `first` for this data, with `flight` bytes outstanding.
    pub(super) fn on_timeout(&mut self, flight: u32, first: bool) {
        let mss = u32::from(self.hot.mss);
        let (window, models) = (&mut self.hot.window, &mut self.pools.models);
        self.cold
            .congestion
            .on_rto(window, flight, mss, first, models);
    }

    /// The peer says that data met congestion (RFC 3168 §6.1.2), `flight` bytes of which are
    /// outstanding. Returns whether the window was as small as it can be.
    pub fn on_marks(&mut self, flight: u32) -> bool {
        let mss = u32::from(self.hot.mss);
        let flight = flight.min(self.hot.window.cwnd);
        let is_least = self.hot.window.cwnd <= mss;
        let (window, models) = (&mut self.hot.window, &mut self.pools.models);
        self.cold.congestion.on_ecn(window, flight, mss, models);
        // What was saved before a loss must not take this reduction back.
        self.forget_undo();
        is_least
    }

    /// What the algorithm has to get back if a reaction turns out to be spurious.
    pub(super) fn save(&mut self) -> Saved {
        let models = &mut self.pools.models;
        self.cold.congestion.save(&self.hot.window, models)
    }

    pub(super) fn restore(&mut self, saved: &Saved) {
        let (window, models) = (&mut self.hot.window, &mut self.pools.models);
        self.cold.congestion.undo(window, saved, models);
    }

    /// From here on `undo` is what it takes to undo the last reaction.
    pub(super) fn set_undo(&mut self, undo: Undo) {
        self.forget_undo();
        if undo.saved.is_some() {
            self.cold.undo = self.pools.undos.insert(undo).into();
        }
    }

    /// New data goes out after a time-out.
    #[inline(never)]
    pub(super) fn on_new_data_of_frto(self) {
        if let Some(undo) = self.undo() {
            undo.on_new_data();
        }
    }

    /// There is nothing to undo any more.
    pub(super) fn forget_undo(&mut self) {
        if let Some(index) = self.cold.undo.take() {
            self.pools.undos.free(index);
        }
    }

    /// An ACK acknowledged new data outside of fast recovery.
    #[inline(always)]
    pub(super) fn on_ack(&mut self, sample: &cc::AckSample) {
        self.cold.congestion.on_ack(&mut self.hot.window, sample);
    }

    /// An ACK of a recovery delivered so many bytes, with `inflight` bytes still thought to be in
    /// the network. If it `began` the recovery, they were outstanding before it. Whether more may
    /// be sent now.
    pub(super) fn apply_prr(
        &mut self,
        began: bool,
        delivered: u32,
        inflight: u32,
        safe: bool,
    ) -> bool {
        let prr = &mut self.cold.prr;
        if !prr.is_active() || delivered == 0 {
            return false;
        }
        if began {
            prr.recover_fs = prr.recover_fs.saturating_add(delivered);
        }
        let ack = Delivery {
            delivered,
            inflight,
            ssthresh: self.hot.window.ssthresh,
            mss: u32::from(self.hot.mss),
            safe,
        };
        let sndcnt = prr.on_ack(&ack);
        self.hot.window.cwnd = inflight.saturating_add(sndcnt).max(ack.mss);
        true
    }

    /// More was found to be lost in a recovery without an ACK: what may be sent stays the same,
    /// whatever is in flight now.
    pub(super) fn keep_sndcnt(&mut self, pipe_before: u32, pipe: u32) {
        if self.cold.prr.is_active() {
            let sndcnt = self.hot.window.cwnd.saturating_sub(pipe_before);
            let mss = u32::from(self.hot.mss);
            self.hot.window.cwnd = pipe.saturating_add(sndcnt).max(mss);
        }
    }

    /// The recovery is over: "cwnd = ssthresh".
    /// RFC 9937 §6.4-1.
    pub(super) fn end_prr(&mut self) {
        if self.cold.prr.is_active() {
            self.hot.window.cwnd = self.hot.window.ssthresh;
            self.cold.prr = Prr::default();
        }
    }

    /// Sets the rate: that of the algorithm, or one that spreads its window, and no more than the
    /// application allows (SO_MAX_PACING_RATE).
    pub fn pace(&mut self) {
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
}
