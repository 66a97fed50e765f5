//! What the stack sent.

use std::net::IpAddr;

use wire::checksum;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::tcp::{RawOption, RawOptions, TcpFlags, TcpHeader};
use wire::time::Instant;

use super::flows::Flow;
use super::icmp;
use super::script::{Counter, EcnSpec, IcmpSpec, IpSpec, TcpOption, TcpSpec};

/// A packet of the stack; numbers as on the wire.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub at: Instant,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub ip: IpSpec,
    pub body: SeenBody,
}

#[derive(Clone, Debug)]
pub(super) enum SeenBody {
    /// Header, options as they lie there, payload.
    Tcp(TcpHeader, Vec<TcpOption>, Vec<u8>),
    Icmp(IcmpSpec),
}

/// The packet in a frame; `None`: none that scripts speak of. An error says what is wrong with it.
pub(super) fn look(at: Instant, frame: &[u8]) -> Result<Option<Seen>, String> {
    let (ethernet, packet) =
        EthernetHeader::parse(frame).map_err(|error| format!("sent a bad frame: {error}"))?;
    let bad_ip = |error| format!("sent a bad IP header: {error}");
    let (src, dst, protocol, payload, mut ip): (IpAddr, IpAddr, _, _, _) = match ethernet.ether_type
    {
        EtherType::IPV4 => {
            let (h, rest) = Ipv4Header::parse(packet).map_err(bad_ip)?;
            (
                h.src.into(),
                h.dst.into(),
                h.protocol,
                rest,
                ip_spec(h.tos, h.ttl, None),
            )
        }
        EtherType::IPV6 => {
            let (h, rest) = Ipv6Header::parse(packet).map_err(bad_ip)?;
            let ip = ip_spec(h.traffic_class, h.hop_limit, Some(h.flow_label));
            (h.src.into(), h.dst.into(), h.next_header, rest, ip)
        }
        _ => return Ok(None),
    };
    let body = match protocol {
        Protocol::TCP => Some(tcp(src, dst, payload)?),
        Protocol::ICMP | Protocol::ICMPV6 => icmp_body(src.is_ipv6(), payload),
        _ => None,
    };
    ip.flow_label = ip.flow_label.filter(|label| *label != 0);
    Ok(body.map(|body| Seen {
        at,
        src,
        dst,
        ip,
        body,
    }))
}

fn ip_spec(tos: u8, ttl: u8, flow_label: Option<u32>) -> IpSpec {
    IpSpec {
        ecn: Some(EcnSpec::Bits(tos & 3)),
        tos: Some(tos),
        ttl: Some(ttl),
        flow_label,
    }
}

fn tcp(src: IpAddr, dst: IpAddr, segment: &[u8]) -> Result<SeenBody, String> {
    if !checksum::verify_transport(src, dst, Protocol::TCP, segment) {
        return Err("sent a segment with a wrong checksum".to_owned());
    }
    let (header, payload) =
        TcpHeader::parse(segment).map_err(|error| format!("sent a bad TCP header: {error}"))?;
    let end = segment.len() - payload.len();
    let options = segment.get(TcpHeader::MIN_LEN..end).unwrap_or_default();
    let options = RawOptions::new(options).map(option).collect();
    Ok(SeenBody::Tcp(header, options, payload.to_vec()))
}

fn option(raw: RawOption<'_>) -> TcpOption {
    let (kind, value) = match raw {
        RawOption::Nop => return TcpOption::Nop,
        RawOption::Malformed(kind) => return TcpOption::Other(kind, Vec::new()),
        RawOption::Other { kind, value } => (kind, value),
    };
    let words: Vec<u32> = value
        .chunks_exact(4)
        .map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
        .collect();
    match (kind, value, &words[..]) {
        (2, &[a, b], _) => TcpOption::Mss(u16::from_be_bytes([a, b])),
        (3, &[shift], _) => TcpOption::WindowScale(shift),
        (4, [], _) => TcpOption::SackPermitted,
        (5, _, edges) => {
            let pairs = edges.chunks_exact(2);
            TcpOption::Sack(
                pairs
                    .filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)))
                    .collect(),
            )
        }
        (8, _, &[val, ecr]) => TcpOption::Timestamps { val, ecr },
        (34, cookie, _) => TcpOption::FastOpen(cookie.to_vec()),
        (254, [0xf9, 0x89, cookie @ ..], _) => TcpOption::FastOpenExperimental(cookie.to_vec()),
        (172, counters, _) => accurate_ecn(counters, [Counter::Ect0, Counter::Ce, Counter::Ect1]),
        (174, counters, _) => accurate_ecn(counters, [Counter::Ect1, Counter::Ce, Counter::Ect0]),
        _ => TcpOption::Other(kind, value.to_vec()),
    }
}

fn accurate_ecn(value: &[u8], names: [Counter; 3]) -> TcpOption {
    let counters = value.chunks_exact(3).zip(names).map(|(bytes, name)| {
        let value = bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        (name, value)
    });
    TcpOption::AccEcn(counters.collect())
}

/// Neighbour discovery is no matter of scripts.
fn icmp_body(v6: bool, message: &[u8]) -> Option<SeenBody> {
    let (head, _) = message.split_first_chunk::<8>()?;
    let &[kind, code, _, _, a, b, c, d] = head;
    if v6 && (130..=143).contains(&kind) {
        return None;
    }
    let (name, code) = icmp::names(v6, kind, code);
    let mtu = u32::from_be_bytes([a, b, c, d]);
    let too_big = name == "packet_too_big" || code.as_deref() == Some("frag_needed");
    let echo = name.starts_with("echo");
    Some(SeenBody::Icmp(IcmpSpec {
        kind: name,
        code,
        mtu: too_big.then_some(mtu),
        id: echo.then_some(u16::from_be_bytes([a, b])),
        quoted: None,
    }))
}

/// A segment of ours in the script's numbers.
pub(super) fn in_script(
    flow: &Flow,
    header: &TcpHeader,
    options: &[TcpOption],
    len: u16,
) -> TcpSpec {
    let syn = header.flags.contains(TcpFlags::SYN);
    let peer = |number: u32| flow.peer_to_script(number, syn);
    let options = options.iter().map(|option| match option {
        TcpOption::Sack(blocks) => {
            let blocks = blocks.iter();
            TcpOption::Sack(
                blocks
                    .map(|(left, right)| (peer(*left), peer(*right)))
                    .collect(),
            )
        }
        TcpOption::Timestamps { val, ecr } => TcpOption::Timestamps {
            val: flow.stamp_to_script(*val),
            ecr: *ecr,
        },
        other => other.clone(),
    });
    let acks = header.flags.contains(TcpFlags::ACK);
    let urgent = header.flags.contains(TcpFlags::URG);
    TcpSpec {
        ports: None,
        flags: header.flags,
        seq: flow.local_to_script(header.seq.0, syn),
        len,
        ack: acks.then(|| peer(header.ack.0)),
        window: Some(header.window),
        urgent: urgent.then_some(header.urgent),
        options: Some(options.collect()),
    }
}
