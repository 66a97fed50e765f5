//! The model of the path: bandwidth, round-trip time, aggregation, and the answer to losses.

use std::time::Duration;

use super::state::{
    Bbr, GAIN_ONE, LOSS_THRESH, NO_LIMIT, NO_RATE, State, is_inflight_too_high, min_pipe_cwnd,
    reduced,
};
use crate::cc::sample::{Loss, RateSample, Window};

/// BBRStartupFullLossCnt.
const STARTUP_FULL_LOSS_COUNT: u8 = 6;
/// MinRTTFilterLen and ProbeRTTInterval.
const MIN_RTT_FILTER_LEN: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);

impl Bbr {
    /// BBR.bw.
    pub(super) fn bw(&self) -> u64 {
        self.max_bw.max().min(self.bw_shortterm)
    }

    pub(super) fn update_latest_delivery_signals(&mut self, rs: &RateSample) {
        self.bw_latest = self.bw_latest.max(self.bw_shown(rs));
        self.inflight_latest = self.inflight_latest.max(rs.delivered);
        self.loss_round_start = rs.prior_delivered >= self.loss_round_delivered;
        if self.loss_round_start {
            self.loss_round_delivered = rs.total_delivered;
        }
    }

    /// The bandwidth that a sample shows. The draft takes the delivery rate; but what is sent more
    /// slowly than the model allows, because of PacingMarginPercent, of the pacing gain, of
    /// ProbeRTT or of the application, cannot be delivered faster, and with a loss in every round
    /// that would be taken off `bw_shortterm` again and again. So the model is believed as far as
    /// the path delivered all that was sent, as fast as it was sent. Where the window held the
    /// sender back, the queue may have: there the rate counts.
    fn bw_shown(&self, rs: &RateSample) -> u64 {
        if rs.delivery_rate == 0 || (self.uses_window() && !rs.at_send.is_app_limited) {
            return rs.delivery_rate;
        }
        let delivered = u128::from(rs.delivered) * u128::from(rs.send_elapsed.min(rs.interval));
        let sent = u128::from(rs.delivered) + u128::from(rs.at_send.lost);
        let whole = (sent * u128::from(rs.interval)).max(1);
        let share = u128::from(self.bw()).saturating_mul(delivered) / whole;
        u64::try_from(share)
            .unwrap_or(NO_RATE)
            .max(rs.delivery_rate)
    }

    pub(super) fn advance_latest_delivery_signals(&mut self, rs: &RateSample) {
        if self.loss_round_start {
            self.bw_latest = self.bw_shown(rs);
            self.inflight_latest = rs.delivered;
            self.loss_events_in_round = 0;
        }
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = NO_RATE;
        self.inflight_shortterm = NO_LIMIT;
    }

    pub(super) fn update_congestion_signals(&mut self, window: &Window, rs: &RateSample) {
        self.update_round(rs);
        if rs.delivery_rate > 0
            && (rs.delivery_rate >= self.max_bw.max() || !rs.at_send.is_app_limited)
        {
            self.max_bw.update(rs.delivery_rate);
        }
        if self.loss_round_start {
            self.adapt_lower_bounds(window);
            self.is_loss_in_round = false;
        }
    }

    /// UpdateRound.
    fn update_round(&mut self, rs: &RateSample) {
        self.is_cwnd_limited |= rs.is_cwnd_limited;
        self.round_start = rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round();
            self.round_count = self.round_count.wrapping_add(1);
            self.rounds_since_probe_up = self.rounds_since_probe_up.saturating_add(1);
            self.was_cwnd_limited = std::mem::take(&mut self.is_cwnd_limited);
        }
    }

    pub(super) fn start_round(&mut self) {
        self.next_round_delivered = self.delivered;
    }

    /// AdaptLowerBoundsFromCongestion.
    fn adapt_lower_bounds(&mut self, window: &Window) {
        if self.is_probing_bw() || !self.is_loss_in_round {
            return;
        }
        if self.bw_shortterm == NO_RATE {
            self.bw_shortterm = self.max_bw.max();
        }
        if self.inflight_shortterm == NO_LIMIT {
            self.inflight_shortterm = window.cwnd;
        }
        self.bw_shortterm = self.bw_latest.max(reduced(self.bw_shortterm));
        let volume = reduced(u64::from(self.inflight_shortterm)) as u32;
        self.inflight_shortterm = self.inflight_latest.max(volume);
    }

    // ---- is the pipe full? ----------------------------------------------------------------------

    /// CheckStartupHighLoss.
    pub(super) fn check_startup_high_loss(&mut self, rs: &RateSample) {
        let events = if rs.has_sack {
            STARTUP_FULL_LOSS_COUNT
        } else {
            1
        };
        let lasting = self.loss_round_start && rs.in_recovery;
        if self.full.is_reached
            || !lasting
            || self.loss_events_in_round < events
            || !is_inflight_too_high(&rs.at_send, rs.has_sack)
        {
            return;
        }
        self.undo_state = Some(State::Startup);
        self.full.is_reached = true;
        let bdp = self.bdp(self.max_bw.max(), GAIN_ONE);
        self.inflight_longterm = bdp.max(self.inflight_latest);
    }

    // ---- losses ---------------------------------------------------------------------------------

    /// HandleLostPacket, for what was lost since the last sample.
    pub(super) fn handle_losses(&mut self, window: &mut Window, rs: &RateSample) {
        let lost = rs.total_lost.saturating_sub(self.seen_lost);
        self.seen_lost = rs.total_lost;
        if lost == 0 {
            return;
        }
        if !self.is_loss_in_round {
            self.loss_round_delivered = rs.total_delivered;
        }
        self.note_loss();
        if self.is_bw_probe_sample && is_inflight_too_high(&rs.of_lost, rs.has_sack) {
            let mut at_loss = rs.of_lost;
            at_loss.in_flight = inflight_at_loss(&rs.of_lost, lost.min(u64::from(NO_LIMIT)) as u32);
            self.handle_inflight_too_high(window, &at_loss, rs.mss);
        }
    }

    /// NoteLoss.
    pub(super) fn note_loss(&mut self) {
        if !self.is_loss_in_round {
            self.undo_state = None;
        }
        self.is_loss_in_round = true;
        self.loss_events_in_round = self.loss_events_in_round.saturating_add(1);
    }

    /// HandleInflightTooHigh.
    pub(super) fn handle_inflight_too_high(&mut self, window: &Window, loss: &Loss, mss: u32) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !loss.is_app_limited {
            let least = reduced(u64::from(self.target_inflight(window))) as u32;
            self.inflight_longterm = loss.in_flight.max(least).max(min_pipe_cwnd(mss));
        }
        if self.state == State::Up {
            self.undo_state = Some(State::Up);
            self.start_probe_bw_down();
        }
    }

    /// TargetInflight.
    pub(super) fn target_inflight(&self, window: &Window) -> u32 {
        self.bdp(self.bw(), GAIN_ONE).min(window.cwnd)
    }

    // ---- round-trip time ------------------------------------------------------------------------

    pub(super) fn update_min_rtt(&mut self, rs: &RateSample) {
        self.probe_rtt_expired = rs.now > self.probe_rtt_min_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = rs.rtt
            && (rtt < self.probe_rtt_min_delay || self.probe_rtt_expired)
        {
            self.probe_rtt_min_delay = rtt;
            self.probe_rtt_min_stamp = rs.now;
        }
        let min_rtt_expired = rs.now > self.min_rtt_stamp + MIN_RTT_FILTER_LEN;
        if self.probe_rtt_min_delay < self.min_rtt || min_rtt_expired {
            self.min_rtt = self.probe_rtt_min_delay;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }
}

/// InflightAtLoss: where in the `size` bytes that were lost together losses became too many.
fn inflight_at_loss(loss: &Loss, size: u32) -> u32 {
    let before = u64::from(loss.in_flight.saturating_sub(size));
    let lost_before = u64::from(loss.lost.saturating_sub(size));
    let (num, den) = LOSS_THRESH;
    // (thresh * before - lost_before) / (1 - thresh).
    let prefix = (before * num).saturating_sub(lost_before * den) / (den - num);
    (before + prefix).min(u64::from(loss.in_flight)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::bbr::filter::MaxFilter;

    #[test]
    fn two_percent_is_the_limit() {
        let loss = |lost| Loss {
            in_flight: 100_000,
            lost,
            is_app_limited: false,
        };
        assert!(!is_inflight_too_high(&loss(2_000), true));
        assert!(is_inflight_too_high(&loss(2_001), true));
        assert!(is_inflight_too_high(&loss(1), false));
        assert!(!is_inflight_too_high(&loss(0), false));
    }

    #[test]
    fn the_volume_at_which_losses_crossed_the_limit() {
        let loss = Loss {
            in_flight: 100_000,
            lost: 10_000,
            is_app_limited: false,
        };
        // 90000 before and nothing lost: x lost of 90000 + x is 2 % at x = 1836.
        assert_eq!(inflight_at_loss(&loss, 10_000), 91_836);
        assert_eq!(inflight_at_loss(&loss, 1_000), 99_000);
        assert_eq!(inflight_at_loss(&Loss::default(), 5), 0);
    }

    #[test]
    fn the_filter_remembers_two_cycles() {
        let mut filter = MaxFilter::default();
        filter.update(100);
        filter.advance();
        filter.update(50);
        assert_eq!(filter.max(), 100);
        filter.advance();
        assert_eq!(filter.max(), 50);
        filter.advance();
        assert_eq!(filter.max(), 50);
    }
}
