//! The TCP segment of a packet.

use std::net::{IpAddr, SocketAddr};

use wire::ParseError;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::ipv6::{Ipv6Header, upper_layer};
use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader};

use super::capture::{Link, Packet};

/// A segment, and between whom it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) seq: SeqNumber,
    pub(super) ack: Option<SeqNumber>,
    pub(super) flags: TcpFlags,
    pub(super) payload: &'a [u8],
}

/// Why a packet has none that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Without {
    /// It is of another protocol.
    Other,
    /// The capture has only its beginning.
    Cut,
    /// It is a piece of a packet.
    Fragment,
    /// Its headers are wrong.
    Damaged,
    /// Nobody here knows its link.
    UnknownLink,
}

/// The segment of a packet.
pub(super) fn segment<'a>(packet: &Packet<'a>) -> Result<Segment<'a>, Without> {
    let damaged = |error| match error {
        ParseError::Truncated if packet.is_cut => Without::Cut,
        _ => Without::Damaged,
    };
    let ip = network(packet.link, packet.data)?;
    let (from, to, transport) = match ip.first().map(|byte| byte >> 4) {
        Some(4) => ipv4(ip).map_err(|error| error.map_or(Without::Fragment, damaged))?,
        Some(6) => ipv6(ip).map_err(|error| error.map_or(Without::Fragment, damaged))?,
        Some(_) => return Err(Without::Other),
        None => return Err(damaged(ParseError::Truncated)),
    };
    let Some(transport) = transport else {
        return Err(Without::Other);
    };
    let (header, payload) = TcpHeader::parse(transport).map_err(damaged)?;
    let ack = header.flags.contains(TcpFlags::ACK).then_some(header.ack);
    Ok(Segment {
        from: SocketAddr::new(from, header.src_port),
        to: SocketAddr::new(to, header.dst_port),
        seq: header.seq,
        ack,
        flags: header.flags,
        payload,
    })
}

/// What is behind the header of the link.
fn network(link: Link, data: &[u8]) -> Result<&[u8], Without> {
    let behind = |header: usize, protocol: usize| {
        let kind = data.get(protocol..protocol + 2).ok_or(Without::Damaged)?;
        let kind = EtherType(u16::from_be_bytes([kind[0], kind[1]]));
        if kind != EtherType::IPV4 && kind != EtherType::IPV6 {
            return Err(Without::Other);
        }
        data.get(header..).ok_or(Without::Damaged)
    };
    match link {
        Link::Ethernet => {
            let (header, rest) = EthernetHeader::parse(data).map_err(|_| Without::Damaged)?;
            match header.ether_type {
                EtherType::IPV4 | EtherType::IPV6 => Ok(rest),
                _ => Err(Without::Other),
            }
        }
        Link::Raw => Ok(data),
        Link::Null => data.get(4..).ok_or(Without::Damaged),
        Link::Cooked => behind(16, 14),
        Link::Cooked2 => behind(20, 0),
        Link::Unknown => Err(Without::UnknownLink),
    }
}

/// Between whom a packet is, and its TCP segment if it has one.
type Transport<'a> = (IpAddr, IpAddr, Option<&'a [u8]>);

/// # Errors
/// What is wrong, or nothing, and it is a fragment.
fn ipv4(packet: &[u8]) -> Result<Transport<'_>, Option<ParseError>> {
    let (header, payload) = Ipv4Header::parse(packet).map_err(Some)?;
    if header.more_fragments || header.fragment_offset > 0 {
        return Err(None);
    }
    let transport = (header.protocol == Protocol::TCP).then_some(payload);
    Ok((header.src.into(), header.dst.into(), transport))
}

/// # Errors
/// As [`ipv4`].
fn ipv6(packet: &[u8]) -> Result<Transport<'_>, Option<ParseError>> {
    let (header, payload) = Ipv6Header::parse(packet).map_err(Some)?;
    let upper = upper_layer(header.next_header, payload);
    let upper = upper.map_err(|_| Some(ParseError::BadValue))?;
    if upper.fragment.is_some() {
        return Err(None);
    }
    let transport = match upper.protocol {
        Protocol::TCP => payload.get(upper.offset..),
        _ => None,
    };
    Ok((header.src.into(), header.dst.into(), transport))
}
