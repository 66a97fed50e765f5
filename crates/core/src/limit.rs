//! Rate limits.

use wire::time::Instant;

/// A token bucket (in the form of a virtual schedule, so that it needs no refilling): at most `burst` at once and `rate` a second in the
/// long run.
#[derive(Clone, Copy, Debug)]
pub struct RateLimiter {
    /// Nanoseconds in which one token comes back; 0: unlimited.
    interval: u64,
    /// How far the schedule may run ahead, in nanoseconds; `None`: nothing is ever allowed.
    ahead: Option<u64>,
    /// When the bucket will be full again.
    full_at: u64,
}

impl RateLimiter {
    /// `rate` per second, `burst` at once. A rate or burst of 0 allows nothing.
    pub const fn new(rate: u32, burst: u32) -> Self {
        if rate == 0 || burst == 0 {
            return Self {
                interval: 0,
                ahead: None,
                full_at: 0,
            };
        }
        let interval = 1_000_000_000 / rate as u64;
        Self {
            interval,
            ahead: Some(interval.saturating_mul(burst as u64 - 1)),
            full_at: 0,
        }
    }

    /// Takes a token; false if there is none.
    pub fn allow(&mut self, now: Instant) -> bool {
        let Some(ahead) = self.ahead else {
            return false;
        };
        let now = now.as_nanos();
        let full_at = self.full_at.max(now);
        if full_at - now > ahead {
            return false;
        }
        self.full_at = full_at.saturating_add(self.interval);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_burst_goes_first_then_the_rate() {
        let mut limiter = RateLimiter::new(10, 3);
        let at = |limiter: &mut RateLimiter, ms| {
            (0..10)
                .filter(|_| limiter.allow(Instant::from_millis(ms)))
                .count()
        };
        assert_eq!(at(&mut limiter, 0), 3);
        assert_eq!(at(&mut limiter, 99), 0);
        assert_eq!(at(&mut limiter, 100), 1);
        assert_eq!(at(&mut limiter, 10_000), 3);
    }

    #[test]
    fn nothing_is_allowed_at_rate_zero() {
        assert!(!RateLimiter::new(0, 5).allow(Instant::from_millis(5)));
        assert!(!RateLimiter::new(5, 0).allow(Instant::from_millis(5)));
    }

    proptest! {
        #[test]
        fn never_more_than_rate_and_burst(rate in 1u32..2000, burst in 1u32..50, steps in prop::collection::vec(0u64..50_000_000, 1..300)) {
            let mut limiter = RateLimiter::new(rate, burst);
            let (mut now, mut allowed) = (0, 0u64);
            for step in steps {
                now += step;
                allowed += u64::from(limiter.allow(Instant::from_nanos(now)));
                // Interval is rounded down: up to one in a thousand more at the highest rate tested.
                let bound = u64::from(burst) + now * u64::from(rate) / 1_000_000_000 + now / 1_000_000_000_000 + 1;
                prop_assert!(allowed <= bound);
            }
        }
    }
}
