//! [`Net`] seen from the link: frames in, frames out.

mod arp;
mod error;
mod fast;
mod fragment;
mod hostile;
mod input;
mod ndp;
mod output;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::{FrameSink, MacAddr, RxFrame, RxMeta, TxMeta};
use wire::icmpv4::Icmpv4Message;
use wire::icmpv6::Icmpv6Message;
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;

use super::testing::{config, interface, our_mac};
use super::*;
use crate::config::{Route, StaticNeighbour};
use crate::drops::DropReason;
use crate::id::PortId;

const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x99]);
const OUR4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OUR6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const PEER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const PORT: PortId = PortId(0);

/// A sink with room for a number of frames.
struct Sink {
    frames: Vec<Vec<u8>>,
    room: usize,
}

impl FrameSink for Sink {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        let mut frame = vec![0xee; 1518];
        let meta = fill(&mut frame);
        frame.truncate(meta.len);
        self.frames.push(frame);
        true
    }
}

struct Bench {
    net: Net,
    counters: Counters,
    now: Instant,
}

fn base_config() -> Config {
    let mut config = config(vec![interface(
        0,
        &["10.0.0.1/24", "2001:db8::1/64", "fe80::1/64"],
    )]);
    let gateway = |network: &str, gateway: &str| Route {
        network: network.parse().unwrap(),
        prefix_len: 0,
        gateway: Some(gateway.parse().unwrap()),
        port: PORT,
    };
    config.routes = vec![gateway("0.0.0.0", "10.0.0.254"), gateway("::", "fe80::254")];
    config
}

impl Bench {
    /// A neighbour whose resolution has ended, and whether it answered.
    fn resolved(&mut self) -> Option<(PortId, IpAddr, bool)> {
        let ended = self.net.links.poll_resolved()?;
        Some((ended.port, ended.addr, ended.mac.is_some()))
    }

    /// After the addresses were announced.
    fn new() -> Self {
        Self::with(&base_config())
    }

    fn with(config: &Config) -> Self {
        let mut bench = Self::at_start(config);
        bench.advance(Duration::from_secs(10));
        bench.sent();
        bench.counters = Counters::default();
        bench
    }

    /// Before anything was announced.
    fn at_start(config: &Config) -> Self {
        Self {
            net: Net::new(config).unwrap(),
            counters: Counters::default(),
            now: Instant::from_millis(1),
        }
    }

    /// With the hardware address of the peer known.
    fn acquainted() -> Self {
        let mut bench = Self::new();
        for next_hop in [PEER4.into(), PEER6.into()] {
            let what = crate::neigh::cache::Advertisement {
                mac: Some(PEER),
                solicited: true,
                override_flag: true,
            };
            bench
                .net
                .links
                .neighbours
                .resolve(bench.now, PORT, next_hop, &mut bench.counters);
            assert!(
                bench
                    .net
                    .links
                    .neighbours
                    .advertise(bench.now, PORT, next_hop, what)
            );
            while bench.net.links.neighbours.pop_ended().is_some() {}
        }
        bench
    }

    fn input<'a>(&mut self, frame: &'a [u8]) -> Input<'a> {
        let frame = RxFrame {
            bytes: frame,
            meta: RxMeta::default(),
        };
        self.net.input(self.now, PORT, &frame, &mut self.counters)
    }

    /// The frame is consumed; says for which reason it was dropped, if it was.
    #[track_caller]
    fn consume(&mut self, frame: &[u8]) -> Option<DropReason> {
        let before = self.counters.drops;
        assert!(matches!(self.input(frame), Input::Consumed));
        let mut counted = DropReason::ALL
            .iter()
            .filter(|&&reason| before[reason as usize] != self.counters.dropped(reason));
        let reason = counted.next().copied();
        assert_eq!(counted.next(), None, "dropped for one reason");
        reason
    }

    fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.net.next_deadline().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.net.advance(self.now, &mut self.counters);
        }
        self.now = end;
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        let mut sink = Sink {
            frames: Vec::new(),
            room: usize::MAX,
        };
        self.net.links.transmit(PORT, &mut sink, &mut self.counters);
        sink.frames
    }

    /// The one frame that was sent.
    #[track_caller]
    fn sent_one(&mut self) -> Vec<u8> {
        let mut frames = self.sent();
        assert_eq!(frames.len(), 1, "{frames:02x?}");
        frames.remove(0)
    }

    fn send(&mut self, dst: IpAddr, payload: &[u8]) {
        let path = self.net.path(dst, None).unwrap();
        self.net.links.send_packet(
            self.now,
            &path,
            dst,
            Protocol::TCP,
            payload,
            &mut self.counters,
        );
    }
}

fn ethernet(src: MacAddr, dst: MacAddr, ether_type: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    EthernetHeader {
        dst,
        src,
        ether_type,
        vlan: None,
    }
    .emit(&mut frame);
    frame.extend_from_slice(payload);
    frame
}

fn from_peer(ether_type: EtherType, payload: &[u8]) -> Vec<u8> {
    ethernet(PEER, our_mac(0), ether_type, payload)
}

fn ipv4_bytes(header: &Ipv4Header, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 20];
    header.emit(&mut packet);
    packet.extend_from_slice(payload);
    packet
}

/// From the peer to us.
fn ipv4(protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    ipv4_with(protocol, payload, |_| {})
}

fn ipv4_with(protocol: Protocol, payload: &[u8], change: impl FnOnce(&mut Ipv4Header)) -> Vec<u8> {
    let mut header = Ipv4Header::new(PEER4, OUR4, protocol, payload.len());
    change(&mut header);
    from_peer(EtherType::IPV4, &ipv4_bytes(&header, payload))
}

/// From the peer to us.
fn ipv6(next_header: Protocol, payload: &[u8]) -> Vec<u8> {
    ipv6_with(next_header, payload, |_| {})
}

fn ipv6_with(
    next_header: Protocol,
    payload: &[u8],
    change: impl FnOnce(&mut Ipv6Header),
) -> Vec<u8> {
    let mut header = Ipv6Header::new(PEER6, OUR6, next_header, payload.len());
    change(&mut header);
    let mut packet = vec![0; 40];
    header.emit(&mut packet);
    packet.extend_from_slice(payload);
    let dst = if header.dst.is_multicast() {
        wire::ndp::multicast_mac(header.dst)
    } else {
        our_mac(0)
    };
    ethernet(PEER, dst, EtherType::IPV6, &packet)
}

fn icmpv4_bytes(message: &Icmpv4Message<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.len()];
    message.emit(&mut bytes);
    bytes
}

fn icmpv6_bytes(src: Ipv6Addr, dst: Ipv6Addr, message: &Icmpv6Message<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.len()];
    message.emit(src, dst, &mut bytes);
    bytes
}

/// Header and payload of a sent IPv4 packet, and the addresses of its frame.
#[track_caller]
fn parse_ipv4(frame: &[u8]) -> (EthernetHeader, Ipv4Header, &[u8]) {
    let (link, packet) = EthernetHeader::parse(frame).unwrap();
    let (header, payload) = Ipv4Header::parse(packet).unwrap();
    (link, header, payload)
}

#[track_caller]
fn parse_ipv6(frame: &[u8]) -> (EthernetHeader, Ipv6Header, &[u8]) {
    let (link, packet) = EthernetHeader::parse(frame).unwrap();
    let (header, payload) = Ipv6Header::parse(packet).unwrap();
    (link, header, payload)
}
