//! Frames in words, as tcpdump prints them with `-n -S`: for logs, dumps and failing tests.
//!
//! What is truncated or malformed is printed as far as it is known; `[|tcp]` says that a header is
//! cut short.

mod icmp;
mod tcp;
mod transport;

use std::fmt;

use crate::arp::{ArpOperation, ArpPacket};
use crate::checksum;
use crate::ethernet::{EtherType, EthernetHeader};
use crate::ip::Protocol;
use crate::ipv4::Ipv4Header;
use crate::ipv6::{self, FragmentHeader, Ipv6Header};
use crate::udp::UdpHeader;

use transport::{Transport, addresses, endpoints};

/// Prints the Ethernet frame that it holds, on one line.
#[derive(Clone, Copy, Debug)]
pub struct FrameDisplay<'a>(pub &'a [u8]);

/// Prints the IP packet that it holds, on one line.
#[derive(Clone, Copy, Debug)]
pub struct PacketDisplay<'a>(pub &'a [u8]);

impl fmt::Display for FrameDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok((header, payload)) = EthernetHeader::parse(self.0) else {
            return malformed_frame(f, self.0);
        };
        if let Some(vlan) = header.vlan {
            write!(f, "vlan {}, p {}, ", vlan.id, vlan.pcp)?;
        }
        match header.ether_type {
            EtherType::ARP => arp(f, payload),
            EtherType::IPV4 => ipv4(f, payload),
            EtherType::IPV6 => ipv6(f, payload),
            other => {
                let EthernetHeader { src, dst, .. } = header;
                write!(
                    f,
                    "{src} > {dst}, ethertype {other}, length {}",
                    payload.len()
                )
            }
        }
    }
}

impl fmt::Display for PacketDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.first().map(|first| first >> 4) {
            Some(4) => ipv4(f, self.0),
            Some(6) => ipv6(f, self.0),
            _ => write!(f, "not an IP packet, length {}", self.0.len()),
        }
    }
}

fn malformed_frame(f: &mut fmt::Formatter<'_>, frame: &[u8]) -> fmt::Result {
    let Some(h) = frame.first_chunk::<14>() else {
        return write!(f, "[|ether], length {}", frame.len());
    };
    let kind = u16::from_be_bytes([h[12], h[13]]);
    write!(f, "unsupported frame 0x{kind:04x}, length {}", frame.len())
}

fn arp(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    match ArpPacket::parse(bytes) {
        Ok((p, _)) => match p.operation {
            ArpOperation::Request => write!(
                f,
                "ARP, Request who-has {} tell {}",
                p.target_ip, p.sender_ip
            ),
            ArpOperation::Reply => write!(f, "ARP, Reply {} is-at {}", p.sender_ip, p.sender_mac),
        },
        Err(error) => write!(f, "ARP, {error}"),
    }?;
    write!(f, ", length {}", bytes.len())
}

fn ipv4(f: &mut fmt::Formatter<'_>, packet: &[u8]) -> fmt::Result {
    let Some(h) = packet.first_chunk::<20>() else {
        return write!(f, "IP [|ip], length {}", packet.len());
    };
    let header = Ipv4Header::from_bytes(h);
    let header_len = usize::from(header.header_len);
    if h[0] >> 4 != 4 || header_len < Ipv4Header::LEN {
        return write!(f, "IP bad header, length {}", packet.len());
    }
    let total = usize::from(header.total_len).min(packet.len());
    let transport = Transport {
        family: "IP",
        src: header.src.into(),
        dst: header.dst.into(),
        bytes: packet.get(header_len..total).unwrap_or_default(),
        claimed: header.payload_len(),
    };
    if header.is_fragment() {
        addresses(f, &transport)?;
        let more = if header.more_fragments { "+" } else { "" };
        write!(
            f,
            "{} frag (id {}:{}",
            header.protocol, header.ident, transport.claimed
        )?;
        write!(f, "@{}{more})", header.fragment_offset)?;
    } else {
        upper(f, header.protocol, &transport)?;
    }
    let covered = packet.get(..header_len).unwrap_or_default();
    if !covered.is_empty() && !checksum::verify(covered) {
        f.write_str(" (bad IP checksum)")?;
    }
    missing(f, &transport)
}

fn ipv6(f: &mut fmt::Formatter<'_>, packet: &[u8]) -> fmt::Result {
    let Some((h, rest)) = packet.split_first_chunk::<40>() else {
        return write!(f, "IP6 [|ip6], length {}", packet.len());
    };
    let Ok(header) = Ipv6Header::from_bytes(h) else {
        return write!(f, "IP6 bad header, length {}", packet.len());
    };
    let claimed = usize::from(header.payload_len);
    let bytes = rest.get(..claimed).unwrap_or(rest);
    let whole = Transport {
        family: "IP6",
        src: header.src.into(),
        dst: header.dst.into(),
        bytes,
        claimed,
    };
    match ipv6::upper_layer(header.next_header, bytes) {
        Ok(found) => {
            let transport = Transport {
                bytes: bytes.get(found.offset..).unwrap_or_default(),
                claimed: claimed.saturating_sub(found.offset),
                ..whole
            };
            match found.fragment {
                Some(fragment) => ipv6_fragment(f, &transport, fragment)?,
                None => upper(f, found.protocol, &transport)?,
            }
        }
        Err(error) => {
            addresses(f, &whole)?;
            write!(f, "{error}, length {claimed}")?;
        }
    }
    missing(f, &whole)
}

fn ipv6_fragment(
    f: &mut fmt::Formatter<'_>,
    transport: &Transport<'_>,
    fragment: FragmentHeader,
) -> fmt::Result {
    addresses(f, transport)?;
    let FragmentHeader {
        next_header,
        offset,
        more,
        ident,
    } = fragment;
    let more = if more { "+" } else { "" };
    write!(
        f,
        "{next_header} frag (id {ident}:{}@{offset}{more})",
        transport.claimed
    )
}

fn upper(f: &mut fmt::Formatter<'_>, protocol: Protocol, transport: &Transport<'_>) -> fmt::Result {
    match protocol {
        Protocol::TCP => tcp::segment(f, transport),
        Protocol::UDP => udp(f, transport),
        Protocol::ICMP if transport.src.is_ipv4() => icmp::v4(f, transport),
        Protocol::ICMPV6 if transport.src.is_ipv6() => icmp::v6(f, transport),
        other => {
            addresses(f, transport)?;
            write!(f, "{other}, length {}", transport.claimed)
        }
    }
}

fn udp(f: &mut fmt::Formatter<'_>, transport: &Transport<'_>) -> fmt::Result {
    endpoints(f, transport)?;
    match transport.bytes.first_chunk::<8>() {
        Some(h) => {
            let len = usize::from(u16::from_be_bytes([h[4], h[5]]));
            match len.checked_sub(UdpHeader::LEN) {
                Some(len) => write!(f, "UDP, length {len}"),
                None => write!(f, "UDP, bad length {len}"),
            }
        }
        None => f.write_str("[|udp]"),
    }
}

/// Says how much of what the IP header claims is not there.
fn missing(f: &mut fmt::Formatter<'_>, transport: &Transport<'_>) -> fmt::Result {
    match transport.claimed.saturating_sub(transport.bytes.len()) {
        0 => Ok(()),
        missing => write!(f, " [{missing} bytes missing]"),
    }
}

#[cfg(test)]
mod tests;
