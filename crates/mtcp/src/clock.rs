//! The one place that reads a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use wire::time::Instant;

/// Time that stands still until it is moved on, for tests. Copies show the same time; it begins at
/// zero.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// The time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Acquire))
    }

    /// Moves it on to `now`, never back.
    pub fn advance(&self, now: Instant) {
        self.0.fetch_max(now.as_nanos(), Ordering::AcqRel);
    }
}

/// Where a stack has its time from.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// This machine.
    Machine,
    /// Whoever moves it on.
    Virtual(VirtualClock),
}

impl Clock {
    /// Now.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Machine => now(),
            Self::Virtual(clock) => clock.now(),
        }
    }

    /// As [`cycles`]; `None` where they say nothing of the time.
    #[inline]
    pub(crate) fn cycles(&self) -> Option<u64> {
        match self {
            Self::Machine => cycles(),
            Self::Virtual(_) => None,
        }
    }
}

/// Now, on the monotonic clock of this machine (the same for all threads).
pub(crate) fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    // Neither part is negative on this clock.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// A counter that grows at some constant rate of this processor, one to five times per nanosecond,
/// for a third of what the clock takes.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn cycles() -> Option<u64> {
    // SAFETY: reads a register that every such processor has. Who may not read it may not read the
    // clock either, which is made from it.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

/// There is none that is known to be cheaper than the clock.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn cycles() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// As `Runner::begin_call` takes it for granted.
    #[test]
    fn cycles_are_no_longer_than_a_nanosecond_or_two() {
        let Some(before) = cycles() else { return };
        let start = now();
        while now().since(start) < Duration::from_millis(1) {}
        let elapsed = cycles().unwrap().wrapping_sub(before);
        assert!(elapsed > 500_000, "{elapsed} cycles in more than 1 ms");
    }
}
