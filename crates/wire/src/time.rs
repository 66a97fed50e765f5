//! Time as an argument: an instant on a clock that only the runner reads.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point on a monotonic clock, in nanoseconds since an origin that the runner chose.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Instant(u64);

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// Later than every other instant; stands for "never" in a minimum over deadlines.
    pub const FAR: Self = Self(u64::MAX);

    /// `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `micros` microseconds after the origin; [`Self::FAR`] if that is out of range.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// `millis` milliseconds after the origin; [`Self::FAR`] if that is out of range.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Microseconds since the origin, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Milliseconds since the origin, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// `micros` microseconds later; [`Self::FAR`] if that is out of range.
    pub const fn after_micros(self, micros: u64) -> Self {
        Self(self.0.saturating_add(micros.saturating_mul(1_000)))
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        // In 64 bits, which is all that there are.
        let seconds = rhs.as_secs().saturating_mul(1_000_000_000);
        let nanos = seconds.saturating_add(u64::from(rhs.subsec_nanos()));
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, rhs: Self) -> Duration {
        self.since(rhs)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_saturation() {
        assert_eq!(Instant::from_millis(2).as_micros(), 2000);
        assert_eq!(Instant::from_micros(2).as_nanos(), 2000);
        assert_eq!(Instant::from_nanos(1_999_999).as_millis(), 1);
        assert_eq!(Instant::from_millis(u64::MAX), Instant::FAR);
        assert_eq!(Instant::FAR + Duration::MAX, Instant::FAR);
        let (early, late) = (Instant::from_millis(1), Instant::from_millis(3));
        assert_eq!(late - early, Duration::from_millis(2));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(format!("{:?}", Instant::from_millis(1500)), "1.500000000s");
    }
}
