//! Frames to send and to recognise.

use std::net::{IpAddr, Ipv4Addr};

use wire::arp::{ArpOperation, ArpPacket};
use wire::ethernet::{EtherType, EthernetHeader, VlanTag};
use wire::frame::MacAddr;
use wire::icmpv4::{Echo, Icmpv4Message};
use wire::icmpv6::Icmpv6Message;
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::ndp::{NdpMessage, NeighborAdvertisement};

use super::{OURS, OURS6, PEER, PEER6};

/// An Ethernet frame.
pub fn ethernet(
    src: MacAddr,
    dst: MacAddr,
    ether_type: EtherType,
    vlan: Option<u16>,
    packet: &[u8],
) -> Vec<u8> {
    let vlan = vlan.map(|id| VlanTag {
        id,
        ..VlanTag::default()
    });
    let header = EthernetHeader {
        dst,
        src,
        ether_type,
        vlan,
    };
    let mut frame = vec![0; header.header_len()];
    header.emit(&mut frame);
    frame.extend_from_slice(packet);
    frame
}

/// An IPv4 packet around `payload`, changed by `change`.
pub fn ipv4(
    (src, dst): (Ipv4Addr, Ipv4Addr),
    protocol: Protocol,
    payload: &[u8],
    change: impl FnOnce(&mut Ipv4Header),
) -> Vec<u8> {
    let mut header = Ipv4Header::new(src, dst, protocol, payload.len());
    change(&mut header);
    let mut packet = vec![0; Ipv4Header::LEN];
    header.emit(&mut packet);
    packet.extend_from_slice(payload);
    packet
}

/// A UDP datagram with a finished checksum.
pub fn udp(src: IpAddr, dst: IpAddr, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; 8];
    wire::udp::UdpHeader::new(ports.0, ports.1, data.len()).emit(&mut datagram);
    datagram.extend_from_slice(data);
    wire::udp::fill_checksum(src, dst, &mut datagram);
    datagram
}

/// A whole frame with a UDP datagram from the peer to us.
pub fn udp_to_us(from: MacAddr, to: MacAddr, data: &[u8]) -> Vec<u8> {
    let datagram = udp(PEER.into(), OURS.into(), (1000, 2000), data);
    ethernet(
        from,
        to,
        EtherType::IPV4,
        None,
        &ipv4((PEER, OURS), Protocol::UDP, &datagram, |_| ()),
    )
}

/// Our question for the peer's hardware address.
pub fn arp_request(ours: MacAddr) -> Vec<u8> {
    arp(
        ArpOperation::Request,
        ours,
        MacAddr::default(),
        MacAddr::BROADCAST,
    )
}

/// Our answer to the peer's question.
pub fn arp_reply(ours: MacAddr, peer: MacAddr) -> Vec<u8> {
    arp(ArpOperation::Reply, ours, peer, peer)
}

fn arp(operation: ArpOperation, ours: MacAddr, target_mac: MacAddr, to: MacAddr) -> Vec<u8> {
    let packet = ArpPacket {
        operation,
        sender_mac: ours,
        sender_ip: OURS,
        target_mac,
        target_ip: PEER,
    };
    let mut bytes = [0; ArpPacket::LEN];
    packet.emit(&mut bytes);
    ethernet(ours, to, EtherType::ARP, None, &bytes)
}

/// Our ping of the peer.
pub fn echo_request(ours: MacAddr, peer: MacAddr, payload: &[u8]) -> Vec<u8> {
    let message = Icmpv4Message::EchoRequest(Echo {
        ident: 7,
        seq: 1,
        payload,
    });
    let mut bytes = vec![0; message.len()];
    message.emit(&mut bytes);
    ethernet(
        ours,
        peer,
        EtherType::IPV4,
        None,
        &ipv4((OURS, PEER), Protocol::ICMP, &bytes, |_| ()),
    )
}

/// Our answer to a neighbour solicitation of the peer.
pub fn neighbour_advertisement(ours: MacAddr, peer: MacAddr) -> Vec<u8> {
    let message = Icmpv6Message::Ndp(NdpMessage::NeighborAdvertisement(NeighborAdvertisement {
        router: false,
        solicited: true,
        override_flag: true,
        target: OURS6,
        target_lladdr: Some(ours),
    }));
    let mut bytes = vec![0; message.len()];
    message.emit(OURS6, PEER6, &mut bytes);
    let mut header = Ipv6Header::new(OURS6, PEER6, Protocol::ICMPV6, bytes.len());
    header.hop_limit = 255;
    let mut packet = vec![0; Ipv6Header::LEN];
    header.emit(&mut packet);
    packet.extend_from_slice(&bytes);
    ethernet(ours, peer, EtherType::IPV6, None, &packet)
}

/// Header and payload, when it is IPv4.
pub fn parse_ipv4(frame: &[u8]) -> Option<(Ipv4Header, &[u8])> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    (ethernet.ether_type == EtherType::IPV4).then(|| Ipv4Header::parse(packet).ok())?
}

/// Header and payload, when it is IPv6.
pub fn parse_ipv6(frame: &[u8]) -> Option<(Ipv6Header, &[u8])> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    (ethernet.ether_type == EtherType::IPV6).then(|| Ipv6Header::parse(packet).ok())?
}

fn parse_arp(frame: &[u8]) -> Option<ArpPacket> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    (ethernet.ether_type == EtherType::ARP)
        .then(|| ArpPacket::parse(packet).ok())?
        .map(|(arp, _)| arp)
}

/// Whether the peer asks for our hardware address.
pub fn is_arp_request(frame: &[u8]) -> bool {
    parse_arp(frame)
        .is_some_and(|arp| arp.operation == ArpOperation::Request && arp.target_ip == OURS)
}

/// Whether the peer tells us its hardware address.
pub fn is_arp_reply(frame: &[u8]) -> bool {
    parse_arp(frame)
        .is_some_and(|arp| arp.operation == ArpOperation::Reply && arp.sender_ip == PEER)
}

/// Whether it is a neighbour solicitation for our address.
pub fn is_solicitation(frame: &[u8]) -> bool {
    let Some((ip, message)) = parse_ipv6(frame) else {
        return false;
    };
    ip.next_header == Protocol::ICMPV6
        && matches!(NdpMessage::parse(message), Ok(NdpMessage::NeighborSolicitation(it)) if it.target == OURS6)
}

/// Whether it is an IPv4 packet of `protocol` whose payload ends in `data`.
pub fn carries(frame: &[u8], protocol: Protocol, data: &[u8]) -> bool {
    parse_ipv4(frame)
        .is_some_and(|(ip, payload)| ip.protocol == protocol && payload.ends_with(data))
}

/// Whether the transport checksum of an IPv4 frame is right.
pub fn checksum_is_right(frame: &[u8]) -> bool {
    parse_ipv4(frame).is_some_and(|(ip, segment)| {
        wire::checksum::verify_transport(ip.src.into(), ip.dst.into(), ip.protocol, segment)
    })
}
