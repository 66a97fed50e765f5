//! What loss-based algorithms have in common: when a window may grow, and slow start.

use super::{AckSample, Window};

/// A window that the application does not fill says nothing about the network (RFC 7661 §1): it must have been full, or half full in
/// slow start, where it may double in a round trip.
/// RFC 9438 §4.6-3.
pub(super) fn is_cwnd_limited(window: &Window, sample: &AckSample) -> bool {
    if window.cwnd < window.ssthresh {
        sample.flight.saturating_mul(2) >= window.cwnd
    } else {
        sample.flight.saturating_add(sample.mss) > window.cwnd
    }
}

/// Appropriate byte counting (RFC 3465 §2.2). A receiver that takes frames in bursts acknowledges a burst with one ACK, so L is not 2
/// but 8 segments; after a time-out it is one (RFC 3465 §2.3).
/// RFC 9293 MUST-19; RFC 5681 §3.1-7.
/// RFC 9438 §4.10-1.
pub(super) fn slow_start(window: &mut Window, sample: &AckSample) {
    let limit = if sample.after_timeout {
        sample.mss
    } else {
        sample.mss.saturating_mul(8)
    };
    window.cwnd = window.cwnd.saturating_add(sample.acked.min(limit));
}

/// RFC 5681 equation (4).
pub(super) fn half(flight: u32, mss: u32) -> u32 {
    (flight / 2).max(mss.saturating_mul(2))
}
