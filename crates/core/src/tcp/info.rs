//! `TCP_INFO`.

use std::time::Duration;

use wire::time::Instant;

use crate::info::{State, TcpInfo};
use crate::tcp::conn::{Conn, near};
use crate::tcp::tcb::Flags;

impl Conn<'_> {
    pub fn info(&self, now: Instant) -> TcpInfo {
        let (hot, cold) = (&*self.hot, &*self.cold);
        let streams = &self.sh.streams;
        TcpInfo {
            state: hot.state,
            snd_wscale: hot.snd_wscale,
            rcv_wscale: hot.rcv_wscale,
            timestamps: hot.has(Flags::TIMESTAMPS),
            sack: hot.has(Flags::SACK),
            backoff: hot.retries,
            rto: self.rto(),
            srtt: hot.rtt.srtt(),
            rttvar: hot.rtt.rttvar(),
            min_rtt: Duration::from_micros(u64::from(cold.min_rtt)),
            snd_mss: hot.mss,
            rcv_mss: hot.rcv_mss,
            pmtu: cold.path.mtu,
            cwnd: hot.window.cwnd,
            ssthresh: hot.window.ssthresh,
            flight: hot.flight(),
            pacing_rate: cold.pacing.rate(),
            snd_wnd: hot.snd_wnd,
            rcv_wnd: self.receive_window(),
            retransmits: cold.retransmits,
            bytes_acked: cold.bytes_acked,
            bytes_received: cold.bytes_received,
            segments_in: cold.segments_in,
            segments_out: cold.segments_out,
            unacked: streams.send_len(self.slot),
            unread: streams.recv_unread(self.slot),
            last_sent: now - cold.last_sent,
            last_received: now - near(now, hot.last_received),
        }
    }

    fn receive_window(&self) -> u32 {
        match self.hot.state {
            State::Closed | State::Listen | State::SynSent | State::TimeWait => 0,
            _ => self.hot.rcv_wnd(),
        }
    }
}
