//! The packet that an ICMP error quotes, cut anywhere behind its IP header and 8 bytes of transport
//! (RFC 792, RFC 4443 §2.4(c)).
//!
//! Nothing in it is verified: routers on the path changed it, and anyone can invent it. Whoever
//! acts on it must check that the sequence number is outstanding (RFC 5927 §4).

use std::net::{IpAddr, SocketAddr};

use crate::ParseError;
use crate::ip::Protocol;
use crate::ipv4::Ipv4Header;
use crate::ipv6::{self, Ipv6Header};
use crate::seq::SeqNumber;

/// A quoted TCP segment, as we sent it: `src` is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuotedTcp {
    /// Our end.
    pub src: SocketAddr,
    /// The peer's end.
    pub dst: SocketAddr,
    /// Sequence number of the segment.
    pub seq: SeqNumber,
}

/// The transport of a quoted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuotedTransport {
    /// A TCP segment.
    Tcp(QuotedTcp),
    /// A UDP datagram.
    Udp {
        /// Our end.
        src: SocketAddr,
        /// The peer's end.
        dst: SocketAddr,
    },
    /// An ICMP echo request or another message of the kind.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// Identifier, if it is an echo.
        ident: u16,
        /// Sequence number, if it is an echo.
        seq: u16,
    },
    /// Another protocol, a later fragment, or a header chain that is cut short.
    Other,
}

/// A quoted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuotedPacket {
    /// Source: us.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Length of the whole packet when it was sent, IP header included, in bytes.
    pub total_len: u32,
    /// What could be read of the transport.
    pub transport: QuotedTransport,
}

/// Reads a quoted IPv4 packet.
///
/// # Errors
/// `Truncated` if the IP header is cut; `BadVersion`; `BadLength` for a header length below 20.
pub fn parse_v4(quoted: &[u8]) -> Result<QuotedPacket, ParseError> {
    let h = quoted.first_chunk::<20>().ok_or(ParseError::Truncated)?;
    if h[0] >> 4 != 4 {
        return Err(ParseError::BadVersion);
    }
    let header = Ipv4Header::from_bytes(h);
    if usize::from(header.header_len) < Ipv4Header::LEN {
        return Err(ParseError::BadLength);
    }
    let rest = quoted
        .get(usize::from(header.header_len)..)
        .ok_or(ParseError::Truncated)?;
    let (src, dst) = (IpAddr::V4(header.src), IpAddr::V4(header.dst));
    let transport = match header.fragment_offset {
        0 => transport(src, dst, header.protocol, rest),
        _ => QuotedTransport::Other,
    };
    Ok(QuotedPacket {
        src,
        dst,
        protocol: header.protocol,
        total_len: u32::from(header.total_len),
        transport,
    })
}

/// Reads a quoted IPv6 packet. Extension headers are walked through as far as they are there.
///
/// # Errors
/// `Truncated` if the IP header is cut; `BadVersion`.
pub fn parse_v6(quoted: &[u8]) -> Result<QuotedPacket, ParseError> {
    let (h, rest) = quoted
        .split_first_chunk::<40>()
        .ok_or(ParseError::Truncated)?;
    let header = Ipv6Header::from_bytes(h)?;
    let (src, dst) = (IpAddr::V6(header.src), IpAddr::V6(header.dst));
    let (protocol, transport) = match ipv6::quoted_upper_layer(header.next_header, rest) {
        Some((protocol, rest)) => (protocol, transport(src, dst, protocol, rest)),
        None => (header.next_header, QuotedTransport::Other),
    };
    Ok(QuotedPacket {
        src,
        dst,
        protocol,
        total_len: u32::from(header.payload_len) + Ipv6Header::LEN as u32,
        transport,
    })
}

fn transport(src: IpAddr, dst: IpAddr, protocol: Protocol, bytes: &[u8]) -> QuotedTransport {
    let Some(&[a, b, c, d, e, f, g, h]) = bytes.first_chunk::<8>() else {
        return QuotedTransport::Other;
    };
    let src = SocketAddr::new(src, u16::from_be_bytes([a, b]));
    let dst = SocketAddr::new(dst, u16::from_be_bytes([c, d]));
    match protocol {
        Protocol::TCP => QuotedTransport::Tcp(QuotedTcp {
            src,
            dst,
            seq: SeqNumber(u32::from_be_bytes([e, f, g, h])),
        }),
        Protocol::UDP => QuotedTransport::Udp { src, dst },
        Protocol::ICMP | Protocol::ICMPV6 => QuotedTransport::Icmp {
            kind: a,
            code: b,
            ident: u16::from_be_bytes([e, f]),
            seq: u16::from_be_bytes([g, h]),
        },
        _ => QuotedTransport::Other,
    }
}

#[cfg(test)]
mod tests;
