//! `TCP_INFO`.

use std::time::Duration;

use ring::stream::Status;
use wire::time::Instant;

use crate::info::{LossState, State, TcpInfo};
use crate::tcp::clock::near;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;

impl Conn<'_> {
    pub fn info(&self, now: Instant) -> TcpInfo {
        let (hot, cold) = (&*self.hot, &*self.cold);
        let (lost, resent) = self.loss_view().lost_and_resent();
        TcpInfo {
            state: hot.state,
            snd_wscale: hot.snd_wscale,
            rcv_wscale: hot.rcv_wscale,
            timestamps: hot.has(Flags::TIMESTAMPS),
            sack: hot.has(Flags::SACK),
            loss_state: self.loss_state(),
            backoff: hot.retries,
            doublings: hot.loss.backoff,
            probes: self.probes(),
            rto: Duration::from_micros(self.loss_view().rto_micros()),
            srtt: hot.loss.rtt.srtt(),
            rttvar: hot.loss.rtt.rttvar(),
            min_rtt: Duration::from_micros(u64::from(cold.loss.min_rtt.micros())),
            snd_mss: hot.loss.mss,
            rcv_mss: hot.rcv.mss,
            advertised_mss: cold.local_mss - self.fixed_options(),
            pmtu: cold.path.mtu,
            cwnd: hot.loss.window.cwnd,
            ssthresh: hot.loss.window.ssthresh,
            flight: hot.flight(),
            sacked: self.loss_view().sacked_bytes(),
            lost,
            resent,
            snd_wnd: hot.snd.wnd,
            rcv_wnd: self.receive_window(),
            ack_delay: self.ack_delay(),
            unacked: self.sh.streams.send_len(self.slot),
            not_sent: self.send_view().not_sent(),
            unread: self.sh.streams.recv_unread(self.slot),
            last_sent: now - cold.snd.last_sent,
            last_received: now - near(now, hot.last_received),
            last_data_received: now - near(now, cold.statistics.data_at),
            rates: self.loss_view().rate_info(self.options().max_pacing_rate),
            ecn: cold.ecn.info(),
            ..self.totals(now)
        }
    }

    /// What grows as long as the connection lives.
    fn totals(&self, now: Instant) -> TcpInfo {
        let (cold, statistics) = (&*self.cold, &self.cold.statistics);
        let (busy, window_limited, buffer_limited) = statistics.busy_times(self.busy_until(now));
        TcpInfo {
            retransmits: cold.statistics.retransmits,
            bytes_acked: cold.statistics.bytes_acked,
            bytes_received: cold.statistics.bytes_received,
            sequence_acked: cold.statistics.bytes_acked + u64::from(self.control_acked()),
            sequence_received: cold.statistics.bytes_received + u64::from(self.fin_received()),
            bytes_sent: self.bytes_sent(),
            bytes_retransmitted: statistics.bytes_retransmitted,
            segments_in: cold.statistics.segments_in,
            segments_out: cold.statistics.segments_out,
            data_segments_in: statistics.data_segments_in,
            data_segments_out: statistics.data_segments_out,
            delivered: self.delivered(self.loss_view().sacked_bytes()),
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

    /// Nothing is in flight since the last ACK if nothing is now.
    fn busy_until(&self, now: Instant) -> Instant {
        if self.hot.flight() == 0 {
            self.cold.snd.una_since
        } else {
            now
        }
    }

    fn loss_state(&self) -> LossState {
        if self.has(Flags::LOSS) {
            LossState::Loss
        } else if self.has(Flags::RECOVERY) {
            LossState::Recovery
        } else if self.cold.ecn.is_reduced() {
            LossState::Reduced
        } else if self.has(Flags::SACKED) || self.hot.loss.dup_acks > 0 {
            LossState::Disorder
        } else {
            LossState::Open
        }
    }

    fn probes(&self) -> u8 {
        if self.has(Flags::PERSIST) {
            self.hot.retries
        } else {
            self.cold.keepalive_probes
        }
    }

    /// Bytes of the options in every segment.
    fn fixed_options(&self) -> u16 {
        if self.has(Flags::TIMESTAMPS) { 12 } else { 0 }
    }

    /// Sequence numbers of SYN and FIN that were acknowledged; the handshake acknowledged a SYN-ACK
    /// before there was a connection.
    fn control_acked(&self) -> u32 {
        let syn = self.cold.statistics.active && self.hot.snd.una > self.cold.iss;
        u32::from(syn) + u32::from(self.send_view().fin_acked())
    }

    fn fin_received(&self) -> bool {
        self.sh.streams.status(self.slot).contains(Status::EOF)
    }

    /// Segments with data, SYN or FIN that have arrived: all of them but what is in flight and not
    /// SACKed.
    fn delivered(&self, sacked: u32) -> u32 {
        let mss = u32::from(self.hot.loss.mss).max(1);
        let send = self.send_view();
        let data = send.data_in_flight().saturating_sub(sacked);
        let fin = send.fin_sent() && !send.fin_acked();
        let missing = data.div_ceil(mss).max(u32::from(fin));
        let syn = u32::from(self.hot.state.is_synchronized());
        let sent = self.cold.statistics.new_segments_out;
        sent.saturating_sub(missing).saturating_add(syn)
    }

    fn bytes_sent(&self) -> u64 {
        let once = self.cold.statistics.bytes_acked + u64::from(self.send_view().data_in_flight());
        once + self.cold.statistics.bytes_retransmitted
    }

    fn ack_delay(&self) -> Duration {
        if self.cold.statistics.data_segments_in > 0 {
            self.sh.config.delayed_ack
        } else {
            Duration::ZERO
        }
    }

    fn receive_window(&self) -> u32 {
        match self.hot.state {
            State::Closed | State::Listen | State::SynSent | State::TimeWait => 0,
            _ => self.hot.rcv_wnd(),
        }
    }
}
