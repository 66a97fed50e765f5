//! What TCP knows about a connection: the source of `TCP_INFO`.

use std::time::Duration;

/// The states of RFC 9293 §3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum State {
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
pub enum LossState {
    /// Nothing.
    #[default]
    Open,
    /// Something arrived out of order at the peer.
    Disorder,
    /// Fast recovery.
    Recovery,
    /// Recovery after a time-out.
    Loss,
}

/// A snapshot of one connection. Times are zero and counts 0 where nothing is known yet.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
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
    /// Bytes per second, if data is paced.
    pub pacing_rate: Option<u64>,
    /// Of those, bytes that the peer holds out of order, that are taken for lost, and that were sent again.
    pub sacked: u32,
    pub lost: u32,
    pub resent: u32,
    /// The peer's window and ours, bytes.
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    /// Segments retransmitted since the start.
    pub retransmits: u32,
    /// Bytes; with the FIN, and the SYN of an active open, one more each: `sequence_acked`, `sequence_received`.
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
    /// Segments that the peer has, SYN and FIN included; computed from sizes while some are in flight.
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
    /// How long anything was unacknowledged; of that, how long the peer's window or our send buffer held it up.
    pub busy: Duration,
    pub window_limited: Duration,
    pub buffer_limited: Duration,
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
