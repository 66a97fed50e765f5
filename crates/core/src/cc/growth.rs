//! What loss-based algorithms have in common: when a window may grow, and by how much it shrinks.

use super::sample::{AckSample, Window};

/// A window that the application does not fill says nothing about the network (RFC 7661 §1): it
/// must have been full, or half full in slow start, where it may double in a round trip. It need
/// not be full now: ACKs come in bursts, and nothing is sent between them. RFC 9438 §4.6-3.
pub(super) fn is_cwnd_limited(window: &Window, sample: &AckSample) -> bool {
    if window.cwnd < window.ssthresh {
        sample.flight.saturating_mul(2) > window.cwnd
    } else {
        sample.unfilled < sample.mss
    }
}

/// What an echo of congestion leaves of the window: `reduced`, or one segment, while `ssthresh` and
/// what a loss leaves is two at least (RFC 3168 §6.1.2, RFC 9438 §4.6). RFC 9438 §4.6-4.
pub(super) fn echoed(reduced: u32, mss: u32) -> u32 {
    reduced.max(mss)
}

/// RFC 5681 equation (4).
pub(super) fn half(flight: u32, mss: u32) -> u32 {
    (flight / 2).max(mss.saturating_mul(2))
}
