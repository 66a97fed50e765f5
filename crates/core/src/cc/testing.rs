//! For the tests of the algorithms.

use std::time::Duration;

use wire::time::Instant;

use super::sample::AckSample;

/// The ACK of one segment of 1000 bytes of a full window, 10 s after the start.
pub(crate) fn sample() -> AckSample {
    AckSample {
        now: Instant::from_millis(10_000),
        acked: 1000,
        marked: 0,
        flight: u32::MAX / 2,
        unfilled: 0,
        mss: 1000,
        srtt: Duration::from_millis(100),
        rtt: None,
        round_start: false,
        after_timeout: false,
    }
}
