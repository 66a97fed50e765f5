//! CUBIC (RFC 9438), in integers: bytes, and time in 1/1024 s, so that the cubes of the formulas
//! need shifts and no division.

use std::time::Duration;

use wire::time::Instant;

use super::growth::{echoed, is_cwnd_limited};
use super::sample::{AckSample, Window};
use super::slow_start::SlowStart;

/// beta_cubic = 0.7 (RFC 9438 §4.6).
/// RFC 9438 §4.6-2.
const BETA: (u64, u64) = (7, 10);
/// alpha_cubic = 3 * (1 - beta) / (1 + beta) (RFC 9438 §4.3).
const ALPHA: (u64, u64) = (9, 17);
/// Longest time that W_cubic is computed for, 1/1024 s: beyond, its cube leaves 64 bits. The window
/// has long reached any limit by then.
const MAX_TIME: u32 = 1 << 18;

/// A stage of congestion avoidance: from one congestion event to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Epoch {
    /// When it began, less the time during which the application did not fill the window
    /// (RFC 9438 §4.2, §5.8).
    start: Instant,
    last_ack: Instant,
    /// K, 1/1024 s.
    k: u32,
    /// W_est, bytes, and what has been earned of the next byte.
    w_est: u32,
    est_credit: u64,
    /// What has been earned of the next byte of `cwnd`.
    credit: u64,
}

/// The state of RFC 9438 §4.1 beyond `cwnd` and `ssthresh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Cubic {
    /// Bytes. 0: the next stage does not follow a congestion event, and begins on its plateau.
    w_max: u32,
    /// `cwnd` at the last congestion event.
    cwnd_prior: u32,
    epoch: Option<Epoch>,
    slow_start: SlowStart,
}

/// What is left of it between two stages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CubicAtRest {
    w_max: u32,
    cwnd_prior: u32,
}

impl From<CubicAtRest> for Cubic {
    fn from(rest: CubicAtRest) -> Self {
        let CubicAtRest { w_max, cwnd_prior } = rest;
        let mut cubic = Self {
            w_max,
            cwnd_prior,
            ..Self::default()
        };
        cubic.on_idle();
        cubic
    }
}

impl Cubic {
    pub fn at_rest(&self) -> CubicAtRest {
        CubicAtRest {
            w_max: self.w_max,
            cwnd_prior: self.cwnd_prior,
        }
    }

    pub fn on_ack(&mut self, window: &mut Window, sample: &AckSample) {
        if !is_cwnd_limited(window, sample) {
            self.pause(sample.now);
        } else if window.cwnd < window.ssthresh {
            self.slow_start.grow(window, sample);
        } else {
            self.avoid_congestion(window, sample);
        }
    }

    /// RFC 9438 §5.8: the time does not count in which the application held back.
    /// RFC 9438 §4.2-4.
    fn pause(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += now - epoch.last_ack;
            epoch.last_ack = now;
        }
    }

    /// RFC 9438 §4.2 to §4.5.
    /// RFC 9438 §4.3-1.
    fn avoid_congestion(&mut self, window: &mut Window, sample: &AckSample) {
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(window.cwnd, sample),
        };
        let elapsed = sample.now - epoch.start;
        epoch.last_ack = sample.now;
        epoch.grow_estimate(window.cwnd, self.cwnd_prior, sample);
        if epoch.w_cubic(elapsed, self.w_max, sample.mss) < epoch.w_est {
            window.cwnd = window.cwnd.max(epoch.w_est);
        } else {
            let ahead = epoch.w_cubic(elapsed + sample.srtt, self.w_max, sample.mss);
            epoch.approach(ahead, window, sample.acked);
        }
        self.epoch = Some(epoch);
    }

    /// A stage begins with this ACK. After slow start or a time-out (RFC 9438 §4.8, §4.10) it does
    /// on the plateau. RFC 9438 §4.8-2.
    fn begin(&mut self, cwnd: u32, sample: &AckSample) -> Epoch {
        if self.w_max == 0 {
            (self.w_max, self.cwnd_prior) = (cwnd, cwnd);
        }
        Epoch {
            start: sample.now,
            last_ack: sample.now,
            k: time_to(self.w_max.saturating_sub(cwnd), sample.mss),
            w_est: cwnd,
            est_credit: 0,
            credit: 0,
        }
    }

    /// RFC 9438 §4.6, with fast convergence (§4.7).
    /// RFC 9438 §4.6-1, §4.7-1.
    pub fn on_congestion_event(&mut self, window: &mut Window, flight: u32, mss: u32) {
        let Window { cwnd, .. } = *window;
        window.ssthresh = reduced(flight, mss);
        window.cwnd = window.ssthresh;
        self.w_max = if cwnd < self.w_max {
            // cwnd * (1 + beta) / 2.
            (u64::from(cwnd) * (BETA.0 + BETA.1) / (2 * BETA.1)) as u32
        } else {
            cwnd
        };
        self.cwnd_prior = cwnd;
        self.epoch = None;
        self.slow_start.end();
    }

    /// RFC 9438 §4.6: as after a loss, but down to one segment.
    pub fn on_ecn(&mut self, window: &mut Window, flight: u32, mss: u32) {
        self.on_congestion_event(window, flight, mss);
        window.cwnd = echoed(shrunk(flight), mss);
    }

    /// RFC 9438 §4.8. `ssthresh` is held when the same data times out again (RFC 5681 §3.1).
    /// RFC 9438 §4.8-1.
    pub fn on_rto(&mut self, window: &mut Window, flight: u32, mss: u32, first: bool) {
        if first {
            window.ssthresh = reduced(flight, mss);
        }
        window.cwnd = mss;
        *self = Self::default();
        self.slow_start.end();
    }

    pub fn on_idle(&mut self) {
        self.epoch = None;
        self.slow_start.end();
    }
}

impl Epoch {
    /// W_cubic(t) = C * (t - K)^3 + W_max (RFC 9438 §4.2), C = 0.4, bytes.
    /// RFC 9438 §4.2-1.
    fn w_cubic(&self, t: Duration, w_max: u32, mss: u32) -> u32 {
        let t = ticks(t);
        let change = height(t.abs_diff(self.k), mss);
        if t < self.k {
            w_max.saturating_sub(change)
        } else {
            w_max.saturating_add(change)
        }
    }

    /// The window that Reno would have: W_est of RFC 9438 §4.3.
    /// RFC 9438 §4.3-2.
    fn grow_estimate(&mut self, cwnd: u32, cwnd_prior: u32, sample: &AckSample) {
        let (num, den) = if self.w_est >= cwnd_prior {
            (1, 1)
        } else {
            ALPHA
        };
        self.est_credit += u64::from(sample.acked) * u64::from(sample.mss.min(1 << 16)) * num;
        let price = u64::from(cwnd.max(1)) * den;
        let bytes = (self.est_credit / price).min(u64::from(u32::MAX)) as u32;
        self.est_credit %= price;
        self.w_est = self.w_est.saturating_add(bytes);
    }

    /// RFC 9438 §4.4, §4.5: (target - cwnd) / cwnd for every segment acknowledged, so that `cwnd`
    /// is at `target` one round trip later. RFC 9438 §4.2-3, §4.4-1, §4.5-1.
    fn approach(&mut self, target: u32, window: &mut Window, acked: u32) {
        let cwnd = window.cwnd;
        let most = cwnd.saturating_add(cwnd / 2);
        let gap = target.min(most).saturating_sub(cwnd);
        let price = u64::from(cwnd.max(1));
        self.credit = (self.credit % price).saturating_add(u64::from(gap) * u64::from(acked));
        let bytes = (self.credit / price).min(u64::from(gap)) as u32;
        self.credit %= price;
        window.cwnd = cwnd.saturating_add(bytes);
    }
}

/// max(flight * beta, 2 segments) (RFC 9438 §4.6).
fn reduced(flight: u32, mss: u32) -> u32 {
    shrunk(flight).max(mss.saturating_mul(2))
}

fn shrunk(flight: u32) -> u32 {
    (u64::from(flight) * BETA.0 / BETA.1) as u32
}

/// In 1/1024 s.
fn ticks(time: Duration) -> u32 {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    (micros.saturating_mul(128) / 125_000).min(u64::from(MAX_TIME)) as u32
}

/// C * d^3 segments in bytes, C = 0.4, for `d` in 1/1024 s.
/// RFC 9438 §5.1-1.
fn height(d: u32, mss: u32) -> u32 {
    let d = u64::from(d.min(MAX_TIME));
    // d^3 / 2^30 s³, in two steps: 54 bits, less 8, and 16 for the segment.
    let segments = (d * d * d) >> 8;
    let bytes = (segments * u64::from(mss.min(1 << 16))) >> 22;
    (bytes * 2 / 5).min(u64::from(u32::MAX)) as u32
}

/// The time after which `height` is `bytes`: K = cbrt((W_max - cwnd_epoch) / C) (RFC 9438 §4.2),
/// 1/1024 s. RFC 9438 §4.2-2.
fn time_to(bytes: u32, mss: u32) -> u32 {
    let cube = ((u64::from(bytes) << 29) / u64::from(mss.max(1))).saturating_mul(5);
    cube_root(cube).min(MAX_TIME)
}

/// The largest `r` with `r³ <= x`: one bit at a time.
fn cube_root(x: u64) -> u32 {
    let mut root: u64 = 0;
    for bit in (0..22).rev() {
        let candidate: u64 = root | 1 << bit;
        if candidate.checked_pow(3).is_some_and(|cube| cube <= x) {
            root = candidate;
        }
    }
    root as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::testing;
    use proptest::prelude::*;

    const MSS: u32 = 1460;

    fn after(ms: u64) -> Instant {
        testing::sample().now + Duration::from_millis(ms)
    }

    fn ack(ms: u64, acked: u32, unfilled: u32) -> AckSample {
        AckSample {
            now: after(ms),
            acked,
            unfilled,
            mss: MSS,
            ..testing::sample()
        }
    }

    /// One round trip of 100 ms, every segment acknowledged.
    fn round(cubic: &mut Cubic, window: &mut Window, ms: u64) {
        let segments = window.cwnd / MSS;
        for i in 0..segments {
            let at = ms + u64::from(i) * 100 / u64::from(segments);
            cubic.on_ack(window, &ack(at, MSS, 0));
        }
    }

    fn avoiding(segments: u32) -> Window {
        Window {
            cwnd: segments * MSS,
            ssthresh: segments * MSS,
        }
    }

    /// RFC 9438 §4.6-1, §4.6-2.
    #[test]
    fn a_loss_takes_three_tenths() {
        let mut window = avoiding(100);
        let mut cubic = Cubic::default();
        cubic.on_congestion_event(&mut window, 100 * MSS, MSS);
        assert_eq!((window.cwnd, window.ssthresh), (70 * MSS, 70 * MSS));
        assert_eq!(cubic.w_max, 100 * MSS);
    }

    /// RFC 9438 §4.6-1.
    #[test]
    fn no_reduction_below_two_segments() {
        let mut window = avoiding(2);
        Cubic::default().on_congestion_event(&mut window, MSS, MSS);
        assert_eq!(window.ssthresh, 2 * MSS);
    }

    /// RFC 9438 §4.6-4.
    #[test]
    fn echoes_reduce_it_to_one_segment() {
        let mut window = avoiding(4);
        let mut cubic = Cubic::default();
        for (cwnd, ssthresh) in [(28, 28), (19, 20), (13, 20), (10, 20), (10, 20)] {
            let flight = window.cwnd;
            cubic.on_ecn(&mut window, flight, MSS);
            let tenths = (window.cwnd * 10 / MSS, window.ssthresh * 10 / MSS);
            assert_eq!(tenths, (cwnd, ssthresh));
        }
    }

    /// RFC 9438 §4.7-1.
    #[test]
    fn fast_convergence_gives_room_to_others() {
        let mut window = avoiding(100);
        let mut cubic = Cubic::default();
        cubic.on_congestion_event(&mut window, 100 * MSS, MSS);
        cubic.on_congestion_event(&mut window, 70 * MSS, MSS);
        // 70 * (1 + 0.7) / 2.
        assert_eq!(cubic.w_max, 70 * MSS * 17 / 20);
    }

    /// The window follows the curve of RFC 9438 §4.2, and is back at W_max after K seconds.
    /// RFC 9438 §4.2-1, §4.2-3, §4.4-1, §4.5-1.
    #[test]
    fn the_window_follows_the_curve() {
        let w_max = 10_000.0_f64;
        let k = (w_max * 0.3 / 0.4).cbrt();
        let mut window = avoiding(10_000);
        let mut cubic = Cubic::default();
        cubic.on_congestion_event(&mut window, 10_000 * MSS, MSS);
        let mut ms = 0;
        while ms < 30_000 {
            round(&mut cubic, &mut window, ms);
            ms += 100;
            // After a round the window is where the curve is one round trip after the last of its
            // ACKs.
            let t = ms as f64 / 1000.0 + 0.1;
            let wanted = (0.4 * (t - k).powi(3) + w_max).min(1.5 * f64::from(window.cwnd));
            let got = f64::from(window.cwnd) / f64::from(MSS);
            let error = (got - wanted).abs() / wanted;
            assert!(error < 0.01, "{ms} ms: {got} for {wanted}");
        }
        assert!(k > 19.0 && k < 20.0);
    }

    /// RFC 9438 §4.3: on short paths with small windows, it grows as Reno would with the same
    /// average. RFC 9438 §4.3-1, §4.3-2.
    #[test]
    fn a_small_window_grows_as_reno_does() {
        let mut window = avoiding(20);
        let mut cubic = Cubic::default();
        cubic.on_congestion_event(&mut window, 20 * MSS, MSS);
        let mut ms = 0;
        // 14 to 20 at 9/17 of a segment in each round of 10 ms: while the curve has hardly moved (K
        // is 2.5 s).
        for _ in 0..10 {
            let segments = window.cwnd / MSS;
            for _ in 0..segments {
                let mut sample = ack(ms, MSS, 0);
                sample.srtt = Duration::from_millis(10);
                cubic.on_ack(&mut window, &sample);
            }
            ms += 10;
        }
        let grown = (window.cwnd - 14 * MSS) * 100 / MSS;
        assert!((490..=560).contains(&grown), "{grown} hundredths");
    }

    /// RFC 9438 §4.8-2.
    #[test]
    fn after_a_timeout_it_begins_on_the_plateau() {
        let mut window = avoiding(100);
        let mut cubic = Cubic::default();
        cubic.on_rto(&mut window, 100 * MSS, MSS, true);
        window.cwnd = window.ssthresh;
        let full = ack(1000, MSS, 0);
        cubic.on_ack(&mut window, &full);
        let epoch = cubic.epoch.unwrap();
        assert_eq!((cubic.w_max, epoch.k), (70 * MSS, 0));
        assert!(epoch.w_est <= 70 * MSS + MSS / 70 + 1);
    }

    #[test]
    fn without_a_loss_it_begins_on_the_plateau() {
        let mut window = avoiding(1000);
        let mut cubic = Cubic::default();
        round(&mut cubic, &mut window, 0);
        assert_eq!(cubic.epoch.map(|epoch| epoch.k), Some(0));
        // Reno would have gained 1, the curve next to nothing.
        assert!(window.cwnd <= 1002 * MSS, "{}", window.cwnd);
    }

    /// RFC 9438 §4.2-4, §4.6-3.
    #[test]
    fn time_without_data_does_not_count() {
        let mut window = avoiding(1000);
        let mut cubic = Cubic::default();
        cubic.on_congestion_event(&mut window, 1000 * MSS, MSS);
        let mut other = cubic;
        let mut held = window;
        round(&mut cubic, &mut window, 0);
        round(&mut other, &mut held, 0);
        // A minute in which the application sends a segment now and then.
        for ms in (200..60_000).step_by(100) {
            let unfilled = held.cwnd - MSS;
            other.on_ack(&mut held, &ack(ms, MSS, unfilled));
        }
        assert_eq!(held, window);
        round(&mut cubic, &mut window, 100);
        round(&mut other, &mut held, 60_000);
        let gap = held.cwnd.abs_diff(window.cwnd);
        assert!(gap <= 20 * MSS, "{gap}");
    }

    /// RFC 9438 §4.8-1, §4.10-1.
    #[test]
    fn timeout_starts_again_from_one_segment() {
        let mut window = avoiding(100);
        let mut cubic = Cubic::default();
        cubic.on_rto(&mut window, 100 * MSS, MSS, true);
        assert_eq!((window.cwnd, window.ssthresh), (MSS, 70 * MSS));
        cubic.on_rto(&mut window, MSS, MSS, false);
        assert_eq!(window.ssthresh, 70 * MSS);
        cubic.on_ack(&mut window, &ack(1000, MSS, 0));
        assert_eq!(window.cwnd, 2 * MSS);
    }

    #[test]
    fn cube_roots() {
        for x in [0, 1, 7, 8, 26, 27, 1_000_000, u64::MAX / 2] {
            let root = u64::from(cube_root(x));
            assert!(root.pow(3) <= x, "{x}");
        }
        assert_eq!(cube_root(27_000_000_000), 3000);
        assert_eq!(cube_root(u64::MAX), 2_642_245);
    }

    proptest! {
        /// K and W_cubic agree with the formulas in floating point.
        /// RFC 9438 §4.2-1, §4.2-2, §5.1-1.
        #[test]
        fn agrees_with_the_formulas(
            w_max in 1u32..1 << 30,
            mss in 500u32..9000,
            ms in 0u64..200_000,
        ) {
            let mss_f = f64::from(mss);
            let cwnd = (f64::from(w_max) * 0.7) as u32;
            let k = (f64::from(w_max - cwnd) / mss_f / 0.4).cbrt();
            let got = time_to(w_max - cwnd, mss);
            prop_assert!((f64::from(got) / 1024.0 - k).abs() < 0.002 + k * 0.001, "K {got} for {k}");
            let sample = AckSample { mss, ..testing::sample() };
            let epoch = Cubic { w_max, ..Cubic::default() }.begin(cwnd, &sample);
            let t = ms as f64 / 1000.0;
            let wanted = (0.4 * (t - k).powi(3) * mss_f + f64::from(w_max)).clamp(0.0, f64::from(u32::MAX));
            let got = f64::from(epoch.w_cubic(Duration::from_millis(ms), w_max, mss));
            // A tick more or less, and the bytes of K that were rounded.
            let slope = 1.2 * (t - k).powi(2) * mss_f;
            prop_assert!((got - wanted).abs() <= slope * 0.004 + wanted * 0.001 + mss_f, "{got} for {wanted}");
        }
    }
}
