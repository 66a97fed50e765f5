//! TCP headers (RFC 9293 §3.1).

mod accurate_ecn;
mod kinds;
mod options;

use std::fmt;
use std::net::IpAddr;

use crate::ParseError;
use crate::checksum;
use crate::ip::Protocol;
use crate::seq::SeqNumber;

pub use accurate_ecn::EcnBytes;
pub use options::{FastOpenCookie, RawOption, RawOptions, SackBlocks, TcpOptions, Timestamps};

bitflags::bitflags! {
    /// Control bits (RFC 9293 §3.1, RFC 3168 §6.1, RFC 9768 for AE).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
    pub struct TcpFlags: u16 {
        /// No more data from the sender.
        const FIN = 0x001;
        /// Synchronize sequence numbers.
        const SYN = 0x002;
        /// Reset the connection.
        const RST = 0x004;
        /// Push.
        const PSH = 0x008;
        /// The acknowledgment field counts.
        const ACK = 0x010;
        /// The urgent pointer counts.
        const URG = 0x020;
        /// ECN echo.
        const ECE = 0x040;
        /// Congestion window reduced.
        const CWR = 0x080;
        /// Accurate ECN.
        const AE = 0x100;
    }
}

/// As tcpdump writes them: `S`, `S.`, `P.`, `F.`, `R`, `.`, `none`.
impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let symbols = [
            (Self::FIN, "F"),
            (Self::SYN, "S"),
            (Self::RST, "R"),
            (Self::PSH, "P"),
            (Self::ACK, "."),
            (Self::URG, "U"),
            (Self::ECE, "E"),
            (Self::CWR, "W"),
            (Self::AE, "e"),
        ];
        for (flag, letter) in symbols {
            if self.contains(flag) {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

/// A TCP header. The checksum is not part of it: see [`fill_checksum`] and
/// [`checksum::verify_transport`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TcpHeader {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the first payload byte, or of the SYN.
    pub seq: SeqNumber,
    /// Next sequence number that the sender expects, if ACK is set.
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: TcpFlags,
    /// Window as in the header: not yet scaled, except that it never is on a SYN (RFC 7323 §2.2).
    pub window: u16,
    /// Urgent pointer, in bytes from `seq`, if URG is set.
    pub urgent: u16,
    /// Options.
    pub options: TcpOptions,
}

impl TcpHeader {
    /// Length of a header without options, in bytes.
    pub const MIN_LEN: usize = 20;
    /// Length of the longest header, in bytes.
    pub const MAX_LEN: usize = 60;

    /// Splits a segment into header and payload. Does not look at the checksum. Malformed options
    /// do not make a segment malformed: see [`TcpOptions::malformed`].
    ///
    /// # Errors
    /// `Truncated` if the data offset points past the segment; `BadLength` if it is less than 5.
    #[inline]
    pub fn parse(segment: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (mut header, options, payload) = Self::split(segment)?;
        header.options.read(options);
        Ok((header, payload))
    }

    /// Splits a segment into header, options that were not read, and payload.
    ///
    /// # Errors
    /// As [`Self::parse`].
    #[inline]
    pub fn split(segment: &[u8]) -> Result<(Self, &[u8], &[u8]), ParseError> {
        let h = segment.first_chunk::<20>().ok_or(ParseError::Truncated)?;
        let header_len = usize::from(h[12] >> 4) * 4;
        if header_len < Self::MIN_LEN {
            return Err(ParseError::BadLength);
        }
        let (header, payload) = segment
            .split_at_checked(header_len)
            .ok_or(ParseError::Truncated)?;
        let options = header.get(Self::MIN_LEN..).unwrap_or_default();
        let parsed = Self {
            src_port: u16::from_be_bytes([h[0], h[1]]),
            dst_port: u16::from_be_bytes([h[2], h[3]]),
            seq: SeqNumber(u32::from_be_bytes([h[4], h[5], h[6], h[7]])),
            ack: SeqNumber(u32::from_be_bytes([h[8], h[9], h[10], h[11]])),
            flags: TcpFlags::from_bits_truncate(u16::from_be_bytes([h[12] & 1, h[13]])),
            window: u16::from_be_bytes([h[14], h[15]]),
            urgent: u16::from_be_bytes([h[18], h[19]]),
            options: TcpOptions::default(),
        };
        Ok((parsed, options, payload))
    }

    /// Length of the header that `emit` writes, in bytes: a multiple of 4, at most 60.
    pub fn header_len(&self) -> usize {
        Self::MIN_LEN + self.options.emitted_len()
    }

    /// Sequence space that a segment with this header and `payload_len` bytes takes (RFC 9293 §3.4:
    /// SYN and FIN count).
    pub const fn segment_len(&self, payload_len: u32) -> u32 {
        let syn = self.flags.contains(TcpFlags::SYN) as u32;
        let fin = self.flags.contains(TcpFlags::FIN) as u32;
        payload_len + syn + fin
    }

    /// Writes the header with a checksum of 0 and returns its length; returns 0 if it does not fit.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let Some((h, rest)) = out.split_first_chunk_mut::<20>() else {
            return 0;
        };
        let Some(options_len) = self.options.emit(rest) else {
            return 0;
        };
        *h = self.fixed(options_len);
        Self::MIN_LEN + options_len
    }

    /// The header without its options, which are so many bytes: a multiple of 4, at most 40. Its
    /// checksum is 0.
    #[inline(always)]
    pub fn fixed(&self, options_len: usize) -> [u8; Self::MIN_LEN] {
        let header_len = Self::MIN_LEN + options_len;
        let [s0, s1] = self.src_port.to_be_bytes();
        let [d0, d1] = self.dst_port.to_be_bytes();
        let [q0, q1, q2, q3] = self.seq.0.to_be_bytes();
        let [a0, a1, a2, a3] = self.ack.0.to_be_bytes();
        let [ae, flags] = self.flags.bits().to_be_bytes();
        let offset = ((header_len / 4) as u8) << 4;
        let [w0, w1] = self.window.to_be_bytes();
        let [u0, u1] = self.urgent.to_be_bytes();
        [
            s0,
            s1,
            d0,
            d1,
            q0,
            q1,
            q2,
            q3,
            a0,
            a1,
            a2,
            a3,
            offset | (ae & 1),
            flags,
            w0,
            w1,
            0,
            0,
            u0,
            u1,
        ]
    }
}

/// Computes the checksum of a whole segment and writes it into its header. Too short a segment is
/// left as it is.
#[inline]
pub fn fill_checksum(src: IpAddr, dst: IpAddr, segment: &mut [u8]) {
    set_checksum(segment, 0);
    let sum = checksum::transport_checksum(src, dst, Protocol::TCP, segment);
    set_checksum(segment, sum);
}

/// Writes only the sum of the pseudo-header of a segment of `len` bytes into the checksum field of
/// its header and leaves the rest to the link ([`crate::frame::TxChecksum::Partial`] with an offset
/// of [`CHECKSUM_OFFSET`]).
#[inline]
pub fn fill_partial_checksum(src: IpAddr, dst: IpAddr, header: &mut [u8], len: usize) {
    let sum = checksum::pseudo_header(src, dst, Protocol::TCP, len as u32);
    set_checksum(header, sum);
}

/// Where the checksum field is in the header, in bytes.
pub const CHECKSUM_OFFSET: u16 = 16;

#[inline]
fn set_checksum(segment: &mut [u8], checksum: u16) {
    if let Some(h) = segment.first_chunk_mut::<20>() {
        [h[16], h[17]] = checksum.to_be_bytes();
    }
}

#[cfg(test)]
mod tests;
