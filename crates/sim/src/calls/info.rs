//! TCP_INFO as Linux lays it out.

use std::time::Duration;

use mtcp_core::TcpInfo;
use mtcp_core::info::{LossState, State};

use super::constants::{
    TCP_CA_CWR, TCP_CA_Disorder, TCP_CA_Loss, TCP_CA_Open, TCP_CA_Recovery, TCP_CLOSE,
    TCP_CLOSE_WAIT, TCP_CLOSING, TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_FIN_WAIT2, TCP_LAST_ACK,
    TCP_LISTEN, TCP_SYN_RECV, TCP_SYN_SENT, TCP_TIME_WAIT,
};
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

/// Bytes of the structure.
const LEN: usize = 280;
/// What Linux has for a threshold that was never set.
const NO_THRESHOLD: u64 = 0x7fff_ffff;

/// The numbers that Linux gives to states.
const fn state_number(state: State) -> i32 {
    match state {
        State::Established => TCP_ESTABLISHED,
        State::SynSent => TCP_SYN_SENT,
        State::SynReceived => TCP_SYN_RECV,
        State::FinWait1 => TCP_FIN_WAIT1,
        State::FinWait2 => TCP_FIN_WAIT2,
        State::TimeWait => TCP_TIME_WAIT,
        State::Closed => TCP_CLOSE,
        State::CloseWait => TCP_CLOSE_WAIT,
        State::LastAck => TCP_LAST_ACK,
        State::Listen => TCP_LISTEN,
        State::Closing => TCP_CLOSING,
    }
}

const fn loss_number(state: LossState) -> i32 {
    match state {
        LossState::Open => TCP_CA_Open,
        LossState::Disorder => TCP_CA_Disorder,
        LossState::Reduced => TCP_CA_CWR,
        LossState::Recovery => TCP_CA_Recovery,
        LossState::Loss => TCP_CA_Loss,
    }
}

const fn field(name: &'static str, size: usize, value: u64) -> InfoField {
    InfoField { name, size, value }
}

const fn none(name: &'static str, size: usize) -> InfoField {
    field(name, size, 0)
}

fn micros(name: &'static str, size: usize, time: Duration) -> InfoField {
    field(name, size, time.as_micros() as u64)
}

fn millis(name: &'static str, time: Duration) -> InfoField {
    field(name, 4, time.as_millis() as u64)
}

/// The fields, in the order of the structure; those that the stack does not know are 0.
pub fn info_fields(info: &TcpInfo) -> Vec<InfoField> {
    [
        states(info),
        flight(info),
        sizes(info),
        totals(info),
        newer(info),
    ]
    .concat()
}

fn states(info: &TcpInfo) -> Vec<InfoField> {
    let scales = u64::from(info.snd_wscale) | u64::from(info.rcv_wscale) << 4;
    let options = u64::from(info.timestamps)
        | u64::from(info.sack) << 1
        | u64::from(info.snd_wscale != 0 || info.rcv_wscale != 0) << 2
        | u64::from(info.ecn.used) << 3
        | u64::from(info.ecn.seen) << 4
        | u64::from(info.syn_data) << 5;
    let retransmits = if info.probes > 0 { 0 } else { info.backoff };
    vec![
        field("state", 1, state_number(info.state) as u64),
        field("ca_state", 1, loss_number(info.loss_state) as u64),
        field("retransmits", 1, retransmits.into()),
        field("probes", 1, info.probes.into()),
        field("backoff", 1, info.doublings.into()),
        field("options", 1, options),
        field("wscales", 1, scales),
        field("snd_wscale", 0, info.snd_wscale.into()),
        field("rcv_wscale", 0, info.rcv_wscale.into()),
        field(
            "delivery_rate_app_limited",
            1,
            info.rates.app_limited.into(),
        ),
        micros("rto", 4, info.rto),
        micros("ato", 4, info.ack_delay),
        field("snd_mss", 4, info.snd_mss.into()),
        field("rcv_mss", 4, info.rcv_mss.into()),
    ]
}

fn flight(info: &TcpInfo) -> Vec<InfoField> {
    let segments = |bytes: u32| u64::from(bytes.div_ceil(u32::from(info.snd_mss.max(1))));
    vec![
        field("unacked", 4, segments(info.flight)),
        field("sacked", 4, segments(info.sacked)),
        field("lost", 4, segments(info.lost)),
        field("retrans", 4, segments(info.resent)),
        none("fackets", 4),
        millis("last_data_sent", info.last_sent),
        none("last_ack_sent", 4),
        millis("last_data_recv", info.last_data_received),
        millis("last_ack_recv", info.last_received),
    ]
}

fn sizes(info: &TcpInfo) -> Vec<InfoField> {
    let mss = u32::from(info.snd_mss.max(1));
    let ssthresh = match info.ssthresh {
        u32::MAX => NO_THRESHOLD,
        bytes => (bytes / mss).into(),
    };
    vec![
        field("pmtu", 4, info.pmtu.into()),
        field("rcv_ssthresh", 4, info.rcv_wnd.into()),
        micros("rtt", 4, info.srtt),
        micros("rttvar", 4, info.rttvar),
        field("snd_ssthresh", 4, ssthresh),
        field("snd_cwnd", 4, (info.cwnd / mss).into()),
        field("advmss", 4, info.advertised_mss.into()),
        field("reordering", 4, 3),
        none("rcv_rtt", 4),
        field("rcv_space", 4, info.rcv_wnd.into()),
    ]
}

fn totals(info: &TcpInfo) -> Vec<InfoField> {
    vec![
        field("total_retrans", 4, info.retransmits.into()),
        field("pacing_rate", 8, info.rates.pacing.unwrap_or(u64::MAX)),
        field("max_pacing_rate", 8, info.rates.most.unwrap_or(u64::MAX)),
        field("bytes_acked", 8, info.sequence_acked),
        field("bytes_received", 8, info.sequence_received),
        field("segs_out", 4, info.segments_out.into()),
        field("segs_in", 4, info.segments_in.into()),
        field("notsent_bytes", 4, info.not_sent.into()),
        micros("min_rtt", 4, info.min_rtt),
        field("data_segs_in", 4, info.data_segments_in.into()),
        field("data_segs_out", 4, info.data_segments_out.into()),
        field("delivery_rate", 8, info.rates.delivery),
        micros("busy_time", 8, info.busy),
        micros("rwnd_limited", 8, info.window_limited),
        micros("sndbuf_limited", 8, info.buffer_limited),
    ]
}

fn newer(info: &TcpInfo) -> Vec<InfoField> {
    vec![
        field("delivered", 4, info.delivered.into()),
        none("delivered_ce", 4),
        field("bytes_sent", 8, info.bytes_sent),
        field("bytes_retrans", 8, info.bytes_retransmitted),
        field("dsack_dups", 4, info.duplicates_reported.into()),
        field("reord_seen", 4, info.reorderings.into()),
        field("rcv_ooopack", 4, info.out_of_order.into()),
        field("snd_wnd", 4, info.snd_wnd.into()),
        field("rcv_wnd", 4, info.rcv_wnd.into()),
        none("rehash", 4),
        field("total_rto", 2, info.timeouts.into()),
        field("total_rto_recoveries", 2, info.timeout_runs.into()),
        millis("total_rto_time", info.timeout_time),
        none("received_ce", 4),
        none("delivered_e1_bytes", 4),
        none("delivered_e0_bytes", 4),
        field("delivered_ce_bytes", 4, info.ecn.delivered_ce.into()),
        field("received_e1_bytes", 4, info.ecn.received_ect1.into()),
        field("received_e0_bytes", 4, info.ecn.received_ect0.into()),
        field("received_ce_bytes", 4, info.ecn.received_ce.into()),
        none("accecn_fail_mode", 2),
        field("accecn_opt_seen", 2, info.ecn.option_seen.into()),
    ]
}

/// The structure, for a socket with or without a connection.
pub(super) fn info_bytes(info: Option<&TcpInfo>, socket: &Socket) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LEN);
    match info {
        Some(info) => {
            for field in info_fields(info) {
                let value = field.value.to_le_bytes();
                bytes.extend(value.iter().take(field.size));
            }
        }
        None => bytes.push(match socket.body {
            Body::Listener(..) => TCP_LISTEN as u8,
            _ => TCP_CLOSE as u8,
        }),
    }
    bytes.resize(LEN, 0);
    bytes
}
