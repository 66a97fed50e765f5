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
    /// Consecutive retransmission time-outs.
    pub backoff: u8,
    pub rto: Duration,
    pub srtt: Duration,
    pub rttvar: Duration,
    pub min_rtt: Duration,
    /// Sender maximum segment size, bytes of payload.
    pub snd_mss: u16,
    pub rcv_mss: u16,
    pub pmtu: u16,
    /// Bytes.
    pub cwnd: u32,
    /// Bytes; `u32::MAX` until the first loss.
    pub ssthresh: u32,
    /// Bytes in flight.
    pub flight: u32,
    /// Bytes per second, if data is paced.
    pub pacing_rate: Option<u64>,
    /// The peer's window and ours, bytes.
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    /// Segments retransmitted since the start.
    pub retransmits: u32,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segments_in: u32,
    pub segments_out: u32,
    /// Bytes written by the application and not acknowledged.
    pub unacked: u32,
    /// Bytes not read by the application.
    pub unread: u32,
    /// Since data was last sent and received.
    pub last_sent: Duration,
    pub last_received: Duration,
}
