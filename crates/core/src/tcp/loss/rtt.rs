//! Round-trip time and retransmission time-out (RFC 6298).

use std::time::Duration;

use wire::time::Instant;

use crate::config::Config;

/// Clock granularity G of RFC 6298, in µs: the tick of the timing wheel.
const GRANULARITY: u32 = 1_000;
/// A shortest round trip counts for one to two of these: 2.5 to 5 minutes.
const MIN_RTT_SPAN_MS: u32 = 150_000;
/// Longest sample that is believed, in µs, so that the scaled sums below cannot overflow.
const MAX_SAMPLE: u32 = 1 << 28;

/// The estimator. All in µs; `srtt` is scaled by 8 and `rttvar` by 4, so that RFC 6298's alpha and
/// beta are shifts without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Rtt {
    srtt_x8: u32,
    rttvar_x4: u32,
    rto: u32,
}

/// The RTO before there is a measurement, and its bounds (RFC 6298 §2.1, §2.4, §2.5), in µs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub initial: u32,
    pub min: u32,
    pub max: u32,
}

impl Bounds {
    /// Those of `config`, worked out once.
    pub fn new(config: &Config) -> Self {
        Self {
            initial: micros(config.rto_initial),
            min: micros(config.rto_min),
            max: micros(config.rto_max),
        }
    }
}

impl Rtt {
    /// Before the first measurement (RFC 6298 §2.1).
    /// RFC 6298 §2-1.
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            srtt_x8: 0,
            rttvar_x4: 0,
            rto: bounds.initial,
        }
    }

    /// Takes a measurement R, in µs.
    /// RFC 6298 §2-2, §2-3, §2-4, §2-5, §2-6, §4-1.
    pub fn sample(&mut self, measured: u32, bounds: Bounds) {
        let r = measured.clamp(1, MAX_SAMPLE);
        if self.srtt_x8 == 0 {
            // (2.2): SRTT <- R, RTTVAR <- R/2.
            self.srtt_x8 = r * 8;
            self.rttvar_x4 = r * 2;
        } else {
            // (2.3): RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R|, then SRTT <- 7/8 SRTT + 1/8 R.
            let deviation = (self.srtt_x8 / 8).abs_diff(r);
            self.rttvar_x4 = self.rttvar_x4 - self.rttvar_x4 / 4 + deviation;
            self.srtt_x8 = self.srtt_x8 - self.srtt_x8 / 8 + r;
        }
        // RTO <- SRTT + max(G, 4 * RTTVAR). On a path so steady that this is hardly more than a
        // round trip, the time-out would come before the ACK of a fast retransmission, which takes
        // a second one: as long as that is short, it is waited for.
        let srtt = self.srtt_x8 / 8;
        let second = srtt.min(bounds.min);
        let rto = srtt + self.rttvar_x4.max(GRANULARITY).max(second);
        self.rto = rto.max(bounds.min).min(bounds.max);
    }

    /// RFC 6298 §5.7: the SYN was retransmitted and nothing was measured since.
    pub fn set_rto(&mut self, rto: Duration) {
        self.rto = micros(rto);
    }

    /// Whether there was a measurement.
    pub fn is_known(&self) -> bool {
        self.srtt_x8 != 0
    }

    /// SRTT in µs, once there was a measurement.
    pub fn srtt_micros(&self) -> Option<u32> {
        self.is_known().then_some(self.srtt_x8 / 8)
    }

    /// SRTT; zero before the first measurement.
    pub fn srtt(&self) -> Duration {
        Duration::from_micros(u64::from(self.srtt_x8 / 8))
    }

    /// RTTVAR; zero before the first measurement.
    pub fn rttvar(&self) -> Duration {
        Duration::from_micros(u64::from(self.rttvar_x4 / 4))
    }

    /// RTO without back-off, in µs.
    pub fn rto_micros(&self) -> u32 {
        self.rto
    }

    /// The same in whole milliseconds.
    pub fn rto_millis(&self) -> u32 {
        self.rto / 1_000
    }

    /// RTO after `backoff` time-outs in a row (RFC 6298 §5.5), at most `max`: all in µs.
    pub fn backed_off_micros(&self, backoff: u8, max: u32) -> u64 {
        let micros = u64::from(self.rto) << backoff.min(31);
        micros.min(u64::from(max.max(self.rto)))
    }
}

/// What eight round trips of nine take longer than, over all connections: who is nearer than this
/// is few.
///
/// An estimate that costs a comparison: each shorter one takes a 16th of it away, each longer one
/// adds a 128th, which is in balance where one of nine is shorter.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct NearRtt {
    /// µs, times 256.
    estimate: u32,
}

impl NearRtt {
    /// Longer ones count as one second, µs.
    const MOST: u32 = 1_000_000;

    /// Takes a measurement, µs.
    pub fn take(&mut self, micros: u32) {
        if micros.min(Self::MOST) << 8 < self.estimate {
            self.estimate -= self.estimate >> 4;
        } else {
            self.estimate += (self.estimate >> 7) + 16;
        }
    }

    /// Zero: nothing was measured yet.
    pub fn get(self) -> Duration {
        Duration::from_micros(u64::from(self.estimate >> 8))
    }
}

/// The shortest round trip of the last few minutes, which a path that has become longer must not
/// keep short for ever.
/// RFC 8985 §6.2-1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct MinRtt {
    /// Shortest since `since` and in the span before, µs. 0: not measured.
    current: u32,
    before: u32,
    /// Milliseconds, low 32 bits.
    since: u32,
}

impl MinRtt {
    /// Takes a measurement, µs.
    pub fn take(&mut self, now: Instant, micros: u32) {
        let now = now.as_millis() as u32;
        let age = now.wrapping_sub(self.since);
        if self.current == 0 || age >= MIN_RTT_SPAN_MS {
            self.before = if age < 2 * MIN_RTT_SPAN_MS {
                self.current
            } else {
                0
            };
            (self.current, self.since) = (micros, now);
        }
        self.current = self.current.min(micros);
    }

    /// µs; 0: nothing was measured yet.
    pub fn micros(&self) -> u32 {
        match self.before {
            0 => self.current,
            before => self.current.min(before),
        }
    }
}

/// In 64 bits: more seconds than fit there are none.
pub(crate) fn micros(duration: Duration) -> u32 {
    let seconds = duration.as_secs().saturating_mul(1_000_000);
    let micros = seconds.saturating_add(u64::from(duration.subsec_micros()));
    u32::try_from(micros).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        initial: 1_000_000,
        min: 200_000,
        max: 60_000_000,
    };

    impl Rtt {
        fn rto(&self) -> Duration {
            Duration::from_micros(u64::from(self.rto))
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// RFC 6298 §2-6.
    #[test]
    fn a_fast_retransmission_has_time_to_be_acknowledged() {
        for (round_trip, rto) in [(50, 200), (100, 200), (180, 360), (500, 700)] {
            let mut rtt = Rtt::new(BOUNDS);
            for _ in 0..100 {
                rtt.sample(micros(ms(round_trip)), BOUNDS);
            }
            assert_eq!(rtt.rto(), ms(rto), "{round_trip} ms");
        }
    }

    /// RFC 6298 §2-1, §2-2, §2-6.
    #[test]
    fn first_measurement() {
        let mut rtt = Rtt::new(BOUNDS);
        assert_eq!(rtt.rto(), ms(1000));
        assert!(!rtt.is_known());
        rtt.sample(micros(ms(100)), BOUNDS);
        assert_eq!(rtt.srtt(), ms(100));
        assert_eq!(rtt.rttvar(), ms(50));
        assert_eq!(rtt.rto(), ms(300));
    }

    /// RFC 6298 §2-3, §2-4, §2-5, §2-6.
    #[test]
    fn later_measurements() {
        let mut rtt = Rtt::new(BOUNDS);
        rtt.sample(micros(ms(100)), BOUNDS);
        rtt.sample(micros(ms(200)), BOUNDS);
        // RTTVAR = 3/4 * 50 + 1/4 * 100 = 62.5; SRTT = 7/8 * 100 + 1/8 * 200 = 112.5; RTO = 112.5 +
        // 250.
        assert_eq!(rtt.rttvar(), Duration::from_micros(62_500));
        assert_eq!(rtt.srtt(), Duration::from_micros(112_500));
        assert_eq!(rtt.rto(), Duration::from_micros(362_500));
    }

    #[test]
    fn near_is_what_one_round_trip_of_nine_is_shorter_than() {
        let mut near = NearRtt::default();
        assert_eq!(near.get(), Duration::ZERO);
        // 0 to 899 us, in an order that has no pattern.
        for i in 0..20_000_u32 {
            near.take((i.wrapping_mul(2_654_435_761) >> 8) % 900);
        }
        let micros = near.get().as_micros();
        assert!((60..200).contains(&micros), "{micros} us");
    }

    #[test]
    fn a_few_that_are_near_among_many_that_are_far_count() {
        let mut near = NearRtt::default();
        for i in 0..20_000 {
            near.take(if i % 4 == 0 { 3 } else { 20_000 });
        }
        assert!(near.get() < Duration::from_micros(50), "{:?}", near.get());
    }

    #[test]
    fn no_round_trip_is_too_long_for_an_estimate() {
        let mut near = NearRtt::default();
        for _ in 0..1_000_000 {
            near.take(u32::MAX);
        }
        assert!(near.get() > Duration::from_millis(800), "{:?}", near.get());
        assert!(
            near.get() < Duration::from_millis(1_200),
            "{:?}",
            near.get()
        );
    }

    /// RFC 6298 §4-1.
    #[test]
    fn steady_rtt_converges() {
        let mut rtt = Rtt::new(BOUNDS);
        for _ in 0..200 {
            rtt.sample(micros(ms(500)), BOUNDS);
        }
        assert_eq!(rtt.srtt(), ms(500));
        // The variance is gone; what is left is the time for a second round trip, no longer than
        // the least time-out.
        assert_eq!(rtt.rto(), ms(700));
    }

    /// RFC 6298 §2-8.
    #[test]
    fn bounds_hold() {
        let mut rtt = Rtt::new(BOUNDS);
        rtt.sample(micros(Duration::from_micros(20)), BOUNDS);
        assert_eq!(rtt.rto(), ms(200));
        rtt.sample(micros(Duration::from_secs(100_000)), BOUNDS);
        assert_eq!(rtt.rto(), ms(60_000));
    }

    /// RFC 8985 §6.2-1.
    #[test]
    fn the_shortest_is_forgotten_after_minutes() {
        let mut min = MinRtt::default();
        let mut at = |s: u64, micros| {
            min.take(Instant::from_millis(s * 1000), micros);
            min.micros()
        };
        assert_eq!(at(10, 50_000), 50_000);
        assert_eq!(at(20, 40_000), 40_000);
        // The path becomes longer.
        assert_eq!(at(100, 90_000), 40_000);
        assert_eq!(at(161, 95_000), 40_000);
        assert_eq!(at(300, 90_000), 40_000);
        assert_eq!(at(312, 92_000), 90_000);
        // After a long silence at once.
        assert_eq!(at(4000, 200_000), 200_000);
        assert_eq!(at(4001, 100), 100);
    }

    #[test]
    fn backoff_doubles_up_to_the_bound() {
        let mut rtt = Rtt::new(BOUNDS);
        rtt.sample(micros(ms(100)), BOUNDS);
        assert_eq!(rtt.backed_off_micros(0, 60_000_000), 300_000);
        assert_eq!(rtt.backed_off_micros(1, 60_000_000), 600_000);
        assert_eq!(rtt.backed_off_micros(3, 60_000_000), 2_400_000);
        assert_eq!(rtt.backed_off_micros(200, 60_000_000), 60_000_000);
    }
}
