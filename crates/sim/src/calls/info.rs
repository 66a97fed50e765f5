//! TCP_INFO as Linux lays it out.

use mtcp_core::TcpInfo;
use mtcp_core::info::State;

use super::constants::{TCP_CLOSE, TCP_LISTEN, TCP_SYN_SENT};
use super::descriptors::{Body, Socket};

/// A field of `struct tcp_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfoField {
    /// Without `tcpi_`.
    pub name: &'static str,
    /// Bytes; 0: a part of a field before it.
    pub size: usize,
    /// Its value.
    pub value: u64,
}

/// The numbers that Linux gives to states.
const fn state_number(state: State) -> u64 {
    match state {
        State::Established => 1,
        State::SynSent => TCP_SYN_SENT as u64,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => TCP_CLOSE as u64,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Listen => TCP_LISTEN as u64,
        State::Closing => 11,
    }
}

/// The fields, in the order of the structure; those that the stack does not know are 0.
pub fn info_fields(info: &TcpInfo) -> Vec<InfoField> {
    let field = |name, size, value| InfoField { name, size, value };
    let mss = u32::from(info.snd_mss.max(1));
    let segments = |bytes: u32| u64::from(bytes.div_ceil(mss));
    let scales = u64::from(info.snd_wscale) | u64::from(info.rcv_wscale) << 4;
    let options = u64::from(info.timestamps)
        | u64::from(info.sack) << 1
        | u64::from(info.snd_wscale != 0 || info.rcv_wscale != 0) << 2;
    let ssthresh = match info.ssthresh {
        u32::MAX => 0x7fff_ffff,
        bytes => (bytes / mss).into(),
    };
    let none = |name, size| field(name, size, 0);
    vec![
        field("state", 1, state_number(info.state)),
        none("ca_state", 1),
        field("retransmits", 1, info.backoff.into()),
        none("probes", 1),
        field("backoff", 1, info.backoff.into()),
        field("options", 1, options),
        field("wscales", 1, scales),
        field("snd_wscale", 0, info.snd_wscale.into()),
        field("rcv_wscale", 0, info.rcv_wscale.into()),
        none("delivery_rate_app_limited", 1),
        field("rto", 4, info.rto.as_micros() as u64),
        none("ato", 4),
        field("snd_mss", 4, info.snd_mss.into()),
        field("rcv_mss", 4, info.rcv_mss.into()),
        field("unacked", 4, segments(info.flight)),
        none("sacked", 4),
        none("lost", 4),
        none("retrans", 4),
        none("fackets", 4),
        field("last_data_sent", 4, info.last_sent.as_millis() as u64),
        none("last_ack_sent", 4),
        field("last_data_recv", 4, info.last_received.as_millis() as u64),
        none("last_ack_recv", 4),
        field("pmtu", 4, info.pmtu.into()),
        none("rcv_ssthresh", 4),
        field("rtt", 4, info.srtt.as_micros() as u64),
        field("rttvar", 4, info.rttvar.as_micros() as u64),
        field("snd_ssthresh", 4, ssthresh),
        field("snd_cwnd", 4, (info.cwnd / mss).into()),
        none("advmss", 4),
        none("reordering", 4),
        none("rcv_rtt", 4),
        none("rcv_space", 4),
        field("total_retrans", 4, info.retransmits.into()),
        none("pacing_rate", 8),
        none("max_pacing_rate", 8),
        field("bytes_acked", 8, info.bytes_acked),
        field("bytes_received", 8, info.bytes_received),
        field("segs_out", 4, info.segments_out.into()),
        field("segs_in", 4, info.segments_in.into()),
        none("notsent_bytes", 4),
        field("min_rtt", 4, info.min_rtt.as_micros() as u64),
    ]
}

/// The structure, for a socket with or without a connection.
pub(super) fn info_bytes(info: Option<&TcpInfo>, socket: &Socket) -> Vec<u8> {
    let Some(info) = info else {
        let state = match socket.body {
            Body::Listener(..) => TCP_LISTEN,
            _ => TCP_CLOSE,
        };
        return [&[state as u8][..], &[0; 167]].concat();
    };
    let mut bytes = Vec::new();
    for field in info_fields(info) {
        let value = field.value.to_le_bytes();
        bytes.extend(value.iter().take(field.size));
    }
    bytes
}
