//! What a malicious network sends: segments near what a connection expects, other packets, and
//! noise.

use std::net::{IpAddr, SocketAddr};

use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::MacAddr;
use wire::icmpv4::{Icmpv4Message, UnreachableCode};
use wire::icmpv6::Icmpv6Message;
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::seq::SeqNumber;
use wire::tcp::{SackBlocks, TcpFlags, TcpOptions, Timestamps};

use super::input::Input;
use crate::scenario::mac;
use crate::segment::{Segment, ethernet, ip_frame};

/// Where the frames come from.
pub const PEER_MAC: MacAddr = mac(2);

/// What the network knows of a connection from the frames it saw.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// What the stack acknowledged: what it expects next.
    pub seq: SeqNumber,
    /// Behind what the stack sent.
    pub ack: SeqNumber,
    pub tsval: u32,
}

impl Seen {
    /// What a frame of the stack tells.
    pub fn from_segment(segment: &Segment) -> Self {
        Self {
            local: segment.src,
            remote: segment.dst,
            seq: segment.header.ack,
            ack: segment.end(),
            tsval: segment
                .header
                .options
                .timestamps
                .map_or(0, |stamps| stamps.tsval),
        }
    }

    /// A segment that is nearly right, or not at all. Takes note of what it sends.
    pub fn segment(&mut self, input: &mut Input<'_>) -> Segment {
        let flags = match input.u8() {
            0..=99 => TcpFlags::ACK,
            100..=129 => TcpFlags::ACK | TcpFlags::PSH,
            130..=159 => TcpFlags::ACK | TcpFlags::FIN,
            160..=179 => TcpFlags::SYN | TcpFlags::ACK,
            180..=199 => TcpFlags::SYN,
            200..=215 => TcpFlags::RST,
            216..=223 => TcpFlags::RST | TcpFlags::ACK,
            224.. => TcpFlags::from_bits_truncate(input.u16()),
        };
        let mut segment = Segment::new(self.remote, self.local).flags(flags);
        segment.header.seq = self.seq + input.near();
        segment.header.ack = self.ack + input.near();
        segment.header.window = match input.u8() {
            0..=199 => u16::MAX,
            200..=229 => 0,
            230.. => input.u16(),
        };
        segment.header.options = self.options(input);
        segment.payload = match input.u8() {
            0..=127 => Vec::new(),
            128..=191 => vec![7; usize::from(input.u8())],
            192.. => vec![9; usize::from(input.u16() % 1400)],
        };
        if segment.header.seq == self.seq {
            self.seq = segment.end();
        }
        segment
    }

    fn options(&self, input: &mut Input<'_>) -> TcpOptions {
        let mut options = TcpOptions::default();
        let which = input.u8();
        if which & 1 != 0 {
            let stamps = Timestamps {
                tsval: input.near(),
                tsecr: self.tsval.wrapping_add(input.near()),
            };
            options.timestamps = Some(stamps);
        }
        if which & 0x18 == 0x18 {
            let mut sack = SackBlocks::EMPTY;
            for _ in 0..which >> 6 {
                let left = self.ack + input.near();
                sack.push(left, left + input.near());
            }
            options.sack = sack;
        }
        if which & 0x22 == 0x22 {
            options.mss = Some(input.u16());
            options.window_scale = Some(input.u8());
            options.sack_permitted = true;
        }
        options
    }
}

/// A frame with an IPv4 packet in two fragments, in either order, perhaps with a gap between them
/// or an overlap; any other as it is.
pub fn fragments(frame: &[u8], input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let Some(pieces) = split(frame, input) else {
        return vec![frame.to_vec()];
    };
    let [first, second] = pieces;
    if input.bit() {
        vec![second, first]
    } else {
        vec![first, second]
    }
}

fn split(frame: &[u8], input: &mut Input<'_>) -> Option<[Vec<u8>; 2]> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    let (whole, payload) = Ipv4Header::parse(packet).ok()?;
    let ident = u16::from(input.u8() % 4);
    let piece = |from: usize, to: usize, is_last: bool| {
        let data = payload.get(from..to)?;
        let header = Ipv4Header {
            ident,
            dont_fragment: false,
            more_fragments: !is_last,
            fragment_offset: from as u16,
            ..Ipv4Header::new(whole.src, whole.dst, whole.protocol, data.len())
        };
        let mut bytes = frame.get(..EthernetHeader::LEN)?.to_vec();
        let start = bytes.len();
        bytes.resize(start + Ipv4Header::LEN, 0);
        header.emit(bytes.get_mut(start..)?);
        bytes.extend_from_slice(data);
        Some(bytes)
    };
    (ethernet.ether_type == EtherType::IPV4).then_some(())?;
    let middle = payload.len() / 16 * 8;
    // 0: they fit; 1: they overlap; 2: something is missing.
    let (end, start) = match input.u8() % 8 {
        1 => (middle + 8, middle),
        2 => (middle, middle + 8),
        _ => (middle, middle),
    };
    Some([piece(0, end, false)?, piece(start, payload.len(), true)?])
}

/// An ICMP error about a frame that the stack sent.
pub fn icmp_error(about: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    let Ok((header, packet)) = EthernetHeader::parse(about) else {
        return Vec::new();
    };
    let quoted = packet.get(..usize::from(input.u8()) + 28).unwrap_or(packet);
    let router = (IpAddr::from([10, 0, 0, 9]), IpAddr::from([10, 0, 0, 1]));
    if header.ether_type == EtherType::IPV4 {
        let message = Icmpv4Message::DestinationUnreachable {
            code: UnreachableCode(input.u8() % 16),
            next_hop_mtu: input.u16(),
            quoted,
        };
        let mut body = vec![0; message.len()];
        message.emit(&mut body);
        return ip_frame(PEER_MAC, mac(1), router, Protocol::ICMP, &body);
    }
    let router = (crate::scenario::v6(9), crate::scenario::v6(1));
    let message = Icmpv6Message::PacketTooBig {
        mtu: input.u32() % 10_000,
        quoted,
    };
    let mut body = vec![0; message.len()];
    if let (IpAddr::V6(src), IpAddr::V6(dst)) = router {
        message.emit(src, dst, &mut body);
    }
    ip_frame(PEER_MAC, mac(1), router, Protocol::ICMPV6, &body)
}

/// Anything, with as much of a header as the input asks for.
pub fn noise(input: &mut Input<'_>) -> Vec<u8> {
    let kind = input.u8();
    let len = usize::from(input.u8());
    let bytes = input.take(len);
    let addrs = match kind % 2 {
        0 => (crate::scenario::v4(2), crate::scenario::v4(1)),
        _ => (crate::scenario::v6(2), crate::scenario::v6(1)),
    };
    match kind {
        0..=31 => bytes.to_vec(),
        32..=159 => {
            let protocols = [
                Protocol::TCP,
                Protocol::ICMP,
                Protocol::ICMPV6,
                Protocol::UDP,
                Protocol(input.u8()),
            ];
            let protocol = input.pick(&protocols).unwrap_or(Protocol::TCP);
            ip_frame(PEER_MAC, mac(1), addrs, protocol, bytes)
        }
        160.. => {
            let types = [
                EtherType::ARP,
                EtherType::IPV4,
                EtherType::IPV6,
                EtherType::VLAN,
            ];
            let to = if kind.is_multiple_of(3) {
                MacAddr::BROADCAST
            } else {
                mac(1)
            };
            let mut frame = ethernet(PEER_MAC, to, input.pick(&types).unwrap_or(EtherType::ARP));
            frame.extend_from_slice(bytes);
            frame
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a gap or an overlap the two pieces are the packet.
    #[test]
    fn the_pieces_of_a_packet_are_fragments_of_it() {
        let [from, to] = ["10.0.0.2:5", "10.0.0.1:80"].map(|text| text.parse().unwrap());
        let whole = Segment::new(from, to)
            .data(&[7; 100])
            .to_frame(PEER_MAC, mac(1));
        let pieces = fragments(&whole, &mut Input::new(&[]));
        let mut payload = Vec::new();
        for piece in &pieces {
            let (_, packet) = EthernetHeader::parse(piece).unwrap();
            let (header, data) = Ipv4Header::parse(packet).unwrap();
            assert!(header.is_fragment());
            assert_eq!(usize::from(header.fragment_offset), payload.len());
            payload.extend_from_slice(data);
        }
        assert_eq!(pieces.len(), 2);
        assert_eq!(payload, whole[EthernetHeader::LEN + Ipv4Header::LEN..]);
        assert_eq!(fragments(&[1, 2], &mut Input::new(&[])), [[1, 2]]);
    }
}
