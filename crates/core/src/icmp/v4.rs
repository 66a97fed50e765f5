//! ICMP for IPv4 (RFC 792, RFC 1122 §3.2.2).

use wire::ParseError;
use wire::icmpv4::{Echo, HEADER_LEN, Icmpv4Message, UnreachableCode};
use wire::ip::Protocol;
use wire::quoted::{self, QuotedPacket, QuotedTransport};

use crate::counters::Counters;
use crate::drops::DropReason;
use crate::error::Error;
use crate::ip::packet::{Arrival, Packet};
use crate::ip::{Class, Envelope, ErrorKind, Input, Net, TransportError};

/// RFC 1191 §7.1: MTUs that links have, for routers that do not say theirs.
const PLATEAUS: [u16; 10] = [
    32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68,
];

impl Net {
    pub(crate) fn icmpv4<'a>(
        &mut self,
        at: &Arrival,
        packet: &Packet<'_>,
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        counters.icmp_in += 1;
        let message = Icmpv4Message::parse(&packet.payload).map_err(|error| match error {
            ParseError::BadChecksum => DropReason::IcmpChecksum,
            _ => DropReason::IcmpMalformed,
        })?;
        match message {
            Icmpv4Message::EchoRequest(echo) => {
                self.echo_v4(at, packet, echo, counters);
                Ok(Input::Consumed)
            }
            Icmpv4Message::DestinationUnreachable {
                code,
                next_hop_mtu,
                quoted,
            } => self.error_v4(quoted, unreachable(code), next_hop_mtu, counters),
            Icmpv4Message::TimeExceeded { quoted, .. }
            | Icmpv4Message::ParameterProblem { quoted, .. } => {
                self.error_v4(quoted, ErrorKind::Soft(Error::HostUnreachable), 0, counters)
            }
            // RFC 9293 MUST-55.
            // RFC 1122 §3.2.2-1.
            // RFC 5927 §6.2-1.
            // Redirects: routes are configured. Source quench: RFC 6633 §3.
            Icmpv4Message::EchoReply(_)
            | Icmpv4Message::Redirect { .. }
            | Icmpv4Message::Other { .. } => Err(DropReason::IcmpIgnored),
        }
    }

    /// RFC 1122 §3.2.2.6: from the address that was asked, with its data, cut off where it would
    /// have to be fragmented. RFC 1122 §3.2.2.6-1.
    fn echo_v4(
        &mut self,
        at: &Arrival,
        packet: &Packet<'_>,
        echo: Echo<'_>,
        counters: &mut Counters,
    ) {
        let Ok(path) = self.path(packet.src, Some(packet.dst)) else {
            counters.drop(DropReason::ReplyNoRoute);
            return;
        };
        let envelope = Envelope::along(&path, packet.src, Protocol::ICMP);
        let room = self
            .links
            .payload_room(&envelope)
            .saturating_sub(HEADER_LEN);
        let reply = Icmpv4Message::EchoReply(Echo {
            payload: echo.payload.get(..room).unwrap_or(echo.payload),
            ..echo
        });
        let sent = self.links.send_filled(
            at.now,
            &envelope,
            Class::Reply,
            reply.len(),
            counters,
            |body| {
                reply.emit(body);
            },
        );
        counters.echo_replies += u64::from(sent);
        counters.icmp_out += u64::from(sent);
    }

    fn error_v4<'a>(
        &mut self,
        quoted: &[u8],
        kind: ErrorKind,
        next_hop_mtu: u16,
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        let packet = quoted::parse_v4(quoted).map_err(|_| DropReason::IcmpQuote)?;
        let mtu =
            (kind == ErrorKind::TooBig).then(|| plausible_mtu(next_hop_mtu, packet.total_len));
        self.transport_error(&packet, kind, mtu, counters)
    }

    /// An error is TCP's concern if it is about a segment from an address of ours.
    pub(super) fn transport_error<'a>(
        &self,
        packet: &QuotedPacket,
        kind: ErrorKind,
        mtu: Option<u16>,
        counters: &mut Counters,
    ) -> Result<Input<'a>, DropReason> {
        match packet.transport {
            QuotedTransport::Tcp(quoted) if self.is_local(quoted.src.ip()) => {
                counters.icmp_errors_in += 1;
                Ok(Input::Error(TransportError { quoted, kind, mtu }))
            }
            _ => Err(DropReason::IcmpQuote),
        }
    }
}

/// RFC 1122 §4.2.3.9: codes 2 to 4 are hard, 0, 1 and 5 soft; §3.2.2.1 has the others.
/// RFC 1812 §5.2.7.1 adds 13 to 15.
fn unreachable(code: UnreachableCode) -> ErrorKind {
    match code {
        UnreachableCode::PROTOCOL => ErrorKind::Hard(Error::ProtocolUnreachable),
        UnreachableCode::PORT => ErrorKind::Hard(Error::Refused),
        UnreachableCode::FRAGMENTATION_NEEDED => ErrorKind::TooBig,
        // "Prohibited" is as unreachable as on Linux, which has EACCES over IPv6 only.
        UnreachableCode::NETWORK_PROHIBITED => ErrorKind::Hard(Error::NetworkUnreachable),
        UnreachableCode::HOST_PROHIBITED | UnreachableCode::ADMIN_PROHIBITED => {
            ErrorKind::Hard(Error::HostUnreachable)
        }
        UnreachableCode::NETWORK
        | UnreachableCode::NETWORK_UNKNOWN
        | UnreachableCode::NETWORK_TOS => ErrorKind::Soft(Error::NetworkUnreachable),
        _ => ErrorKind::Soft(Error::HostUnreachable),
    }
}

/// RFC 1191 §5: the router's word if it can be true, else the next smaller usual size.
/// RFC 1191 §5-1.
fn plausible_mtu(next_hop_mtu: u16, packet_len: u32) -> u16 {
    let len = u16::try_from(packet_len).unwrap_or(u16::MAX);
    if next_hop_mtu >= 68 && next_hop_mtu < len {
        return next_hop_mtu;
    }
    PLATEAUS
        .iter()
        .copied()
        .find(|&plateau| plateau < len)
        .unwrap_or(68)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1191 §5-1.
    #[test]
    fn mtus_that_cannot_be_true_are_replaced_by_usual_ones() {
        for (said, len, expected) in [
            (1400, 1500, 1400),
            (0, 1500, 1492),
            (1500, 1500, 1492),
            (9000, 1492, 1006),
            (67, 296, 68),
            (68, 296, 68),
            (0, 40, 68),
            (0, 65_535, 32_000),
        ] {
            assert_eq!(plausible_mtu(said, len), expected, "{said} for {len}");
        }
    }

    #[test]
    fn codes_are_hard_or_soft_as_rfc_1122_says() {
        for code in 0..=255 {
            let kind = unreachable(UnreachableCode(code));
            match code {
                2 | 3 | 9 | 10 | 13 => assert!(matches!(kind, ErrorKind::Hard(_)), "{code}"),
                4 => assert_eq!(kind, ErrorKind::TooBig),
                _ => assert!(matches!(kind, ErrorKind::Soft(_)), "{code}"),
            }
        }
    }

    /// The errno that a program sees is Linux's.
    #[test]
    fn prohibited_is_unreachable() {
        for (code, error) in [
            (9, Error::NetworkUnreachable),
            (10, Error::HostUnreachable),
            (13, Error::HostUnreachable),
        ] {
            assert_eq!(unreachable(UnreachableCode(code)), ErrorKind::Hard(error));
        }
    }
}
