//! ICMP for IPv4 (RFC 792, RFC 1191 for the next-hop MTU, RFC 1122 and RFC 1812 for codes).

use std::net::Ipv4Addr;

use crate::ParseError;
use crate::checksum;

const ECHO_REPLY: u8 = 0;
const DESTINATION_UNREACHABLE: u8 = 3;
const REDIRECT: u8 = 5;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

/// Length of the part in front of payload or quoted packet, in bytes.
pub const HEADER_LEN: usize = 8;

/// An echo request or reply, for IPv4 and IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Identifier, from the sender of the request.
    pub ident: u16,
    /// Sequence number, from the sender of the request.
    pub seq: u16,
    /// Data that the reply repeats.
    pub payload: &'a [u8],
}

impl Echo<'_> {
    pub(crate) fn rest(&self) -> [u8; 4] {
        let [i0, i1] = self.ident.to_be_bytes();
        let [s0, s1] = self.seq.to_be_bytes();
        [i0, i1, s0, s1]
    }
}

/// Why a destination cannot be reached: the code of a type 3 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnreachableCode(pub u8);

impl UnreachableCode {
    /// Network unreachable.
    pub const NETWORK: Self = Self(0);
    /// Host unreachable.
    pub const HOST: Self = Self(1);
    /// Protocol unreachable.
    pub const PROTOCOL: Self = Self(2);
    /// Port unreachable.
    pub const PORT: Self = Self(3);
    /// Fragmentation needed and DF set (path MTU discovery, RFC 1191).
    pub const FRAGMENTATION_NEEDED: Self = Self(4);
    /// Source route failed.
    pub const SOURCE_ROUTE_FAILED: Self = Self(5);
    /// Destination network unknown.
    pub const NETWORK_UNKNOWN: Self = Self(6);
    /// Destination host unknown.
    pub const HOST_UNKNOWN: Self = Self(7);
    /// Source host isolated.
    pub const HOST_ISOLATED: Self = Self(8);
    /// Destination network administratively prohibited.
    pub const NETWORK_PROHIBITED: Self = Self(9);
    /// Destination host administratively prohibited.
    pub const HOST_PROHIBITED: Self = Self(10);
    /// Network unreachable for this type of service.
    pub const NETWORK_TOS: Self = Self(11);
    /// Host unreachable for this type of service.
    pub const HOST_TOS: Self = Self(12);
    /// Communication administratively prohibited by filtering.
    pub const ADMIN_PROHIBITED: Self = Self(13);
    /// Host precedence violation.
    pub const PRECEDENCE_VIOLATION: Self = Self(14);
    /// Precedence cutoff in effect.
    pub const PRECEDENCE_CUTOFF: Self = Self(15);

    /// The code in words.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "network unreachable",
            1 => "host unreachable",
            2 => "protocol unreachable",
            3 => "port unreachable",
            4 => "fragmentation needed",
            5 => "source route failed",
            6 => "network unknown",
            7 => "host unknown",
            8 => "source host isolated",
            9 => "network administratively prohibited",
            10 => "host administratively prohibited",
            11 => "network unreachable for TOS",
            12 => "host unreachable for TOS",
            13 => "administratively prohibited",
            14 => "host precedence violation",
            15 => "precedence cutoff",
            _ => "unknown code",
        }
    }
}

/// An ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmpv4Message<'a> {
    /// Echo request (ping).
    EchoRequest(Echo<'a>),
    /// Echo reply.
    EchoReply(Echo<'a>),
    /// A packet could not be delivered.
    DestinationUnreachable {
        /// Why.
        code: UnreachableCode,
        /// Largest packet of the next hop, in bytes, for code 4; 0 from routers older than
        /// RFC 1191.
        next_hop_mtu: u16,
        /// Start of the packet: see [`crate::quoted::parse_v4`].
        quoted: &'a [u8],
    },
    /// TTL (code 0) or reassembly time (code 1) ran out.
    TimeExceeded {
        /// 0 or 1.
        code: u8,
        /// Start of the packet.
        quoted: &'a [u8],
    },
    /// A header field is wrong.
    ParameterProblem {
        /// 0: `pointer` says where; 1: an option is missing; 2: bad length.
        code: u8,
        /// Offending byte of the quoted packet.
        pointer: u8,
        /// Start of the packet.
        quoted: &'a [u8],
    },
    /// There is a better first hop.
    Redirect {
        /// 0: network, 1: host, 2 and 3: with type of service.
        code: u8,
        /// The better hop.
        gateway: Ipv4Addr,
        /// Start of the packet.
        quoted: &'a [u8],
    },
    /// Any other type.
    Other {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// The four bytes behind the checksum.
        rest: [u8; 4],
        /// What follows.
        payload: &'a [u8],
    },
}

impl<'a> Icmpv4Message<'a> {
    /// Reads the payload of an IPv4 packet and verifies its checksum.
    ///
    /// # Errors
    /// `Truncated`, `BadChecksum`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let message = Self::parse_unverified(bytes)?;
        if !checksum::verify(bytes) {
            return Err(ParseError::BadChecksum);
        }
        Ok(message)
    }

    /// Reads a message without looking at the checksum, as one does for a truncated one.
    ///
    /// # Errors
    /// `Truncated`.
    pub fn parse_unverified(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (h, payload) = bytes
            .split_first_chunk::<8>()
            .ok_or(ParseError::Truncated)?;
        let &[kind, code, _, _, r0, r1, r2, r3] = h;
        let echo = Echo {
            ident: u16::from_be_bytes([r0, r1]),
            seq: u16::from_be_bytes([r2, r3]),
            payload,
        };
        Ok(match kind {
            ECHO_REQUEST => Self::EchoRequest(echo),
            ECHO_REPLY => Self::EchoReply(echo),
            DESTINATION_UNREACHABLE => Self::DestinationUnreachable {
                code: UnreachableCode(code),
                // RFC 1191 §4.
                next_hop_mtu: u16::from_be_bytes([r2, r3]),
                quoted: payload,
            },
            TIME_EXCEEDED => Self::TimeExceeded {
                code,
                quoted: payload,
            },
            PARAMETER_PROBLEM => Self::ParameterProblem {
                code,
                pointer: r0,
                quoted: payload,
            },
            REDIRECT => Self::Redirect {
                code,
                gateway: Ipv4Addr::new(r0, r1, r2, r3),
                quoted: payload,
            },
            _ => Self::Other {
                kind,
                code,
                rest: [r0, r1, r2, r3],
                payload,
            },
        })
    }

    /// Whether this is an error message, which must never be answered with another one
    /// (RFC 1122 §3.2.2).
    pub const fn is_error(&self) -> bool {
        matches!(
            self,
            Self::DestinationUnreachable { .. }
                | Self::TimeExceeded { .. }
                | Self::ParameterProblem { .. }
                | Self::Redirect { .. }
                | Self::Other { kind: 4, .. }
        )
    }

    /// Length that `emit` writes, in bytes, payload or quoted packet included.
    pub fn len(&self) -> usize {
        HEADER_LEN + self.parts().3.len()
    }

    /// Never: a message has at least a header.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Type, code, the four bytes behind the checksum, and what follows them.
    fn parts(&self) -> (u8, u8, [u8; 4], &'a [u8]) {
        match *self {
            Self::EchoRequest(echo) => (ECHO_REQUEST, 0, echo.rest(), echo.payload),
            Self::EchoReply(echo) => (ECHO_REPLY, 0, echo.rest(), echo.payload),
            Self::DestinationUnreachable {
                code,
                next_hop_mtu,
                quoted,
            } => {
                let [m0, m1] = next_hop_mtu.to_be_bytes();
                (DESTINATION_UNREACHABLE, code.0, [0, 0, m0, m1], quoted)
            }
            Self::TimeExceeded { code, quoted } => (TIME_EXCEEDED, code, [0; 4], quoted),
            Self::ParameterProblem {
                code,
                pointer,
                quoted,
            } => (PARAMETER_PROBLEM, code, [pointer, 0, 0, 0], quoted),
            Self::Redirect {
                code,
                gateway,
                quoted,
            } => (REDIRECT, code, gateway.octets(), quoted),
            Self::Other {
                kind,
                code,
                rest,
                payload,
            } => (kind, code, rest, payload),
        }
    }

    /// Writes the whole message with its checksum and returns its length; writes nothing and
    /// returns 0 if it does not fit.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let (kind, code, [r0, r1, r2, r3], payload) = self.parts();
        let len = HEADER_LEN + payload.len();
        let Some(out) = out.get_mut(..len) else {
            return 0;
        };
        let Some((h, body)) = out.split_first_chunk_mut::<8>() else {
            return 0;
        };
        *h = [kind, code, 0, 0, r0, r1, r2, r3];
        body.copy_from_slice(payload);
        let [c0, c1] = checksum::checksum(out).to_be_bytes();
        if let Some([_, _, a, b, ..]) = out.first_chunk_mut::<8>() {
            (*a, *b) = (c0, c1);
        }
        len
    }
}

#[cfg(test)]
mod tests;
