//! `struct tcp_info` of `linux/tcp.h`.

use std::time::Duration;

use crate::{LossState, State, TcpInfo};

/// tcpi_options.
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const WINDOW_SCALING: u8 = 4;
const ECN: u8 = 8;
const ECN_SEEN: u8 = 16;
const SYN_DATA: u8 = 32;

/// Linux: how many segments later one is not thought to be late any more. RACK counts time instead.
const DUP_THRESH: u32 = 3;
/// What Linux has for a threshold that was never set.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

macro_rules! record {
    ($($name:ident: $type:ty,)*) => {
        /// The members as far as Linux 6.18 has them, in its order and units: times in microseconds
        /// unless the name says `last`, which are milliseconds; windows and what is in flight in
        /// segments, computed from bytes; 0 where this stack does not keep the number.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct LinuxTcpInfo { $($name: $type,)* }

        impl LinuxTcpInfo {
            /// Its size: there is no padding.
            pub const LEN: usize = 0 $(+ size_of::<$type>())*;

            /// The member with this name, without `tcpi_`.
            pub fn field(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => Some(self.$name.into()),)*
                    // The halves of a byte, as C programs name them.
                    "snd_wscale" => Some((self.wscales & 15).into()),
                    "rcv_wscale" => Some((self.wscales >> 4).into()),
                    _ => None,
                }
            }

            /// Its bytes.
            pub fn to_bytes(self) -> Vec<u8> {
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
    received_ce: u32,
    delivered_e1_bytes: u32,
    delivered_e0_bytes: u32,
    delivered_ce_bytes: u32,
    received_e1_bytes: u32,
    received_e0_bytes: u32,
    received_ce_bytes: u32,
    accecn_fail_mode: u16,
    accecn_opt_seen: u16,
}

const _: () = assert!(size_of::<LinuxTcpInfo>() == LinuxTcpInfo::LEN);

/// TCP_CA_*.
fn loss_state(state: LossState) -> u8 {
    match state {
        LossState::Open => 0,
        LossState::Disorder => 1,
        LossState::Reduced => 2,
        LossState::Recovery => 3,
        LossState::Loss => 4,
    }
}

fn long_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

impl LinuxTcpInfo {
    /// Of a socket without a connection.
    pub fn without_connection(at: State) -> Self {
        Self {
            state: at.linux_number(),
            ..Self::default()
        }
    }
}

/// tcpi_options.
fn options(info: &TcpInfo) -> u8 {
    let scaling = info.snd_wscale > 0 || info.rcv_wscale > 0;
    let option = |on: bool, bit: u8| if on { bit } else { 0 };
    option(info.timestamps, TIMESTAMPS)
        | option(info.sack, SACK)
        | option(scaling, WINDOW_SCALING)
        | option(info.ecn.used, ECN)
        | option(info.ecn.seen, ECN_SEEN)
        | option(info.syn_data, SYN_DATA)
}

/// What grows as long as the connection lives, what waits, and the windows in bytes.
fn totals(info: &TcpInfo) -> LinuxTcpInfo {
    LinuxTcpInfo {
        total_retrans: info.retransmits,
        pacing_rate: info.rates.pacing.unwrap_or(u64::MAX),
        max_pacing_rate: info.rates.most.unwrap_or(u64::MAX),
        delivery_rate: info.rates.delivery,
        bytes_acked: info.sequence_acked,
        bytes_received: info.sequence_received,
        segs_out: info.segments_out,
        segs_in: info.segments_in,
        notsent_bytes: info.not_sent,
        min_rtt: if info.min_rtt.is_zero() {
            u32::MAX
        } else {
            micros(info.min_rtt)
        },
        data_segs_in: info.data_segments_in,
        data_segs_out: info.data_segments_out,
        busy_time: long_micros(info.busy),
        rwnd_limited: long_micros(info.window_limited),
        sndbuf_limited: long_micros(info.buffer_limited),
        delivered: info.delivered,
        bytes_sent: info.bytes_sent,
        bytes_retrans: info.bytes_retransmitted,
        dsack_dups: info.duplicates_reported,
        reord_seen: info.reorderings,
        rcv_ooopack: info.out_of_order,
        snd_wnd: info.snd_wnd,
        rcv_wnd: info.rcv_wnd,
        total_rto: u16::try_from(info.timeouts).unwrap_or(u16::MAX),
        total_rto_recoveries: u16::try_from(info.timeout_runs).unwrap_or(u16::MAX),
        total_rto_time: millis(info.timeout_time),
        delivered_ce_bytes: info.ecn.delivered_ce,
        received_e1_bytes: info.ecn.received_ect1,
        received_e0_bytes: info.ecn.received_ect0,
        received_ce_bytes: info.ecn.received_ce,
        accecn_opt_seen: info.ecn.option_seen.into(),
        ..LinuxTcpInfo::default()
    }
}

impl From<TcpInfo> for LinuxTcpInfo {
    fn from(info: TcpInfo) -> Self {
        let mss = u32::from(info.snd_mss).max(1);
        Self {
            state: info.state.linux_number(),
            ca_state: loss_state(info.loss_state),
            retransmits: if info.probes > 0 { 0 } else { info.backoff },
            probes: info.probes,
            backoff: info.doublings,
            options: options(&info),
            delivery_rate_app_limited: info.rates.app_limited.into(),
            // Two bit fields: the first is the low half where the first byte is the low one.
            wscales: if cfg!(target_endian = "little") {
                info.snd_wscale & 15 | info.rcv_wscale << 4
            } else {
                info.rcv_wscale & 15 | info.snd_wscale << 4
            },
            rto: micros(info.rto),
            ato: micros(info.ack_delay),
            snd_mss: info.snd_mss.into(),
            rcv_mss: info.rcv_mss.into(),
            unacked: info.flight.div_ceil(mss),
            sacked: info.sacked.div_ceil(mss),
            lost: info.lost.div_ceil(mss),
            retrans: info.resent.div_ceil(mss),
            last_data_sent: millis(info.last_sent),
            last_data_recv: millis(info.last_data_received),
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
            advmss: info.advertised_mss.into(),
            reordering: DUP_THRESH,
            rcv_space: info.rcv_wnd,
            ..totals(&info)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{EcnInfo, RateInfo};

    use super::*;

    fn info() -> TcpInfo {
        TcpInfo {
            state: State::CloseWait,
            snd_wscale: 7,
            rcv_wscale: 9,
            timestamps: true,
            loss_state: LossState::Recovery,
            rto: Duration::from_millis(201),
            srtt: Duration::from_micros(800),
            rttvar: Duration::from_micros(400),
            snd_mss: 1448,
            rcv_mss: 1448,
            advertised_mss: 1448,
            pmtu: 1500,
            cwnd: 14_480,
            ssthresh: u32::MAX,
            flight: 1449,
            sacked: 1448,
            lost: 1,
            snd_wnd: 65_535,
            rcv_wnd: 70_000,
            retransmits: 3,
            bytes_acked: 1 << 40,
            bytes_received: 5,
            sequence_acked: (1 << 40) + 1,
            sequence_received: 6,
            bytes_sent: 1 << 41,
            bytes_retransmitted: 1448,
            segments_in: 6,
            segments_out: 7,
            data_segments_in: 2,
            data_segments_out: 3,
            delivered: 4,
            duplicates_reported: 8,
            reorderings: 9,
            out_of_order: 10,
            timeouts: 70_000,
            timeout_runs: 11,
            timeout_time: Duration::from_millis(12),
            busy: Duration::from_micros(13),
            window_limited: Duration::from_micros(14),
            buffer_limited: Duration::from_micros(15),
            rates: RateInfo {
                most: Some(16),
                ..RateInfo::default()
            },
            ecn: EcnInfo {
                used: true,
                received_ect0: 17,
                ..EcnInfo::default()
            },
            syn_data: true,
            ack_delay: Duration::from_millis(40),
            unacked: 2000,
            not_sent: 551,
            last_sent: Duration::from_secs(2),
            last_data_received: Duration::from_secs(3),
            ..TcpInfo::default()
        }
    }

    #[test]
    fn numbers_have_the_units_of_linux() {
        let linux = LinuxTcpInfo::from(info());
        assert_eq!(
            (linux.state, linux.options),
            (8, TIMESTAMPS | WINDOW_SCALING | ECN | SYN_DATA)
        );
        assert_eq!(
            (linux.snd_cwnd, linux.unacked, linux.notsent_bytes),
            (10, 2, 551)
        );
        assert_eq!(
            (linux.rto, linux.rtt, linux.last_data_sent),
            (201_000, 800, 2000)
        );
        assert_eq!((linux.ca_state, linux.sacked, linux.lost), (3, 1, 1));
        assert_eq!((linux.ato, linux.last_data_recv), (40_000, 3000));
        assert_eq!((linux.busy_time, linux.total_rto), (13, u16::MAX));
        assert_eq!((linux.pacing_rate, linux.max_pacing_rate), (u64::MAX, 16));
        assert_eq!((linux.received_e0_bytes, linux.received_ce_bytes), (17, 0));
        assert_eq!(
            (linux.snd_ssthresh, linux.min_rtt),
            (NO_THRESHOLD, u32::MAX)
        );
    }

    #[test]
    fn members_are_where_the_system_has_them() {
        let mut bytes = LinuxTcpInfo::from(info()).to_bytes();
        assert_eq!(bytes.len(), 280);
        bytes.resize(bytes.len().max(size_of::<libc::tcp_info>()), 0);
        // SAFETY: it has integers only, and all of it is there.
        let theirs = unsafe { bytes.as_ptr().cast::<libc::tcp_info>().read_unaligned() };
        assert_eq!(theirs.tcpi_state, 8);
        assert_eq!(theirs.tcpi_rto, 201_000);
        assert_eq!(theirs.tcpi_snd_cwnd, 10);
        assert_eq!(theirs.tcpi_total_retrans, 3);
    }
}
