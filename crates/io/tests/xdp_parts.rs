//! Packets that no frame holds, on a veth pair with an MTU of 9000 bytes. Needs root and Linux 6.6;
//! says so and passes without.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are test code"
)]

#[allow(dead_code, reason = "shared by several test programs")]
mod xdp_support;

use io::Port;
use io::xdp::{AttachMode, Attachment, XdpConfig};
use wire::ip::Protocol;

use xdp_support::frames::carries;
use xdp_support::{OURS, PEER, Pair, config, has_traffic_control, is_root, peer_socket};

const MTU: u16 = 9000;
/// The longest datagram of such a packet.
const MOST: usize = 9000 - 28;

fn data(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| ((at + 7 * number) % 251) as u8).collect()
}

fn exchange(mode: AttachMode, queues: u32, attachment: Attachment) {
    if !is_root() || !has_traffic_control() {
        return;
    }
    let pair = Pair::new(queues);
    pair.ours.ip(&format!("link set xdp0 mtu {MTU}"));
    pair.peer.ip(&format!("link set peer0 mtu {MTU}"));
    let config = XdpConfig {
        mode,
        ports: Some(1),
        ..config()
    };
    let mut station = pair.station_with(&config);
    assert_eq!(station.port.mode().attachment, attachment);
    assert_eq!(station.port.capabilities().mtu, MTU);
    let leaves = station.port.capabilities().tx_checksum;
    let mac = station.port.mac();
    pair.peer
        .ip(&format!("neighbour replace {OURS} lladdr {mac} dev peer0"));
    let socket = peer_socket(&pair, PEER);
    let port = socket.local_addr().unwrap().port();
    let mut buffer = vec![0; 1 << 16];
    // One part, the end of one, two and three, and more packets than there are frames.
    let lens = [18, 3700, 3796, 3797, 3900, 4000, 7600, 7700, 8100, MOST];
    for round in 0..200 {
        let lens = lens.map(|len| len - round % 3);
        for (number, &len) in lens.iter().enumerate() {
            station.put_datagram(port, &data(number, len), leaves && number % 2 == 0);
        }
        station.port.flush().unwrap();
        for (number, &len) in lens.iter().enumerate() {
            let (came, _) = socket.recv_from(&mut buffer).unwrap();
            assert!(
                buffer[..came] == data(number, len),
                "{number} of {len} bytes"
            );
        }
        for (number, &len) in lens.iter().enumerate() {
            socket.send_to(&data(number, len), (OURS, 2000)).unwrap();
        }
        for (number, &len) in lens.iter().enumerate() {
            let data = data(number, len);
            station.expect("datagram", |frame| carries(frame, Protocol::UDP, &data));
        }
    }
    assert_eq!(station.port.losses(), (0, 0));
}

#[test]
fn long_packets_pass_in_native_mode() {
    exchange(AttachMode::Native, 1, Attachment::Native);
}

#[test]
fn long_packets_pass_in_native_mode_with_several_queues() {
    exchange(AttachMode::Auto, 2, Attachment::Native);
}

#[test]
fn long_packets_pass_in_generic_mode() {
    exchange(AttachMode::Generic, 1, Attachment::Generic);
}

#[test]
fn long_packets_pass_through_traffic_control() {
    exchange(AttachMode::Auto, 1, Attachment::TrafficControl);
}
