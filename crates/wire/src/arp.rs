//! ARP for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use crate::ParseError;
use crate::frame::MacAddr;

/// What an ARP packet asks or says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArpOperation {
    /// Who has the target address?
    Request,
    /// The sender has the sender address.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArpPacket {
    /// Request or reply.
    pub operation: ArpOperation,
    /// Hardware address of the sender.
    pub sender_mac: MacAddr,
    /// Protocol address of the sender; 0.0.0.0 in a probe (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// Hardware address of the target; meaningless in a request.
    pub target_mac: MacAddr,
    /// Protocol address of the target.
    pub target_ip: Ipv4Addr,
}

impl ArpPacket {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 28;

    /// Reads a packet; the padding of the frame behind it is returned as the payload.
    ///
    /// # Errors
    /// `Truncated`; `Unsupported` for other hardware, protocols or operations; `BadLength` for
    /// other address lengths. RFC 826 §0-3.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (p, rest) = bytes
            .split_first_chunk::<28>()
            .ok_or(ParseError::Truncated)?;
        let [h0, h1, t0, t1, hlen, plen, o0, o1, ..] = *p;
        if [h0, h1, t0, t1] != [0, 1, 8, 0] {
            return Err(ParseError::Unsupported);
        }
        if (hlen, plen) != (6, 4) {
            return Err(ParseError::BadLength);
        }
        let operation = match u16::from_be_bytes([o0, o1]) {
            1 => ArpOperation::Request,
            2 => ArpOperation::Reply,
            _ => return Err(ParseError::Unsupported),
        };
        let packet = Self {
            operation,
            sender_mac: MacAddr([p[8], p[9], p[10], p[11], p[12], p[13]]),
            sender_ip: Ipv4Addr::new(p[14], p[15], p[16], p[17]),
            target_mac: MacAddr([p[18], p[19], p[20], p[21], p[22], p[23]]),
            target_ip: Ipv4Addr::new(p[24], p[25], p[26], p[27]),
        };
        Ok((packet, rest))
    }

    /// Length that `emit` writes, in bytes.
    pub const fn header_len(&self) -> usize {
        Self::LEN
    }

    /// Writes the packet and returns its length; writes nothing and returns 0 if it does not fit.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let Some(p) = out.first_chunk_mut::<28>() else {
            return 0;
        };
        let operation = match self.operation {
            ArpOperation::Request => 1,
            ArpOperation::Reply => 2,
        };
        p[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, operation]);
        p[8..14].copy_from_slice(&self.sender_mac.0);
        p[14..18].copy_from_slice(&self.sender_ip.octets());
        p[18..24].copy_from_slice(&self.target_mac.0);
        p[24..28].copy_from_slice(&self.target_ip.octets());
        Self::LEN
    }
}

#[cfg(test)]
mod tests;
