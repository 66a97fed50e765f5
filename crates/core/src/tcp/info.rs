//! `TCP_INFO`.

use std::time::Duration;

use ring::stream::Status;
use wire::time::Instant;

use crate::config::Config;
use crate::info::{LossState, State, TcpInfo};
use crate::tcp::clock::near;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::statistics::Statistics;
use crate::tcp::tcb::{Cold, Hot};

pub(crate) fn tcp_info(conn: &Conn<'_>, now: Instant) -> TcpInfo {
    let (hot, cold) = (&*conn.hot, &*conn.cold);
    let (loss, send) = (conn.loss_view(), conn.send_view());
    let (lost, resent) = loss.lost_and_resent();
    TcpInfo {
        state: hot.state,
        snd_wscale: hot.snd_wscale,
        rcv_wscale: hot.rcv_wscale,
        timestamps: hot.has(Flags::TIMESTAMPS),
        sack: hot.has(Flags::SACK),
        loss_state: loss_state(hot, cold),
        backoff: hot.retries,
        doublings: hot.loss.backoff,
        probes: if hot.has(Flags::PERSIST) {
            hot.retries
        } else {
            cold.keepalive_probes
        },
        rto: Duration::from_micros(loss.rto_micros()),
        srtt: hot.loss.rtt.srtt(),
        rttvar: hot.loss.rtt.rttvar(),
        min_rtt: Duration::from_micros(u64::from(cold.loss.min_rtt.micros())),
        snd_mss: hot.loss.mss,
        rcv_mss: hot.rcv.mss,
        advertised_mss: cold.local_mss - fixed_options(hot.flags),
        pmtu: cold.path.mtu,
        cwnd: hot.loss.window.cwnd,
        ssthresh: hot.loss.window.ssthresh,
        flight: hot.flight(),
        sacked: loss.sacked_bytes(),
        lost,
        resent,
        snd_wnd: hot.snd.wnd,
        rcv_wnd: receive_window(hot),
        ack_delay: ack_delay(&conn.sh.config, &cold.statistics),
        unacked: conn.sh.streams.send_len(conn.stream),
        not_sent: send.not_sent(),
        unread: conn.sh.streams.recv_unread(conn.stream),
        last_sent: now - cold.snd.last_sent,
        last_received: now - near(now, hot.last_received),
        last_data_received: now - near(now, cold.statistics.data_at),
        rates: loss.rate_info(conn.options().max_pacing_rate),
        ecn: cold.ecn.info(),
        ..totals(conn, now)
    }
}

/// What grows as long as the connection lives.
fn totals(conn: &Conn<'_>, now: Instant) -> TcpInfo {
    let (send, statistics) = (conn.send_view(), &conn.cold.statistics);
    let (busy, window_limited, buffer_limited) = statistics.busy_times(send.busy_until(now));
    let status = conn.sh.streams.status(conn.stream);
    // The handshake acknowledged a SYN-ACK before there was a connection.
    let syn_acked = statistics.active && conn.hot.snd.una > conn.cold.iss;
    let control_acked = u32::from(syn_acked) + u32::from(send.fin_acked());
    let fin_received = u32::from(status.contains(Status::EOF));
    let bytes_once = statistics.bytes_acked + u64::from(send.data_in_flight());
    let syn_delivered = u32::from(conn.hot.state.is_synchronized());
    let missing = send.segments_missing(conn.hot.loss.mss, conn.loss_view().sacked_bytes());
    let delivered = statistics.new_segments_out.saturating_sub(missing);
    TcpInfo {
        retransmits: statistics.retransmits,
        bytes_acked: statistics.bytes_acked,
        bytes_received: statistics.bytes_received,
        sequence_acked: statistics.bytes_acked + u64::from(control_acked),
        sequence_received: statistics.bytes_received + u64::from(fin_received),
        bytes_sent: bytes_once + statistics.bytes_retransmitted,
        bytes_retransmitted: statistics.bytes_retransmitted,
        segments_in: statistics.segments_in,
        segments_out: statistics.segments_out,
        data_segments_in: statistics.data_segments_in,
        data_segments_out: statistics.data_segments_out,
        delivered: delivered.saturating_add(syn_delivered),
        duplicates_reported: statistics.duplicates_reported,
        reorderings: statistics.reorderings,
        out_of_order: statistics.out_of_order,
        timeouts: statistics.timeouts,
        timeout_runs: statistics.timeout_runs,
        timeout_time: statistics.timeout.total(now),
        busy,
        window_limited,
        buffer_limited,
        syn_data: statistics.syn_data,
        ..TcpInfo::default()
    }
}

fn loss_state(hot: &Hot, cold: &Cold) -> LossState {
    if hot.has(Flags::LOSS) {
        LossState::Loss
    } else if hot.has(Flags::RECOVERY) {
        LossState::Recovery
    } else if cold.ecn.is_reduced() {
        LossState::Reduced
    } else if hot.has(Flags::SACKED) || hot.loss.dup_acks > 0 {
        LossState::Disorder
    } else {
        LossState::Open
    }
}

/// Bytes of the options in every segment.
fn fixed_options(flags: Flags) -> u16 {
    if flags.contains(Flags::TIMESTAMPS) {
        12
    } else {
        0
    }
}

fn ack_delay(config: &Config, statistics: &Statistics) -> Duration {
    if statistics.data_segments_in > 0 {
        config.delayed_ack
    } else {
        Duration::ZERO
    }
}

fn receive_window(hot: &Hot) -> u32 {
    match hot.state {
        State::Closed | State::Listen | State::SynSent | State::TimeWait => 0,
        _ => hot.rcv_wnd(),
    }
}
