//! BBR (draft-ietf-ccwg-bbr, version 3 of the algorithm): a model of the path from measured delivery rate, round-trip time and loss, and a
//! cycle of phases that keeps measuring. What the draft calls C and RS is [`RateSample`]; its names are kept.
//!
//! `model` estimates, `phases` moves through the cycle, and this file turns both into a pacing rate and a window.

mod model;
mod phases;

use wire::time::Instant;

use super::{Loss, RateSample, Window};
use model::{AckAggregation, MaxFilter};
use phases::AckPhase;
pub(super) use phases::State;

/// "Infinity" for rates and volumes.
const NO_RATE: u64 = u64::MAX;
const NO_LIMIT: u32 = u32::MAX;

/// Gains are in units of 1/256.
const GAIN_ONE: u64 = 256;
/// 4 * ln(2).
const STARTUP_PACING_GAIN: u64 = 709;
/// PacingMarginPercent is 1.
const PACING_MARGIN: (u64, u64) = (99, 100);
/// LossThresh: 2 %.
const LOSS_THRESH: (u64, u64) = (1, 50);
/// Beta: 0.7.
const BETA: (u64, u64) = (7, 10);
/// Largest send quantum, bytes.
const MAX_QUANTUM: u64 = 64 << 10;

/// See the module. Rates are bytes per second, volumes bytes, round-trip times µs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bbr {
    state: State,
    ack_phase: AckPhase,
    /// When the last sample was taken, and C.delivered then.
    now: Instant,
    delivered: u64,
    /// C.pacing_rate; 0 before the connection is established.
    pacing_rate: u64,
    prior_cwnd: u32,
    initial_cwnd: u32,
    in_recovery: bool,
    idle_restart: bool,

    // Rounds.
    round_count: u32,
    round_start: bool,
    next_round_delivered: u64,
    drain_start_round: u32,
    /// Whether the window was filled in this round, and in the last.
    is_cwnd_limited: bool,
    was_cwnd_limited: bool,

    // The long-term model.
    max_bw: MaxFilter,
    min_rtt: u32,
    min_rtt_stamp: Instant,
    inflight_longterm: u32,
    aggregation: AckAggregation,

    // The short-term model.
    bw_shortterm: u64,
    inflight_shortterm: u32,
    bw_latest: u64,
    inflight_latest: u32,
    loss_round_delivered: u64,
    loss_round_start: bool,
    is_loss_in_round: bool,
    loss_events_in_round: u8,
    /// C.lost when it was last looked at.
    seen_lost: u64,

    // Startup.
    full_bw: u64,
    full_bw_count: u8,
    full_bw_now: bool,
    full_bw_reached: bool,

    // ProbeBW.
    is_bw_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    bw_probe_up_rounds: u8,
    bw_probe_up_acked: u32,
    probe_up_acked_per_inc: u32,
    rounds_since_probe_up: u32,
    /// ms.
    bw_probe_wait: u32,
    cycle_stamp: Instant,
    /// Where the random numbers of the probing clock come from.
    seed: u32,

    // ProbeRTT.
    probe_rtt_min_delay: u32,
    probe_rtt_min_stamp: Instant,
    probe_rtt_expired: bool,
    probe_rtt_round_done: bool,
    probe_rtt_done_at: Option<Instant>,

    /// The state that a loss ended.
    undo_state: Option<State>,
}

/// SaveStateUponLoss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undo {
    bw_shortterm: u64,
    inflight_shortterm: u32,
    inflight_longterm: u32,
}

impl Bbr {
    /// OnInit. `seed` differs between connections.
    pub fn new(seed: u32) -> Self {
        Self {
            state: State::Startup,
            ack_phase: AckPhase::Init,
            now: Instant::ZERO,
            delivered: 0,
            pacing_rate: 0,
            prior_cwnd: 0,
            initial_cwnd: 0,
            in_recovery: false,
            idle_restart: false,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            drain_start_round: 0,
            is_cwnd_limited: false,
            was_cwnd_limited: false,
            max_bw: MaxFilter::default(),
            min_rtt: NO_LIMIT,
            min_rtt_stamp: Instant::ZERO,
            inflight_longterm: NO_LIMIT,
            aggregation: AckAggregation::default(),
            bw_shortterm: NO_RATE,
            inflight_shortterm: NO_LIMIT,
            bw_latest: 0,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            loss_events_in_round: 0,
            seen_lost: 0,
            full_bw: 0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            bw_probe_up_rounds: 0,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: NO_LIMIT,
            rounds_since_probe_up: 0,
            bw_probe_wait: 0,
            cycle_stamp: Instant::ZERO,
            seed,
            probe_rtt_min_delay: NO_LIMIT,
            probe_rtt_min_stamp: Instant::ZERO,
            probe_rtt_expired: false,
            probe_rtt_round_done: false,
            probe_rtt_done_at: None,
            undo_state: None,
        }
    }

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
        self.update_ack_aggregation(window, rs);
        self.check_full_bw_reached(rs);
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
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(undo.inflight_longterm);
        self.return_to_undone_state();
    }

    // ---- control parameters ---------------------------------------------------------------------------------------------------------

    /// SetPacingRateWithGain.
    fn set_pacing_rate(&mut self, gain: u64) {
        let rate = scaled(self.bw(), gain) / PACING_MARGIN.1 * PACING_MARGIN.0;
        if self.full_bw_reached || rate > self.pacing_rate {
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
        if self.full_bw_reached {
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

/// MinPipeCwnd.
fn min_pipe_cwnd(mss: u32) -> u32 {
    mss.saturating_mul(4)
}

fn scaled(value: u64, gain: u64) -> u64 {
    value.saturating_mul(gain) / GAIN_ONE
}

fn reduced(value: u64) -> u64 {
    value / BETA.1 * BETA.0
}

/// Bytes per second.
fn rate_of(bytes: u32, micros: u64) -> u64 {
    u64::from(bytes) * 1_000_000 / micros.max(1)
}

#[cfg(test)]
mod tests;
