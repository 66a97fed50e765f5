//! IPv6 headers and extension headers (RFC 8200).

mod extension;

use std::net::Ipv6Addr;

use crate::ParseError;
use crate::ip::{Ecn, Protocol};

pub(crate) use extension::quoted_upper_layer;
pub use extension::{ExtensionError, FragmentHeader, Upper, upper_layer, upper_layer_reassembled};

/// An IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6Header {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// What follows: an extension header or the transport.
    pub next_header: Protocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// DSCP (6 high bits) and ECN (2 low bits).
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Length of what follows, extension headers included, in bytes.
    pub payload_len: u16,
}

impl Ipv6Header {
    /// Length of the header, in bytes.
    pub const LEN: usize = 40;

    /// A header for `payload_len` bytes: hop limit 64, traffic class and flow label 0. A payload
    /// that is too long saturates.
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, next_header: Protocol, payload_len: usize) -> Self {
        Self {
            src,
            dst,
            next_header,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            payload_len: u16::try_from(payload_len).unwrap_or(u16::MAX),
        }
    }

    /// Splits a packet into header and payload; link-layer padding is cut off. Jumbograms
    /// (RFC 2675) are not understood.
    ///
    /// # Errors
    /// `Truncated`, `BadVersion`.
    pub fn parse(packet: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (h, rest) = packet
            .split_first_chunk::<40>()
            .ok_or(ParseError::Truncated)?;
        let header = Self::from_bytes(h)?;
        let payload = rest
            .get(..usize::from(header.payload_len))
            .ok_or(ParseError::Truncated)?;
        Ok((header, payload))
    }

    /// The fields of a header whose payload may be cut short, as in an ICMP error.
    pub(crate) fn from_bytes(h: &[u8; 40]) -> Result<Self, ParseError> {
        let [first, second, third, fourth, ..] = *h;
        let word = u32::from_be_bytes([first, second, third, fourth]);
        if word >> 28 != 6 {
            return Err(ParseError::BadVersion);
        }
        let mut src = [0; 16];
        let mut dst = [0; 16];
        src.copy_from_slice(&h[8..24]);
        dst.copy_from_slice(&h[24..40]);
        Ok(Self {
            src: src.into(),
            dst: dst.into(),
            next_header: Protocol(h[6]),
            hop_limit: h[7],
            traffic_class: (word >> 20) as u8,
            flow_label: word & 0x000f_ffff,
            payload_len: u16::from_be_bytes([h[4], h[5]]),
        })
    }

    /// The ECN field.
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_tos(self.traffic_class)
    }

    /// Length that `emit` writes, in bytes.
    pub const fn header_len(&self) -> usize {
        Self::LEN
    }

    /// Writes the header and returns its length; writes nothing and returns 0 if it does not fit.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let Some(h) = out.first_chunk_mut::<40>() else {
            return 0;
        };
        let class = u32::from(self.traffic_class) << 20;
        let word = (6 << 28) | class | (self.flow_label & 0x000f_ffff);
        h[..4].copy_from_slice(&word.to_be_bytes());
        h[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        h[6] = self.next_header.0;
        h[7] = self.hop_limit;
        h[8..24].copy_from_slice(&self.src.octets());
        h[24..40].copy_from_slice(&self.dst.octets());
        Self::LEN
    }
}

#[cfg(test)]
mod tests;
