//! The one place that reads a clock.

use rustix::time::{ClockId, clock_gettime};
use wire::time::Instant;

/// Now, on the monotonic clock of this machine (the same for all threads).
pub(crate) fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    // Neither part is negative on this clock.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}
