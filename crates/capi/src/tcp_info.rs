//! `struct tcp_info` of `linux/tcp.h`.

use std::time::Duration;

use mtcp::{State, TcpInfo};

/// tcpi_options.
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const WINDOW_SCALING: u8 = 4;

/// What Linux has for a threshold that was never set.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

macro_rules! record {
    ($($name:ident: $type:ty,)*) => {
        /// The members as far as Linux 6.7 has them, in its order and units: times in microseconds unless the name says `last`,
        /// which are milliseconds; windows in segments; 0 where this stack does not keep the number.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub(crate) struct LinuxTcpInfo { $($name: $type,)* }

        impl LinuxTcpInfo {
            /// Its size: there is no padding.
            pub(crate) const LEN: usize = 0 $(+ size_of::<$type>())*;

            /// Its bytes.
            pub(crate) fn to_bytes(self) -> Vec<u8> {
                let mut bytes = Vec::with_capacity(Self::LEN);
                $(bytes.extend_from_slice(&self.$name.to_ne_bytes());)*
                bytes
            }
        }
    };
}

record! {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    wscales: u8,
    delivery_rate_app_limited: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
    rcv_wnd: u32,
    rehash: u32,
    total_rto: u16,
    total_rto_recoveries: u16,
    total_rto_time: u32,
}

const _: () = assert!(size_of::<LinuxTcpInfo>() == LinuxTcpInfo::LEN);

/// Linux counts its states from 1, in another order.
fn state(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Listen => 10,
        State::Closing => 11,
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

impl LinuxTcpInfo {
    /// Of a socket without a connection.
    pub(crate) fn without_connection(at: State) -> Self {
        Self {
            state: state(at),
            ..Self::default()
        }
    }
}

impl From<TcpInfo> for LinuxTcpInfo {
    fn from(info: TcpInfo) -> Self {
        let mss = u32::from(info.snd_mss).max(1);
        let scaling = info.snd_wscale > 0 || info.rcv_wscale > 0;
        let option = |on: bool, bit: u8| if on { bit } else { 0 };
        Self {
            state: state(info.state),
            retransmits: info.backoff,
            backoff: info.backoff,
            options: option(info.timestamps, TIMESTAMPS)
                | option(info.sack, SACK)
                | option(scaling, WINDOW_SCALING),
            // Two bit fields: the first is the low half where the first byte is the low one.
            wscales: if cfg!(target_endian = "little") {
                info.snd_wscale & 15 | info.rcv_wscale << 4
            } else {
                info.rcv_wscale & 15 | info.snd_wscale << 4
            },
            rto: micros(info.rto),
            snd_mss: info.snd_mss.into(),
            rcv_mss: info.rcv_mss.into(),
            unacked: info.flight.div_ceil(mss),
            last_data_sent: millis(info.last_sent),
            last_data_recv: millis(info.last_received),
            last_ack_recv: millis(info.last_received),
            pmtu: info.pmtu.into(),
            rcv_ssthresh: info.rcv_wnd,
            rtt: micros(info.srtt),
            rttvar: micros(info.rttvar),
            snd_ssthresh: if info.ssthresh == u32::MAX {
                NO_THRESHOLD
            } else {
                info.ssthresh / mss
            },
            snd_cwnd: info.cwnd / mss,
            advmss: info.rcv_mss.into(),
            rcv_space: info.rcv_wnd,
            total_retrans: info.retransmits,
            pacing_rate: info.pacing_rate.unwrap_or(u64::MAX),
            bytes_acked: info.bytes_acked,
            bytes_received: info.bytes_received,
            segs_out: info.segments_out,
            segs_in: info.segments_in,
            notsent_bytes: info.unacked.saturating_sub(info.flight),
            min_rtt: if info.min_rtt.is_zero() {
                u32::MAX
            } else {
                micros(info.min_rtt)
            },
            snd_wnd: info.snd_wnd,
            rcv_wnd: info.rcv_wnd,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> TcpInfo {
        TcpInfo {
            state: State::CloseWait,
            snd_wscale: 7,
            rcv_wscale: 9,
            timestamps: true,
            sack: false,
            backoff: 0,
            rto: Duration::from_millis(201),
            srtt: Duration::from_micros(800),
            rttvar: Duration::from_micros(400),
            min_rtt: Duration::ZERO,
            snd_mss: 1448,
            rcv_mss: 1448,
            pmtu: 1500,
            cwnd: 14_480,
            ssthresh: u32::MAX,
            flight: 1449,
            pacing_rate: None,
            snd_wnd: 65_535,
            rcv_wnd: 70_000,
            retransmits: 3,
            bytes_acked: 1 << 40,
            bytes_received: 5,
            segments_in: 6,
            segments_out: 7,
            unacked: 2000,
            unread: 0,
            last_sent: Duration::from_secs(2),
            last_received: Duration::ZERO,
        }
    }

    #[test]
    fn numbers_have_the_units_of_linux() {
        let linux = LinuxTcpInfo::from(info());
        assert_eq!(
            (linux.state, linux.options),
            (8, TIMESTAMPS | WINDOW_SCALING)
        );
        assert_eq!(
            (linux.snd_cwnd, linux.unacked, linux.notsent_bytes),
            (10, 2, 551)
        );
        assert_eq!(
            (linux.rto, linux.rtt, linux.last_data_sent),
            (201_000, 800, 2000)
        );
        assert_eq!(
            (linux.snd_ssthresh, linux.min_rtt),
            (NO_THRESHOLD, u32::MAX)
        );
    }

    #[test]
    fn members_are_where_the_system_has_them() {
        let mut bytes = LinuxTcpInfo::from(info()).to_bytes();
        assert_eq!(bytes.len(), 248);
        bytes.resize(bytes.len().max(size_of::<libc::tcp_info>()), 0);
        // SAFETY: it has integers only, and all of it is there.
        let theirs = unsafe { bytes.as_ptr().cast::<libc::tcp_info>().read_unaligned() };
        assert_eq!(theirs.tcpi_state, 8);
        assert_eq!(theirs.tcpi_rto, 201_000);
        assert_eq!(theirs.tcpi_snd_cwnd, 10);
        assert_eq!(theirs.tcpi_total_retrans, 3);
    }
}
