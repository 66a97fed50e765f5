//! Ethernet II frames with at most one IEEE 802.1Q tag.

use std::fmt;
use std::net::Ipv4Addr;

use crate::ParseError;
use crate::frame::MacAddr;

/// What an Ethernet frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: Self = Self(0x0800);
    /// ARP (RFC 826).
    pub const ARP: Self = Self(0x0806);
    /// IEEE 802.1Q tag.
    pub const VLAN: Self = Self(0x8100);
    /// IPv6 (RFC 2464).
    pub const IPV6: Self = Self(0x86dd);
    /// IEEE 802.1ad outer tag.
    pub const QINQ: Self = Self(0x88a8);
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IPV4 => f.write_str("IPv4"),
            Self::ARP => f.write_str("ARP"),
            Self::IPV6 => f.write_str("IPv6"),
            Self::VLAN => f.write_str("802.1Q"),
            Self::QINQ => f.write_str("802.1ad"),
            Self(other) => write!(f, "0x{other:04x}"),
        }
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The tag control information of IEEE 802.1Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct VlanTag {
    /// VLAN identifier, 12 bits; 0 is a priority tag without a VLAN.
    pub id: u16,
    /// Priority code point, 3 bits.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
}

impl VlanTag {
    const fn from_tci(tci: u16) -> Self {
        Self {
            id: tci & 0x0fff,
            pcp: (tci >> 13) as u8,
            dei: tci & 0x1000 != 0,
        }
    }

    const fn tci(self) -> u16 {
        (self.id & 0x0fff) | ((self.pcp as u16 & 7) << 13) | ((self.dei as u16) << 12)
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EthernetHeader {
    /// Destination.
    pub dst: MacAddr,
    /// Source.
    pub src: MacAddr,
    /// What the payload is; the inner type if there is a tag.
    pub ether_type: EtherType,
    /// The 802.1Q tag if there is one.
    pub vlan: Option<VlanTag>,
}

impl EthernetHeader {
    /// Length of an untagged header, in bytes.
    pub const LEN: usize = 14;
    /// Length of the tag, in bytes.
    pub const VLAN_LEN: usize = 4;
    /// Length of the longest header that `emit` writes, in bytes.
    pub const MAX_LEN: usize = Self::LEN + Self::VLAN_LEN;

    /// Splits a frame into header and payload. The payload still has the padding of short frames.
    ///
    /// # Errors
    /// `Truncated`; `Unsupported` for 802.1ad and double tags, and for IEEE 802.3 length fields
    /// (LLC).
    pub fn parse(frame: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (h, rest) = frame
            .split_first_chunk::<14>()
            .ok_or(ParseError::Truncated)?;
        let outer = EtherType(u16::from_be_bytes([h[12], h[13]]));
        let (ether_type, vlan, payload) = match outer {
            EtherType::VLAN => {
                let (tag, rest) = rest.split_first_chunk::<4>().ok_or(ParseError::Truncated)?;
                let inner = EtherType(u16::from_be_bytes([tag[2], tag[3]]));
                let tci = u16::from_be_bytes([tag[0], tag[1]]);
                (inner, Some(VlanTag::from_tci(tci)), rest)
            }
            other => (other, None, rest),
        };
        let nested = vlan.is_some() && ether_type == EtherType::VLAN;
        // IEEE 802.3 §3.2.6: values below 0x0600 are a length.
        if ether_type == EtherType::QINQ || nested || ether_type.0 < 0x0600 {
            return Err(ParseError::Unsupported);
        }
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..] = *h;
        let header = Self {
            dst: MacAddr([d0, d1, d2, d3, d4, d5]),
            src: MacAddr([s0, s1, s2, s3, s4, s5]),
            ether_type,
            vlan,
        };
        Ok((header, payload))
    }

    /// Length of the header that `emit` writes, in bytes.
    pub const fn header_len(&self) -> usize {
        match self.vlan {
            Some(_) => Self::MAX_LEN,
            None => Self::LEN,
        }
    }

    /// Writes the header and returns its length; writes nothing and returns 0 if it does not fit.
    /// RFC 1122 §2.3.3-1.
    #[inline(always)]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let ether_type = self.ether_type.0.to_be_bytes();
        match self.vlan {
            None => {
                let Some(h) = out.first_chunk_mut::<14>() else {
                    return 0;
                };
                h[..6].copy_from_slice(&self.dst.0);
                h[6..12].copy_from_slice(&self.src.0);
                h[12..].copy_from_slice(&ether_type);
            }
            Some(tag) => {
                let Some(h) = out.first_chunk_mut::<18>() else {
                    return 0;
                };
                h[..6].copy_from_slice(&self.dst.0);
                h[6..12].copy_from_slice(&self.src.0);
                h[12..14].copy_from_slice(&[0x81, 0x00]);
                h[14..16].copy_from_slice(&tag.tci().to_be_bytes());
                h[16..].copy_from_slice(&ether_type);
            }
        }
        self.header_len()
    }
}

/// Where frames for an IPv4 multicast group go (RFC 1112 §6.4). The IPv6 counterpart is
/// [`crate::ndp::multicast_mac`].
pub const fn ipv4_multicast_mac(group: Ipv4Addr) -> MacAddr {
    let [_, b, c, d] = group.octets();
    MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
}

#[cfg(test)]
mod tests;
