//! DCTCP (RFC 8257): reacts to the share of data that met congestion, not to whether any did.
//! Losses, and paths that do not mark, are answered as by Reno (RFC 8257 §3.5).

use super::new_reno::NewReno;
use super::sample::{AckSample, Window};

/// DCTCP.Alpha is in units of 1 / ONE.
const ONE: u32 = 1 << 16;
/// The weight g of a new window is 1 / 2^G (RFC 8257 §4.2).
const G: u32 = 4;

/// The state of RFC 8257 §3.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Dctcp {
    /// Estimated share of bytes marked.
    alpha: u32,
    /// Since the window began.
    bytes_acked: u64,
    bytes_marked: u64,
    reno: NewReno,
}

impl Default for Dctcp {
    fn default() -> Self {
        Self {
            // RFC 8257 §3.3: the first mark halves the window.
            alpha: ONE,
            bytes_acked: 0,
            bytes_marked: 0,
            reno: NewReno::default(),
        }
    }
}

impl Dctcp {
    pub fn on_ack(&mut self, window: &mut Window, sample: &AckSample) {
        self.bytes_acked += u64::from(sample.acked);
        self.bytes_marked += u64::from(sample.marked.min(sample.acked));
        if sample.round_start {
            self.update_alpha();
        }
        self.reno.on_ack(window, sample);
    }

    /// RFC 8257 §3.3 steps 5 to 8: alpha = alpha * (1 - g) + g * M.
    /// RFC 8257 §3.3-1.
    fn update_alpha(&mut self) {
        let marked = self.bytes_marked * u64::from(ONE) / self.bytes_acked.max(1);
        // Rounded up, so that alpha gets to 0.
        self.alpha = self.alpha - self.alpha.div_ceil(1 << G) + (marked as u32 >> G);
        (self.bytes_acked, self.bytes_marked) = (0, 0);
    }

    /// RFC 8257 §3.3 step 9: cwnd = cwnd * (1 - alpha / 2).
    /// RFC 8257 §3.3-2.
    pub fn on_ecn(&mut self, window: &mut Window, mss: u32) {
        let cut = u64::from(window.cwnd) * u64::from(self.alpha) / u64::from(2 * ONE);
        let least = mss.saturating_mul(2).min(window.cwnd);
        window.cwnd = (window.cwnd - cut as u32).max(least);
        window.ssthresh = window.cwnd;
        self.reno.on_idle();
    }

    /// RFC 8257 §3.5-1.
    pub fn on_congestion_event(&mut self, window: &mut Window, flight: u32, mss: u32) {
        self.reno.on_congestion_event(window, flight, mss);
    }

    /// RFC 8257 §3.5-2.
    pub fn on_rto(&mut self, window: &mut Window, flight: u32, mss: u32, first: bool) {
        self.reno.on_rto(window, flight, mss, first);
    }

    pub fn on_idle(&mut self) {
        self.reno.on_idle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::testing;

    const MSS: u32 = 1000;

    fn ack(acked: u32, marked: u32, round_start: bool) -> AckSample {
        AckSample {
            acked,
            marked,
            round_start,
            unfilled: u32::MAX,
            ..testing::sample()
        }
    }

    /// Windows of ten segments with this many marked.
    fn windows(dctcp: &mut Dctcp, count: u32, marked: u32) {
        let mut window = Window {
            cwnd: 100 * MSS,
            ssthresh: 100 * MSS,
        };
        for _ in 0..count {
            for i in 0..10 {
                let sample = ack(MSS, if i < marked { MSS } else { 0 }, i == 9);
                dctcp.on_ack(&mut window, &sample);
            }
        }
    }

    fn cut(dctcp: &mut Dctcp) -> u32 {
        let mut window = Window {
            cwnd: 1000 * MSS,
            ssthresh: u32::MAX,
        };
        dctcp.on_ecn(&mut window, MSS);
        assert_eq!(window.ssthresh, window.cwnd);
        1000 * MSS - window.cwnd
    }

    #[test]
    fn the_first_mark_halves_the_window() {
        assert_eq!(cut(&mut Dctcp::default()), 500 * MSS);
    }

    /// RFC 8257 §3.3-1.
    #[test]
    fn alpha_follows_the_share_of_marks() {
        let mut dctcp = Dctcp::default();
        let mut alpha = 1.0;
        for (count, marked) in [(20, 3), (20, 0), (50, 10), (30, 1)] {
            for _ in 0..count {
                windows(&mut dctcp, 1, marked);
                alpha = alpha * 15.0 / 16.0 + f64::from(marked) / 10.0 / 16.0;
                let got = f64::from(dctcp.alpha) / f64::from(ONE);
                assert!((got - alpha).abs() < 0.001, "{got} for {alpha}");
            }
        }
    }

    /// RFC 8257 §3.3-2.
    #[test]
    fn the_cut_is_half_of_alpha() {
        let mut dctcp = Dctcp::default();
        windows(&mut dctcp, 200, 2);
        let got = cut(&mut dctcp);
        assert!(got.abs_diff(100 * MSS) < MSS, "{got}");
    }

    #[test]
    fn without_marks_alpha_is_gone_in_the_end() {
        let mut dctcp = Dctcp::default();
        windows(&mut dctcp, 300, 0);
        assert_eq!(dctcp.alpha, 0);
        assert_eq!(cut(&mut dctcp), 0);
    }

    /// RFC 8257 §3.5-1, §3.5-2.
    #[test]
    fn losses_are_answered_as_by_reno() {
        let mut dctcp = Dctcp::default();
        windows(&mut dctcp, 100, 1);
        let mut window = Window {
            cwnd: 100 * MSS,
            ssthresh: u32::MAX,
        };
        dctcp.on_congestion_event(&mut window, 100 * MSS, MSS);
        assert_eq!((window.cwnd, window.ssthresh), (50 * MSS, 50 * MSS));
        dctcp.on_rto(&mut window, 50 * MSS, MSS, true);
        assert_eq!((window.cwnd, window.ssthresh), (MSS, 25 * MSS));
    }
}
