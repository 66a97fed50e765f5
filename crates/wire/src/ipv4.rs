//! IPv4 headers (RFC 791).

use std::net::Ipv4Addr;

use crate::ParseError;
use crate::checksum;
use crate::ip::{Ecn, Protocol};

/// Option types that need a look (RFC 791 §3.1).
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_LSRR: u8 = 131;
const OPTION_SSRR: u8 = 137;

/// Most bytes behind a header without options.
const MAX_PAYLOAD: usize = u16::MAX as usize - Ipv4Header::LEN;

/// An IPv4 header. What `emit` does not write is marked *parsed*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4Header {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// What the payload is.
    pub protocol: Protocol,
    /// Time to live, in hops.
    pub ttl: u8,
    /// DSCP (6 high bits) and ECN (2 low bits).
    pub tos: u8,
    /// Identification of the datagram that fragments belong to (RFC 6864).
    pub ident: u16,
    /// Don't fragment.
    pub dont_fragment: bool,
    /// More fragments follow this one.
    pub more_fragments: bool,
    /// Position of this fragment in its datagram, in bytes, a multiple of 8.
    pub fragment_offset: u16,
    /// Length of header and payload, in bytes.
    pub total_len: u16,
    /// *Parsed*: length of the header with its options, 20 to 60 bytes. `emit` writes [`Self::LEN`]
    /// bytes.
    pub header_len: u8,
    /// *Parsed*: a loose or strict source route option is present (RFC 7126 §4.3 and §4.4: drop).
    pub source_route: bool,
}

impl Ipv4Header {
    /// Length of a header without options, which is what `emit` writes, in bytes.
    pub const LEN: usize = 20;

    /// An unfragmented header for a payload of `payload_len` bytes: TTL 64, TOS 0, DF, ident 0
    /// (RFC 6864 §4.1 permits any value in atomic datagrams). A payload that is too long saturates
    /// the length. RFC 1191 §3-1.
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, payload_len: usize) -> Self {
        Self {
            src,
            dst,
            protocol,
            ttl: 64,
            tos: 0,
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            total_len: (payload_len.min(MAX_PAYLOAD) + Self::LEN) as u16,
            header_len: Self::LEN as u8,
            source_route: false,
        }
    }

    /// Splits a packet into header and payload; link-layer padding behind the total length is cut
    /// off.
    ///
    /// # Errors
    /// `Truncated`, `BadVersion`, `BadChecksum` (header); `BadLength` for a wrong header, total or
    /// option length, for a middle fragment that is not a multiple of 8 bytes, and for a fragment
    /// that ends beyond 65535 bytes. RFC 9293 MUST-50. RFC 1122 §3.2.1.1-1, §3.2.1.2-1, §3.2.1.8-1.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (h, _) = packet
            .split_first_chunk::<20>()
            .ok_or(ParseError::Truncated)?;
        let lengths = check_lengths(h, packet.len())?;
        let header = packet.get(..lengths.header).ok_or(ParseError::Truncated)?;
        let payload = packet
            .get(lengths.header..lengths.total)
            .ok_or(ParseError::Truncated)?;
        let sum = match lengths.header {
            Self::LEN => checksum::sum_20(h),
            _ => checksum::sum(header),
        };
        if sum != 0xffff {
            return Err(ParseError::BadChecksum);
        }
        let options = header.get(Self::LEN..).unwrap_or_default();
        let parsed = Self {
            source_route: !options.is_empty() && check_options(options)?,
            ..Self::from_bytes(h)
        };
        parsed.check_fragment(payload.len())?;
        Ok((parsed, payload))
    }

    /// The fields as they are, unchecked.
    #[inline(always)]
    pub(crate) fn from_bytes(h: &[u8; 20]) -> Self {
        let fragment = u16::from_be_bytes([h[6], h[7]]);
        Self {
            src: Ipv4Addr::new(h[12], h[13], h[14], h[15]),
            dst: Ipv4Addr::new(h[16], h[17], h[18], h[19]),
            protocol: Protocol(h[9]),
            ttl: h[8],
            tos: h[1],
            ident: u16::from_be_bytes([h[4], h[5]]),
            dont_fragment: fragment & 0x4000 != 0,
            more_fragments: fragment & 0x2000 != 0,
            fragment_offset: (fragment & 0x1fff) << 3,
            total_len: u16::from_be_bytes([h[2], h[3]]),
            header_len: (h[0] & 0x0f) * 4,
            source_route: false,
        }
    }

    /// RFC 791 §3.2: fragments lie on 8-byte boundaries and the whole is at most 65535 bytes.
    fn check_fragment(&self, payload_len: usize) -> Result<(), ParseError> {
        let end = usize::from(self.fragment_offset) + usize::from(self.header_len) + payload_len;
        let ragged = self.more_fragments && !payload_len.is_multiple_of(8);
        if self.is_fragment() && (ragged || end > usize::from(u16::MAX)) {
            return Err(ParseError::BadLength);
        }
        Ok(())
    }

    /// Whether this is a piece of a larger datagram.
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// The ECN field.
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_tos(self.tos)
    }

    /// Length of the payload, in bytes.
    pub const fn payload_len(&self) -> usize {
        (self.total_len as usize).saturating_sub(self.header_len as usize)
    }

    /// Writes a header of 20 bytes with its checksum and returns 20; writes nothing and returns 0
    /// if it does not fit.
    #[inline(always)]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let Some(h) = out.first_chunk_mut::<20>() else {
            return 0;
        };
        let flags = (u16::from(self.dont_fragment) << 14) | (u16::from(self.more_fragments) << 13);
        let fragment = flags | (self.fragment_offset >> 3);
        let [l0, l1] = self.total_len.to_be_bytes();
        let [i0, i1] = self.ident.to_be_bytes();
        let [f0, f1] = fragment.to_be_bytes();
        let [c0, c1] = self.checksum(fragment).to_be_bytes();
        let [s0, s1, s2, s3] = self.src.octets();
        let [d0, d1, d2, d3] = self.dst.octets();
        *h = [
            0x45,
            self.tos,
            l0,
            l1,
            i0,
            i1,
            f0,
            f1,
            self.ttl,
            self.protocol.0,
            c0,
            c1,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ];
        Self::LEN
    }

    /// The checksum of a header without options, from the values: reading back what was just
    /// written would stall.
    #[inline]
    fn checksum(&self, fragment: u16) -> u16 {
        let sum = 0x4500
            + u64::from(self.tos)
            + u64::from(self.total_len)
            + u64::from(self.ident)
            + u64::from(fragment)
            + (u64::from(self.ttl) << 8)
            + u64::from(self.protocol.0)
            + u64::from(self.src.to_bits())
            + u64::from(self.dst.to_bits());
        !checksum::fold(sum)
    }
}

/// A packet whose header has no options and that is no fragment, as nearly all are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainIpv4<'a> {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// What the payload is.
    pub protocol: Protocol,
    /// The ECN field.
    pub ecn: Ecn,
    /// The payload, without padding of the link.
    pub payload: &'a [u8],
}

impl<'a> PlainIpv4<'a> {
    /// `None` if it is not such a packet, or if [`Ipv4Header::parse`] has an objection, which says
    /// what. RFC 9293 MUST-50.
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Option<Self> {
        let h = packet.first_chunk::<20>()?;
        let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
        let payload = packet.get(Ipv4Header::LEN..total)?;
        // More fragments, and the offset.
        let fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3fff;
        let is_plain = h[0] == 0x45 && fragment == 0 && checksum::sum_20(h) == 0xffff;
        is_plain.then_some(Self {
            src: Ipv4Addr::new(h[12], h[13], h[14], h[15]),
            dst: Ipv4Addr::new(h[16], h[17], h[18], h[19]),
            protocol: Protocol(h[9]),
            ecn: Ecn::from_tos(h[1]),
            payload,
        })
    }
}

struct Lengths {
    header: usize,
    total: usize,
}

fn check_lengths(h: &[u8; 20], available: usize) -> Result<Lengths, ParseError> {
    if h[0] >> 4 != 4 {
        return Err(ParseError::BadVersion);
    }
    let header = usize::from(h[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    if header < Ipv4Header::LEN || total < header {
        return Err(ParseError::BadLength);
    }
    if total > available {
        return Err(ParseError::Truncated);
    }
    Ok(Lengths { header, total })
}

/// Walks the options and says whether one is a source route.
fn check_options(mut options: &[u8]) -> Result<bool, ParseError> {
    let mut source_route = false;
    while let Some((&kind, rest)) = options.split_first() {
        match kind {
            OPTION_END => break,
            OPTION_NOP => options = rest,
            _ => {
                let len = usize::from(*rest.first().ok_or(ParseError::BadLength)?);
                if len < 2 {
                    return Err(ParseError::BadLength);
                }
                options = options.get(len..).ok_or(ParseError::BadLength)?;
                source_route |= matches!(kind, OPTION_LSRR | OPTION_SSRR);
            }
        }
    }
    Ok(source_route)
}

#[cfg(test)]
mod tests;
