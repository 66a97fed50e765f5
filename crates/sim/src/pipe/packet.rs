//! What a router does to a packet besides carrying it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::checksum;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::icmpv4::{Icmpv4Message, UnreachableCode};
use wire::icmpv6::Icmpv6Message;
use wire::ip::{Ecn, Protocol};
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;

use crate::segment::ip_frame;

/// Who says that a packet is too big: addresses set aside for documentation (RFC 5737, RFC 3849).
const ROUTER_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// All that an error message may hold: RFC 1812 §4.3.2.3, RFC 4443 §2.4 (c).
const MOST_V4: usize = 576;
const MOST_V6: usize = 1280;

/// RFC 3168 §5: tells an ECN-capable packet of congestion; false if it is not one.
pub(super) fn mark_congestion(frame: &mut [u8]) -> bool {
    let capable = ecn(frame).is_some_and(|ecn| ecn != Ecn::NotEct);
    capable && set_ecn(frame, Ecn::Ce)
}

/// The ECN field of an IP packet.
fn ecn(frame: &[u8]) -> Option<Ecn> {
    let second = frame.get(EthernetHeader::LEN + 1)?;
    Some(Ecn::from_tos(second >> ecn_shift(frame)?))
}

/// The ECN field is the end of the second byte of IPv4; of IPv6, four bits further to the left
/// (RFC 8200 §3). `None`: this is neither.
fn ecn_shift(frame: &[u8]) -> Option<u32> {
    let (header, _) = EthernetHeader::parse(frame).ok()?;
    match header.ether_type {
        EtherType::IPV4 => Some(0),
        EtherType::IPV6 => Some(4),
        _ => None,
    }
}

/// Changes the ECN field of an IP packet, and the header checksum with it; false if this is not
/// one.
pub(crate) fn set_ecn(frame: &mut [u8], ecn: Ecn) -> bool {
    let Some(shift) = ecn_shift(frame) else {
        return false;
    };
    let packet = frame.get_mut(EthernetHeader::LEN..).unwrap_or_default();
    let [first, second, ..] = *packet else {
        return false;
    };
    let changed = second & !(3 << shift) | ecn.bits() << shift;
    if let Some(byte) = packet.get_mut(1) {
        *byte = changed;
    }
    if shift == 0
        && let Some(field) = packet
            .get_mut(10..)
            .and_then(|rest| rest.first_chunk_mut::<2>())
    {
        let [old, new] = [second, changed].map(|byte| u16::from_be_bytes([first, byte]));
        *field = checksum::update(u16::from_be_bytes(*field), old, new).to_be_bytes();
    }
    true
}

/// The frame that tells the sender of `frame` that its packet exceeds `mtu`; `None` if nobody must
/// be told: a router fragments IPv4 packets without DF, and errors are no reason for errors
/// (RFC 1122 §3.2.2).
pub(super) fn too_big(frame: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    let (addrs, protocol, body) = match ethernet.ether_type {
        EtherType::IPV4 => too_big_v4(packet, mtu)?,
        EtherType::IPV6 => too_big_v6(packet, mtu)?,
        _ => return None,
    };
    Some(ip_frame(ethernet.dst, ethernet.src, addrs, protocol, &body))
}

/// Addresses, protocol and payload of an answer.
type Answer = ((IpAddr, IpAddr), Protocol, Vec<u8>);

/// RFC 1191 §4.
fn too_big_v4(packet: &[u8], mtu: u16) -> Option<Answer> {
    let (ip, _) = Ipv4Header::parse(packet).ok()?;
    if !ip.dont_fragment || ip.protocol == Protocol::ICMP {
        return None;
    }
    let most = MOST_V4 - Ipv4Header::LEN - 8;
    let message = Icmpv4Message::DestinationUnreachable {
        code: UnreachableCode::FRAGMENTATION_NEEDED,
        next_hop_mtu: mtu,
        quoted: packet.get(..most).unwrap_or(packet),
    };
    let mut body = vec![0; message.len()];
    message.emit(&mut body);
    Some((
        (IpAddr::V4(ROUTER_V4), IpAddr::V4(ip.src)),
        Protocol::ICMP,
        body,
    ))
}

/// RFC 4443 §3.2.
fn too_big_v6(packet: &[u8], mtu: u16) -> Option<Answer> {
    let (ip, _) = Ipv6Header::parse(packet).ok()?;
    if ip.next_header == Protocol::ICMPV6 {
        return None;
    }
    let most = MOST_V6 - Ipv6Header::LEN - 8;
    let message = Icmpv6Message::PacketTooBig {
        mtu: mtu.into(),
        quoted: packet.get(..most).unwrap_or(packet),
    };
    let mut body = vec![0; message.len()];
    message.emit(ROUTER_V6, ip.src, &mut body);
    Some((
        (IpAddr::V6(ROUTER_V6), IpAddr::V6(ip.src)),
        Protocol::ICMPV6,
        body,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::frame::MacAddr;

    const SENDER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn frame(is_v4: bool, len: usize) -> Vec<u8> {
        let addrs: [IpAddr; 2] = match is_v4 {
            true => ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap()),
            false => ["fd00::1", "fd00::2"].map(|text| text.parse().unwrap()),
        };
        let payload = vec![7; len];
        ip_frame(
            SENDER,
            ROUTER,
            (addrs[0], addrs[1]),
            Protocol::TCP,
            &payload,
        )
    }

    fn parsed_ecn(frame: &[u8]) -> Ecn {
        let (header, packet) = EthernetHeader::parse(frame).unwrap();
        match header.ether_type {
            EtherType::IPV4 => Ipv4Header::parse(packet).unwrap().0.ecn(),
            _ => Ipv6Header::parse(packet).unwrap().0.ecn(),
        }
    }

    fn with_ecn(is_v4: bool, ecn: Ecn) -> Vec<u8> {
        let mut frame = frame(is_v4, 100);
        let packet = &mut frame[EthernetHeader::LEN..];
        if is_v4 {
            let mut header = Ipv4Header::parse(packet).unwrap().0;
            header.tos |= ecn.bits();
            header.emit(packet);
        } else {
            let mut header = Ipv6Header::parse(packet).unwrap().0;
            header.traffic_class |= ecn.bits();
            header.emit(packet);
        }
        frame
    }

    /// RFC 3168 §5: ECT(0) and ECT(1) become CE, CE stays, and packets that are not capable are
    /// left alone.
    #[test]
    fn only_capable_packets_are_marked() {
        for is_v4 in [true, false] {
            for (before, after) in [
                (Ecn::NotEct, Ecn::NotEct),
                (Ecn::Ect0, Ecn::Ce),
                (Ecn::Ect1, Ecn::Ce),
                (Ecn::Ce, Ecn::Ce),
            ] {
                let mut frame = with_ecn(is_v4, before);
                let length = frame.len();
                assert_eq!(mark_congestion(&mut frame), before != Ecn::NotEct);
                // The header checksum is right, or this would not parse.
                assert_eq!((parsed_ecn(&frame), frame.len()), (after, length));
            }
        }
        assert!(!mark_congestion(&mut [0; 14]) && !mark_congestion(&mut []));
    }

    #[test]
    fn the_sender_is_told_of_the_mtu() {
        let answer = too_big(&frame(true, 3000), 1400).unwrap();
        let (ethernet, packet) = EthernetHeader::parse(&answer).unwrap();
        assert_eq!((ethernet.src, ethernet.dst), (ROUTER, SENDER));
        let (ip, payload) = Ipv4Header::parse(packet).unwrap();
        assert_eq!(
            (ip.dst.octets(), packet.len() <= MOST_V4),
            ([10, 0, 0, 1], true)
        );
        let message = Icmpv4Message::parse(payload).unwrap();
        assert!(matches!(
            message,
            Icmpv4Message::DestinationUnreachable {
                code: UnreachableCode::FRAGMENTATION_NEEDED,
                next_hop_mtu: 1400,
                ..
            }
        ));

        let answer = too_big(&frame(false, 3000), 1300).unwrap();
        let (_, packet) = EthernetHeader::parse(&answer).unwrap();
        let (ip, payload) = Ipv6Header::parse(packet).unwrap();
        assert!(packet.len() <= MOST_V6);
        let message = Icmpv6Message::parse(ip.src, ip.dst, payload).unwrap();
        assert!(matches!(
            message,
            Icmpv6Message::PacketTooBig { mtu: 1300, .. }
        ));
    }

    #[test]
    fn nobody_is_told_of_packets_that_may_be_fragmented_nor_of_errors() {
        let mut fragmentable = frame(true, 3000);
        let packet = &mut fragmentable[EthernetHeader::LEN..];
        let mut header = Ipv4Header::parse(packet).unwrap().0;
        header.dont_fragment = false;
        header.emit(packet);
        let error = too_big(&frame(true, 3000), 1400).unwrap();
        let error_v6 = too_big(&frame(false, 3000), 1400).unwrap();
        for frame in [&fragmentable[..], &error, &error_v6, &[0; 20]] {
            assert_eq!(too_big(frame, 500), None);
        }
    }
}
