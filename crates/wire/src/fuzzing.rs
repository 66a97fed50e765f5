//! What the fuzz targets run. Also run by the tests, on random bytes. Each function must accept any
//! bytes; what a parser accepts must survive being written and read again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::arp::ArpPacket;
use crate::display::{FrameDisplay, PacketDisplay};
use crate::ethernet::EthernetHeader;
use crate::icmpv4::Icmpv4Message;
use crate::icmpv6::Icmpv6Message;
use crate::ip::Protocol;
use crate::ipv4::Ipv4Header;
use crate::ipv6::{self, Ipv6Header};
use crate::ndp::NdpMessage;
use crate::tcp::{self, EcnBytes, TcpHeader};
use crate::udp::{self, UdpHeader};
use crate::{checksum, quoted};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: Ipv6Addr = Ipv6Addr::LOCALHOST;

/// Room for anything that an emitter writes here.
const ROOM: usize = 2048;

/// Runs one fuzz target by name; false if there is none of that name.
pub fn run(target: &str, bytes: &[u8]) -> bool {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    if let Some((_, run)) = found {
        run(bytes);
    }
    found.is_some()
}

/// A fuzz target: a function that must return, whatever the bytes.
pub type Target = fn(&[u8]);

/// All fuzz targets.
pub const TARGETS: [(&str, Target); 10] = [
    ("ethernet", ethernet),
    ("arp", arp),
    ("ipv4", ipv4),
    ("ipv6", ipv6),
    ("icmpv4", icmpv4),
    ("icmpv6", icmpv6),
    ("ndp", ndp),
    ("udp", udp),
    ("tcp", tcp),
    ("display", display),
];

/// Ethernet headers.
pub fn ethernet(bytes: &[u8]) {
    if let Ok((header, payload)) = EthernetHeader::parse(bytes) {
        let mut out = [0; ROOM];
        let len = header.emit(&mut out);
        assert_eq!(len + payload.len(), bytes.len());
        assert_eq!(bytes.get(..len), out.get(..len));
    }
}

/// ARP packets.
pub fn arp(bytes: &[u8]) {
    if let Ok((packet, _)) = ArpPacket::parse(bytes) {
        let mut out = [0; ROOM];
        let len = packet.emit(&mut out);
        assert_eq!(bytes.get(..len), out.get(..len));
    }
}

/// IPv4 headers. Since almost no random header has the right checksum, one with its checksum
/// repaired is read as well.
pub fn ipv4(bytes: &[u8]) {
    ipv4_once(bytes);
    let mut repaired = bytes.to_vec();
    let header_len = repaired
        .first()
        .map_or(0, |first| usize::from(first & 0x0f) * 4);
    if let Some(header) = repaired
        .get_mut(..header_len)
        .filter(|header| header.len() >= 20)
    {
        header[10..12].fill(0);
        let sum = checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        ipv4_once(&repaired);
    }
}

fn ipv4_once(bytes: &[u8]) {
    let _ = quoted::parse_v4(bytes);
    let Ok((header, payload)) = Ipv4Header::parse(bytes) else {
        return;
    };
    assert_eq!(header.payload_len(), payload.len());
    let mut out = vec![0; 20];
    let without_options = Ipv4Header {
        total_len: (20 + payload.len()) as u16,
        header_len: 20,
        source_route: false,
        ..header
    };
    assert_eq!(without_options.emit(&mut out), 20);
    out.extend_from_slice(payload);
    let again = Ipv4Header::parse(&out);
    assert_eq!(again, Ok((without_options, payload)));
}

/// IPv6 headers and extension headers.
pub fn ipv6(bytes: &[u8]) {
    let _ = quoted::parse_v6(bytes);
    if let Some((first, rest)) = bytes.split_first() {
        walk(Protocol(*first), rest);
    }
    if let Ok((header, payload)) = Ipv6Header::parse(bytes) {
        let mut out = [0; ROOM];
        let len = header.emit(&mut out);
        assert_eq!(bytes.get(..len), out.get(..len));
        walk(header.next_header, payload);
    }
}

fn walk(first: Protocol, payload: &[u8]) {
    for upper in [
        ipv6::upper_layer(first, payload),
        ipv6::upper_layer_reassembled(first, payload),
    ]
    .into_iter()
    .flatten()
    {
        assert!(upper.offset <= payload.len());
        assert!(upper.pointer < 40 + payload.len().max(1) as u32);
        assert!(upper.fragment.is_none_or(|fragment| !fragment.is_atomic()));
    }
}

/// ICMPv4 messages.
pub fn icmpv4(bytes: &[u8]) {
    let _ = Icmpv4Message::parse(bytes);
    if let Ok(message) = Icmpv4Message::parse_unverified(bytes) {
        let mut out = vec![0; message.len()];
        assert_eq!(message.emit(&mut out), bytes.len());
        assert_eq!(Icmpv4Message::parse(&out), Ok(message));
    }
}

/// ICMPv6 messages.
pub fn icmpv6(bytes: &[u8]) {
    let _ = Icmpv6Message::parse(V6, V6, bytes);
    if let Ok(message) = Icmpv6Message::parse_unverified(bytes) {
        let mut out = vec![0; message.len()];
        assert_eq!(message.emit(V6, V6, &mut out), out.len());
        assert_eq!(Icmpv6Message::parse(V6, V6, &out), Ok(message));
    }
}

/// Neighbour discovery messages.
pub fn ndp(bytes: &[u8]) {
    if let Ok(message) = NdpMessage::parse(bytes) {
        let mut out = vec![0; message.len()];
        assert_eq!(message.emit_body(&mut out), out.len());
        assert_eq!(NdpMessage::parse(&out), Ok(message));
    }
}

/// UDP headers.
pub fn udp(bytes: &[u8]) {
    let _ = udp::verify_checksum(V6.into(), V6.into(), bytes);
    if let Ok((header, payload)) = UdpHeader::parse(bytes) {
        let mut out = vec![0; 8];
        assert_eq!(header.emit(&mut out), 8);
        out.extend_from_slice(payload);
        assert_eq!(bytes.get(..out.len()), out.get(..));
        udp::fill_checksum(V4, V4, &mut out);
        assert_eq!(udp::verify_checksum(V4, V4, &out), Ok(()));
    }
}

/// TCP headers and options.
pub fn tcp(bytes: &[u8]) {
    let Ok((header, payload)) = TcpHeader::parse(bytes) else {
        return;
    };
    let mut out = vec![0; header.header_len()];
    assert!(out.len() <= TcpHeader::MAX_LEN);
    assert_eq!(header.emit(&mut out), out.len());
    out.extend_from_slice(payload);
    tcp::fill_checksum(V4, V4, &mut out);
    assert!(checksum::verify_transport(V4, V4, Protocol::TCP, &out));
    let mut expected = header;
    expected.options.malformed = false;
    let again = TcpHeader::parse(&out);
    if let Ok((read, _)) = &again {
        // SACK blocks that did not fit beside the padded options are not there, and counters that
        // did not fit beside those.
        expected.options.sack.truncate(read.options.sack.len());
        expected.options.ecn_bytes = left_of(header.options.ecn_bytes, read.options.ecn_bytes);
        let is_whole = expected.options.ecn_bytes == header.options.ecn_bytes;
        assert!(is_whole || header.header_len() + 4 > TcpHeader::MAX_LEN);
    }
    assert_eq!(again, Ok((expected, payload)));
}

/// `read`, if that is all or the first of the counters that there `were`.
fn left_of(were: Option<EcnBytes>, read: Option<EcnBytes>) -> Option<EcnBytes> {
    let mut shorter = (0..=3).map(|len| were.map(|counters| counters.truncated(len)));
    shorter.find(|&counters| counters == read).flatten()
}

/// Printing frames and packets.
pub fn display(bytes: &[u8]) {
    let frame = FrameDisplay(bytes).to_string();
    let packet = PacketDisplay(bytes).to_string();
    assert!(!frame.is_empty() && !packet.is_empty());
    assert!(!frame.contains('\n') && !packet.contains('\n'));
}

#[cfg(test)]
mod tests;
