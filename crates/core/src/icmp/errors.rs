//! ICMP errors that we send (RFC 1122 §3.2.2, RFC 4443 §2.4): never about errors, groups or later
//! fragments, and not too many.

use std::net::{IpAddr, Ipv6Addr};

use wire::icmpv4::{self, Icmpv4Message};
use wire::icmpv6::{self, Icmpv6Message, ParameterProblemCode};
use wire::ip::Protocol;
use wire::time::Instant;

use crate::counters::Counters;
use crate::drops::DropReason;
use crate::ip::packet::Packet;
use crate::ip::reassemble::Assembled;
use crate::ip::{Class, Envelope, Links};
use crate::limit::RateLimiter;

/// RFC 1812 §4.3.2.3: as much of the packet as fits into 576 bytes.
const MAX_QUOTE_V4: usize = 576 - 20 - 8;
/// RFC 4443 §3: as much of the packet as fits into 1280 bytes.
/// RFC 4443 §2.4-2.
const MAX_QUOTE_V6: usize = 1280 - 40 - 8;

/// Errors that may go out at once, before the rate counts.
const BURST: u32 = 50;

/// What cannot be reached here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No such port of a transport that we know.
    Port,
    /// No such transport. IPv4 only: see `send_parameter_problem` for IPv6.
    Protocol,
}

/// The start of the packet that an error is about, put together from pieces: in memory that is kept
/// for it, as it is large for a stack.
fn quote(room: &mut Vec<u8>, pieces: &[&[u8]], max: usize) {
    room.clear();
    for piece in pieces {
        let most = max.saturating_sub(room.len());
        room.extend(piece.iter().take(most));
    }
}

/// How many errors there may be, and room for what they quote.
#[derive(Debug)]
pub struct Errors {
    /// RFC 1812 §4.3.2.8, RFC 4443 §2.4(f).
    limiter: RateLimiter,
    quoted: Vec<u8>,
}

/// What is sent of them now.
#[derive(Debug)]
pub struct Refusals<'a> {
    state: &'a mut Errors,
    links: &'a mut Links,
    now: Instant,
    counters: &'a mut Counters,
}

impl Errors {
    /// At most `rate` a second.
    pub fn new(rate: u32) -> Self {
        Self {
            limiter: RateLimiter::new(rate, BURST.min(rate)),
            quoted: Vec::with_capacity(MAX_QUOTE_V6),
        }
    }

    /// For errors over these links.
    pub fn about<'a>(
        &'a mut self,
        links: &'a mut Links,
        now: Instant,
        counters: &'a mut Counters,
    ) -> Refusals<'a> {
        Refusals {
            state: self,
            links,
            now,
            counters,
        }
    }
}

impl Refusals<'_> {
    /// Lends the start of a packet to what sends an error about it.
    fn quoting(&mut self, pieces: &[&[u8]], max: usize, send: impl FnOnce(&mut Self, &[u8])) {
        let mut room = std::mem::take(&mut self.state.quoted);
        quote(&mut room, pieces, max);
        send(self, &room);
        self.state.quoted = room;
    }

    /// Tells the sender of `packet` that nobody is here.
    pub(crate) fn unreachable(&mut self, packet: &Packet<'_>, what: Unreachable) {
        let pieces: [&[u8]; 2] = [&packet.head, &packet.payload];
        match packet.dst {
            IpAddr::V4(_) => {
                let code = match what {
                    Unreachable::Port => icmpv4::UnreachableCode::PORT,
                    Unreachable::Protocol => icmpv4::UnreachableCode::PROTOCOL,
                };
                self.quoting(&pieces, MAX_QUOTE_V4, |this, quoted| {
                    let message = Icmpv4Message::DestinationUnreachable {
                        code,
                        next_hop_mtu: 0,
                        quoted,
                    };
                    this.send_v4(packet.src, packet.dst, &message);
                });
            }
            IpAddr::V6(dst) => {
                self.quoting(&pieces, MAX_QUOTE_V6, |this, quoted| {
                    let message = Icmpv6Message::DestinationUnreachable {
                        code: icmpv6::UnreachableCode::PORT,
                        quoted,
                    };
                    this.send_v6(packet.src, dst, &message);
                });
            }
        }
    }

    /// RFC 1122 §3.2.2.1 (protocol unreachable) and RFC 4443 §3.4 (unrecognized next header).
    /// Returns why the packet was dropped. RFC 8200 §4-2.
    pub(crate) fn refuse_protocol(&mut self, packet: &Packet<'_>) -> DropReason {
        match (packet.src, packet.dst) {
            _ if !packet.is_unicast() => {}
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let pieces: [&[u8]; 2] = [&packet.head, &packet.payload];
                let code = ParameterProblemCode::NEXT_HEADER.0;
                self.parameter_problem((src, dst), (code, packet.pointer), &pieces);
            }
            _ => self.unreachable(packet, Unreachable::Protocol),
        }
        DropReason::IpProtocol
    }

    /// RFC 4443 §3.4: something in the packet made of `pieces` is wrong, at byte `pointer`.
    pub(crate) fn parameter_problem(
        &mut self,
        (src, dst): (Ipv6Addr, Ipv6Addr),
        (code, pointer): (u8, u32),
        pieces: &[&[u8]],
    ) {
        self.quoting(pieces, MAX_QUOTE_V6, |this, quoted| {
            let message = Icmpv6Message::ParameterProblem {
                code: ParameterProblemCode(code),
                pointer,
                quoted,
            };
            this.send_v6(src.into(), dst, &message);
        });
    }

    /// RFC 792, RFC 4443 §3.3, code 1: the rest of a datagram did not come in time.
    pub(crate) fn time_exceeded(&mut self, first: &Assembled) {
        let pieces: [&[u8]; 2] = [&first.head, &first.data];
        match first.dst {
            IpAddr::V4(_) => {
                self.quoting(&pieces, MAX_QUOTE_V4, |this, quoted| {
                    let message = Icmpv4Message::TimeExceeded { code: 1, quoted };
                    this.send_v4(first.src, first.dst, &message);
                });
            }
            IpAddr::V6(dst) => {
                self.quoting(&pieces, MAX_QUOTE_V6, |this, quoted| {
                    let message = Icmpv6Message::TimeExceeded { code: 1, quoted };
                    this.send_v6(first.src, dst, &message);
                });
            }
        }
    }

    fn send_v4(&mut self, to: IpAddr, from: IpAddr, message: &Icmpv4Message<'_>) {
        if let Some(envelope) = self.envelope(to, Some(from), Protocol::ICMP) {
            self.send(&envelope, message.len(), |body| {
                message.emit(body);
            });
        }
    }

    fn send_v6(&mut self, to: IpAddr, from: Ipv6Addr, message: &Icmpv6Message<'_>) {
        // RFC 4443 §2.2: errors about what was sent to a group come from an address of ours.
        let from = Some(IpAddr::V6(from)).filter(|&from| self.links.routing.is_local(from));
        if let Some(envelope) = self.envelope(to, from, Protocol::ICMPV6) {
            let (IpAddr::V6(src), IpAddr::V6(dst)) = (envelope.src, envelope.dst) else {
                return;
            };
            self.send(&envelope, message.len(), |body| {
                message.emit(src, dst, body);
            });
        }
    }

    fn send(&mut self, envelope: &Envelope, len: usize, fill: impl FnOnce(&mut [u8])) {
        let (links, counters) = (&mut *self.links, &mut *self.counters);
        let sent = links.send_filled(self.now, envelope, Class::Reply, len, counters, fill);
        counters.icmp_out += u64::from(sent);
    }

    /// RFC 4443 §2.4-4.
    fn envelope(
        &mut self,
        to: IpAddr,
        from: Option<IpAddr>,
        protocol: Protocol,
    ) -> Option<Envelope> {
        if !self.state.limiter.allow(self.now) {
            self.counters.drop(DropReason::ReplyLimited);
            return None;
        }
        match self.links.routing.path(to, from) {
            Ok(path) => Some(Envelope::along(&path, to, protocol)),
            Err(_) => {
                self.counters.drop(DropReason::ReplyNoRoute);
                None
            }
        }
    }
}
