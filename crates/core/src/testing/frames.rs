//! Whole frames around TCP segments.

use std::net::{IpAddr, SocketAddr};

use wire::checksum::verify_transport;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::MacAddr;
use wire::ip::{Ecn, Protocol};
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::tcp::{TcpHeader, fill_checksum};

/// A frame with one TCP segment; `header` has the ports filled in.
pub fn compose(
    src_mac: MacAddr,
    dst_mac: MacAddr,
    src: IpAddr,
    dst: IpAddr,
    header: &TcpHeader,
    payload: &[u8],
) -> Vec<u8> {
    let mut segment = vec![0; TcpHeader::MAX_LEN];
    let len = header.emit(&mut segment);
    segment.truncate(len);
    segment.extend_from_slice(payload);
    fill_checksum(src, dst, &mut segment);
    let mut frame = vec![0; 14 + 40];
    let ethernet = EthernetHeader {
        dst: dst_mac,
        src: src_mac,
        ether_type: if src.is_ipv4() {
            EtherType::IPV4
        } else {
            EtherType::IPV6
        },
        vlan: None,
    };
    let start = ethernet.emit(&mut frame);
    let ip = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            Ipv4Header::new(src, dst, Protocol::TCP, segment.len()).emit(&mut frame[start..])
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            Ipv6Header::new(src, dst, Protocol::TCP, segment.len()).emit(&mut frame[start..])
        }
        _ => panic!("two address families"),
    };
    frame.truncate(start + ip);
    frame.extend_from_slice(&segment);
    frame
}

/// The ECN field of a frame with an IP packet.
pub fn codepoint(frame: &[u8]) -> Ecn {
    match frame[14] >> 4 {
        4 => Ecn::from_tos(frame[15]),
        _ => Ecn::from_tos(frame[15] >> 4),
    }
}

/// Changes it, as a router does.
pub fn mark(frame: &mut [u8], ecn: Ecn) {
    if frame[14] >> 4 != 4 {
        frame[15] = frame[15] & 0xcf | ecn.bits() << 4;
        return;
    }
    frame[15] = frame[15] & 0xfc | ecn.bits();
    frame[24..26].fill(0);
    let sum = wire::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// A TCP segment in a frame: source, destination, header, payload; `None` for everything else.
/// Panics if a checksum is wrong. RFC 9293 MUST-2.
pub fn dissect(frame: &[u8]) -> Option<(SocketAddr, SocketAddr, TcpHeader, Vec<u8>)> {
    let (ethernet, packet) = EthernetHeader::parse(frame).expect("Ethernet header");
    let (src, dst, protocol, segment): (IpAddr, IpAddr, _, _) = match ethernet.ether_type {
        EtherType::IPV4 => {
            let (ip, rest) = Ipv4Header::parse(packet).expect("IPv4 header");
            assert!(ip.dont_fragment || ip.protocol != Protocol::TCP, "no DF");
            (ip.src.into(), ip.dst.into(), ip.protocol, rest)
        }
        EtherType::IPV6 => {
            let (ip, rest) = Ipv6Header::parse(packet).expect("IPv6 header");
            (ip.src.into(), ip.dst.into(), ip.next_header, rest)
        }
        _ => return None,
    };
    if protocol != Protocol::TCP {
        return None;
    }
    assert!(
        verify_transport(src, dst, Protocol::TCP, segment),
        "wrong TCP checksum"
    );
    let (header, payload) = TcpHeader::parse(segment).expect("TCP header");
    let (src, dst) = (
        SocketAddr::new(src, header.src_port),
        SocketAddr::new(dst, header.dst_port),
    );
    Some((src, dst, header, payload.to_vec()))
}
