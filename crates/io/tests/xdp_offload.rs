//! What an AF_XDP port on a veth pair leaves to the kernel: checksums, and to cut frames of several
//! segments. Needs root; says so and passes without.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are test code"
)]

#[allow(dead_code, reason = "shared by several test programs")]
mod xdp_support;

use std::collections::VecDeque;
use std::net::IpAddr;

use io::Port;
use io::xdp::{AttachMode, XdpConfig};
use wire::ethernet::EtherType;
use wire::frame::{FrameSink, MacAddr, TxChecksum, TxMeta};
use wire::ip::Protocol;

use xdp_support::frames::{self, ethernet, ipv4, udp};
use xdp_support::{
    OURS, PEER, Pair, Station, config, has_traffic_control, is_root, leave_checksum, peer_socket,
};

/// Bytes of payload of a segment.
const CUT: usize = 1448;

#[test]
fn a_checksum_that_is_left_to_the_link_is_right_for_the_peer() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let Some(mut station) = pair.offloading_station() else {
        return;
    };
    let socket = peer_socket(&pair, PEER);
    let port = socket.local_addr().unwrap().port();
    let mut datagram = udp(OURS.into(), PEER.into(), (2000, port), b"unfinished");
    let checksum = leave_checksum(&mut datagram, Protocol::UDP, 6);
    let packet = ipv4((OURS, PEER), Protocol::UDP, &datagram, |_| ());
    let (ours, peer) = (station.port.mac(), station.peer_mac);
    let frame = ethernet(ours, peer, EtherType::IPV4, None, &packet);
    // The kernel drops the first, whose checksum is said to be whole.
    for checksum in [TxChecksum::Complete, checksum] {
        station.put(&frame, checksum);
    }
    station.port.flush().unwrap();
    let mut buffer = [0; 64];
    let (len, _) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"unfinished");
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv_from(&mut buffer).is_err(), "both came");
}

/// The peer's end, opened in this mode.
fn peer_station(pair: &Pair, ours: MacAddr, mode: AttachMode) -> Station {
    let config = XdpConfig {
        interface: "peer0".to_owned(),
        addresses: vec![IpAddr::from(PEER)],
        ports: Some(1),
        mode,
        ..config()
    };
    let interface = pair.peer.run(|| io::xdp::XdpInterface::open(&config));
    Station {
        port: interface.unwrap().ports().remove(0),
        peer_mac: ours,
        arrived: VecDeque::new(),
    }
}

/// A frame with all of `data` in one TCP segment, with sequence number 1, and what is said of its
/// checksum.
fn gso_frame(ours: MacAddr, peer: MacAddr, data: &[u8]) -> (Vec<u8>, TxChecksum) {
    let mut segment = vec![0; 20];
    segment[..4].copy_from_slice(&[0, 80, 0x30, 0x39]);
    segment[7] = 1;
    segment[12] = 5 << 4;
    segment[13] = 0x18;
    segment.extend_from_slice(data);
    let checksum = leave_checksum(&mut segment, Protocol::TCP, 16);
    let packet = ipv4((OURS, PEER), Protocol::TCP, &segment, |_| ());
    (
        ethernet(ours, peer, EtherType::IPV4, None, &packet),
        checksum,
    )
}

/// Sends a frame of many segments to a peer in this mode. Returns the lengths of what came there.
fn send_gso(mode: AttachMode) -> Vec<usize> {
    let pair = Pair::new(1);
    let Some(mut station) = pair.offloading_station() else {
        return Vec::new();
    };
    assert!(station.port.capabilities().tx_gso as usize > 20 * CUT);
    let mut peer = peer_station(&pair, station.port.mac(), mode);
    let data: Vec<u8> = (0..20 * CUT + 100).map(|at| (at % 251) as u8).collect();
    let (frame, checksum) = gso_frame(station.port.mac(), station.peer_mac, &data);
    station.send(&frames::arp_request(station.port.mac()));
    assert!(station.port.send_gso(frame.len(), |room| {
        room[..frame.len()].copy_from_slice(&frame);
        TxMeta {
            len: frame.len(),
            checksum,
            segment: CUT as u16,
        }
    }));
    station.port.flush().unwrap();
    let (mut got, mut lens) = (Vec::new(), Vec::new());
    while got.len() < data.len() {
        let frame = peer.expect("segment", |frame| {
            frames::parse_ipv4(frame).is_some_and(|(ip, _)| ip.protocol == Protocol::TCP)
        });
        let (_, segment) = frames::parse_ipv4(&frame.bytes).unwrap();
        let seq = u32::from_be_bytes(*segment[4..].first_chunk().unwrap());
        assert_eq!(seq as usize, 1 + got.len(), "in order");
        lens.push(segment.len() - 20);
        got.extend_from_slice(&segment[20..]);
    }
    assert_eq!(got, data);
    assert_eq!(station.port.losses(), (0, 0));
    lens
}

#[test]
fn a_frame_of_many_segments_is_cut_for_a_peer_that_takes_packets() {
    if is_root() {
        let lens = send_gso(AttachMode::Native);
        assert!(lens.iter().all(|len| *len <= CUT), "{lens:?}");
    }
}

#[test]
fn a_frame_of_many_segments_stays_whole_through_traffic_control() {
    if is_root() && has_traffic_control() {
        let lens = send_gso(AttachMode::Auto);
        assert!(lens.len() <= 1, "{lens:?}");
    }
}

#[test]
fn where_processes_share_the_queues_every_frame_is_a_packet() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(2);
    let config = XdpConfig {
        processes: 2,
        ..config()
    };
    let station = pair.station_with(&config);
    assert_eq!(station.port.capabilities().tx_gso, 0);
}
