//! AF_PACKET against a kernel at the other end of a veth pair. Needs root; says so and passes
//! without.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are test code"
)]

#[allow(dead_code, reason = "shared by several test programs")]
mod xdp_support;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use io::Port;
use io::packet::{PacketConfig, PacketPort, PacketPrepared};
use rustix::net::RecvFlags;
use wire::ethernet::EtherType;
use wire::frame::{FrameSink, MacAddr, TxMeta};
use wire::ip::Protocol;

use xdp_support::{
    DEADLINE, KERNEL, Namespace, OURS, OURS6, PEER, Pair, Raw, frames, has_traffic_control,
    is_root, peer_socket,
};

fn config(ports: u16) -> PacketConfig {
    PacketConfig {
        interface: "xdp0".to_owned(),
        addresses: vec![IpAddr::from(OURS), IpAddr::from(OURS6)],
        ports,
        probe: false,
    }
}

fn prepare(pair: &Pair, config: &PacketConfig) -> std::io::Result<PacketPrepared> {
    pair.ours.run(|| PacketPrepared::new(config))
}

fn open(pair: &Pair, config: &PacketConfig) -> Vec<PacketPort> {
    let mut prepared = prepare(pair, config).unwrap();
    pair.ours.run(|| prepared.open()).unwrap()
}

fn receive(port: &mut PacketPort) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    port.receive(|frames| got.extend(frames.iter().map(|frame| frame.bytes.to_vec())));
    got
}

/// Receives until `is_last`.
fn until(port: &mut PacketPort, mut is_last: impl FnMut(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let end = Instant::now() + DEADLINE;
    let mut all = Vec::new();
    loop {
        for frame in receive(port) {
            let last = is_last(&frame);
            all.push(frame);
            if last {
                return all;
            }
        }
        assert!(
            Instant::now() < end,
            "the last of {} did not come",
            all.len()
        );
        port.wait(Some(Duration::from_millis(100)), None).unwrap();
    }
}

fn send(port: &mut PacketPort, frame: &[u8]) {
    assert!(port.send(|room| {
        room[..frame.len()].copy_from_slice(frame);
        TxMeta {
            len: frame.len(),
            ..TxMeta::default()
        }
    }));
    port.flush().unwrap();
}

/// A datagram from the peer's kernel to us, from a port of its own.
fn datagram(pair: &Pair, ours: MacAddr, from: u16, data: &[u8]) -> Vec<u8> {
    let datagram = frames::udp(PEER.into(), OURS.into(), (from, 7), data);
    let packet = frames::ipv4((PEER, OURS), Protocol::UDP, &datagram, |_| ());
    frames::ethernet(pair.peer_mac(), ours, EtherType::IPV4, None, &packet)
}

fn carries(data: &[u8]) -> impl Fn(&[u8]) -> bool {
    move |frame| frames::carries(frame, Protocol::UDP, data)
}

#[test]
fn what_is_for_us_comes_and_nothing_else() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let port = &mut open(&pair, &config(1))[0];
    let (raw, mac) = (pair.raw(), port.mac());
    // Its kernel asks for our hardware address.
    let asking = peer_socket(&pair, PEER);
    asking.send_to(b"waits", (OURS, 7)).unwrap();
    let packet = frames::ipv4((PEER, KERNEL), Protocol::UDP, &[0; 8], |_| ());
    raw.send(&frames::ethernet(
        pair.peer_mac(),
        mac,
        EtherType::IPV4,
        None,
        &packet,
    ));
    for (id, data) in [(7, b"of a VLAN"), (0, b"priority!")] {
        let datagram = frames::udp(PEER.into(), OURS.into(), (1, 7), data);
        let packet = frames::ipv4((PEER, OURS), Protocol::UDP, &datagram, |_| ());
        let peer = pair.peer_mac();
        raw.send(&frames::ethernet(
            peer,
            mac,
            EtherType::IPV4,
            Some(id),
            &packet,
        ));
    }
    raw.send(&datagram(&pair, mac, 1, b"the last"));
    let got = until(port, carries(b"the last"));
    let is_arp = |frame: &&Vec<u8>| frames::is_arp_request(frame);
    assert_eq!(got.iter().filter(is_arp).count(), 1);
    let datagrams: Vec<&[u8]> = got
        .iter()
        .filter_map(|frame| frames::parse_ipv4(frame))
        .map(|(_, datagram)| &datagram[8..])
        .collect();
    // The kernel took the tag of the first out.
    assert_eq!(datagrams, [&b"priority!"[..], b"the last"]);
    assert_eq!(port.losses(), (0, 0));
}

/// Sends a datagram for our address, and counts what the peer hears of the kernel beside us.
fn hears_from_kernel(pair: &Pair, mac: MacAddr) -> usize {
    let tap = pair.peer.run(|| Raw::listening("peer0"));
    let sent = datagram(pair, mac, 9, b"to be sent on");
    pair.raw().send(&sent);
    // What the kernel makes of a frame it makes before it takes the next.
    let peer = peer_socket(pair, PEER);
    let kernel = pair.ours.run(|| UdpSocket::bind((KERNEL, 0))).unwrap();
    kernel.send_to(b"end", peer.local_addr().unwrap()).unwrap();
    let mut seen = 0;
    let end = Instant::now() + DEADLINE;
    loop {
        let mut room = [0; 2048];
        let Ok((len, _)) = rustix::net::recv(&tap, &mut room[..], RecvFlags::DONTWAIT) else {
            assert!(Instant::now() < end, "the end did not come");
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let frame = &room[..len];
        if frames::carries(frame, Protocol::UDP, b"end") {
            return seen;
        }
        // Ours come from the peer; what the kernel sends on, or says of it, does not.
        if frame[6..12] == mac.0 && frame[12..14] == [8, 0] {
            seen += 1;
        }
    }
}

#[test]
fn a_kernel_that_forwards_is_kept_from_what_is_ours() {
    if !is_root() || !has_traffic_control() {
        return;
    }
    let pair = Pair::new(1);
    let forwarding = "/proc/sys/net/ipv4/conf/all/forwarding";
    pair.ours.run(|| std::fs::write(forwarding, "1").unwrap());
    // Where our address is then: with a neighbour that is known.
    pair.ours.ip(&format!(
        "neighbour replace {OURS} lladdr 02:00:00:00:00:77 dev xdp0 nud permanent"
    ));
    let mac = pair.ours.run(|| io::netlink::link("xdp0").unwrap().mac);
    assert!(
        hears_from_kernel(&pair, mac) > 0,
        "without a port the kernel sends it on"
    );
    let port = &mut open(&pair, &config(1))[0];
    assert_eq!(hears_from_kernel(&pair, mac), 0);
    until(port, carries(b"to be sent on"));
}

#[test]
fn a_full_ring_counts_what_it_lost_and_goes_on() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    // The peer's kernel says nothing of its own (neighbour discovery), which would be lost, too.
    let silent = "/proc/sys/net/ipv6/conf/peer0/disable_ipv6";
    pair.peer.run(|| std::fs::write(silent, "1").unwrap());
    let port = &mut open(&pair, &config(1))[0];
    let (raw, mac) = (pair.raw(), port.mac());
    let mut sent: u64 = 0;
    while port.losses().0 == 0 {
        for _ in 0..1000 {
            raw.send(&datagram(&pair, mac, 1, &sent.to_be_bytes()));
            sent += 1;
        }
    }
    let mut got = 0;
    loop {
        let burst = receive(port);
        if burst.is_empty() {
            break;
        }
        for frame in burst {
            if let Some((_, datagram)) = frames::parse_ipv4(&frame) {
                // In order, from the first on.
                assert_eq!(datagram[8..16], u64::to_be_bytes(got));
                got += 1;
            }
        }
    }
    assert_eq!(got + port.losses().0, sent);
    raw.send(&datagram(&pair, mac, 1, b"the last"));
    until(port, carries(b"the last"));
}

#[test]
fn flows_are_spread_over_ports_and_each_keeps_to_one() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let mut ports = open(&pair, &config(4));
    let (raw, mac) = (pair.raw(), ports[0].mac());
    for _ in 0..3 {
        for from in 1000..1064 {
            raw.send(&datagram(&pair, mac, from, b"one of many"));
        }
    }
    let mut flows: Vec<Vec<u16>> = vec![Vec::new(); ports.len()];
    let end = Instant::now() + DEADLINE;
    while flows.iter().map(Vec::len).sum::<usize>() < 3 * 64 {
        for (port, flows) in ports.iter_mut().zip(&mut flows) {
            for frame in receive(port) {
                if let Some((_, datagram)) = frames::parse_ipv4(&frame) {
                    flows.push(u16::from_be_bytes([datagram[0], datagram[1]]));
                }
            }
        }
        assert!(Instant::now() < end, "{flows:?}");
    }
    let sets: Vec<HashSet<u16>> = flows
        .iter()
        .map(|of| of.iter().copied().collect())
        .collect();
    assert_eq!(
        sets.iter().map(HashSet::len).sum::<usize>(),
        64,
        "{flows:?}"
    );
    assert!(sets.iter().all(|set| !set.is_empty()), "{flows:?}");
}

#[test]
fn an_address_has_one_stack_and_an_interface_several() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let mut first = prepare(&pair, &config(2)).unwrap();
    let refused = prepare(&pair, &config(1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
    assert!(refused.to_string().contains("10.99.0.1"), "{refused}");
    let other = PacketConfig {
        addresses: vec![IpAddr::from([10, 99, 0, 9])],
        ..config(1)
    };
    let _other = open(&pair, &other);
    let ports = pair.ours.run(|| first.open()).unwrap();
    let busy = pair.ours.run(|| first.open()).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::ResourceBusy);
    drop(ports);
    // Whoever has it prepared goes on when the reader has ended, from an empty ring.
    let mut ports = pair.ours.run(|| first.open()).unwrap();
    let mac = ports[0].mac();
    pair.raw().send(&datagram(&pair, mac, 1, b"again"));
    let end = Instant::now() + DEADLINE;
    while !ports.iter_mut().any(|port| {
        let frames = receive(port);
        frames.iter().any(|frame| carries(b"again")(frame))
    }) {
        assert!(Instant::now() < end);
    }
    drop((ports, first));
    prepare(&pair, &config(1)).unwrap();
}

#[test]
fn an_interface_that_is_down_is_waited_for_and_one_that_is_gone_is_named() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let port = &mut open(&pair, &config(1))[0];
    let mac = port.mac();
    pair.ours.ip("link set xdp0 down");
    port.wait(Some(Duration::ZERO), None).unwrap();
    let frame = frames::ethernet(mac, pair.peer_mac(), EtherType(0x88b5), None, b"lost");
    send(port, &frame);
    assert_eq!(port.losses().1, 1);
    pair.ours.ip("link set xdp0 up");
    pair.raw().send(&datagram(&pair, mac, 1, b"up again"));
    until(port, carries(b"up again"));
    pair.ours.ip("link delete xdp0");
    let end = Instant::now() + DEADLINE;
    let error = loop {
        match pair
            .ours
            .run(|| port.wait(Some(Duration::from_millis(100)), None))
        {
            Err(error) => break error,
            Ok(()) => assert!(Instant::now() < end),
        }
    };
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    assert!(error.to_string().contains("xdp0"), "{error}");
}

#[test]
fn what_cannot_work_is_refused_in_one_line() {
    if !is_root() {
        return;
    }
    let space = Namespace::new();
    space.ip("tuntap add dev down0 mode tap");
    space.ip("tuntap add dev tun0 mode tun");
    for (name, word) in [
        ("lo", "loopback"),
        ("tun0", "no Ethernet headers"),
        ("down0", "ip link set down0 up"),
        ("nothing0", "nothing0"),
    ] {
        let config = PacketConfig {
            interface: name.to_owned(),
            ..config(1)
        };
        let error = space.run(|| PacketPrepared::new(&config)).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}
