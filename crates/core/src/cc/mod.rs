//! Congestion control: policy only. Loss detection, recovery and RTT estimation are mechanism and live in `tcp`; an algorithm sees one
//! [`AckSample`] and three other notifications, never a sequence number. All it sets are the two numbers of [`Window`].

mod new_reno;

use std::time::Duration;

use crate::config::CongestionControl;

pub(crate) use new_reno::NewReno;

/// What congestion control decides (RFC 5681 §2), in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub cwnd: u32,
    pub ssthresh: u32,
}

/// What one acceptable ACK said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    /// Bytes newly acknowledged.
    pub acked: u32,
    /// Bytes in flight before this ACK.
    pub flight: u32,
    /// Sender maximum segment size, bytes.
    pub mss: u32,
    /// The round-trip time measured by this ACK. Loss-based algorithms have no use for it.
    #[allow(dead_code)]
    pub rtt: Option<Duration>,
    /// Data sent before a retransmission time-out is still being recovered.
    pub after_timeout: bool,
}

/// The algorithms, as one enum: no allocation, no indirect call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Algorithm {
    NewReno(NewReno),
}

impl Algorithm {
    pub fn new(kind: CongestionControl) -> Self {
        match kind {
            CongestionControl::NewReno => Self::NewReno(NewReno::default()),
        }
    }

    /// New data was acknowledged, outside of fast recovery.
    pub fn on_ack(&mut self, window: &mut Window, sample: &AckSample) {
        match self {
            Self::NewReno(algorithm) => algorithm.on_ack(window, sample),
        }
    }

    /// A loss was detected without a time-out; at most once per window. `flight` bytes were outstanding.
    pub fn on_congestion_event(&mut self, window: &mut Window, flight: u32, mss: u32) {
        match self {
            Self::NewReno(algorithm) => algorithm.on_congestion_event(window, flight, mss),
        }
    }

    /// The retransmission timer expired; `first` for this data.
    pub fn on_rto(&mut self, window: &mut Window, flight: u32, mss: u32, first: bool) {
        match self {
            Self::NewReno(algorithm) => algorithm.on_rto(window, flight, mss, first),
        }
    }

    /// Data is about to be sent after a silence of more than one RTO.
    pub fn on_idle(&mut self, window: &mut Window, initial_window: u32) {
        match self {
            Self::NewReno(algorithm) => algorithm.on_idle(window, initial_window),
        }
    }
}

/// RFC 6928 §2: `min(segments * MSS, max(2 * MSS, segments * 1460))`, 10 segments by default.
pub(crate) fn initial_window(segments: u8, mss: u32) -> u32 {
    let segments = u32::from(segments.max(1));
    (segments * mss).min((2 * mss).max(segments * 1460))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_window_of_rfc_6928() {
        assert_eq!(initial_window(10, 1460), 14_600);
        assert_eq!(initial_window(10, 536), 5_360);
        // Jumbo frames: no more bytes than ten ordinary segments, but at least two segments.
        assert_eq!(initial_window(10, 8960), 17_920);
    }
}
