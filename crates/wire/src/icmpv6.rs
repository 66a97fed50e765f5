//! ICMP for IPv6 (RFC 4443).

use std::net::{IpAddr, Ipv6Addr};

use crate::ParseError;
use crate::checksum;
use crate::ip::Protocol;
use crate::ndp::NdpMessage;

pub use crate::icmpv4::Echo;

const DESTINATION_UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;

/// Length of the part in front of payload or quoted packet, in bytes.
const HEADER_LEN: usize = 8;

/// Why a destination cannot be reached: the code of a type 1 message (RFC 4443 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnreachableCode(pub u8);

impl UnreachableCode {
    /// No route to the destination.
    pub const NO_ROUTE: Self = Self(0);
    /// Administratively prohibited.
    pub const ADMIN_PROHIBITED: Self = Self(1);
    /// Beyond the scope of the source address.
    pub const BEYOND_SCOPE: Self = Self(2);
    /// Address unreachable.
    pub const ADDRESS: Self = Self(3);
    /// Port unreachable.
    pub const PORT: Self = Self(4);
    /// Source address failed ingress or egress policy.
    pub const SOURCE_POLICY: Self = Self(5);
    /// Reject route to the destination.
    pub const REJECT_ROUTE: Self = Self(6);

    /// The code in words.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "no route",
            1 => "administratively prohibited",
            2 => "beyond scope of source address",
            3 => "address unreachable",
            4 => "port unreachable",
            5 => "source address failed policy",
            6 => "reject route",
            _ => "unknown code",
        }
    }
}

/// What is wrong with a header: the code of a type 4 message (RFC 4443 §3.4, RFC 7112, RFC 8883).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParameterProblemCode(pub u8);

impl ParameterProblemCode {
    /// Erroneous header field.
    pub const HEADER_FIELD: Self = Self(0);
    /// Unrecognized next header.
    pub const NEXT_HEADER: Self = Self(1);
    /// Unrecognized option.
    pub const OPTION: Self = Self(2);
    /// The first fragment lacks a part of the header chain.
    pub const INCOMPLETE_CHAIN: Self = Self(3);

    /// The code in words.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "erroneous header field",
            1 => "unrecognized next header",
            2 => "unrecognized option",
            3 => "incomplete header chain",
            _ => "unknown code",
        }
    }
}

/// An ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "stays Copy without a lifetime; rare packets"
)]
pub enum Icmpv6Message<'a> {
    /// Echo request (ping).
    EchoRequest(Echo<'a>),
    /// Echo reply.
    EchoReply(Echo<'a>),
    /// A packet could not be delivered.
    DestinationUnreachable {
        /// Why.
        code: UnreachableCode,
        /// Start of the packet: see [`crate::quoted::parse_v6`].
        quoted: &'a [u8],
    },
    /// A packet is larger than the next link's MTU.
    PacketTooBig {
        /// That MTU, in bytes; may lie.
        mtu: u32,
        /// Start of the packet.
        quoted: &'a [u8],
    },
    /// Hop limit (code 0) or reassembly time (code 1) ran out.
    TimeExceeded {
        /// 0 or 1.
        code: u8,
        /// Start of the packet.
        quoted: &'a [u8],
    },
    /// A header field is wrong.
    ParameterProblem {
        /// What is wrong.
        code: ParameterProblemCode,
        /// Offending byte of the packet.
        pointer: u32,
        /// Start of the packet.
        quoted: &'a [u8],
    },
    /// Neighbour discovery.
    Ndp(NdpMessage),
    /// Any other type.
    Other {
        /// Type; those below 128 are errors.
        kind: u8,
        /// Code.
        code: u8,
        /// The four bytes behind the checksum.
        rest: [u8; 4],
        /// What follows.
        payload: &'a [u8],
    },
}

impl<'a> Icmpv6Message<'a> {
    /// Reads the transport part of an IPv6 packet and verifies its checksum.
    ///
    /// # Errors
    /// `Truncated`, `BadChecksum`; errors of [`NdpMessage::parse`].
    pub fn parse(src: Ipv6Addr, dst: Ipv6Addr, bytes: &'a [u8]) -> Result<Self, ParseError> {
        if bytes.len() < HEADER_LEN {
            return Err(ParseError::Truncated);
        }
        if !checksum::verify_transport(src.into(), dst.into(), Protocol::ICMPV6, bytes) {
            return Err(ParseError::BadChecksum);
        }
        Self::parse_unverified(bytes)
    }

    /// Reads a message without looking at the checksum, as one does for a truncated one.
    ///
    /// # Errors
    /// `Truncated`; errors of [`NdpMessage::parse`].
    pub fn parse_unverified(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (h, payload) = bytes
            .split_first_chunk::<8>()
            .ok_or(ParseError::Truncated)?;
        let &[kind, code, _, _, r0, r1, r2, r3] = h;
        let word = u32::from_be_bytes([r0, r1, r2, r3]);
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
                quoted: payload,
            },
            PACKET_TOO_BIG => Self::PacketTooBig {
                mtu: word,
                quoted: payload,
            },
            TIME_EXCEEDED => Self::TimeExceeded {
                code,
                quoted: payload,
            },
            PARAMETER_PROBLEM => Self::ParameterProblem {
                code: ParameterProblemCode(code),
                pointer: word,
                quoted: payload,
            },
            _ if NdpMessage::is_kind(kind) => Self::Ndp(NdpMessage::parse(bytes)?),
            _ => Self::Other {
                kind,
                code,
                rest: [r0, r1, r2, r3],
                payload,
            },
        })
    }

    /// Whether this is an error message, which must never be answered with another one
    /// (RFC 4443 §2.4(e)).
    pub const fn is_error(&self) -> bool {
        matches!(
            self,
            Self::DestinationUnreachable { .. }
                | Self::PacketTooBig { .. }
                | Self::TimeExceeded { .. }
                | Self::ParameterProblem { .. }
                | Self::Other { kind: 0..=127, .. }
        )
    }

    /// Length that `emit` writes, in bytes, payload or quoted packet included.
    pub fn len(&self) -> usize {
        match self {
            Self::Ndp(message) => message.len(),
            _ => HEADER_LEN + self.parts().3.len(),
        }
    }

    /// Never: a message has at least a header.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Type, code, the four bytes behind the checksum, and what follows them. Neighbour discovery
    /// emits itself.
    fn parts(&self) -> (u8, u8, [u8; 4], &'a [u8]) {
        match *self {
            Self::EchoRequest(echo) => (ECHO_REQUEST, 0, echo.rest(), echo.payload),
            Self::EchoReply(echo) => (ECHO_REPLY, 0, echo.rest(), echo.payload),
            Self::DestinationUnreachable { code, quoted } => {
                (DESTINATION_UNREACHABLE, code.0, [0; 4], quoted)
            }
            Self::PacketTooBig { mtu, quoted } => (PACKET_TOO_BIG, 0, mtu.to_be_bytes(), quoted),
            Self::TimeExceeded { code, quoted } => (TIME_EXCEEDED, code, [0; 4], quoted),
            Self::ParameterProblem {
                code,
                pointer,
                quoted,
            } => (PARAMETER_PROBLEM, code.0, pointer.to_be_bytes(), quoted),
            Self::Ndp(message) => (message.kind(), 0, [0; 4], &[]),
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
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr, out: &mut [u8]) -> usize {
        let len = self.len();
        let Some(out) = out.get_mut(..len) else {
            return 0;
        };
        if let Self::Ndp(message) = self {
            if message.emit_body(out) != len {
                return 0;
            }
        } else {
            let (kind, code, [r0, r1, r2, r3], payload) = self.parts();
            let Some((h, body)) = out.split_first_chunk_mut::<8>() else {
                return 0;
            };
            *h = [kind, code, 0, 0, r0, r1, r2, r3];
            body.copy_from_slice(payload);
        }
        let (src, dst) = (IpAddr::V6(src), IpAddr::V6(dst));
        let sum = checksum::transport_checksum(src, dst, Protocol::ICMPV6, out);
        if let Some([_, _, c0, c1]) = out.first_chunk_mut::<4>() {
            [*c0, *c1] = sum.to_be_bytes();
        }
        len
    }
}

#[cfg(test)]
mod tests;
