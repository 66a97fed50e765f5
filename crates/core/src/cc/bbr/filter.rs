//! What is estimated from samples, each apart from the rest of the model.

use wire::time::Instant;

use crate::cc::sample::RateSample;

/// ExtraAckedFilterLen is 10 rounds: two slots of five.
const EXTRA_ACKED_SLOT: u32 = 5;
/// Rounds without growth after which the pipe is full.
const FULL_BW_COUNT: u8 = 3;
/// Where the random numbers of the probing clock come from.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Dice(pub u32);

impl Dice {
    /// A linear congruential step; its upper half.
    pub fn throw(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 16
    }
}

/// Whether the pipe is full: bandwidth has stopped growing.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct FullPipe {
    /// BBR.full_bw and BBR.full_bw_count.
    pub bw: u64,
    count: u8,
    /// BBR.full_bw_now and BBR.full_bw_reached.
    pub is_now: bool,
    pub is_reached: bool,
}

impl FullPipe {
    /// ResetFullBW.
    pub fn reset(&mut self) {
        self.bw = 0;
        self.count = 0;
        self.is_now = false;
    }

    /// The estimate begins anew with what is delivered now.
    pub fn restart(&mut self, rs: &RateSample) {
        self.reset();
        self.bw = rs.delivery_rate;
    }

    /// CheckFullBWReached.
    pub fn check(&mut self, is_round_start: bool, rs: &RateSample) {
        if self.is_now || !is_round_start || rs.at_send.is_app_limited {
            return;
        }
        if rs.delivery_rate >= self.bw.saturating_add(self.bw / 4) {
            self.restart(rs);
            return;
        }
        self.count += 1;
        self.is_now = self.count >= FULL_BW_COUNT;
        self.is_reached |= self.is_now;
    }
}

/// BBR.max_bw_filter: the maximum of this cycle and of the one before.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct MaxFilter {
    cycles: [u64; 2],
}

impl MaxFilter {
    pub fn max(&self) -> u64 {
        self.cycles[0].max(self.cycles[1])
    }

    pub fn update(&mut self, rate: u64) {
        self.cycles[1] = self.cycles[1].max(rate);
    }

    /// AdvanceMaxBwFilter. A cycle without a sample does not count.
    pub fn advance(&mut self) {
        if self.cycles[1] > 0 {
            self.cycles = [self.cycles[1], 0];
        }
    }
}

/// BBR.extra_acked: what is acknowledged at once beyond what the rate explains.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct AckAggregation {
    start: Instant,
    delivered: u64,
    slots: [u32; 2],
    slot_round: u32,
}

impl AckAggregation {
    pub fn restart(&mut self, now: Instant) {
        self.start = now;
        self.delivered = 0;
    }

    /// UpdateACKAggregation. `bw` is BBR.bw, `cwnd` the window, `round` the number of the round if
    /// one has just started.
    pub fn update(
        &mut self,
        rs: &RateSample,
        bw: u64,
        cwnd: u32,
        round: Option<u32>,
        is_full: bool,
    ) {
        let micros = (rs.now - self.start).as_micros() as u64;
        let mut expected = bw.saturating_mul(micros) / 1_000_000;
        if self.delivered <= expected {
            self.restart(rs.now);
            expected = 0;
        }
        self.delivered += u64::from(rs.newly_acked);
        let extra = self.delivered.saturating_sub(expected);
        let extra = extra.min(u64::from(cwnd)) as u32;
        let slot = if is_full { EXTRA_ACKED_SLOT } else { 1 };
        if let Some(round) = round.filter(|round| round.wrapping_sub(self.slot_round) >= slot) {
            self.slot_round = round;
            self.slots = [self.slots[1], 0];
        }
        self.slots[1] = self.slots[1].max(extra);
    }

    pub fn extra_acked(&self) -> u32 {
        self.slots[0].max(self.slots[1])
    }
}
