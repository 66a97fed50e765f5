//! Telling an unfinished transport checksum from a finished one.
//!
//! A kernel whose interface offloads checksums puts only the sum of the pseudo-header into a
//! segment and leaves the rest to the device. On a veth there is no device: the segment arrives at
//! the other end as it is, and AF_XDP does not carry the mark that says so. The field itself tells:
//! it holds the folded sum of the pseudo-header.

use std::net::IpAddr;

use wire::checksum::pseudo_header;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;

/// Whether `frame` is a TCP, UDP or ICMPv6 packet, not fragmented, whose checksum field holds the
/// sum of its pseudo-header.
///
/// Damage on a wire makes one in 65536 segments look like this; on a veth there is no wire.
pub(super) fn is_unfinished(frame: &[u8]) -> bool {
    let Ok((ethernet, packet)) = EthernetHeader::parse(frame) else {
        return false;
    };
    match ethernet.ether_type {
        EtherType::IPV4 => match Ipv4Header::parse(packet) {
            Ok((ip, segment)) => {
                !ip.is_fragment()
                    && holds_partial_sum(ip.src.into(), ip.dst.into(), ip.protocol, segment)
            }
            Err(_) => false,
        },
        EtherType::IPV6 => match Ipv6Header::parse(packet) {
            Ok((ip, segment)) => {
                holds_partial_sum(ip.src.into(), ip.dst.into(), ip.next_header, segment)
            }
            Err(_) => false,
        },
        _ => false,
    }
}

fn holds_partial_sum(src: IpAddr, dst: IpAddr, protocol: Protocol, segment: &[u8]) -> bool {
    let field = match protocol {
        Protocol::TCP => segment.get(16..18),
        Protocol::UDP => segment.get(6..8),
        Protocol::ICMPV6 => segment.get(2..4),
        _ => None,
    };
    let (Some(&[high, low]), Ok(len)) = (field, u32::try_from(segment.len())) else {
        return false;
    };
    u16::from_be_bytes([high, low]) == pseudo_header(src, dst, protocol, len)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use wire::checksum::transport_checksum;
    use wire::ethernet::VlanTag;
    use wire::frame::MacAddr;

    use super::*;

    const V4: (IpAddr, IpAddr) = (
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
    );
    const V6: (IpAddr, IpAddr) = (
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2)),
    );
    /// Protocols with the position of their checksum field.
    const KINDS: [(Protocol, usize); 3] = [
        (Protocol::TCP, 16),
        (Protocol::UDP, 6),
        (Protocol::ICMPV6, 2),
    ];

    fn frame(
        (src, dst): (IpAddr, IpAddr),
        protocol: Protocol,
        vlan: bool,
        segment: &[u8],
    ) -> Vec<u8> {
        let mut frame = vec![0; 18 + 40 + segment.len()];
        let ether_type = if src.is_ipv4() {
            EtherType::IPV4
        } else {
            EtherType::IPV6
        };
        let vlan = vlan.then(VlanTag::default);
        let ethernet = EthernetHeader {
            dst: MacAddr([2; 6]),
            src: MacAddr([4; 6]),
            ether_type,
            vlan,
        };
        let mut at = ethernet.emit(&mut frame);
        at += match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                Ipv4Header::new(src, dst, protocol, segment.len()).emit(&mut frame[at..])
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                Ipv6Header::new(src, dst, protocol, segment.len()).emit(&mut frame[at..])
            }
            _ => unreachable!(),
        };
        frame[at..at + segment.len()].copy_from_slice(segment);
        // Link-layer padding does not belong to the segment.
        frame.truncate(at + segment.len() + 4);
        frame
    }

    fn segment(len: usize) -> Vec<u8> {
        (0..len).map(|byte| byte as u8).collect()
    }

    #[test]
    fn an_unfinished_checksum_is_seen() {
        for addresses in [V4, V6] {
            for (protocol, field) in KINDS {
                for vlan in [false, true] {
                    let mut segment = segment(101);
                    let sum = pseudo_header(addresses.0, addresses.1, protocol, 101);
                    segment[field..field + 2].copy_from_slice(&sum.to_be_bytes());
                    assert!(is_unfinished(&frame(addresses, protocol, vlan, &segment)));
                }
            }
        }
    }

    #[test]
    fn a_finished_checksum_is_left_to_the_stack_right_or_wrong() {
        for addresses in [V4, V6] {
            for (protocol, field) in KINDS {
                let mut segment = segment(101);
                segment[field..field + 2].fill(0);
                let checksum = transport_checksum(addresses.0, addresses.1, protocol, &segment);
                segment[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
                assert!(!is_unfinished(&frame(addresses, protocol, false, &segment)));
                segment[60] ^= 0x10;
                assert!(!is_unfinished(&frame(addresses, protocol, false, &segment)));
            }
        }
    }

    #[test]
    fn a_fragment_is_never_trusted() {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = V4 else {
            unreachable!()
        };
        let mut segment = segment(104);
        let sum = pseudo_header(V4.0, V4.1, Protocol::TCP, 104);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        let mut frame = frame(V4, Protocol::TCP, false, &segment);
        assert!(is_unfinished(&frame));
        let mut ip = Ipv4Header::new(src, dst, Protocol::TCP, 104);
        ip.more_fragments = true;
        ip.dont_fragment = false;
        ip.emit(&mut frame[14..]);
        assert!(!is_unfinished(&frame));
    }

    #[test]
    fn short_and_foreign_frames_are_not_trusted() {
        let whole = frame(V4, Protocol::TCP, false, &segment(20));
        for len in 0..whole.len() {
            assert!(!is_unfinished(&whole[..len]));
        }
        assert!(!is_unfinished(&frame(
            V4,
            Protocol::ICMP,
            false,
            &segment(20)
        )));
        assert!(!is_unfinished(&frame(
            V6,
            Protocol::HOP_BY_HOP,
            false,
            &segment(20)
        )));
    }
}
