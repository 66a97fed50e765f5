//! Neighbour discovery (RFC 4861). The checksum and the hop limit of 255 are the caller's to check:
//! see [`crate::icmpv6::Icmpv6Message::parse`] and RFC 4861 §6.1 and §7.1.

mod options;

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::ParseError;
use crate::frame::MacAddr;

pub use options::{PrefixInfo, Prefixes};

use options::{NdpOptions, Writer};

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOR_SOLICITATION: u8 = 135;
const NEIGHBOR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;

/// Who has this address? (RFC 4861 §4.3)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeighborSolicitation {
    /// The address asked for; never multicast.
    pub target: Ipv6Addr,
    /// Link-layer address of the sender; absent in duplicate address detection.
    pub source_lladdr: Option<MacAddr>,
    /// Nonce of enhanced duplicate address detection (RFC 7527 §4.1); only this length is
    /// understood.
    pub nonce: Option<[u8; 6]>,
}

/// I have this address. (RFC 4861 §4.4)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeighborAdvertisement {
    /// R: the sender is a router.
    pub router: bool,
    /// S: sent in answer to a solicitation.
    pub solicited: bool,
    /// O: replaces a cached link-layer address.
    pub override_flag: bool,
    /// The address in question; never multicast.
    pub target: Ipv6Addr,
    /// Its link-layer address.
    pub target_lladdr: Option<MacAddr>,
}

/// Is there a router? (RFC 4861 §4.1)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouterSolicitation {
    /// Link-layer address of the sender.
    pub source_lladdr: Option<MacAddr>,
}

/// I am a router. (RFC 4861 §4.2)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouterAdvertisement {
    /// Hop limit to use; 0 if unspecified.
    pub hop_limit: u8,
    /// M: addresses are to be had by DHCPv6.
    pub managed: bool,
    /// O: other configuration is to be had by DHCPv6.
    pub other_config: bool,
    /// How long the sender may be used as default router; zero if not at all. In seconds on the
    /// wire.
    pub router_lifetime: Duration,
    /// How long a neighbour stays reachable after a confirmation; zero if unspecified. In
    /// milliseconds on the wire.
    pub reachable_time: Duration,
    /// Time between solicitations; zero if unspecified. In milliseconds on the wire.
    pub retrans_timer: Duration,
    /// Link-layer address of the sender.
    pub source_lladdr: Option<MacAddr>,
    /// MTU of the link, in bytes.
    pub mtu: Option<u32>,
    /// Prefixes of the link; at most [`Prefixes::MAX`], further ones are ignored.
    pub prefixes: Prefixes,
}

/// There is a better first hop. (RFC 4861 §4.5)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Redirect {
    /// The better hop; the destination itself if it is a neighbour.
    pub target: Ipv6Addr,
    /// For packets to this address.
    pub destination: Ipv6Addr,
    /// Link-layer address of the target.
    pub target_lladdr: Option<MacAddr>,
}

/// A neighbour discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "stays Copy without a lifetime; rare packets"
)]
pub enum NdpMessage {
    /// Type 133.
    RouterSolicitation(RouterSolicitation),
    /// Type 134.
    RouterAdvertisement(RouterAdvertisement),
    /// Type 135.
    NeighborSolicitation(NeighborSolicitation),
    /// Type 136.
    NeighborAdvertisement(NeighborAdvertisement),
    /// Type 137.
    Redirect(Redirect),
}

impl NdpMessage {
    /// Whether an ICMPv6 type is one of neighbour discovery.
    pub const fn is_kind(kind: u8) -> bool {
        matches!(kind, ROUTER_SOLICITATION..=REDIRECT)
    }

    /// The ICMPv6 type.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::RouterSolicitation(_) => ROUTER_SOLICITATION,
            Self::RouterAdvertisement(_) => ROUTER_ADVERTISEMENT,
            Self::NeighborSolicitation(_) => NEIGHBOR_SOLICITATION,
            Self::NeighborAdvertisement(_) => NEIGHBOR_ADVERTISEMENT,
            Self::Redirect(_) => REDIRECT,
        }
    }

    /// Reads an ICMPv6 message of type 133 to 137, from the type on.
    ///
    /// # Errors
    /// `Truncated`; `BadLength` for an option of length 0 or past the end (RFC 4861 §4.6);
    /// `BadValue` for a code other than 0 or a multicast target (§7.1); `TooComplex` for too many
    /// options; `Unsupported` for another type.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (h, body) = bytes
            .split_first_chunk::<8>()
            .ok_or(ParseError::Truncated)?;
        if Self::is_kind(h[0]) && h[1] != 0 {
            return Err(ParseError::BadValue);
        }
        match h[0] {
            ROUTER_SOLICITATION => parse_router_solicitation(body),
            ROUTER_ADVERTISEMENT => parse_router_advertisement(h, body),
            NEIGHBOR_SOLICITATION => parse_neighbor_solicitation(body),
            NEIGHBOR_ADVERTISEMENT => parse_neighbor_advertisement(h[4], body),
            REDIRECT => parse_redirect(body),
            _ => Err(ParseError::Unsupported),
        }
    }

    /// Length of the message, in bytes.
    pub fn len(&self) -> usize {
        let address = |present: Option<MacAddr>| if present.is_some() { 8 } else { 0 };
        match self {
            Self::RouterSolicitation(m) => 8 + address(m.source_lladdr),
            Self::RouterAdvertisement(m) => {
                let mtu = if m.mtu.is_some() { 8 } else { 0 };
                16 + address(m.source_lladdr) + mtu + PrefixInfo::LEN * m.prefixes.as_slice().len()
            }
            Self::NeighborSolicitation(m) => {
                24 + address(m.source_lladdr) + if m.nonce.is_some() { 8 } else { 0 }
            }
            Self::NeighborAdvertisement(m) => 24 + address(m.target_lladdr),
            Self::Redirect(m) => 40 + address(m.target_lladdr),
        }
    }

    /// Never: a message has at least a header.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the message with a checksum of 0 and returns its length; returns 0 if it does not
    /// fit.
    pub(crate) fn emit_body(&self, out: &mut [u8]) -> usize {
        let Some(out) = out.get_mut(..self.len()) else {
            return 0;
        };
        let mut writer = Writer::new(out);
        writer.put(&[self.kind(), 0, 0, 0]);
        match self {
            Self::RouterSolicitation(m) => {
                writer.put(&[0; 4]);
                writer.source_lladdr(m.source_lladdr);
            }
            Self::RouterAdvertisement(m) => emit_router_advertisement(m, &mut writer),
            Self::NeighborSolicitation(m) => {
                writer.put(&[0; 4]);
                writer.put(&m.target.octets());
                writer.source_lladdr(m.source_lladdr);
                writer.nonce(m.nonce);
            }
            Self::NeighborAdvertisement(m) => {
                let flags = (u8::from(m.router) << 7)
                    | (u8::from(m.solicited) << 6)
                    | (u8::from(m.override_flag) << 5);
                writer.put(&[flags, 0, 0, 0]);
                writer.put(&m.target.octets());
                writer.target_lladdr(m.target_lladdr);
            }
            Self::Redirect(m) => {
                writer.put(&[0; 4]);
                writer.put(&m.target.octets());
                writer.put(&m.destination.octets());
                writer.target_lladdr(m.target_lladdr);
            }
        }
        writer.written()
    }
}

/// The address in front of the options; multicast targets are invalid
/// (RFC 4861 §7.1.1, §7.1.2, §8.1).
fn target(body: &[u8]) -> Result<(Ipv6Addr, &[u8]), ParseError> {
    let (target, rest) = address(body)?;
    if target.is_multicast() {
        return Err(ParseError::BadValue);
    }
    Ok((target, rest))
}

fn address(body: &[u8]) -> Result<(Ipv6Addr, &[u8]), ParseError> {
    let (octets, rest) = body
        .split_first_chunk::<16>()
        .ok_or(ParseError::Truncated)?;
    Ok((Ipv6Addr::from(*octets), rest))
}

fn parse_router_solicitation(body: &[u8]) -> Result<NdpMessage, ParseError> {
    let options = NdpOptions::parse(body)?;
    Ok(NdpMessage::RouterSolicitation(RouterSolicitation {
        source_lladdr: options.source_lladdr,
    }))
}

fn parse_router_advertisement(h: &[u8; 8], body: &[u8]) -> Result<NdpMessage, ParseError> {
    let (times, rest) = body.split_first_chunk::<8>().ok_or(ParseError::Truncated)?;
    let &[a, b, c, d, e, f, g, i] = times;
    let options = NdpOptions::parse(rest)?;
    Ok(NdpMessage::RouterAdvertisement(RouterAdvertisement {
        hop_limit: h[4],
        managed: h[5] & 0x80 != 0,
        other_config: h[5] & 0x40 != 0,
        router_lifetime: Duration::from_secs(u64::from(u16::from_be_bytes([h[6], h[7]]))),
        reachable_time: Duration::from_millis(u64::from(u32::from_be_bytes([a, b, c, d]))),
        retrans_timer: Duration::from_millis(u64::from(u32::from_be_bytes([e, f, g, i]))),
        source_lladdr: options.source_lladdr,
        mtu: options.mtu,
        prefixes: options.prefixes,
    }))
}

fn emit_router_advertisement(m: &RouterAdvertisement, writer: &mut Writer<'_>) {
    let millis = |time: Duration| {
        u32::try_from(time.as_millis())
            .unwrap_or(u32::MAX)
            .to_be_bytes()
    };
    let flags = (u8::from(m.managed) << 7) | (u8::from(m.other_config) << 6);
    let lifetime = u16::try_from(m.router_lifetime.as_secs()).unwrap_or(u16::MAX);
    writer.put(&[m.hop_limit, flags]);
    writer.put(&lifetime.to_be_bytes());
    writer.put(&millis(m.reachable_time));
    writer.put(&millis(m.retrans_timer));
    writer.source_lladdr(m.source_lladdr);
    writer.mtu(m.mtu);
    for prefix in m.prefixes.as_slice() {
        writer.prefix(prefix);
    }
}

fn parse_neighbor_solicitation(body: &[u8]) -> Result<NdpMessage, ParseError> {
    let (target, rest) = target(body)?;
    let options = NdpOptions::parse(rest)?;
    Ok(NdpMessage::NeighborSolicitation(NeighborSolicitation {
        target,
        source_lladdr: options.source_lladdr,
        nonce: options.nonce,
    }))
}

fn parse_neighbor_advertisement(flags: u8, body: &[u8]) -> Result<NdpMessage, ParseError> {
    let (target, rest) = target(body)?;
    let options = NdpOptions::parse(rest)?;
    Ok(NdpMessage::NeighborAdvertisement(NeighborAdvertisement {
        router: flags & 0x80 != 0,
        solicited: flags & 0x40 != 0,
        override_flag: flags & 0x20 != 0,
        target,
        target_lladdr: options.target_lladdr,
    }))
}

fn parse_redirect(body: &[u8]) -> Result<NdpMessage, ParseError> {
    let (target, rest) = target(body)?;
    let (destination, rest) = address(rest)?;
    if destination.is_multicast() {
        return Err(ParseError::BadValue);
    }
    let options = NdpOptions::parse(rest)?;
    Ok(NdpMessage::Redirect(Redirect {
        target,
        destination,
        target_lladdr: options.target_lladdr,
    }))
}

/// The group that solicitations for `addr` go to: `ff02::1:ffXX:XXXX` (RFC 4291 §2.7.1).
pub const fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = addr.octets();
    Ipv6Addr::new(
        0xff02,
        0,
        0,
        0,
        0,
        1,
        0xff00 | a as u16,
        u16::from_be_bytes([b, c]),
    )
}

/// Where frames for an IPv6 multicast group go (RFC 2464 §7).
pub const fn multicast_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

#[cfg(test)]
mod tests;
