//! What TCP knows about a connection: the source of `TCP_INFO`.

use std::time::Duration;

/// The states of RFC 9293 §3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[allow(missing_docs)]
#[repr(u8)]
#[derive(serde::Serialize, serde::Deserialize)]
pub enum State {
    #[default]
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

/// What the sender is doing about loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
#[derive(serde::Serialize, serde::Deserialize)]
pub enum LossState {
    /// Nothing.
    #[default]
    Open,
    /// Something arrived out of order at the peer.
    Disorder,
    /// The window was reduced for what the network marked (RFC 3168 §6.1.2), and what was in flight
    /// then still is.
    Reduced,
    /// Fast recovery.
    Recovery,
    /// Recovery after a time-out.
    Loss,
}

/// What is known of congestion marks. Bytes are counted only where both sides count them
/// (RFC 9768).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct EcnInfo {
    /// Both sides agreed to use ECN.
    pub used: bool,
    /// Something ECN-capable has come.
    pub seen: bool,
    /// The peer sends the option with its counters.
    pub option_seen: bool,
    /// Bytes of ours that met congestion, says the peer.
    pub delivered_ce: u32,
    /// Bytes of the peer's that arrived with CE, ECT(0) and ECT(1).
    pub received_ce: u32,
    pub received_ect0: u32,
    pub received_ect1: u32,
}

/// How fast data goes, bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct RateInfo {
    /// What it is paced at, if it is, ...
    pub pacing: Option<u64>,
    /// ... and at most, if the application has a limit.
    pub most: Option<u64>,
    /// What the path delivered lately; 0: the algorithm does not ask.
    pub delivery: u64,
    /// The application had no more to send then.
    pub app_limited: bool,
}

/// A snapshot of one connection. Times are zero and counts 0 where nothing is known yet.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
#[allow(missing_docs)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct TcpInfo {
    pub state: State,
    /// Send and receive window scale in use.
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub timestamps: bool,
    pub sack: bool,
    pub loss_state: LossState,
    /// Consecutive retransmission time-outs.
    pub backoff: u8,
    /// How often the RTO was doubled for them.
    pub doublings: u8,
    /// Unanswered window or keepalive probes.
    pub probes: u8,
    pub rto: Duration,
    pub srtt: Duration,
    pub rttvar: Duration,
    pub min_rtt: Duration,
    /// Sender maximum segment size, bytes of payload.
    pub snd_mss: u16,
    pub rcv_mss: u16,
    /// What we said in our SYN, less fixed options.
    pub advertised_mss: u16,
    pub pmtu: u16,
    /// Bytes.
    pub cwnd: u32,
    /// Bytes; `u32::MAX` until the first loss.
    pub ssthresh: u32,
    /// Bytes in flight.
    pub flight: u32,
    /// Of those, bytes that the peer holds out of order, that are taken for lost, and that were
    /// sent again.
    pub sacked: u32,
    pub lost: u32,
    pub resent: u32,
    /// The peer's window and ours, bytes.
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    /// Segments retransmitted since the start.
    pub retransmits: u32,
    /// Bytes; with the FIN, and the SYN of an active open, one more each: `sequence_acked`,
    /// `sequence_received`.
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub sequence_acked: u64,
    pub sequence_received: u64,
    /// Bytes sent, again or not; and again.
    pub bytes_sent: u64,
    pub bytes_retransmitted: u64,
    pub segments_in: u32,
    pub segments_out: u32,
    /// Those with data.
    pub data_segments_in: u32,
    pub data_segments_out: u32,
    /// Segments that the peer has, SYN and FIN included; computed from sizes while some are in
    /// flight.
    pub delivered: u32,
    /// Segments that the peer said it had already (RFC 2883).
    pub duplicates_reported: u32,
    /// How often segments of ours were seen to arrive out of order.
    pub reorderings: u32,
    /// Segments that came out of order.
    pub out_of_order: u32,
    /// Retransmission time-outs, runs of them, and how long the runs lasted that are over.
    pub timeouts: u32,
    pub timeout_runs: u32,
    pub timeout_time: Duration,
    /// How long anything was unacknowledged; of that, how long the peer's window or our send buffer
    /// held it up.
    pub busy: Duration,
    pub window_limited: Duration,
    pub buffer_limited: Duration,
    pub rates: RateInfo,
    pub ecn: EcnInfo,
    /// Data that went with our SYN arrived, or came with the peer's (RFC 7413).
    pub syn_data: bool,
    /// How long ACKs are delayed; zero before the first data.
    pub ack_delay: Duration,
    /// Bytes written by the application and not acknowledged.
    pub unacked: u32,
    /// Bytes written by the application and not sent.
    pub not_sent: u32,
    /// Bytes not read by the application.
    pub unread: u32,
    /// Since data was last sent, and anything received; and data.
    pub last_sent: Duration,
    pub last_received: Duration,
    pub last_data_received: Duration,
}
