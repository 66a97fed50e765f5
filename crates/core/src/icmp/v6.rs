//! ICMP for IPv6 (RFC 4443).

use std::net::{IpAddr, Ipv6Addr};

use wire::ParseError;
use wire::icmpv6::{Echo, Icmpv6Message, ParameterProblemCode, UnreachableCode};
use wire::ip::Protocol;
use wire::quoted;

use crate::counters::Counters;
use crate::drops::DropReason;
use crate::error::Error;
use crate::ip::packet::{Arrival, Packet};
use crate::ip::{Class, Envelope, ErrorKind, Input, Net};

/// RFC 8200 §5: what every link carries.
/// RFC 8201 §4-1.
const MIN_MTU: u32 = 1280;

impl Net {
    /// RFC 4443 §2.4-1.
    pub(crate) fn icmpv6<'a>(
        &mut self,
        at: &Arrival,
        packet: &Packet<'_>,
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (packet.src, packet.dst) else {
            return Err(DropReason::IcmpMalformed);
        };
        counters.icmp_in += 1;
        let message =
            Icmpv6Message::parse(src, dst, &packet.payload).map_err(|error| match error {
                ParseError::BadChecksum => DropReason::IcmpChecksum,
                _ => DropReason::IcmpMalformed,
            })?;
        match message {
            Icmpv6Message::Ndp(message) => self
                .links
                .ndp(at, packet.hop_limit, src, dst, &message, counters)
                .map(|()| Input::Consumed),
            Icmpv6Message::EchoRequest(echo) if packet.is_unicast() => {
                self.echo_v6(at, src, dst, echo, counters);
                Ok(Input::Consumed)
            }
            Icmpv6Message::DestinationUnreachable { code, quoted } => {
                self.error_v6(quoted, unreachable(code), counters)
            }
            Icmpv6Message::PacketTooBig { mtu, quoted } => self.too_big(mtu, quoted, counters),
            Icmpv6Message::TimeExceeded { quoted, .. } => {
                self.error_v6(quoted, ErrorKind::Soft(Error::HostUnreachable), counters)
            }
            Icmpv6Message::ParameterProblem { code, quoted, .. } => {
                self.error_v6(quoted, problem(code), counters)
            }
            // RFC 4443 §4.2 would have us answer echo requests to groups; that is a way to make
            // many hosts answer one packet.
            Icmpv6Message::EchoRequest(_)
            | Icmpv6Message::EchoReply(_)
            | Icmpv6Message::Other { .. } => Err(DropReason::IcmpIgnored),
        }
    }

    /// RFC 4443 §4.2-1.
    fn echo_v6(
        &mut self,
        at: &Arrival,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        echo: Echo<'_>,
        counters: &mut Counters,
    ) {
        let Ok(path) = self.path(src.into(), Some(dst.into())) else {
            counters.drop(DropReason::ReplyNoRoute);
            return;
        };
        let reply = Icmpv6Message::EchoReply(echo);
        let envelope = Envelope::along(&path, src.into(), Protocol::ICMPV6);
        let sent = self.links.send_filled(
            at.now,
            &envelope,
            Class::Reply,
            reply.len(),
            counters,
            |body| {
                reply.emit(dst, src, body);
            },
        );
        counters.echo_replies += u64::from(sent);
        counters.icmp_out += u64::from(sent);
    }

    /// RFC 8201 §4: an MTU that would not make packets smaller is a lie or a delay; one below 1280
    /// must be ignored.
    fn too_big<'a>(
        &mut self,
        mtu: u32,
        quoted: &[u8],
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        let packet = quoted::parse_v6(quoted).map_err(|_| DropReason::IcmpQuote)?;
        if mtu >= packet.total_len || mtu < MIN_MTU {
            return Err(DropReason::IcmpQuote);
        }
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        self.transport_error(&packet, ErrorKind::TooBig, Some(mtu), counters)
    }

    fn error_v6<'a>(
        &mut self,
        quoted: &[u8],
        kind: ErrorKind,
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        let packet = quoted::parse_v6(quoted).map_err(|_| DropReason::IcmpQuote)?;
        self.transport_error(&packet, kind, None, counters)
    }
}

/// RFC 5461 §2 and RFC 4443 §3.1.
fn unreachable(code: UnreachableCode) -> ErrorKind {
    match code {
        UnreachableCode::PORT => ErrorKind::Hard(Error::Refused),
        UnreachableCode::ADMIN_PROHIBITED
        | UnreachableCode::SOURCE_POLICY
        | UnreachableCode::REJECT_ROUTE => ErrorKind::Hard(Error::Prohibited),
        UnreachableCode::NO_ROUTE | UnreachableCode::BEYOND_SCOPE => {
            ErrorKind::Soft(Error::NetworkUnreachable)
        }
        _ => ErrorKind::Soft(Error::HostUnreachable),
    }
}

/// RFC 4443 §3.4: the peer does not know TCP.
fn problem(code: ParameterProblemCode) -> ErrorKind {
    match code {
        ParameterProblemCode::NEXT_HEADER => ErrorKind::Hard(Error::ProtocolUnreachable),
        _ => ErrorKind::Soft(Error::HostUnreachable),
    }
}
