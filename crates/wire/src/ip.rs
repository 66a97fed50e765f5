//! What IPv4 and IPv6 share: protocol numbers, ECN, prefixes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IP protocol number, or an IPv6 next-header value (IANA "Protocol Numbers").
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: Self = Self(0);
    /// ICMP for IPv4.
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// IPv6 routing header.
    pub const ROUTING: Self = Self(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: Self = Self(44);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(58);
    /// IPv6 no next header.
    pub const NO_NEXT_HEADER: Self = Self(59);
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: Self = Self(60);
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::HOP_BY_HOP => f.write_str("HOPOPT"),
            Self::ICMP => f.write_str("ICMP"),
            Self::TCP => f.write_str("TCP"),
            Self::UDP => f.write_str("UDP"),
            Self::ROUTING => f.write_str("routing"),
            Self::FRAGMENT => f.write_str("fragment"),
            Self::ICMPV6 => f.write_str("ICMPv6"),
            Self::NO_NEXT_HEADER => f.write_str("no-next-header"),
            Self::DESTINATION_OPTIONS => f.write_str("DSTOPT"),
            Self(other) => write!(f, "protocol {other}"),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The ECN field: the two low bits of TOS or traffic class (RFC 3168 §5).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub enum Ecn {
    /// The transport does not understand ECN.
    #[default]
    NotEct,
    /// ECN-capable, codepoint 01 (L4S, RFC 9331).
    Ect1,
    /// ECN-capable, codepoint 10.
    Ect0,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// The field of a TOS or traffic-class byte.
    pub const fn from_tos(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }
}

/// Whether a packet may come from `addr`: not unspecified, multicast, or limited broadcast
/// (RFC 1122 §3.2.1.3, RFC 4291 §2.7).
pub const fn is_valid_source(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(v4) => !(v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast()),
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_multicast()),
    }
}

/// An address with the length of its network prefix.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// The address; bits behind the prefix are kept (an interface address has them).
    pub addr: IpAddr,
    /// Length of the prefix in bits: at most 32 or 128.
    pub prefix_len: u8,
}

impl Cidr {
    /// An address and its prefix length; `None` if the length is more than the address has bits.
    pub const fn new(addr: IpAddr, prefix_len: u8) -> Option<Self> {
        let bits = if addr.is_ipv4() { 32 } else { 128 };
        if prefix_len > bits {
            return None;
        }
        Some(Self { addr, prefix_len })
    }

    /// Whether `addr` is of the same family and has the same prefix.
    pub const fn contains(&self, addr: IpAddr) -> bool {
        match (self.addr, addr) {
            (IpAddr::V4(net), IpAddr::V4(addr)) => {
                (net.to_bits() ^ addr.to_bits()) & mask_v4(self.prefix_len) == 0
            }
            (IpAddr::V6(net), IpAddr::V6(addr)) => {
                (net.to_bits() ^ addr.to_bits()) & mask_v6(self.prefix_len) == 0
            }
            _ => false,
        }
    }

    /// The prefix with all bits behind it cleared.
    pub const fn network(&self) -> IpAddr {
        match self.addr {
            IpAddr::V4(v4) => {
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask_v4(self.prefix_len)))
            }
            IpAddr::V6(v6) => {
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask_v6(self.prefix_len)))
            }
        }
    }

    /// The directed broadcast address (RFC 919); `None` for IPv6 and for prefixes of 31 and 32 bits
    /// (RFC 3021).
    pub const fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.addr {
            IpAddr::V4(v4) if self.prefix_len < 31 => Some(Ipv4Addr::from_bits(
                v4.to_bits() | !mask_v4(self.prefix_len),
            )),
            _ => None,
        }
    }

    /// Whether `addr` is the limited broadcast, or the directed broadcast or all-zeros address of
    /// this network (RFC 1122 §3.3.6): nothing of TCP may go there or come from there.
    pub fn is_broadcast(&self, addr: Ipv4Addr) -> bool {
        addr.is_broadcast()
            || self
                .broadcast()
                .is_some_and(|b| addr == b || IpAddr::V4(addr) == self.network())
    }
}

const fn mask_v4(prefix_len: u8) -> u32 {
    match prefix_len {
        0 => 0,
        1..=32 => u32::MAX << (32 - prefix_len),
        _ => u32::MAX,
    }
}

const fn mask_v6(prefix_len: u8) -> u128 {
    match prefix_len {
        0 => 0,
        1..=128 => u128::MAX << (128 - prefix_len),
        _ => u128::MAX,
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix_len)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CidrError {
    /// What stands before the slash is not an IP address.
    Address,
    /// What stands behind the slash is not a prefix length of the address's family.
    PrefixLen,
}

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => {
                "not an IP address; expected ADDRESS or ADDRESS/LENGTH, as in 10.0.0.1/24"
            }
            Self::PrefixLen => "bad prefix length; expected 0 to 32 for IPv4, 0 to 128 for IPv6",
        })
    }
}

impl std::error::Error for CidrError {}

/// Parses `ADDRESS/LENGTH`; without a length the prefix is the whole address.
impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| CidrError::Address)?;
        let prefix_len = match len {
            // `u8::from_str` would take a sign.
            Some(len) if len.bytes().all(|b| b.is_ascii_digit()) => {
                len.parse().map_err(|_| CidrError::PrefixLen)?
            }
            Some(_) => return Err(CidrError::PrefixLen),
            None if addr.is_ipv4() => 32,
            None => 128,
        };
        Self::new(addr, prefix_len).ok_or(CidrError::PrefixLen)
    }
}

#[cfg(test)]
mod tests;
