//! Transport checksums that a link left unfinished, finished after all: for what leaves memory
//! (captures) or is to be damaged.

use std::net::IpAddr;
use std::ops::Range;

use wire::checksum::{sum, transport_checksum};
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::TxChecksum;
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::ipv6::{Ipv6Header, upper_layer};
use wire::{tcp, udp};

/// Where the checksum is in an ICMPv6 message (RFC 4443 §2.1), in bytes.
const ICMPV6_CHECKSUM: Range<usize> = 2..4;

/// Does what [`TxChecksum`] leaves to the link. A start or offset beyond the frame changes nothing.
pub(crate) fn finish(frame: &mut [u8], checksum: TxChecksum) {
    let TxChecksum::Partial { start, offset } = checksum else {
        return;
    };
    let Some(segment) = frame.get_mut(usize::from(start)..) else {
        return;
    };
    // The field holds the pseudo-header's sum, so it is part of the sum. Zero would mean "none" in
    // UDP (RFC 768); all ones is the same number.
    let value = match !sum(segment) {
        0 => 0xffff,
        other => other,
    };
    if let Some(field) = segment
        .get_mut(usize::from(offset)..)
        .and_then(<[u8]>::first_chunk_mut)
    {
        *field = value.to_be_bytes();
    }
}

/// Writes the checksum of the TCP, UDP or ICMPv6 segment in a frame whose checksum the link trusts
/// without it being there. Frames of other kinds, fragments and damaged headers stay as they are,
/// and so do UDP datagrams without a checksum.
pub(crate) fn complete(frame: &mut [u8]) {
    let Some(segment) = find(frame) else {
        return;
    };
    let Segment {
        src,
        dst,
        protocol,
        range,
    } = segment;
    let Some(bytes) = frame.get_mut(range) else {
        return;
    };
    match protocol {
        Protocol::TCP => tcp::fill_checksum(src, dst, bytes),
        Protocol::UDP => complete_udp(src, dst, bytes),
        Protocol::ICMPV6 => complete_icmpv6(src, dst, bytes),
        _ => {}
    }
}

fn complete_udp(src: IpAddr, dst: IpAddr, bytes: &mut [u8]) {
    let Ok((header, _)) = udp::UdpHeader::parse(bytes) else {
        return;
    };
    let none = header.checksum == 0 && src.is_ipv4();
    if let Some(covered) = bytes.get_mut(..usize::from(header.len))
        && !none
    {
        udp::fill_checksum(src, dst, covered);
    }
}

fn complete_icmpv6(src: IpAddr, dst: IpAddr, bytes: &mut [u8]) {
    let Some(field) = bytes.get_mut(ICMPV6_CHECKSUM) else {
        return;
    };
    field.fill(0);
    let value = transport_checksum(src, dst, Protocol::ICMPV6, bytes);
    if let Some(field) = bytes.get_mut(ICMPV6_CHECKSUM) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// A transport segment in a frame.
struct Segment {
    src: IpAddr,
    dst: IpAddr,
    protocol: Protocol,
    range: Range<usize>,
}

fn find(frame: &[u8]) -> Option<Segment> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    let start = ethernet.header_len();
    match ethernet.ether_type {
        EtherType::IPV4 => {
            let (ip, payload) = Ipv4Header::parse(packet).ok()?;
            let start = start + usize::from(ip.header_len);
            (!ip.is_fragment()).then(|| Segment {
                src: ip.src.into(),
                dst: ip.dst.into(),
                protocol: ip.protocol,
                range: start..start + payload.len(),
            })
        }
        EtherType::IPV6 => {
            let (ip, payload) = Ipv6Header::parse(packet).ok()?;
            let upper = upper_layer(ip.next_header, payload).ok()?;
            let start = start + Ipv6Header::LEN;
            upper.fragment.is_none().then(|| Segment {
                src: ip.src.into(),
                dst: ip.dst.into(),
                protocol: upper.protocol,
                range: start + upper.offset..start + payload.len(),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use wire::checksum::{pseudo_header, verify_transport};
    use wire::frame::MacAddr;

    use super::*;

    const V4: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    const V6: (Ipv6Addr, Ipv6Addr) = (
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
    );

    /// An Ethernet frame with padding behind the packet.
    fn frame(ether_type: EtherType, ip: &[u8], segment: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; EthernetHeader::LEN];
        let header = EthernetHeader {
            dst: MacAddr([2; 6]),
            src: MacAddr([4; 6]),
            ether_type,
            vlan: None,
        };
        header.emit(&mut frame);
        frame.extend_from_slice(ip);
        frame.extend_from_slice(segment);
        frame.extend_from_slice(&[0xee; 6]);
        frame
    }

    fn v4(protocol: Protocol, segment: &[u8]) -> Vec<u8> {
        let mut ip = [0; Ipv4Header::LEN];
        Ipv4Header::new(V4.0, V4.1, protocol, segment.len()).emit(&mut ip);
        frame(EtherType::IPV4, &ip, segment)
    }

    fn v6(protocol: Protocol, segment: &[u8]) -> Vec<u8> {
        let mut ip = [0; Ipv6Header::LEN];
        Ipv6Header::new(V6.0, V6.1, protocol, segment.len()).emit(&mut ip);
        frame(EtherType::IPV6, &ip, segment)
    }

    /// A TCP segment of 23 bytes with rubbish where the checksum belongs.
    fn tcp_segment() -> Vec<u8> {
        let mut segment = vec![0u8; 23];
        segment[12] = 5 << 4;
        segment[16] = 0xab;
        segment[20..].copy_from_slice(b"odd");
        segment
    }

    #[test]
    fn tcp_gets_its_checksum_over_both_families() {
        let segment = tcp_segment();
        let mut frame = v4(Protocol::TCP, &segment);
        complete(&mut frame);
        let (src, dst) = (V4.0.into(), V4.1.into());
        assert!(verify_transport(src, dst, Protocol::TCP, &frame[34..57]));
        assert_eq!(frame[57..], [0xee; 6]);

        let mut frame = v6(Protocol::TCP, &segment);
        complete(&mut frame);
        let (src, dst) = (V6.0.into(), V6.1.into());
        assert!(verify_transport(src, dst, Protocol::TCP, &frame[54..77]));
    }

    #[test]
    fn udp_without_a_checksum_keeps_none() {
        let mut datagram = [0u8; 9];
        datagram[5] = 9;
        let mut frame = v4(Protocol::UDP, &datagram);
        let before = frame.clone();
        complete(&mut frame);
        assert_eq!(frame, before);
        datagram[7] = 1;
        let mut frame = v4(Protocol::UDP, &datagram);
        complete(&mut frame);
        assert!(udp::verify_checksum(V4.0.into(), V4.1.into(), &frame[34..43]).is_ok());
    }

    #[test]
    fn icmpv6_gets_its_checksum() {
        let mut frame = v6(Protocol::ICMPV6, &[128, 0, 0x55, 0x55, 1, 2, 3, 4]);
        complete(&mut frame);
        let (src, dst) = (V6.0.into(), V6.1.into());
        assert!(verify_transport(src, dst, Protocol::ICMPV6, &frame[54..62]));
    }

    #[test]
    fn a_partial_checksum_is_finished() {
        let mut segment = tcp_segment();
        let (src, dst) = (V4.0.into(), V4.1.into());
        let pseudo = pseudo_header(src, dst, Protocol::TCP, segment.len() as u32);
        segment[16..18].copy_from_slice(&pseudo.to_be_bytes());
        let mut frame = v4(Protocol::TCP, &segment);
        frame.truncate(57);
        let partial = TxChecksum::Partial {
            start: 34,
            offset: 16,
        };
        finish(&mut frame, partial);
        assert!(verify_transport(src, dst, Protocol::TCP, &frame[34..]));
    }

    #[test]
    fn what_is_no_segment_stays() {
        let mut arp = frame(EtherType::ARP, &[], &[1; 28]);
        let before = arp.clone();
        complete(&mut arp);
        finish(
            &mut arp,
            TxChecksum::Partial {
                start: 9999,
                offset: 16,
            },
        );
        assert_eq!(arp, before);
        complete(&mut []);
        complete(&mut [0; 13]);
    }
}
