//! ICMP errors that we send (RFC 1122 §3.2.2, RFC 4443 §2.4): never about errors, groups or later fragments, and not too many.

use std::net::{IpAddr, Ipv6Addr};

use wire::icmpv4::{self, Icmpv4Message};
use wire::icmpv6::{self, Icmpv6Message, ParameterProblemCode};
use wire::ip::Protocol;
use wire::time::Instant;

use crate::counters::Counters;
use crate::drops::Drop;
use crate::ip::input::{Arrival, Packet};
use crate::ip::reassemble::Assembled;
use crate::ip::{Class, Envelope, Net};

/// RFC 1812 §4.3.2.3: as much of the packet as fits into 576 bytes.
const MAX_QUOTE_V4: usize = 576 - 20 - 8;
/// RFC 4443 §3: as much of the packet as fits into 1280 bytes.
/// RFC 4443 §2.4-2.
pub(crate) const MAX_QUOTE_V6: usize = 1280 - 40 - 8;

/// What cannot be reached here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No such port of a transport that we know.
    Port,
    /// No such transport. IPv4 only: see `send_parameter_problem` for IPv6.
    Protocol,
}

/// The start of the packet that an error is about, put together from pieces: in memory that is kept for it, as it is large for a stack.
fn quote(room: &mut Vec<u8>, pieces: &[&[u8]], max: usize) {
    room.clear();
    for piece in pieces {
        let most = max.saturating_sub(room.len());
        room.extend(piece.iter().take(most));
    }
}

impl Net {
    /// Lends the start of a packet to what sends an error about it.
    fn quoting(&mut self, pieces: &[&[u8]], max: usize, send: impl FnOnce(&mut Self, &[u8])) {
        let mut room = std::mem::take(&mut self.quoted);
        quote(&mut room, pieces, max);
        send(self, &room);
        self.quoted = room;
    }

    /// Tells the sender of `packet` that nobody is here.
    pub(crate) fn send_unreachable(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        what: Unreachable,
        counters: &mut Counters,
    ) {
        let pieces: [&[u8]; 2] = [&packet.head, &packet.payload];
        match packet.dst {
            IpAddr::V4(_) => {
                let code = match what {
                    Unreachable::Port => icmpv4::UnreachableCode::PORT,
                    Unreachable::Protocol => icmpv4::UnreachableCode::PROTOCOL,
                };
                self.quoting(&pieces, MAX_QUOTE_V4, |net, quoted| {
                    let message = Icmpv4Message::DestinationUnreachable {
                        code,
                        next_hop_mtu: 0,
                        quoted,
                    };
                    net.send_error_v4(now, packet.src, packet.dst, &message, counters);
                });
            }
            IpAddr::V6(dst) => {
                self.quoting(&pieces, MAX_QUOTE_V6, |net, quoted| {
                    let message = Icmpv6Message::DestinationUnreachable {
                        code: icmpv6::UnreachableCode::PORT,
                        quoted,
                    };
                    net.send_error_v6(now, packet.src, dst, &message, counters);
                });
            }
        }
    }

    /// RFC 1122 §3.2.2.1 (protocol unreachable) and RFC 4443 §3.4 (unrecognized next header). Returns why the packet was dropped.
    /// RFC 8200 §4-2.
    pub(crate) fn refuse_protocol(
        &mut self,
        at: &Arrival,
        packet: &Packet<'_>,
        counters: &mut Counters,
    ) -> Drop {
        match (packet.src, packet.dst) {
            _ if !packet.is_unicast() => {}
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let pieces: [&[u8]; 2] = [&packet.head, &packet.payload];
                let code = ParameterProblemCode::NEXT_HEADER.0;
                self.send_parameter_problem(
                    at.now,
                    src,
                    dst,
                    code,
                    packet.pointer,
                    &pieces,
                    counters,
                );
            }
            _ => self.send_unreachable(at.now, packet, Unreachable::Protocol, counters),
        }
        Drop::IpProtocol
    }

    /// RFC 4443 §3.4: something in the packet made of `pieces` is wrong, at byte `pointer`.
    #[expect(clippy::too_many_arguments, reason = "one header field each")]
    pub(crate) fn send_parameter_problem(
        &mut self,
        now: Instant,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        code: u8,
        pointer: u32,
        pieces: &[&[u8]],
        counters: &mut Counters,
    ) {
        self.quoting(pieces, MAX_QUOTE_V6, |net, quoted| {
            let message = Icmpv6Message::ParameterProblem {
                code: ParameterProblemCode(code),
                pointer,
                quoted,
            };
            net.send_error_v6(now, src.into(), dst, &message, counters);
        });
    }

    /// RFC 792, RFC 4443 §3.3, code 1: the rest of a datagram did not come in time.
    pub(crate) fn send_time_exceeded(
        &mut self,
        now: Instant,
        first: &Assembled,
        counters: &mut Counters,
    ) {
        let pieces: [&[u8]; 2] = [&first.head, &first.data];
        match first.dst {
            IpAddr::V4(_) => {
                self.quoting(&pieces, MAX_QUOTE_V4, |net, quoted| {
                    let message = Icmpv4Message::TimeExceeded { code: 1, quoted };
                    net.send_error_v4(now, first.src, first.dst, &message, counters);
                });
            }
            IpAddr::V6(dst) => {
                self.quoting(&pieces, MAX_QUOTE_V6, |net, quoted| {
                    let message = Icmpv6Message::TimeExceeded { code: 1, quoted };
                    net.send_error_v6(now, first.src, dst, &message, counters);
                });
            }
        }
    }

    fn send_error_v4(
        &mut self,
        now: Instant,
        to: IpAddr,
        from: IpAddr,
        message: &Icmpv4Message<'_>,
        counters: &mut Counters,
    ) {
        if let Some(envelope) = self.error_envelope(now, to, Some(from), Protocol::ICMP, counters) {
            let sent = self.send_filled(
                now,
                &envelope,
                Class::Reply,
                message.len(),
                counters,
                |body| {
                    message.emit(body);
                },
            );
            counters.icmp_out += u64::from(sent);
        }
    }

    fn send_error_v6(
        &mut self,
        now: Instant,
        to: IpAddr,
        from: Ipv6Addr,
        message: &Icmpv6Message<'_>,
        counters: &mut Counters,
    ) {
        // RFC 4443 §2.2: errors about what was sent to a group come from an address of ours.
        let from = Some(IpAddr::V6(from)).filter(|&from| self.is_local(from));
        if let Some(envelope) = self.error_envelope(now, to, from, Protocol::ICMPV6, counters) {
            let (IpAddr::V6(src), IpAddr::V6(dst)) = (envelope.src, envelope.dst) else {
                return;
            };
            let sent = self.send_filled(
                now,
                &envelope,
                Class::Reply,
                message.len(),
                counters,
                |body| {
                    message.emit(src, dst, body);
                },
            );
            counters.icmp_out += u64::from(sent);
        }
    }

    /// RFC 4443 §2.4-4.
    fn error_envelope(
        &mut self,
        now: Instant,
        to: IpAddr,
        from: Option<IpAddr>,
        protocol: Protocol,
        counters: &mut Counters,
    ) -> Option<Envelope> {
        if !self.may_send_error(now) {
            counters.drop(Drop::ReplyLimited);
            return None;
        }
        match self.path(to, from) {
            Ok(path) => Some(Envelope::along(&path, to, protocol)),
            Err(_) => {
                counters.drop(Drop::ReplyNoRoute);
                None
            }
        }
    }
}
