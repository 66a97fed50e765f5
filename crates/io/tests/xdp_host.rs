//! An address that the kernel has, too: what of its frames comes to us. Needs root; says so and
//! passes without.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are test code"
)]
#![allow(clippy::disallowed_methods)] // the kernel is asked, as by any program

#[allow(dead_code, reason = "shared by several test programs")]
mod xdp_support;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use io::Port;
use io::xdp::{AttachMode, XdpConfig};
use wire::ethernet::EtherType;
use wire::icmpv4::{Icmpv4Message, UnreachableCode};
use wire::ip::Protocol;
use wire::ipv6::Ipv6Header;
use wire::steering::Steering;
use wire::time::Instant as Time;

use xdp_support::frames::{self, udp};
use xdp_support::{DEADLINE, KERNEL, KERNEL6, PEER, PEER6, Pair, Station, is_root};

const MODES: [AttachMode; 2] = [AttachMode::Native, AttachMode::Generic];

/// The port of our flow, and where we listen.
const FLOW: u16 = 5000;
const LISTENED: u16 = 80;
const PEERS: u16 = 6000;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

fn config(mode: AttachMode, flows: u32) -> XdpConfig {
    XdpConfig {
        mode,
        flows: Some(flows),
        ..XdpConfig::new("xdp0", [IpAddr::from(KERNEL), IpAddr::from(KERNEL6)])
    }
}

/// A station with the address of its kernel, the pair, and what steers.
fn station(mode: AttachMode, flows: u32) -> (Pair, Station, Box<dyn Steering>) {
    let pair = Pair::new(1);
    let mut station = pair.station_with(&config(mode, flows));
    let steering = station.port.steering().unwrap();
    (pair, station, steering)
}

fn end(ip: impl Into<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(ip.into(), port)
}

/// A TCP segment that says its `number`.
fn segment((from, to): (u16, u16), flags: u8, number: u32) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes[0..2].copy_from_slice(&from.to_be_bytes());
    bytes[2..4].copy_from_slice(&to.to_be_bytes());
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes[12] = 5 << 4;
    bytes[13] = flags;
    bytes
}

/// Frames from the peer, each with whether it is ours.
struct Frames {
    macs: (wire::frame::MacAddr, wire::frame::MacAddr),
    all: Vec<(Vec<u8>, bool)>,
}

impl Frames {
    fn new(pair: &Pair, station: &Station) -> Self {
        Self {
            macs: (pair.peer_mac(), station.port.mac()),
            all: Vec::new(),
        }
    }

    fn number(&self) -> u32 {
        self.all.len() as u32
    }

    fn v4(&mut self, ours: bool, vlan: Option<u16>, packet: &[u8]) {
        let (from, to) = self.macs;
        let frame = frames::ethernet(from, to, EtherType::IPV4, vlan, packet);
        self.all.push((frame, ours));
    }

    fn v6(&mut self, ours: bool, next: Protocol, payload: &[u8]) {
        let (from, to) = self.macs;
        let header = Ipv6Header::new(PEER6, KERNEL6, next, payload.len());
        let mut packet = vec![0; Ipv6Header::LEN];
        header.emit(&mut packet);
        packet.extend_from_slice(payload);
        let frame = frames::ethernet(from, to, EtherType::IPV6, None, &packet);
        self.all.push((frame, ours));
    }

    /// A segment over both protocols.
    fn segment(&mut self, ours: bool, ports: (u16, u16), flags: u8) {
        let bytes = segment(ports, flags, self.number());
        self.v4(
            ours,
            None,
            &frames::ipv4((PEER, KERNEL), Protocol::TCP, &bytes, |_| ()),
        );
        let bytes = segment(ports, flags, self.number());
        self.v6(ours, Protocol::TCP, &bytes);
    }

    /// Sends them all, and a last one that is ours, and sees which come.
    fn check(mut self, pair: &Pair, station: &mut Station) {
        let mode = station.port.mode();
        self.segment(true, (PEERS, FLOW), ACK);
        let raw = pair.raw();
        for (frame, _) in &self.all {
            raw.send(frame);
        }
        let last = untagged(&self.all.last().unwrap().0);
        let (mut came, end) = (BTreeSet::new(), Instant::now() + DEADLINE);
        while !came.contains(&last) {
            assert!(Instant::now() < end, "the last frame did not come");
            station.poll();
            came.extend(
                station
                    .arrived
                    .drain(..)
                    .map(|frame| untagged(&frame.bytes)),
            );
        }
        for (number, (frame, ours)) in self.all.iter().enumerate() {
            assert_eq!(
                came.contains(&untagged(frame)),
                *ours,
                "{mode:?}, frame {number}: {frame:?}"
            );
        }
    }
}

/// A frame as a device may hand it over that takes the tag out.
fn untagged(frame: &[u8]) -> Vec<u8> {
    match frame[12..14] {
        [0x81, 0] => [&frame[..12], &frame[16..]].concat(),
        _ => frame.to_vec(),
    }
}

/// The head of a packet of ours from `port` to the peer's, as errors quote it.
fn quoted(port: u16) -> Vec<u8> {
    let bytes = segment((port, PEERS), ACK, 0);
    frames::ipv4((KERNEL, PEER), Protocol::TCP, &bytes, |_| ())
}

fn unreachable(about: u16) -> Vec<u8> {
    let quoted = quoted(about);
    let message = Icmpv4Message::DestinationUnreachable {
        code: UnreachableCode(1),
        next_hop_mtu: 0,
        quoted: &quoted,
    };
    let mut bytes = vec![0; message.len()];
    message.emit(&mut bytes);
    frames::ipv4((PEER, KERNEL), Protocol::ICMP, &bytes, |_| ())
}

fn tell(steering: &mut dyn Steering) {
    assert!(steering.enter(end(KERNEL, FLOW), end(PEER, PEERS)));
    assert!(steering.enter(end(KERNEL6, FLOW), end(PEER6, PEERS)));
    steering.listen(end([0, 0, 0, 0], LISTENED));
    steering.listen(end(KERNEL6, LISTENED));
}

#[test]
fn segments_of_our_flows_and_syns_to_our_listeners_are_ours_and_nothing_else() {
    if !is_root() {
        return;
    }
    for mode in MODES {
        let (pair, mut station, mut steering) = station(mode, 100);
        tell(&mut *steering);
        let mut frames = Frames::new(&pair, &station);
        for flags in [ACK, SYN, SYN | ACK, RST, FIN | ACK] {
            frames.segment(true, (PEERS, FLOW), flags);
            frames.segment(false, (PEERS + 1, FLOW), flags);
            frames.segment(false, (PEERS, FLOW + 1), flags);
            frames.segment(false, (FLOW, PEERS), flags);
            frames.segment(flags == SYN, (PEERS, LISTENED), flags);
        }
        let datagram = udp(PEER.into(), KERNEL.into(), (PEERS, FLOW), b"no");
        frames.v4(
            false,
            None,
            &frames::ipv4((PEER, KERNEL), Protocol::UDP, &datagram, |_| ()),
        );
        for (vlan, ours) in [(0, true), (5, false)] {
            let bytes = segment((PEERS, FLOW), ACK, frames.number());
            frames.v4(
                ours,
                Some(vlan),
                &frames::ipv4((PEER, KERNEL), Protocol::TCP, &bytes, |_| ()),
            );
        }
        frames.v4(true, None, &unreachable(FLOW));
        frames.v4(false, None, &unreachable(FLOW + 1));
        frames.check(&pair, &mut station);
    }
}

#[test]
fn what_the_stack_has_left_is_the_kernels() {
    if !is_root() {
        return;
    }
    let (pair, mut station, mut steering) = station(AttachMode::Native, 100);
    tell(&mut *steering);
    steering.listen(end(KERNEL, LISTENED));
    let second = (end(KERNEL, FLOW + 1), end(PEER, PEERS));
    assert!(steering.enter(second.0, second.1));
    steering.leave(second.0, second.1);
    steering.unlisten(end([0, 0, 0, 0], LISTENED));
    steering.unlisten(end(KERNEL6, LISTENED));
    let mut frames = Frames::new(&pair, &station);
    let bytes = segment((PEERS, FLOW + 1), ACK, frames.number());
    frames.v4(
        false,
        None,
        &frames::ipv4((PEER, KERNEL), Protocol::TCP, &bytes, |_| ()),
    );
    // Listened to twice, and left once.
    let bytes = segment((PEERS, LISTENED), SYN, frames.number());
    frames.v4(
        true,
        None,
        &frames::ipv4((PEER, KERNEL), Protocol::TCP, &bytes, |_| ()),
    );
    let bytes = segment((PEERS, LISTENED), SYN, frames.number());
    frames.v6(false, Protocol::TCP, &bytes);
    frames.check(&pair, &mut station);
}

#[test]
fn fragments_follow_the_first_of_their_packet() {
    if !is_root() {
        return;
    }
    for mode in MODES {
        let (pair, mut station, mut steering) = station(mode, 100);
        tell(&mut *steering);
        let mut frames = Frames::new(&pair, &station);
        // Early, the first of ours, another of it; the first of another flow, another of it.
        let parts = [
            (false, FLOW, 7, 1),
            (true, FLOW, 7, 0),
            (true, FLOW, 7, 1),
            (false, FLOW + 1, 8, 0),
            (false, FLOW + 1, 8, 1),
        ];
        for (ours, port, id, offset) in parts {
            let mut bytes = segment((PEERS, port), ACK, frames.number());
            bytes.resize(24, 0);
            let packet = frames::ipv4((PEER, KERNEL), Protocol::TCP, &bytes, |header| {
                header.ident = id;
                header.dont_fragment = false;
                header.more_fragments = offset == 0;
                header.fragment_offset = offset * 24;
            });
            frames.v4(ours, None, &packet);
            let more = u16::from(offset == 0);
            let [high, low] = ((offset * 24) | more).to_be_bytes();
            let mut payload = vec![6, 0, high, low, 0, 0, 0, id as u8];
            payload.extend(segment((PEERS, port), ACK, frames.number()));
            payload.resize(32, 0);
            frames.v6(ours, Protocol(44), &payload);
        }
        frames.check(&pair, &mut station);
    }
}

#[test]
fn acks_to_our_listeners_are_ours_while_cookies_are_out_but_for_flows_of_the_kernel() {
    if !is_root() {
        return;
    }
    let (pair, mut station, mut steering) = station(AttachMode::Native, 100);
    let listener = pair
        .ours
        .run(|| TcpListener::bind(end(KERNEL, LISTENED)).unwrap());
    let mut client = pair
        .peer
        .run(|| TcpStream::connect(end(KERNEL, LISTENED)).unwrap());
    let (mut server, _) = listener.accept().unwrap();
    tell(&mut *steering);
    steering.expect_cookies(Time::from_nanos(u64::MAX / 2));
    let mut frames = Frames::new(&pair, &station);
    frames.segment(true, (PEERS, LISTENED), ACK);
    frames.segment(false, (PEERS, LISTENED), SYN | ACK);
    frames.segment(false, (PEERS, LISTENED), RST);
    frames.segment(false, (PEERS, LISTENED + 1), ACK);
    frames.check(&pair, &mut station);
    client.write_all(b"still here").unwrap();
    server.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut heard = [0; 10];
    server.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"still here");
}

#[test]
fn what_comes_to_a_queue_without_a_socket_is_dropped_and_counted() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(2);
    let mut ports = pair.open(&config(AttachMode::Native, 100)).unwrap().ports();
    let mut first = ports.remove(0);
    let mut steering = first.steering().unwrap();
    tell(&mut *steering);
    drop(ports);
    let mut frames = Frames {
        macs: (pair.peer_mac(), first.mac()),
        all: Vec::new(),
    };
    // The peer's kernel chooses a queue by flow.
    let flows = 0..64;
    for flow in flows.clone() {
        assert!(steering.enter(end(KERNEL, FLOW + flow + 1), end(PEER, PEERS)));
        let bytes = segment((PEERS, FLOW + flow + 1), ACK, frames.number());
        frames.v4(
            true,
            None,
            &frames::ipv4((PEER, KERNEL), Protocol::TCP, &bytes, |_| ()),
        );
    }
    let raw = pair.raw();
    for (frame, _) in &frames.all {
        raw.send(frame);
    }
    let (mut came, mut lost, deadline) = (0, 0, Instant::now() + DEADLINE);
    while came + lost < 64 {
        assert!(Instant::now() < deadline, "{came} came, {lost} lost");
        first.receive(|frames| came += frames.len());
        lost = first.losses().0 as usize;
        first.wait(Some(Duration::from_millis(1)), None).unwrap();
    }
    assert!(came + lost == 64, "{came} came, {lost} lost");
}

#[test]
fn a_flow_that_finds_no_room_is_refused() {
    if !is_root() {
        return;
    }
    let (_pair, _station, mut steering) = station(AttachMode::Native, 4);
    let mut enter = |port| steering.enter(end(KERNEL, port), end(PEER, PEERS));
    let entered = (1..=100).filter(|port| enter(*port)).count();
    assert_eq!(entered, 8);
    steering.leave(end(KERNEL, 1), end(PEER, PEERS));
    assert!(steering.enter(end(KERNEL, 50), end(PEER, PEERS)));
    assert!(!steering.enter(end(KERNEL, 51), end(PEER, PEERS)));
}
