//! The receive buffer follows what the application takes in a round trip (dynamic right-sizing). A
//! limit costs nothing by itself, memory is taken as it is used; and a limit that the application
//! chose stays.

use std::time::Duration;

use ring::stream::StackStreams;
use wire::time::Instant;

use crate::tcp::buffers::scale;

/// So many full-sized segments are offered however short memory is.
const MIN_SEGMENTS: u32 = 2;

/// What the receive limit of a connection is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Tuning {
    /// Begin of the current measurement.
    since: Instant,
    /// Bytes that the application had taken by then.
    taken: u64,
    /// Bytes that it took in a round trip, by the measurement before.
    last: u64,
}

impl Tuning {
    pub fn new(now: Instant) -> Self {
        Self {
            since: now,
            taken: 0,
            last: 0,
        }
    }

    /// The application has taken all that came, `received` bytes, and nothing has happened since
    /// `since`: the next measurement says what it takes in a round trip.
    pub fn pause(&mut self, since: Instant, received: u64) {
        (self.since, self.taken, self.last) = (since, received, 0);
    }

    /// Ends a measurement: the application has taken `taken` bytes in all. Returns the buffer that
    /// it deserves, bytes; `None` if it is too early to say.
    pub(super) fn measure(&mut self, now: Instant, taken: u64, rtt: Duration) -> Option<u64> {
        let elapsed = now - self.since;
        if elapsed < rtt {
            return None;
        }
        let per_rtt = scale(taken.saturating_sub(self.taken), rtt, elapsed);
        let wanted = wanted(per_rtt, self.last);
        (self.since, self.taken, self.last) = (now, taken, per_rtt);
        Some(wanted)
    }
}

/// Twice what is taken in a round trip, since a lost segment holds up all that comes in the round
/// trip until it is there again. It is as much more as that grew by, since the sender is in slow
/// start and sends twice as much in the next.
fn wanted(per_rtt: u64, last: u64) -> u64 {
    let growth = per_rtt.saturating_sub(last).min(per_rtt / 2);
    2 * per_rtt + 4 * growth
}

/// The window that may be promised with `free` of `total` bytes of the pool left, and `room` sure
/// to find memory: anything, or what is sure, or a share that falls to 0 with what is left.
fn promise(free: usize, total: usize, room: impl Fn() -> u32) -> u32 {
    if free >= total / 2 {
        u32::MAX
    } else if free >= total / 4 {
        room()
    } else {
        room().min(u32::try_from(free / 16).unwrap_or(u32::MAX))
    }
}

/// The largest window to offer in view of the memory that is left for all connections. What was
/// offered stays on offer; what comes and finds no memory is sent again. `mss` is what a segment of
/// the peer has at most.
pub(super) fn promised(streams: &StackStreams, slot: u32, mss: u16) -> u32 {
    let pool = streams.recv_pool(slot);
    let total = pool.bytes;
    let free = total.saturating_sub(pool.in_use);
    let least = MIN_SEGMENTS * u32::from(mss);
    promise(free, total, || streams.recv_room(slot)).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_steady_flow_deserves_two_round_trips() {
        assert_eq!(wanted(1_000_000, 1_000_000), 2_000_000);
        assert_eq!(wanted(1_000_000, 3_000_000), 2_000_000);
    }

    #[test]
    fn slow_start_is_let_ahead() {
        // Twice as much as in the round trip before: twice as much again in the next, and that
        // twice.
        assert_eq!(wanted(1_000_000, 500_000), 4_000_000);
        assert_eq!(wanted(1_000_000, 0), 4_000_000);
    }

    #[test]
    fn a_measurement_lasts_a_round_trip_at_least() {
        let start = Instant::from_millis(1000);
        let mut tune = Tuning::new(start);
        assert_eq!(tune.measure(start + 99 * MS, 500_000, 100 * MS), None);
        // 500,000 in two round trips.
        assert_eq!(
            tune.measure(start + 200 * MS, 500_000, 100 * MS),
            Some(1_000_000)
        );
        assert_eq!(
            tune.measure(start + 300 * MS, 750_000, 100 * MS),
            Some(500_000)
        );
    }

    #[test]
    fn promises_shrink_with_what_is_left_of_a_pool() {
        let total = 256 << 20;
        assert_eq!(promise(128 << 20, total, || 1 << 20), u32::MAX);
        assert_eq!(promise(64 << 20, total, || 1 << 20), 1 << 20);
        assert_eq!(promise(32 << 20, total, || 8 << 20), 2 << 20);
        assert_eq!(promise(0, total, || 1 << 20), 0);
    }
}
