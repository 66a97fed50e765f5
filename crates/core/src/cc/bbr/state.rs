//! What BBR keeps of a path.

use wire::time::Instant;

use super::filter::{AckAggregation, Dice, FullPipe, MaxFilter};
use crate::cc::sample::Loss;

/// "Infinity" for rates and volumes.
pub(super) const NO_RATE: u64 = u64::MAX;
pub(super) const NO_LIMIT: u32 = u32::MAX;

/// Gains are in units of 1/256.
pub(super) const GAIN_ONE: u64 = 256;
/// 4 * ln(2).
pub(super) const STARTUP_PACING_GAIN: u64 = 709;
/// PacingMarginPercent is 1.
pub(super) const PACING_MARGIN: (u64, u64) = (99, 100);
/// LossThresh: 2 %.
pub(super) const LOSS_THRESH: (u64, u64) = (1, 50);
/// Beta: 0.7.
pub(super) const BETA: (u64, u64) = (7, 10);
/// Largest send quantum, bytes.
pub(super) const MAX_QUANTUM: u64 = 64 << 10;

/// BBR.state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(in crate::cc) enum State {
    Startup,
    Drain,
    /// ProbeBW_DOWN and the other phases of ProbeBW.
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// BBR.ack_phase: what ACKs say about probing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

impl State {
    pub fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// In units of 1/256, as the next.
    pub fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => STARTUP_PACING_GAIN,
            Self::Drain => GAIN_ONE / 2,
            // 0.90.
            Self::Down => 230,
            Self::Cruise | Self::Refill | Self::ProbeRtt => GAIN_ONE,
            Self::Up => GAIN_ONE * 5 / 4,
        }
    }

    pub fn cwnd_gain(self) -> u64 {
        match self {
            Self::Up => GAIN_ONE * 9 / 4,
            Self::ProbeRtt => GAIN_ONE / 2,
            _ => GAIN_ONE * 2,
        }
    }
}

/// See the module. Rates are bytes per second, volumes bytes, round-trip times µs.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Bbr {
    pub(super) state: State,
    pub(super) ack_phase: AckPhase,
    /// When the last sample was taken, and C.delivered then.
    pub(super) now: Instant,
    pub(super) delivered: u64,
    /// C.pacing_rate; 0 before the connection is established.
    pub(super) pacing_rate: u64,
    pub(super) prior_cwnd: u32,
    pub(super) initial_cwnd: u32,
    pub(super) in_recovery: bool,
    pub(super) idle_restart: bool,

    // Rounds.
    pub(super) round_count: u32,
    pub(super) round_start: bool,
    pub(super) next_round_delivered: u64,
    pub(super) drain_start_round: u32,
    /// Whether the window was filled in this round, and in the last.
    pub(super) is_cwnd_limited: bool,
    pub(super) was_cwnd_limited: bool,

    // The long-term model.
    pub(super) max_bw: MaxFilter,
    pub(super) min_rtt: u32,
    pub(super) min_rtt_stamp: Instant,
    pub(super) inflight_longterm: u32,
    pub(super) aggregation: AckAggregation,

    // The short-term model.
    pub(super) bw_shortterm: u64,
    pub(super) inflight_shortterm: u32,
    pub(super) bw_latest: u64,
    pub(super) inflight_latest: u32,
    pub(super) loss_round_delivered: u64,
    pub(super) loss_round_start: bool,
    pub(super) is_loss_in_round: bool,
    pub(super) loss_events_in_round: u8,
    /// C.lost when it was last looked at.
    pub(super) seen_lost: u64,

    // Startup.
    pub(super) full: FullPipe,

    // ProbeBW.
    pub(super) is_bw_probe_sample: bool,
    pub(super) prev_probe_too_high: bool,
    pub(super) prev_probe_precautionary: bool,
    pub(super) bw_probe_up_rounds: u8,
    pub(super) bw_probe_up_acked: u32,
    pub(super) probe_up_acked_per_inc: u32,
    pub(super) rounds_since_probe_up: u32,
    /// ms.
    pub(super) bw_probe_wait: u32,
    pub(super) cycle_stamp: Instant,
    pub(super) dice: Dice,

    // ProbeRTT.
    pub(super) probe_rtt_min_delay: u32,
    pub(super) probe_rtt_min_stamp: Instant,
    pub(super) probe_rtt_expired: bool,
    pub(super) probe_rtt_round_done: bool,
    pub(super) probe_rtt_done_at: Option<Instant>,

    /// The state that a loss ended.
    pub(super) undo_state: Option<State>,
}

/// SaveStateUponLoss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Undo {
    pub(super) bw_shortterm: u64,
    pub(super) inflight_shortterm: u32,
    pub(super) inflight_longterm: u32,
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
            full: FullPipe::default(),
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            bw_probe_up_rounds: 0,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: NO_LIMIT,
            rounds_since_probe_up: 0,
            bw_probe_wait: 0,
            cycle_stamp: Instant::ZERO,
            dice: Dice(seed),
            probe_rtt_min_delay: NO_LIMIT,
            probe_rtt_min_stamp: Instant::ZERO,
            probe_rtt_expired: false,
            probe_rtt_round_done: false,
            probe_rtt_done_at: None,
            undo_state: None,
        }
    }
}

/// MinPipeCwnd.
pub(super) fn min_pipe_cwnd(mss: u32) -> u32 {
    mss.saturating_mul(4)
}

pub(super) fn scaled(value: u64, gain: u64) -> u64 {
    value.saturating_mul(gain) / GAIN_ONE
}

pub(super) fn reduced(value: u64) -> u64 {
    value / BETA.1 * BETA.0
}

/// Bytes per second.
pub(super) fn rate_of(bytes: u32, micros: u64) -> u64 {
    u64::from(bytes) * 1_000_000 / micros.max(1)
}

/// IsInflightTooHigh.
pub(super) fn is_inflight_too_high(loss: &Loss, has_sack: bool) -> bool {
    let allowed = u64::from(loss.in_flight) * LOSS_THRESH.0 / LOSS_THRESH.1;
    u64::from(loss.lost) > allowed || (loss.lost > 0 && !has_sack)
}
