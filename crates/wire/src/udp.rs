//! UDP headers (RFC 768).

use std::net::IpAddr;

use crate::ParseError;
use crate::checksum;
use crate::ip::Protocol;

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpHeader {
    /// Source port; 0 if the sender wants no reply.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Length of header and payload, in bytes.
    pub len: u16,
    /// The checksum field as it is in the header; 0 means none (IPv4 only).
    pub checksum: u16,
}

impl UdpHeader {
    /// Length of the header, in bytes.
    pub const LEN: usize = 8;

    /// A header for `payload_len` bytes, its checksum still 0; see [`fill_checksum`].
    pub fn new(src_port: u16, dst_port: u16, payload_len: usize) -> Self {
        Self {
            src_port,
            dst_port,
            len: u16::try_from(payload_len.saturating_add(Self::LEN)).unwrap_or(u16::MAX),
            checksum: 0,
        }
    }

    /// Splits a datagram into header and payload, cut to the length field. Does not look at the
    /// checksum: see [`verify_checksum`].
    ///
    /// # Errors
    /// `Truncated`; `BadLength` for a length below 8.
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let h = datagram.first_chunk::<8>().ok_or(ParseError::Truncated)?;
        let header = Self {
            src_port: u16::from_be_bytes([h[0], h[1]]),
            dst_port: u16::from_be_bytes([h[2], h[3]]),
            len: u16::from_be_bytes([h[4], h[5]]),
            checksum: u16::from_be_bytes([h[6], h[7]]),
        };
        if usize::from(header.len) < Self::LEN {
            return Err(ParseError::BadLength);
        }
        let payload = datagram
            .get(Self::LEN..usize::from(header.len))
            .ok_or(ParseError::Truncated)?;
        Ok((header, payload))
    }

    /// Length that `emit` writes, in bytes.
    pub const fn header_len(&self) -> usize {
        Self::LEN
    }

    /// Writes the header as it is and returns its length; writes nothing and returns 0 if it does
    /// not fit.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let Some(h) = out.first_chunk_mut::<8>() else {
            return 0;
        };
        let [s0, s1] = self.src_port.to_be_bytes();
        let [d0, d1] = self.dst_port.to_be_bytes();
        let [l0, l1] = self.len.to_be_bytes();
        let [c0, c1] = self.checksum.to_be_bytes();
        *h = [s0, s1, d0, d1, l0, l1, c0, c1];
        Self::LEN
    }
}

/// Checks the checksum of a whole datagram (header and payload; bytes behind the length field do
/// not count).
///
/// # Errors
/// `BadChecksum` if it is wrong, or missing on IPv6 (RFC 8200 §8.1; RFC 768 permits none on IPv4).
/// Errors of [`UdpHeader::parse`].
pub fn verify_checksum(src: IpAddr, dst: IpAddr, datagram: &[u8]) -> Result<(), ParseError> {
    let (header, _) = UdpHeader::parse(datagram)?;
    if header.checksum == 0 && src.is_ipv4() {
        return Ok(());
    }
    let covered = datagram
        .get(..usize::from(header.len))
        .ok_or(ParseError::Truncated)?;
    if header.checksum == 0 || !checksum::verify_transport(src, dst, Protocol::UDP, covered) {
        return Err(ParseError::BadChecksum);
    }
    Ok(())
}

/// Computes the checksum of a whole datagram and writes it into its header. Too short a datagram is
/// left as it is.
pub fn fill_checksum(src: IpAddr, dst: IpAddr, datagram: &mut [u8]) {
    let Some([.., c0, c1]) = datagram.first_chunk_mut::<8>() else {
        return;
    };
    (*c0, *c1) = (0, 0);
    let sum = checksum::transport_checksum(src, dst, Protocol::UDP, datagram);
    // RFC 768: a computed zero is sent as all ones, because zero means that there is none.
    let sum = if sum == 0 { 0xffff } else { sum };
    if let Some([.., c0, c1]) = datagram.first_chunk_mut::<8>() {
        [*c0, *c1] = sum.to_be_bytes();
    }
}

#[cfg(test)]
mod tests;
