//! Rate limits.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use wire::time::Instant;

/// A token bucket (in the form of a virtual schedule, so that it needs no refilling): at most
/// `burst` at once and `rate` a second in the long run.
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

/// A limit that all connections share and that tells nobody how much of it the others have used:
/// each second has its own quota, from half of the rate to one and a half, which only the holder of
/// the secret can know. A fixed one lets anybody who makes it run dry on a connection of his own
/// find out whether a forged segment hit one of somebody else's (CVE-2016-5696).
pub struct SecretLimiter {
    rate: u32,
    hasher: SipHasher13,
    /// The second that `left` is for.
    second: u64,
    left: u32,
}

impl fmt::Debug for SecretLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the hasher: it holds the secret.
        f.debug_struct("SecretLimiter")
            .field("rate", &self.rate)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl SecretLimiter {
    /// `rate` per second in the long run; 0 allows nothing.
    pub fn new(rate: u32, hasher: SipHasher13) -> Self {
        Self {
            rate,
            hasher,
            second: u64::MAX,
            left: 0,
        }
    }

    /// Takes one of this second's; false if there is none left.
    pub fn allow(&mut self, now: Instant) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if second != self.second {
            self.second = second;
            self.left = self.quota(second);
        }
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }

    fn quota(&self, second: u64) -> u32 {
        if self.rate == 0 {
            return 0;
        }
        let mut hasher = self.hasher;
        hasher.write_u64(second);
        (self.rate.div_ceil(2)).saturating_add((hasher.finish() % u64::from(self.rate)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::keyed;
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

    /// What each of the first 100 seconds allows.
    fn quotas(secret: u8) -> Vec<usize> {
        let mut limiter = SecretLimiter::new(100, keyed(&[secret; 32], "test"));
        let mut quota = |second: u64| {
            (0..1000)
                .filter(|_| limiter.allow(Instant::from_millis(second * 1000 + 500)))
                .count()
        };
        (0..100).map(&mut quota).collect()
    }

    #[test]
    fn a_secret_limit_cannot_be_foretold() {
        let (mine, yours) = (quotas(1), quotas(2));
        assert!(mine.iter().all(|quota| (50..150).contains(quota)));
        let mean = mine.iter().sum::<usize>() / mine.len();
        assert!((90..110).contains(&mean), "{mean}");
        let same = mine.iter().zip(&yours).filter(|(a, b)| a == b).count();
        assert!(same < 10, "{same} of 100 seconds alike under two secrets");
        let repeats = mine.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(repeats < 10, "{repeats} of 100 seconds like the one before");
    }

    #[test]
    fn a_secret_limit_of_zero_allows_nothing() {
        let mut limiter = SecretLimiter::new(0, keyed(&[1; 32], "test"));
        assert!(!limiter.allow(Instant::from_millis(5)));
    }

    proptest! {
        #[test]
        fn never_more_than_rate_and_burst(rate in 1u32..2000, burst in 1u32..50, steps in prop::collection::vec(0u64..50_000_000, 1..300)) {
            let mut limiter = RateLimiter::new(rate, burst);
            let (mut now, mut allowed) = (0, 0u64);
            for step in steps {
                now += step;
                allowed += u64::from(limiter.allow(Instant::from_nanos(now)));
                // Interval is rounded down: up to one in a thousand more at the highest rate
                // tested.
                let bound = u64::from(burst) + now * u64::from(rate) / 1_000_000_000 + now / 1_000_000_000_000 + 1;
                prop_assert!(allowed <= bound);
            }
        }
    }
}
