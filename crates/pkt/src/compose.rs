//! Frames from the peer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::checksum;
use wire::ethernet::EtherType;
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::seq::SeqNumber;
use wire::tcp::{self, TcpFlags, TcpHeader};

use super::flows::{Cookies, Flow, Ports};
use super::icmp;
use super::link::{OUR_MAC, PEER_MAC};
use super::script::{Counter, EcnSpec, IcmpSpec, IpSpec, TcpOption, TcpSpec};
use super::settings::Settings;
use sim::ethernet;

/// What a byte of the peer's data is: any function of its place will do.
fn pattern(seq: u32, len: u16) -> Vec<u8> {
    (0..u32::from(len))
        .map(|at| seq.wrapping_add(at).wrapping_mul(31) as u8)
        .collect()
}

/// A TCP segment.
pub(super) fn tcp(
    settings: &Settings,
    ports: Ports,
    (flow, cookies): (&Flow, &Cookies),
    ip: &IpSpec,
    spec: &TcpSpec,
) -> Result<Vec<u8>, String> {
    let (local, remote) = ports;
    let syn = spec.flags.contains(TcpFlags::SYN);
    let header = TcpHeader {
        src_port: remote,
        dst_port: local,
        seq: SeqNumber(flow.peer_to_wire(spec.seq, syn)),
        ack: SeqNumber(spec.ack.map_or(0, |ack| flow.local_to_wire(ack, syn))),
        flags: spec.flags,
        window: spec.window.unwrap_or(0),
        urgent: spec.urgent.unwrap_or(0),
        options: tcp::TcpOptions::default(),
    };
    let options = options(flow, cookies, spec.options.as_deref().unwrap_or_default())?;
    let mut segment = vec![0; TcpHeader::MIN_LEN];
    header.emit(&mut segment);
    if let Some(offset) = segment.get_mut(12) {
        *offset = (*offset & 0x0f) | (((TcpHeader::MIN_LEN + options.len()) / 4) as u8) << 4;
    }
    segment.extend(options);
    // Behind the SYN.
    let first = spec
        .seq
        .wrapping_add(spec.flags.contains(TcpFlags::SYN).into());
    segment.extend(pattern(first, spec.len));
    tcp::fill_checksum(settings.remote_ip, settings.local_ip, &mut segment);
    Ok(frame(settings, ip, Protocol::TCP, &segment))
}

/// The bytes of the options, in the order in which they are written, padded with zeros.
fn options(flow: &Flow, cookies: &Cookies, options: &[TcpOption]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for option in options {
        let (kind, value) = option_value(flow, cookies, option);
        match option {
            TcpOption::Nop | TcpOption::End => bytes.push(kind),
            _ => {
                bytes.extend([kind, value.len() as u8 + 2]);
                bytes.extend(value);
            }
        }
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    if bytes.len() > 40 {
        return Err(format!(
            "{} bytes of options; there is room for 40",
            bytes.len()
        ));
    }
    Ok(bytes)
}

fn option_value(flow: &Flow, cookies: &Cookies, option: &TcpOption) -> (u8, Vec<u8>) {
    let cookie = |cookie: &Vec<u8>| cookies.get(cookie).unwrap_or(cookie).clone();
    match option {
        TcpOption::End => (0, Vec::new()),
        TcpOption::Nop => (1, Vec::new()),
        TcpOption::Mss(mss) => (2, mss.to_be_bytes().to_vec()),
        TcpOption::WindowScale(shift) => (3, vec![*shift]),
        TcpOption::SackPermitted => (4, Vec::new()),
        TcpOption::Sack(blocks) => {
            let edges = blocks.iter().flat_map(|(left, right)| [*left, *right]);
            (
                5,
                edges
                    .flat_map(|edge| flow.local_to_wire(edge, false).to_be_bytes())
                    .collect(),
            )
        }
        TcpOption::Timestamps { val, ecr } => {
            let ecr = flow.stamp_to_wire(*ecr);
            (8, [val.to_be_bytes(), ecr.to_be_bytes()].concat())
        }
        TcpOption::FastOpen(bytes) => (34, cookie(bytes)),
        TcpOption::FastOpenExperimental(bytes) => {
            (254, [&[0xf9, 0x89][..], &cookie(bytes)].concat())
        }
        TcpOption::AccEcn(counters) => accurate_ecn(counters),
        TcpOption::Other(kind, value) => (*kind, value.clone()),
    }
}

/// RFC 9768 §3.2.3: the kind says which of the ECT counters comes first.
fn accurate_ecn(counters: &[(Counter, u32)]) -> (u8, Vec<u8>) {
    let one_first = matches!(counters.first(), Some((Counter::Ect1, _)));
    let bytes = counters.iter().flat_map(|(_, value)| {
        let [_, a, b, c] = value.to_be_bytes();
        [a, b, c]
    });
    (if one_first { 174 } else { 172 }, bytes.collect())
}

/// A UDP datagram.
pub(super) fn udp(settings: &Settings, ports: Ports, ip: &IpSpec, len: u16) -> Vec<u8> {
    let (local, remote) = ports;
    let total = len.saturating_add(8);
    let mut datagram: Vec<u8> = [remote, local, total, 0]
        .into_iter()
        .flat_map(u16::to_be_bytes)
        .collect();
    datagram.extend(pattern(0, len));
    let (from, to) = (settings.remote_ip, settings.local_ip);
    let sum = checksum::transport_checksum(from, to, Protocol::UDP, &datagram);
    if let Some(field) = datagram.get_mut(6..8) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    frame(settings, ip, Protocol::UDP, &datagram)
}

/// An ICMP message about a segment of ours, or an echo request.
pub(super) fn icmp(
    settings: &Settings,
    ports: Ports,
    flow: &Flow,
    ip: &IpSpec,
    spec: &IcmpSpec,
) -> Result<Vec<u8>, String> {
    let v6 = settings.remote_ip.is_ipv6();
    let (kind, code) = icmp::numbers(v6, &spec.kind, spec.code.as_deref())?;
    let echo = spec.kind.starts_with("echo");
    let rest: u32 = match (spec.mtu, spec.id) {
        (Some(mtu), _) => mtu,
        (None, Some(id)) => u32::from(id) << 16,
        (None, None) => 0,
    };
    let mut message = vec![kind, code, 0, 0];
    message.extend(rest.to_be_bytes());
    if !echo {
        let (seq, len) = spec.quoted.unwrap_or((0, 0));
        message.extend(quoted(settings, ports, flow.local_to_wire(seq, false), len));
    }
    let sum = match (settings.remote_ip, settings.local_ip) {
        (IpAddr::V4(_), _) => checksum::checksum(&message),
        (from, to) => checksum::transport_checksum(from, to, Protocol::ICMPV6, &message),
    };
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    let protocol = if v6 { Protocol::ICMPV6 } else { Protocol::ICMP };
    Ok(frame(settings, ip, protocol, &message))
}

/// The head of a segment that we sent, with so many bytes of data, as a router quotes it.
fn quoted(settings: &Settings, ports: Ports, seq: u32, len: u16) -> Vec<u8> {
    let (local, remote) = ports;
    let header = TcpHeader {
        src_port: local,
        dst_port: remote,
        seq: SeqNumber(seq),
        flags: TcpFlags::ACK,
        ..TcpHeader::default()
    };
    let mut segment = vec![0; TcpHeader::MIN_LEN];
    header.emit(&mut segment);
    let ends = (settings.local_ip, settings.remote_ip);
    let len = TcpHeader::MIN_LEN + usize::from(len);
    let mut packet = ip_header(ends, &IpSpec::default(), Protocol::TCP, len);
    packet.extend(segment);
    packet
}

fn frame(settings: &Settings, ip: &IpSpec, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let ends = (settings.remote_ip, settings.local_ip);
    let ether_type = if settings.remote_ip.is_ipv4() {
        EtherType::IPV4
    } else {
        EtherType::IPV6
    };
    let mut frame = ethernet(PEER_MAC, OUR_MAC, ether_type);
    frame.extend(ip_header(ends, ip, protocol, payload.len()));
    frame.extend_from_slice(payload);
    frame
}

fn ip_header(ends: (IpAddr, IpAddr), ip: &IpSpec, protocol: Protocol, len: usize) -> Vec<u8> {
    let ecn = match ip.ecn {
        Some(EcnSpec::Bits(bits)) => bits,
        Some(EcnSpec::Ect01) => 2,
        None => 0,
    };
    let tos = ip.tos.unwrap_or(0) | ecn;
    match ends {
        (IpAddr::V4(from), IpAddr::V4(to)) => v4_header(from, to, tos, ip, protocol, len),
        (IpAddr::V6(from), IpAddr::V6(to)) => v6_header(from, to, tos, ip, protocol, len),
        _ => Vec::new(),
    }
}

fn v4_header(
    from: Ipv4Addr,
    to: Ipv4Addr,
    tos: u8,
    ip: &IpSpec,
    protocol: Protocol,
    len: usize,
) -> Vec<u8> {
    let mut header = Ipv4Header::new(from, to, protocol, len);
    header.tos = tos;
    header.ttl = ip.ttl.unwrap_or(header.ttl);
    let mut bytes = vec![0; Ipv4Header::LEN];
    header.emit(&mut bytes);
    bytes
}

fn v6_header(
    from: Ipv6Addr,
    to: Ipv6Addr,
    tos: u8,
    ip: &IpSpec,
    protocol: Protocol,
    len: usize,
) -> Vec<u8> {
    let mut header = Ipv6Header::new(from, to, protocol, len);
    header.traffic_class = tos;
    header.hop_limit = ip.ttl.unwrap_or(header.hop_limit);
    header.flow_label = ip.flow_label.unwrap_or(0);
    let mut bytes = vec![0; Ipv6Header::LEN];
    header.emit(&mut bytes);
    bytes
}
