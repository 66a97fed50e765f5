//! AF_XDP against a kernel at the other end of a veth pair. Needs root; says so and passes without.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are test code"
)]

#[allow(dead_code, reason = "shared by several test programs")]
mod xdp_support;

use std::net::{IpAddr, TcpStream, UdpSocket};
use std::time::Duration;

use io::Port;
use io::netlink::ethtool;
use io::xdp::{AttachMode, Attachment, ChecksumPolicy, XdpConfig, ZeroCopy};
use wire::checksum::pseudo_header;
use wire::ethernet::EtherType;
use wire::frame::RxChecksum;
use wire::ip::Protocol;

use xdp_support::frames::{self, carries, checksum_is_right, ethernet, ipv4, udp, udp_to_us};
use xdp_support::{
    DEADLINE, KERNEL, KERNEL6, MODES, OURS, OURS6, PEER, PEER6, Pair, config, has_traffic_control,
    is_root, peer_socket,
};

fn exchange_arp_and_icmp(config: &XdpConfig, attachment: Attachment) {
    let pair = Pair::new(1);
    let mut station = pair.station_with(config);
    assert_eq!(station.port.mode().attachment, attachment);
    let (ours, peer) = (station.port.mac(), station.peer_mac);

    station.send(&frames::arp_request(ours));
    let reply = station.expect("ARP reply", frames::is_arp_reply);
    assert!(reply.bytes.len() <= 64);
    station.send(&frames::echo_request(ours, peer, b"are you there?"));
    let echo = station.expect("echo reply", |frame| {
        carries(frame, Protocol::ICMP, b"are you there?")
    });
    assert_eq!(frames::parse_ipv4(&echo.bytes).unwrap().0.src, PEER);

    let socket = peer_socket(&pair, PEER);
    socket.send_to(b"hello", (OURS, 2000)).unwrap();
    // The kernel knows our hardware address from our request already; should it ask, it is
    // answered.
    let datagram = station.expect("datagram", |frame| carries(frame, Protocol::UDP, b"hello"));
    assert_eq!(frames::parse_ipv4(&datagram.bytes).unwrap().0.dst, OURS);

    let port = socket.local_addr().unwrap().port();
    let back = udp(OURS.into(), PEER.into(), (2000, port), b"hello yourself");
    let back = ipv4((OURS, PEER), Protocol::UDP, &back, |_| ());
    station.send(&ethernet(ours, peer, EtherType::IPV4, None, &back));
    let mut buffer = [0; 64];
    let (len, from) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(
        (&buffer[..len], from),
        (&b"hello yourself"[..], (OURS, 2000).into())
    );
}

#[test]
fn a_kernel_peer_answers_arp_and_ping_in_native_mode() {
    if is_root() {
        let config = XdpConfig {
            mode: AttachMode::Native,
            ..config()
        };
        exchange_arp_and_icmp(&config, Attachment::Native);
    }
}

#[test]
fn a_kernel_peer_answers_arp_and_ping_through_traffic_control() {
    if is_root() && has_traffic_control() {
        exchange_arp_and_icmp(&config(), Attachment::TrafficControl);
    }
}

#[test]
fn a_kernel_peer_answers_arp_and_ping_in_generic_mode() {
    if is_root() {
        let config = XdpConfig {
            mode: AttachMode::Generic,
            zero_copy: ZeroCopy::Copy,
            ..config()
        };
        exchange_arp_and_icmp(&config, Attachment::Generic);
    }
}

#[test]
fn the_peer_asks_for_our_hardware_address() {
    if !is_root() {
        return;
    }
    for mode in MODES {
        let pair = Pair::new(1);
        let mut station = pair.station_in(mode);
        peer_socket(&pair, PEER)
            .send_to(b"first", (OURS, 2000))
            .unwrap();
        station.answer_arp();
        station.expect("datagram", |frame| carries(frame, Protocol::UDP, b"first"));
    }
}

#[test]
fn neighbour_solicitations_for_our_address_reach_us() {
    if !is_root() {
        return;
    }
    for mode in MODES {
        let pair = Pair::new(1);
        let mut station = pair.station_in(mode);
        peer_socket(&pair, PEER6)
            .send_to(b"six", (OURS6, 2000))
            .unwrap();
        station.expect("neighbour solicitation", frames::is_solicitation);
        let (ours, peer) = (station.port.mac(), station.peer_mac);
        station.send(&frames::neighbour_advertisement(ours, peer));
        let datagram = station.expect("datagram", |frame| {
            frames::parse_ipv6(frame)
                .is_some_and(|(ip, payload)| ip.dst == OURS6 && payload.ends_with(b"six"))
        });
        assert_eq!(
            datagram.meta.checksum,
            RxChecksum::Trusted,
            "a veth leaves checksums of its kernel unfinished"
        );
    }
}

#[test]
fn the_kernel_on_our_end_keeps_its_own_traffic() {
    if !is_root() {
        return;
    }
    for mode in MODES {
        let pair = Pair::new(1);
        let mut station = pair.station_in(mode);
        // Neighbour discovery and ARP for the kernel's addresses pass, and so do the datagrams,
        // both ways.
        for (kernel, peer) in [
            (IpAddr::from(KERNEL), IpAddr::from(PEER)),
            (KERNEL6.into(), PEER6.into()),
        ] {
            let server = pair.ours.run(|| UdpSocket::bind((kernel, 0))).unwrap();
            server.set_read_timeout(Some(DEADLINE)).unwrap();
            let client = peer_socket(&pair, peer);
            client
                .send_to(b"ping", server.local_addr().unwrap())
                .unwrap();
            let mut buffer = [0; 16];
            let (len, from) = server.recv_from(&mut buffer).unwrap();
            server.send_to(&buffer[..len], from).unwrap();
            assert_eq!(client.recv(&mut buffer).unwrap(), 4);
        }
        assert_eq!(ping(&pair, KERNEL.into()), "pong");
        station.poll();
        assert!(
            station.arrived.is_empty(),
            "the kernel's traffic came to us"
        );
    }
}

/// Pings `address` from the peer with a raw ICMP socket.
fn ping(pair: &Pair, address: IpAddr) -> &'static str {
    use rustix::net::{AddressFamily, SocketType, ipproto, socket};
    let icmp = pair
        .peer
        .run(|| socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP)).unwrap());
    let icmp = UdpSocket::from(icmp);
    icmp.set_read_timeout(Some(DEADLINE)).unwrap();
    icmp.connect((address, 0)).unwrap();
    // Echo request, identifier 1, sequence number 1.
    icmp.send(&[8, 0, 0xf7, 0xfd, 0, 1, 0, 1]).unwrap();
    let mut buffer = [0; 128];
    let len = icmp.recv(&mut buffer).unwrap();
    if len == 28 && buffer[20] == 0 {
        "pong"
    } else {
        "something else"
    }
}

#[test]
fn a_tag_is_looked_through_and_fragments_go_by_address() {
    if !is_root() {
        return;
    }
    for mode in MODES {
        let pair = Pair::new(1);
        let mut station = pair.station_in(mode);
        let raw = pair.raw();
        let (ours, peer) = (station.port.mac(), station.peer_mac);
        let packet = |to, data: &[u8]| ipv4((PEER, to), Protocol::UDP, data, |_| ());
        let frame = |vlan, packet: &[u8]| ethernet(peer, ours, EtherType::IPV4, vlan, packet);

        raw.send(&frame(Some(5), &packet(KERNEL, b"tagged, not ours")));
        // Two tags, and one of another kind.
        let mut tagged = frame(Some(5), &packet(OURS, b"tagged twice"));
        tagged.splice(12..12, [0x81, 0, 0, 6]);
        raw.send(&tagged);
        tagged.splice(12..16, [0x88, 0xa8, 0, 6]);
        raw.send(&tagged);
        tagged.splice(16..20, []);
        raw.send(&tagged);
        raw.send(&frame(Some(5), &packet(OURS, b"tagged, and ours")));
        let arrived = station.expect("tagged packet", |_| true);
        assert_eq!(
            arrived.bytes,
            frame(Some(5), &packet(OURS, b"tagged, and ours"))
        );

        let fragment = |offset, more, data: &[u8]| {
            ipv4((PEER, OURS), Protocol::UDP, data, |ip| {
                (ip.fragment_offset, ip.more_fragments, ip.dont_fragment) = (offset, more, false);
            })
        };
        raw.send(&frame(None, &fragment(0, true, b"12345678")));
        raw.send(&frame(None, &fragment(8, false, b"the rest")));
        for data in [b"12345678", b"the rest"] {
            let arrived = station.expect("fragment", |_| true);
            assert!(carries(&arrived.bytes, Protocol::UDP, data));
            assert_eq!(arrived.meta.checksum, RxChecksum::Unverified);
        }

        let mut options = ipv4((PEER, OURS), Protocol::UDP, b"after options", |_| ());
        options[0] = 0x46;
        raw.send(&frame(None, &options));
        assert!(
            station
                .expect("packet with options", |_| true)
                .bytes
                .ends_with(b"after options")
        );
    }
}

#[test]
fn malformed_frames_are_left_to_the_kernel() {
    if !is_root() {
        return;
    }
    for mode in MODES {
        let pair = Pair::new(1);
        let mut station = pair.station_in(mode);
        let raw = pair.raw();
        let (ours, peer) = (station.port.mac(), station.peer_mac);
        let whole = udp_to_us(peer, ours, b"");
        // Cut before the end of the destination address; as an unknown type; as version 5; ARP with
        // other address lengths.
        raw.send(&whole[..33]);
        raw.send(&ethernet(peer, ours, EtherType(0x88b5), None, &whole[14..]));
        raw.send(&[&whole[..14], &[0x55], &whole[15..]].concat());
        let mut arp = frames::arp_reply(peer, ours);
        arp[38..42].copy_from_slice(&OURS.octets());
        arp[18] = 8;
        raw.send(&arp);
        raw.send(&udp_to_us(peer, ours, b"whole"));
        let first = station.expect("frame", |_| true);
        assert!(carries(&first.bytes, Protocol::UDP, b"whole"));
    }
}

#[test]
fn unfinished_checksums_are_trusted_on_a_veth_and_damage_is_not() {
    if !is_root() {
        return;
    }
    for mode in MODES {
        let pair = Pair::new(1);
        let mut station = pair.station_in(mode);
        let (ours, peer) = (station.port.mac(), station.peer_mac);
        let is_syn = |frame: &[u8]| {
            frames::parse_ipv4(frame).is_some_and(|(ip, _)| ip.protocol == Protocol::TCP)
        };
        let connect = || {
            pair.peer.run(|| {
                TcpStream::connect_timeout(&(OURS, 80).into(), Duration::from_millis(1)).is_err()
            })
        };
        let add_neighbour = format!("neighbour replace {OURS} lladdr {ours} dev peer0");
        pair.peer.ip(&add_neighbour);

        assert!(
            pair.peer
                .run(|| ethtool::offloads("peer0").unwrap().tx_checksum)
        );
        assert!(connect());
        let syn = station.expect("SYN", is_syn);
        let (ip, segment) = frames::parse_ipv4(&syn.bytes).unwrap();
        let partial = pseudo_header(
            ip.src.into(),
            ip.dst.into(),
            Protocol::TCP,
            segment.len() as u32,
        );
        assert_eq!(
            segment[16..18],
            partial.to_be_bytes(),
            "this is what an unfinished checksum looks like"
        );
        assert!(!checksum_is_right(&syn.bytes));
        assert_eq!(syn.meta.checksum, RxChecksum::Trusted);

        pair.peer
            .run(|| ethtool::set_tx_checksum("peer0", false).unwrap());
        assert!(
            !pair
                .peer
                .run(|| ethtool::offloads("peer0").unwrap().tx_checksum)
        );
        station.arrived.clear();
        assert!(connect());
        let finished = station.expect("finished SYN", |frame| {
            is_syn(frame) && checksum_is_right(frame)
        });
        assert_eq!(finished.meta.checksum, RxChecksum::Unverified);

        let mut damaged = udp_to_us(peer, ours, b"damaged on the way");
        let last = damaged.len() - 1;
        damaged[last] ^= 0x20;
        pair.raw().send(&damaged);
        let arrived = station.expect("damaged datagram", |frame| frame == damaged);
        assert_eq!(arrived.meta.checksum, RxChecksum::Unverified);
    }
}

#[test]
fn the_checksum_policy_is_obeyed() {
    if !is_root() {
        return;
    }
    for mode in MODES {
        for (checksums, expected) in [
            (ChecksumPolicy::Verify, RxChecksum::Unverified),
            (ChecksumPolicy::Trust, RxChecksum::Trusted),
        ] {
            let pair = Pair::new(1);
            let mut station = pair.station_with(&XdpConfig {
                checksums,
                mode,
                ..config()
            });
            peer_socket(&pair, PEER)
                .send_to(b"policy", (OURS, 2000))
                .unwrap();
            station.answer_arp();
            let datagram =
                station.expect("datagram", |frame| carries(frame, Protocol::UDP, b"policy"));
            assert_eq!(datagram.meta.checksum, expected);
        }
    }
}
