//! What an algorithm sees, and the two numbers that it sets.

use std::time::Duration;

use wire::time::Instant;

/// What congestion control decides (RFC 5681 §2), in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Window {
    pub cwnd: u32,
    pub ssthresh: u32,
}

/// What one acceptable ACK said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    pub now: Instant,
    /// Bytes newly acknowledged.
    pub acked: u32,
    /// Those of them that the receiver says met congestion (ECN-CE).
    pub marked: u32,
    /// Bytes in flight when data was last sent, and those of the window that it left free then.
    pub flight: u32,
    pub unfilled: u32,
    /// Sender maximum segment size, bytes.
    pub mss: u32,
    /// Zero before the first measurement.
    pub srtt: Duration,
    /// The round-trip time of the newest segment that this ACK acknowledges, µs.
    pub rtt: Option<u32>,
    /// Everything that was in flight when the last round began is acknowledged: a new one begins.
    pub round_start: bool,
    /// Data sent before a retransmission time-out is still being recovered.
    pub after_timeout: bool,
}

/// What became of data in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loss {
    /// RS.tx_in_flight: bytes in flight when it was sent.
    pub in_flight: u32,
    /// RS.lost: bytes taken for lost since.
    pub lost: u32,
    /// The application held back then.
    pub is_app_limited: bool,
}

/// What one ACK said about the path (RS and C of draft-ietf-ccwg-bbr §2.2, §2.3). Times are µs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateSample {
    pub now: Instant,
    /// Sender maximum segment size, bytes.
    pub mss: u32,
    /// 0 before the first measurement.
    pub srtt: u32,
    pub rtt: Option<u32>,
    /// C.delivered and C.lost, bytes.
    pub total_delivered: u64,
    pub total_lost: u64,
    /// RS.newly_acked: bytes acknowledged by this ACK, selectively or not.
    pub newly_acked: u32,
    /// C.inflight: bytes thought to be in the network after this ACK.
    pub in_flight: u32,
    /// The window was full before this ACK.
    pub is_cwnd_limited: bool,
    /// Losses, or a time-out, are being recovered from.
    pub in_recovery: bool,
    /// C.has_selective_acks.
    pub has_sack: bool,
    /// RS.delivery_rate, bytes per second; 0: no sample.
    pub delivery_rate: u64,
    /// RS.send_elapsed and RS.interval: how long it took to send what was delivered, and that or to
    /// deliver it, whichever is longer.
    pub send_elapsed: u32,
    pub interval: u32,
    /// RS.delivered: bytes since the newest segment acknowledged was sent; C.delivered then.
    pub delivered: u32,
    pub prior_delivered: u64,
    /// When the newest segment acknowledged was sent.
    pub at_send: Loss,
    /// When that was sent which has been found lost.
    pub of_lost: Loss,
}
