//! Slow start, congestion avoidance and the reactions to loss of RFC 5681. (The recovery that
//! RFC 6582 adds is `tcp/recovery.rs`.)

use super::growth::{echoed, half, is_cwnd_limited};
use super::sample::{AckSample, Window};
use super::slow_start::SlowStart;

/// The state of RFC 5681 beyond `cwnd` and `ssthresh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct NewReno {
    /// Bytes acknowledged in congestion avoidance since `cwnd` last grew (RFC 3465 §2.1).
    bytes_acked: u32,
    slow_start: SlowStart,
}

impl NewReno {
    /// What it always is after a silence.
    pub fn at_rest() -> Self {
        let mut reno = Self::default();
        reno.on_idle();
        reno
    }

    pub fn on_ack(&mut self, window: &mut Window, sample: &AckSample) {
        if !is_cwnd_limited(window, sample) {
            return;
        }
        if window.cwnd < window.ssthresh {
            self.slow_start.grow(window, sample);
        } else {
            self.avoid_congestion(window, sample);
        }
    }

    /// RFC 3465 §2.1: one segment per window acknowledged.
    /// RFC 9293 MUST-19; RFC 5681 §3.1-8, §3.1-9, §3.1-14.
    fn avoid_congestion(&mut self, window: &mut Window, sample: &AckSample) {
        self.bytes_acked = self.bytes_acked.saturating_add(sample.acked);
        if self.bytes_acked >= window.cwnd {
            self.bytes_acked -= window.cwnd;
            window.cwnd = window.cwnd.saturating_add(sample.mss);
        }
    }

    /// RFC 5681 §3.2 step 2 with equation (4).
    /// RFC 5681 §3.1-6, §3.2-4, §4.3-1.
    pub fn on_congestion_event(&mut self, window: &mut Window, flight: u32, mss: u32) {
        window.ssthresh = half(flight, mss);
        window.cwnd = window.ssthresh;
        self.slow_start.end();
        self.bytes_acked = 0;
    }

    /// RFC 3168 §6.1.2: half the window, and at least one segment.
    pub fn on_ecn(&mut self, window: &mut Window, flight: u32, mss: u32) {
        self.on_congestion_event(window, flight, mss);
        window.cwnd = echoed(flight / 2, mss);
    }

    /// RFC 5681 §3.1: `cwnd` falls to the loss window of one segment. `ssthresh` is held when the
    /// same data times out again. RFC 5681 §3.1-6, §3.1-10, §3.1-11, §3.1-12.
    pub fn on_rto(&mut self, window: &mut Window, flight: u32, mss: u32, first: bool) {
        if first {
            window.ssthresh = half(flight, mss);
        }
        window.cwnd = mss;
        self.slow_start.end();
        self.bytes_acked = 0;
    }

    pub fn on_idle(&mut self) {
        self.slow_start.end();
        self.bytes_acked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::testing;
    use crate::cc::{Algorithm, CongestionControl, Models};

    const MSS: u32 = 1000;

    fn sample(acked: u32, unfilled: u32) -> AckSample {
        AckSample {
            acked,
            unfilled,
            mss: MSS,
            ..testing::sample()
        }
    }

    /// RFC 5681 §3.1-13, §3-2.
    #[test]
    fn slow_start_doubles_per_round() {
        let mut window = Window {
            cwnd: 10 * MSS,
            ssthresh: u32::MAX,
        };
        let mut reno = NewReno::default();
        for _ in 0..5 {
            reno.on_ack(&mut window, &sample(2 * MSS, 0));
        }
        assert_eq!(window.cwnd, 20 * MSS);
    }

    /// RFC 5681 §3.1-8, §3.1-9, §3-2; RFC 9293 MUST-19.
    #[test]
    fn congestion_avoidance_adds_one_segment_per_round() {
        let mut window = Window {
            cwnd: 10 * MSS,
            ssthresh: 5 * MSS,
        };
        let mut reno = NewReno::default();
        for _ in 0..9 {
            reno.on_ack(&mut window, &sample(MSS, 0));
        }
        assert_eq!(window.cwnd, 10 * MSS);
        reno.on_ack(&mut window, &sample(MSS, 0));
        assert_eq!(window.cwnd, 11 * MSS);
    }

    #[test]
    fn an_idle_window_does_not_grow() {
        let mut window = Window {
            cwnd: 10 * MSS,
            ssthresh: u32::MAX,
        };
        let mut reno = NewReno::default();
        let mut idle = sample(MSS, 5 * MSS);
        idle.flight = 5 * MSS;
        reno.on_ack(&mut window, &idle);
        assert_eq!(window.cwnd, 10 * MSS);
        // A little more than half of it is used: it may go on to twice that.
        idle.flight = 6 * MSS;
        for cwnd in [11, 12, 12] {
            reno.on_ack(&mut window, &idle);
            assert_eq!(window.cwnd, cwnd * MSS);
        }
    }

    /// RFC 5681 §3.1-6, §4.3-1.
    #[test]
    fn loss_halves_the_flight_but_not_below_two_segments() {
        let mut window = Window {
            cwnd: 10 * MSS,
            ssthresh: u32::MAX,
        };
        let mut reno = NewReno::default();
        reno.on_congestion_event(&mut window, 10 * MSS, MSS);
        assert_eq!(window.cwnd, 5 * MSS);
        assert_eq!(window.ssthresh, 5 * MSS);
        reno.on_congestion_event(&mut window, MSS, MSS);
        assert_eq!(window.ssthresh, 2 * MSS);
    }

    /// RFC 5681 §3.1-10, §3.1-11, §3.1-12.
    #[test]
    fn timeout_restarts_from_one_segment_and_reduces_ssthresh_once() {
        let mut window = Window {
            cwnd: 20 * MSS,
            ssthresh: u32::MAX,
        };
        let mut reno = NewReno::default();
        reno.on_rto(&mut window, 20 * MSS, MSS, true);
        assert_eq!((window.cwnd, window.ssthresh), (MSS, 10 * MSS));
        reno.on_rto(&mut window, MSS, MSS, false);
        assert_eq!((window.cwnd, window.ssthresh), (MSS, 10 * MSS));
        let mut after = sample(3 * MSS, 0);
        after.after_timeout = true;
        reno.on_ack(&mut window, &after);
        assert_eq!(window.cwnd, 2 * MSS);
    }

    #[test]
    fn idle_restart_keeps_a_smaller_window() {
        let mut window = Window {
            cwnd: 30 * MSS,
            ssthresh: 5 * MSS,
        };
        let mut models = Models::new(0).unwrap();
        let mut reno = Algorithm::new(CongestionControl::NewReno, 0, &mut models);
        reno.on_idle(&mut window, 10 * MSS);
        assert_eq!(window.cwnd, 10 * MSS);
        window.cwnd = 3 * MSS;
        reno.on_idle(&mut window, 10 * MSS);
        assert_eq!(window.cwnd, 3 * MSS);
    }
}
