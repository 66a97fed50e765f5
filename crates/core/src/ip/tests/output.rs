use super::*;
use crate::config::{Hop, Way};

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 7, n])
}

fn write(bench: &Bench, frame: &mut [u8], dst: IpAddr, ecn: u8) -> usize {
    let path = bench.net.path(dst, None).unwrap();
    let net = &bench.net;
    net.links
        .write_headers(frame, &path, mac(1), dst, Protocol::TCP, 30, ecn)
}

/// RFC 1122 §2.3.3-1, §3.2.1.7-1, §3.2.1.3-3; RFC 1191 §3-1.
#[test]
fn headers_are_what_the_rfcs_want() {
    let bench = Bench::new();
    let mut frame = [0xee; 100];
    assert_eq!(write(&bench, &mut frame, PEER4.into(), 2), 34);
    let (link, header, payload) = parse_ipv4(&frame);
    let expected = (our_mac(0), mac(1), 30);
    assert_eq!((link.src, link.dst, payload.len()), expected);
    let plain = Ipv4Header::new(OUR4, PEER4, Protocol::TCP, 30);
    assert_eq!(header, Ipv4Header { tos: 2, ..plain });
    assert!(header.dont_fragment && header.ident == 0 && header.ttl == 64);

    assert_eq!(write(&bench, &mut frame, PEER6.into(), 0), 54);
    let (link, header, payload) = parse_ipv6(&frame);
    let got = (link.ether_type, header.hop_limit, payload.len());
    assert_eq!(got, (EtherType::IPV6, 64, 30));
    assert_eq!((header.src, header.dst), (OUR6, PEER6));
    assert_eq!(write(&bench, &mut frame[..53], PEER6.into(), 0), 0);
    assert_eq!(write(&bench, &mut [], PEER6.into(), 0), 0);
}

#[test]
fn paths_follow_the_routes() {
    let bench = Bench::new();
    let path = |dst: &str, src: Option<&str>| {
        let path = bench
            .net
            .path(dst.parse().unwrap(), src.map(|src| src.parse().unwrap()))?;
        Ok((path.src.to_string(), path.next_hop.to_string()))
    };
    let ok = |src: &str, hop: &str| Ok((src.to_string(), hop.to_string()));
    assert_eq!(path("10.0.0.2", None), ok("10.0.0.1", "10.0.0.2"));
    assert_eq!(path("192.0.2.1", None), ok("10.0.0.1", "10.0.0.254"));
    assert_eq!(path("2001:db8::9", None), ok("2001:db8::1", "2001:db8::9"));
    assert_eq!(path("2001:db8:9::9", None), ok("2001:db8::1", "fe80::254"));
    assert_eq!(path("fe80::9", None), ok("fe80::1", "fe80::9"));
    assert_eq!(
        path("10.0.0.2", Some("10.0.0.1")),
        ok("10.0.0.1", "10.0.0.2")
    );
    assert_eq!(
        path("10.0.0.2", Some("10.0.0.3")),
        Err(Error::AddressNotAvailable)
    );
    assert_eq!(
        path("10.0.0.2", Some("2001:db8::1")),
        Err(Error::AddressNotAvailable)
    );
    for nobody in [
        "10.0.0.255",
        "255.255.255.255",
        "0.0.0.0",
        "127.0.0.1",
        "224.0.0.1",
        "::",
        "::1",
        "ff02::1",
        "::ffff:10.0.0.2",
    ] {
        assert_eq!(
            path(nobody, None),
            Err(Error::NetworkUnreachable),
            "{nobody}"
        );
    }
    for ourselves in ["10.0.0.1", "2001:db8::1", "fe80::1"] {
        assert_eq!(path(ourselves, None), Err(Error::NetworkUnreachable));
    }
}

/// The one that was found last, another in its place, none at all: whoever asks, and however often.
#[test]
fn ways_out_are_the_paths() {
    let mut bench = Bench::with(&config(vec![
        interface(0, &["10.0.0.1/24", "10.0.0.17/24", "2001:db8::1/64"]),
        interface(1, &["10.0.1.1/24"]),
    ]));
    let hosts = ["10.0.0.2", "10.0.0.18", "10.0.1.2", "2001:db8::2"];
    let nobody = ["192.0.2.1", "10.0.0.255", "0.0.0.0", "10.0.0.1", "::"];
    let ours = ["10.0.0.1", "10.0.0.17", "10.0.1.1", "2001:db8::1"];
    let others = ["10.0.0.3", "10.0.0.2"];
    let ip = |text: &&str| text.parse::<IpAddr>().unwrap();
    let sources: Vec<_> = ours.iter().chain(&others).map(ip).map(Some).collect();
    for _ in 0..2 {
        for src in sources.iter().copied().chain([None]) {
            for dst in hosts.iter().chain(&nobody).map(ip) {
                let path = bench.net.path(dst, src);
                for _ in 0..2 {
                    assert_eq!(bench.net.way_out(dst, src).copied(), path);
                }
            }
        }
    }
    let unspecified = Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let path = bench.net.path(PEER4.into(), None);
    assert_eq!(bench.net.way_out(PEER4.into(), unspecified).copied(), path);
}

#[test]
fn a_bound_source_decides_between_ports_with_the_same_prefix() {
    let interfaces = vec![
        interface(0, &["2001:db8::1/64", "10.0.0.1/24"]),
        interface(1, &["2001:db8:1::1/64"]),
    ];
    let bench = Bench::with(&config(interfaces));
    let ours = "2001:db8:1::1".parse().unwrap();
    let second = crate::ip::link_local(our_mac(1), &[ours], 0)
        .unwrap()
        .into();
    let path = bench
        .net
        .path("fe80::9".parse().unwrap(), Some(second))
        .unwrap();
    assert_eq!((path.port, path.src), (PortId(1), second));
    assert_eq!(
        bench.net.path("192.0.2.1".parse().unwrap(), None),
        Err(Error::NetworkUnreachable)
    );
}

#[test]
fn a_port_without_an_address_of_the_family_has_no_source() {
    let mut config = config(vec![interface(0, &["10.0.0.1/24"])]);
    config.routes = vec![Route {
        network: "::".parse().unwrap(),
        prefix_len: 0,
        gateway: None,
        port: PORT,
    }];
    assert_eq!(
        Bench::with(&config).net.path(PEER6.into(), None),
        Err(Error::AddressNotAvailable)
    );
}

#[test]
fn static_neighbours_are_never_asked_for() {
    let mut config = base_config();
    let neighbour = |addr: &str, prefix_len, n| StaticNeighbour {
        addr: addr.parse().unwrap(),
        prefix_len,
        mac: mac(n),
        port: PORT,
    };
    config.neighbours = vec![
        neighbour("10.0.0.0", 24, 1),
        neighbour("10.0.0.128", 25, 2),
        neighbour("fe80::254", 128, 3),
    ];
    let mut bench = Bench::with(&config);
    let resolve = |bench: &mut Bench, dst: &str| {
        let path = bench.net.path(dst.parse().unwrap(), None).unwrap();
        bench
            .net
            .links
            .confirm(bench.now, &path, &mut bench.counters);
        bench.net.resolve(bench.now, &path, &mut bench.counters)
    };
    assert_eq!(resolve(&mut bench, "10.0.0.2"), Resolution::Ready(mac(1)));
    assert_eq!(resolve(&mut bench, "10.0.0.200"), Resolution::Ready(mac(2)));
    assert_eq!(
        resolve(&mut bench, "192.0.2.1"),
        Resolution::Ready(mac(2)),
        "the gateway's"
    );
    assert_eq!(
        resolve(&mut bench, "2001:db8:9::9"),
        Resolution::Ready(mac(3))
    );
    assert!(matches!(
        resolve(&mut bench, "2001:db8::9"),
        Resolution::Pending(_)
    ));
    assert_eq!(bench.sent().len(), 1);

    for (change, text) in [(0, "prefix"), (1, "interface 9"), (2, "group")] {
        let mut bad = config.clone();
        match change {
            0 => bad.neighbours[0].prefix_len = 33,
            1 => bad.neighbours[0].port = PortId(9),
            _ => bad.neighbours[0].mac = MacAddr::BROADCAST,
        }
        assert!(Net::new(&bad).unwrap_err().to_string().contains(text));
    }
}

#[test]
fn a_full_sink_keeps_packets_queued_in_order() {
    let mut bench = Bench::acquainted();
    for n in 0..4u8 {
        bench.send(PEER4.into(), &[n; 20]);
    }
    let mut sink = Sink {
        frames: Vec::new(),
        room: 3,
    };
    bench
        .net
        .links
        .transmit(PORT, &mut sink, &mut bench.counters);
    sink.frames.extend(bench.sent());
    let payloads: Vec<u8> = sink
        .frames
        .iter()
        .map(|frame| parse_ipv4(frame).2[0])
        .collect();
    assert_eq!(payloads, [0, 1, 2, 3]);
    assert!(bench.net.links.packets.is_idle());
    assert_eq!(
        (bench.counters.frames_out, bench.counters.bytes_out),
        (4, 4 * 54)
    );
}

#[test]
fn packets_beyond_the_pool_or_the_mtu_are_dropped_and_counted() {
    let mut bench = Bench::acquainted();
    for _ in 0..2000 {
        bench.send(PEER4.into(), &[0; 20]);
    }
    let sent = bench.sent().len() as u64;
    assert_eq!(
        sent + bench.counters.dropped(DropReason::ReplyQueueFull),
        2000
    );
    assert!(sent > 100);
    bench.send(PEER4.into(), &[0; 1481]);
    assert_eq!(bench.counters.dropped(DropReason::ReplyTooLong), 1);
    bench.send(PEER4.into(), &[0; 1480]);
    assert_eq!(bench.sent_one().len(), 1514);
}

#[test]
fn a_stack_without_ports_does_nothing() {
    let mut bench = Bench::at_start(&config(vec![]));
    assert_eq!(bench.net.next_deadline(), None);
    assert_eq!(
        bench.net.path(PEER4.into(), None),
        Err(Error::NetworkUnreachable)
    );
    assert_eq!(
        bench.consume(&ipv4(Protocol::TCP, b"segment")),
        Some(DropReason::FramePort)
    );
    assert!(bench.sent().is_empty());
}

/// Such a connection is the kernel's.
#[test]
fn a_route_out_of_an_interface_that_is_not_ours_is_none() {
    let way = |network: &str, prefix_len, port| Way {
        network: network.parse().unwrap(),
        prefix_len,
        source: None,
        mtu: Some(1400),
        hops: vec![Hop {
            gateway: None,
            port,
            weight: 1,
        }],
    };
    let mut config = config(vec![interface(0, &["10.0.0.1/24"])]);
    config.host_addresses = true;
    config.ways = vec![
        way("10.0.0.128", 25, PortId::ELSEWHERE),
        way("10.0.0.0", 24, PORT),
    ];
    let net = Bench::with(&config).net;
    let path = |dst: [u8; 4]| net.path(dst.into(), None);
    assert_eq!(path([10, 0, 0, 200]), Err(Error::NetworkUnreachable));
    assert_eq!(path([10, 0, 0, 9]).unwrap().mtu, 1400, "as the route says");
    assert_eq!(path([192, 0, 2, 1]), Err(Error::NetworkUnreachable));
}
