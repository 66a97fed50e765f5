//! ICMP messages in words.

use std::fmt;

use super::transport::{Transport, addresses};
use crate::ParseError;
use crate::icmpv4::{Echo, Icmpv4Message};
use crate::icmpv6::Icmpv6Message;
use crate::ndp::NdpMessage;
use crate::quoted::{self, QuotedPacket, QuotedTransport};

pub(super) fn v4(f: &mut fmt::Formatter<'_>, transport: &Transport<'_>) -> fmt::Result {
    addresses(f, transport)?;
    let Ok(message) = Icmpv4Message::parse_unverified(transport.bytes) else {
        return f.write_str("[|icmp]");
    };
    f.write_str("ICMP ")?;
    match message {
        Icmpv4Message::EchoRequest(ping) => echo(f, "request", ping),
        Icmpv4Message::EchoReply(ping) => echo(f, "reply", ping),
        Icmpv4Message::DestinationUnreachable {
            code,
            next_hop_mtu,
            quoted: packet,
        } => {
            f.write_str(code.name())?;
            if code.0 == 4 {
                write!(f, " (mtu {next_hop_mtu})")?;
            }
            about(f, quoted::parse_v4(packet))
        }
        Icmpv4Message::TimeExceeded {
            code,
            quoted: packet,
        } => {
            f.write_str(exceeded(code))?;
            about(f, quoted::parse_v4(packet))
        }
        Icmpv4Message::ParameterProblem {
            code,
            pointer,
            quoted: packet,
        } => {
            write!(f, "parameter problem, code {code}, byte {pointer}")?;
            about(f, quoted::parse_v4(packet))
        }
        Icmpv4Message::Redirect {
            gateway,
            quoted: packet,
            ..
        } => {
            write!(f, "redirect to {gateway}")?;
            about(f, quoted::parse_v4(packet))
        }
        Icmpv4Message::Other { kind, code, .. } => write!(f, "type {kind}, code {code}"),
    }?;
    write!(f, ", length {}", transport.claimed)
}

pub(super) fn v6(f: &mut fmt::Formatter<'_>, transport: &Transport<'_>) -> fmt::Result {
    addresses(f, transport)?;
    let message = match Icmpv6Message::parse_unverified(transport.bytes) {
        Ok(message) => message,
        Err(ParseError::Truncated) => return f.write_str("[|icmp6]"),
        Err(error) => return write!(f, "ICMP6, {error}, length {}", transport.claimed),
    };
    f.write_str("ICMP6, ")?;
    match message {
        Icmpv6Message::EchoRequest(ping) => echo(f, "request", ping),
        Icmpv6Message::EchoReply(ping) => echo(f, "reply", ping),
        Icmpv6Message::DestinationUnreachable {
            code,
            quoted: packet,
        } => {
            f.write_str(code.name())?;
            about(f, quoted::parse_v6(packet))
        }
        Icmpv6Message::PacketTooBig {
            mtu,
            quoted: packet,
        } => {
            write!(f, "packet too big (mtu {mtu})")?;
            about(f, quoted::parse_v6(packet))
        }
        Icmpv6Message::TimeExceeded {
            code,
            quoted: packet,
        } => {
            f.write_str(exceeded(code))?;
            about(f, quoted::parse_v6(packet))
        }
        Icmpv6Message::ParameterProblem {
            code,
            pointer,
            quoted: packet,
        } => {
            write!(f, "{}, byte {pointer}", code.name())?;
            about(f, quoted::parse_v6(packet))
        }
        Icmpv6Message::Ndp(message) => ndp(f, &message),
        Icmpv6Message::Other { kind, code, .. } => write!(f, "type {kind}, code {code}"),
    }?;
    write!(f, ", length {}", transport.claimed)
}

fn echo(f: &mut fmt::Formatter<'_>, what: &str, ping: Echo<'_>) -> fmt::Result {
    write!(f, "echo {what}, id {}, seq {}", ping.ident, ping.seq)
}

const fn exceeded(code: u8) -> &'static str {
    match code {
        0 => "time exceeded in-transit",
        _ => "reassembly time exceeded",
    }
}

/// ` for 10.0.0.1.4000 > 10.0.0.2.80 TCP seq 7`: the packet that an error is about.
fn about(f: &mut fmt::Formatter<'_>, quoted: Result<QuotedPacket, ParseError>) -> fmt::Result {
    let Ok(packet) = quoted else {
        return f.write_str(" for [|ip]");
    };
    let QuotedPacket {
        src, dst, protocol, ..
    } = packet;
    match packet.transport {
        QuotedTransport::Tcp(tcp) => {
            let (from, to) = (tcp.src.port(), tcp.dst.port());
            write!(f, " for {src}.{from} > {dst}.{to} TCP seq {}", tcp.seq)
        }
        QuotedTransport::Udp { src: from, dst: to } => {
            write!(f, " for {src}.{} > {dst}.{} UDP", from.port(), to.port())
        }
        _ => write!(f, " for {src} > {dst} {protocol}"),
    }
}

fn ndp(f: &mut fmt::Formatter<'_>, message: &NdpMessage) -> fmt::Result {
    match message {
        NdpMessage::RouterSolicitation(_) => f.write_str("router solicitation"),
        NdpMessage::RouterAdvertisement(m) => {
            let lifetime = m.router_lifetime.as_secs();
            write!(f, "router advertisement, lifetime {lifetime}s")?;
            if let Some(mtu) = m.mtu {
                write!(f, ", mtu {mtu}")?;
            }
            let mut prefixes = m.prefixes.as_slice().iter();
            prefixes.try_for_each(|info| write!(f, ", prefix {}/{}", info.prefix, info.prefix_len))
        }
        NdpMessage::NeighborSolicitation(m) => {
            write!(f, "neighbor solicitation, who has {}", m.target)
        }
        NdpMessage::NeighborAdvertisement(m) => {
            write!(f, "neighbor advertisement, tgt is {}", m.target)?;
            if let Some(mac) = m.target_lladdr {
                write!(f, " at {mac}")?;
            }
            let flags = [(m.router, "R"), (m.solicited, "S"), (m.override_flag, "O")];
            let set = flags.iter().filter(|(set, _)| *set);
            let symbols: String = set.map(|(_, letter)| *letter).collect();
            write!(f, ", flags [{symbols}]")
        }
        NdpMessage::Redirect(m) => write!(f, "redirect {} to {}", m.destination, m.target),
    }
}
