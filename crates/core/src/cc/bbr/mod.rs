//! BBR (draft-ietf-ccwg-bbr, version 3 of the algorithm): a model of the path from measured
//! delivery rate, round-trip time and loss, and a cycle of phases that keeps measuring. What the
//! draft calls C and RS is [`RateSample`]; its names are kept.
//!
//! `model` estimates, `phases` moves through the cycle, and this file turns both into a pacing rate
//! and a window.

mod filter;
mod model;
mod phases;
mod state;

use wire::time::Instant;

use super::sample::{Loss, RateSample, Window};
use state::{
    GAIN_ONE, MAX_QUANTUM, NO_LIMIT, PACING_MARGIN, STARTUP_PACING_GAIN, State, min_pipe_cwnd,
    rate_of, scaled,
};

pub(crate) use state::{Bbr, Undo};

impl Bbr {
    /// InitPacingRate: the handshake is over. `srtt` in µs, 0 if it is not known.
    pub fn on_established(&mut self, now: Instant, window: &Window, srtt: u32) {
        self.initial_cwnd = window.cwnd;
        let rtt = if srtt == 0 { 1000 } else { srtt };
        let nominal = rate_of(window.cwnd, u64::from(rtt));
        self.pacing_rate = scaled(nominal, STARTUP_PACING_GAIN);
        if srtt != 0 {
            self.min_rtt = srtt;
            self.probe_rtt_min_delay = srtt;
        }
        self.min_rtt_stamp = now;
        self.probe_rtt_min_stamp = now;
        self.aggregation.restart(now);
    }

    /// C.pacing_rate; `None` before the connection is established.
    pub fn pacing_rate(&self) -> Option<u64> {
        (self.pacing_rate > 0).then_some(self.pacing_rate)
    }

    /// During ProbeRTT the rate says nothing about the path.
    pub fn ignores_rate(&self) -> bool {
        self.state == State::ProbeRtt
    }

    /// UpdateOnACK.
    pub fn on_rate(&mut self, window: &mut Window, rs: &RateSample) {
        (self.now, self.delivered) = (rs.now, rs.total_delivered);
        self.track_recovery(window, rs);
        self.handle_losses(window, rs);
        if rs.newly_acked == 0 {
            self.bound_cwnd_for_model(window, rs.mss);
            return;
        }
        self.update_model_and_state(window, rs);
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_cwnd(window, rs);
    }

    fn update_model_and_state(&mut self, window: &mut Window, rs: &RateSample) {
        self.update_latest_delivery_signals(rs);
        self.update_congestion_signals(window, rs);
        let round = self.round_start.then_some(self.round_count);
        let (bw, is_full) = (self.bw(), self.full.is_reached);
        self.aggregation.update(rs, bw, window.cwnd, round, is_full);
        self.full.check(self.round_start, rs);
        self.check_startup_done(rs);
        self.check_drain_done(rs);
        self.update_probe_bw_cycle_phase(window, rs);
        self.update_min_rtt(rs);
        self.check_probe_rtt(window, rs);
        self.advance_latest_delivery_signals(rs);
    }

    /// "Modulating cwnd in Loss Recovery": the window from before is restored behind it.
    fn track_recovery(&mut self, window: &mut Window, rs: &RateSample) {
        if self.in_recovery && !rs.in_recovery {
            window.cwnd = window.cwnd.max(self.prior_cwnd);
        }
        self.in_recovery = rs.in_recovery;
    }

    /// OnEnterFastRecovery: the model says what to do about the loss.
    pub fn on_congestion_event(&mut self, window: &Window) {
        self.save_cwnd(window);
        self.in_recovery = true;
    }

    /// OnEnterRTO.
    pub fn on_rto(&mut self, window: &mut Window, mss: u32) {
        self.save_cwnd(window);
        self.in_recovery = true;
        window.cwnd = mss;
    }

    /// The draft leaves the answer to CE open, but for that there must be one: as to loss.
    pub fn on_ecn(&mut self, window: &mut Window, flight: u32, mss: u32) {
        self.note_loss();
        if self.is_bw_probe_sample {
            let too_high = Loss {
                in_flight: flight,
                ..Loss::default()
            };
            self.handle_inflight_too_high(window, &too_high, mss);
        }
    }

    /// HandleRestartFromIdle.
    pub fn on_restart(&mut self, window: &mut Window, now: Instant) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate(GAIN_ONE);
        } else if self.state == State::ProbeRtt {
            self.now = now;
            self.check_probe_rtt_done(window);
        }
    }

    fn save_cwnd(&mut self, window: &Window) {
        if !self.in_recovery && self.state != State::ProbeRtt {
            self.prior_cwnd = window.cwnd;
        } else {
            self.prior_cwnd = self.prior_cwnd.max(window.cwnd);
        }
    }

    pub fn save(&self) -> Undo {
        Undo {
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        }
    }

    /// HandleSpuriousLossDetection.
    pub fn undo(&mut self, window: &mut Window, undo: &Undo) {
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        self.is_loss_in_round = false;
        self.full.reset();
        self.bw_shortterm = self.bw_shortterm.max(undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(undo.inflight_longterm);
        self.return_to_undone_state();
    }

    // ---- control parameters ---------------------------------------------------------------------

    /// SetPacingRateWithGain.
    fn set_pacing_rate(&mut self, gain: u64) {
        let rate = scaled(self.bw(), gain) / PACING_MARGIN.1 * PACING_MARGIN.0;
        if self.full.is_reached || rate > self.pacing_rate {
            self.pacing_rate = rate.max(1);
        }
    }

    /// SetSendQuantum.
    fn send_quantum(&self, mss: u32) -> u32 {
        let quantum = (self.pacing_rate / 1000).min(MAX_QUANTUM) as u32;
        quantum.max(mss.saturating_mul(2))
    }

    /// BDPMultiple.
    fn bdp(&self, bw: u64, gain: u64) -> u32 {
        if self.min_rtt == NO_LIMIT {
            return self.initial_cwnd;
        }
        let bdp = bw.saturating_mul(u64::from(self.min_rtt)) / 1_000_000;
        scaled(bdp, gain).min(u64::from(NO_LIMIT)) as u32
    }

    /// QuantizationBudget, with the offload budget of three quanta.
    fn quantize(&self, volume: u32, mss: u32) -> u32 {
        let budget = self.send_quantum(mss).saturating_mul(3);
        let volume = volume.max(budget).max(min_pipe_cwnd(mss));
        if self.state == State::Up {
            volume.saturating_add(mss.saturating_mul(2))
        } else {
            volume
        }
    }

    /// Inflight(gain).
    fn inflight(&self, bw: u64, gain: u64, mss: u32) -> u32 {
        self.quantize(self.bdp(bw, gain), mss)
    }

    fn set_cwnd(&self, window: &mut Window, rs: &RateSample) {
        let gain = self.state.cwnd_gain();
        let wanted = self.bdp(self.bw(), gain);
        let wanted = wanted.saturating_add(self.aggregation.extra_acked());
        let max_inflight = self.quantize(wanted, rs.mss);
        let raised = window.cwnd.saturating_add(rs.newly_acked);
        if self.full.is_reached {
            window.cwnd = raised.min(max_inflight);
        } else if window.cwnd < max_inflight || rs.total_delivered < u64::from(self.initial_cwnd) {
            window.cwnd = raised;
        }
        window.cwnd = window.cwnd.max(min_pipe_cwnd(rs.mss));
        if self.state == State::ProbeRtt {
            window.cwnd = window.cwnd.min(self.probe_rtt_cwnd(rs.mss));
        }
        self.bound_cwnd_for_model(window, rs.mss);
    }

    fn probe_rtt_cwnd(&self, mss: u32) -> u32 {
        self.bdp(self.bw(), GAIN_ONE / 2).max(min_pipe_cwnd(mss))
    }

    fn bound_cwnd_for_model(&self, window: &mut Window, mss: u32) {
        let cap = match self.state {
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(mss),
            state if state.is_probe_bw() => self.inflight_longterm,
            _ => NO_LIMIT,
        };
        let cap = cap.min(self.inflight_shortterm).max(min_pipe_cwnd(mss));
        window.cwnd = window.cwnd.min(cap);
    }
}

#[cfg(test)]
mod tests;
