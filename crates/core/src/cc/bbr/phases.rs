//! The phases: Startup, Drain, the cycle of ProbeBW, ProbeRTT.

use std::time::Duration;

use super::state::{AckPhase, Bbr, GAIN_ONE, NO_LIMIT, State, is_inflight_too_high, min_pipe_cwnd};
use crate::cc::sample::{RateSample, Window};

/// ProbeRTTDuration.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// Drain ends after so many rounds in any case.
const DRAIN_ROUNDS: u32 = 3;
/// Rounds after which a Reno flow would have probed, at most.
const MAX_RENO_ROUNDS: u32 = 63;

impl Bbr {
    /// IsProbingBW.
    pub(super) fn is_probing_bw(&self) -> bool {
        matches!(self.state, State::Startup | State::Refill | State::Up)
    }

    pub(super) fn check_startup_done(&mut self, rs: &RateSample) {
        if self.state != State::Startup {
            return;
        }
        self.check_startup_high_loss(rs);
        if self.full.is_reached {
            self.state = State::Drain;
            self.drain_start_round = self.round_count;
        }
    }

    pub(super) fn check_drain_done(&mut self, rs: &RateSample) {
        if self.state != State::Drain {
            return;
        }
        let rounds = self.round_count.wrapping_sub(self.drain_start_round);
        let target = self.inflight(self.bw(), GAIN_ONE, rs.mss);
        if rs.in_flight <= target || rounds > DRAIN_ROUNDS {
            self.start_probe_bw_down();
        }
    }

    // ---- ProbeBW --------------------------------------------------------------------------------

    pub(super) fn start_probe_bw_down(&mut self) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = NO_LIMIT;
        self.pick_probe_wait();
        self.cycle_stamp = self.now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = State::Down;
    }

    fn start_probe_bw_refill(&mut self) {
        self.reset_short_term_model();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = 0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    fn start_probe_bw_up(&mut self, window: &Window, rs: &RateSample) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.full.restart(rs);
        self.state = State::Up;
        self.raise_inflight_longterm_slope(window, rs.mss);
    }

    pub(super) fn update_probe_bw_cycle_phase(&mut self, window: &Window, rs: &RateSample) {
        if !self.full.is_reached || self.adapt_long_term_model(window, rs) {
            return;
        }
        match self.state {
            State::Down | State::Cruise => {
                if self.is_time_to_probe_bw(window, rs) {
                    self.start_probe_bw_refill();
                } else if self.state == State::Down && self.is_time_to_cruise(rs) {
                    self.state = State::Cruise;
                }
            }
            State::Refill if self.round_start => {
                self.is_bw_probe_sample = true;
                self.start_probe_bw_up(window, rs);
            }
            State::Up => self.end_probe_bw_up(window, rs),
            _ => {}
        }
    }

    fn end_probe_bw_up(&mut self, window: &Window, rs: &RateSample) {
        if self.is_time_to_go_down(window, rs) {
            self.prev_probe_too_high = false;
            self.start_probe_bw_down();
        }
    }

    fn is_time_to_cruise(&self, rs: &RateSample) -> bool {
        let bdp = self.inflight(self.max_bw.max(), GAIN_ONE, rs.mss);
        rs.in_flight <= self.inflight_with_headroom(rs.mss) && rs.in_flight <= bdp
    }

    fn is_time_to_go_down(&mut self, window: &Window, rs: &RateSample) -> bool {
        if self.prev_probe_too_high && rs.in_flight >= self.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if self.uses_window() && window.cwnd >= self.inflight_longterm {
            self.full.restart(rs);
            return false;
        }
        self.full.is_now
    }

    /// C.is_cwnd_limited.
    pub(super) fn uses_window(&self) -> bool {
        self.is_cwnd_limited || self.was_cwnd_limited
    }

    fn is_time_to_probe_bw(&self, window: &Window, rs: &RateSample) -> bool {
        let wait = Duration::from_millis(self.bw_probe_wait.into());
        let reno_rounds = self.target_inflight(window) / rs.mss.max(1);
        rs.now > self.cycle_stamp + wait
            || self.rounds_since_probe_up >= reno_rounds.min(MAX_RENO_ROUNDS)
    }

    /// PickProbeWait: 0 or 1 rounds, 2 to 3 s.
    fn pick_probe_wait(&mut self) {
        self.rounds_since_probe_up = self.dice.throw() & 1;
        self.bw_probe_wait = 2000 + self.dice.throw() % 1000;
    }

    pub(super) fn inflight_with_headroom(&self, mss: u32) -> u32 {
        if self.inflight_longterm == NO_LIMIT {
            return NO_LIMIT;
        }
        // Headroom: 0.15.
        let headroom = (u64::from(self.inflight_longterm) * 15 / 100) as u32;
        let rest = self.inflight_longterm.saturating_sub(headroom.max(mss));
        rest.max(min_pipe_cwnd(mss))
    }

    fn raise_inflight_longterm_slope(&mut self, window: &Window, mss: u32) {
        let growth = 1 << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (window.cwnd / growth).max(mss).max(1);
    }

    fn probe_inflight_longterm_upward(&mut self, window: &Window, rs: &RateSample) {
        if !self.uses_window() || window.cwnd < self.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked = self.bw_probe_up_acked.saturating_add(rs.newly_acked);
        let per_inc = self.probe_up_acked_per_inc.max(1);
        let delta = self.bw_probe_up_acked / per_inc;
        self.bw_probe_up_acked %= per_inc;
        self.inflight_longterm = self
            .inflight_longterm
            .saturating_add(delta.saturating_mul(rs.mss));
        if self.round_start {
            self.raise_inflight_longterm_slope(window, rs.mss);
        }
    }

    /// AdaptLongTermModel: whether it changed the state.
    fn adapt_long_term_model(&mut self, window: &Window, rs: &RateSample) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            let probing = self.state.is_probe_bw();
            if probing && !rs.at_send.is_app_limited {
                self.max_bw.advance();
            }
            if probing && self.prev_probe_precautionary && !self.prev_probe_too_high {
                self.start_probe_bw_refill();
                return true;
            }
        }
        let is_safe = !is_inflight_too_high(&rs.at_send, rs.has_sack);
        if is_safe && self.inflight_longterm != NO_LIMIT {
            self.inflight_longterm = self.inflight_longterm.max(rs.at_send.in_flight);
            if self.state == State::Up {
                self.probe_inflight_longterm_upward(window, rs);
            }
        }
        false
    }

    // ---- ProbeRTT -------------------------------------------------------------------------------

    pub(super) fn check_probe_rtt(&mut self, window: &mut Window, rs: &RateSample) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd(window);
            self.state = State::ProbeRtt;
            self.probe_rtt_done_at = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(window, rs);
        }
        if rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, window: &mut Window, rs: &RateSample) {
        if self.probe_rtt_done_at.is_none() {
            if rs.in_flight <= self.probe_rtt_cwnd(rs.mss) {
                self.probe_rtt_done_at = Some(rs.now + PROBE_RTT_DURATION);
                self.probe_rtt_round_done = false;
                self.start_round();
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(window);
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, window: &mut Window) {
        if self.probe_rtt_done_at.is_some_and(|at| self.now > at) {
            self.probe_rtt_min_stamp = self.now;
            window.cwnd = window.cwnd.max(self.prior_cwnd);
            self.exit_probe_rtt();
        }
    }

    fn exit_probe_rtt(&mut self) {
        self.reset_short_term_model();
        if self.full.is_reached {
            self.start_probe_bw_down();
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// The state that a loss ended goes on, since there was none.
    pub(super) fn return_to_undone_state(&mut self) {
        let undone = self.undo_state.take();
        if undone == Some(State::Startup) && self.state != State::Startup {
            self.full.is_reached = false;
            if self.state != State::ProbeRtt {
                self.state = State::Startup;
            }
        } else if undone == Some(State::Up) && self.state.is_probe_bw() {
            self.start_probe_bw_refill();
        }
    }
}
