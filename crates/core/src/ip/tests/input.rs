use super::*;

fn tcp_payload(input: Input<'_>) -> Option<(IpAddr, IpAddr, Vec<u8>, Ecn)> {
    match input {
        Input::Tcp(datagram) => Some((
            datagram.src,
            datagram.dst,
            datagram.payload.into_owned(),
            datagram.ecn,
        )),
        _ => None,
    }
}

#[test]
fn tcp_to_us_is_delivered_without_padding_or_copy() {
    let mut bench = Bench::new();
    let mut frame = ipv4_with(Protocol::TCP, b"segment", |header| header.tos = 0x2a | 3);
    frame.extend_from_slice(&[0; 20]);
    match bench.input(&frame) {
        Input::Tcp(datagram) => {
            assert!(matches!(&datagram.payload, Cow::Borrowed(b"segment")));
            assert_eq!(
                (datagram.src, datagram.dst, datagram.ecn),
                (PEER4.into(), OUR4.into(), Ecn::Ce)
            );
        }
        other => panic!("{other:?}"),
    }
    let frame = ipv6_with(Protocol::TCP, b"segment", |header| header.traffic_class = 2);
    let got = tcp_payload(bench.input(&frame));
    assert_eq!(
        got,
        Some((PEER6.into(), OUR6.into(), b"segment".to_vec(), Ecn::Ect0))
    );
    assert_eq!(
        (bench.counters.frames_in, bench.counters.total_dropped()),
        (2, 0)
    );
}

#[test]
fn only_the_priority_tag_is_accepted() {
    for (id, expected) in [(0, None), (5, Some(DropReason::FrameVlan))] {
        let mut bench = Bench::new();
        let untagged = ipv4(Protocol::TCP, b"segment");
        let tag = [0x81, 0x00, 0xe0, id];
        let frame = [&untagged[..12], &tag[..], &untagged[12..]].concat();
        match expected {
            None => assert!(matches!(bench.input(&frame), Input::Tcp(_))),
            some => assert_eq!(bench.consume(&frame), some),
        }
    }
}

#[test]
fn frames_for_others_are_dropped() {
    let mut bench = Bench::new();
    let frame = ipv4(Protocol::TCP, b"segment");
    let with = |dst: [u8; 6], src: [u8; 6]| [&dst[..], &src[..], &frame[12..]].concat();
    let (us, peer) = (our_mac(0).0, PEER.0);
    assert_eq!(
        bench.consume(&with([2, 0, 0, 0, 0, 7], peer)),
        Some(DropReason::FrameOther)
    );
    assert_eq!(
        bench.consume(&with([1, 0, 0x5e, 0, 0, 1], peer)),
        Some(DropReason::FrameOther)
    );
    assert_eq!(
        bench.consume(&with([0x33, 0x33, 0, 0, 0, 0xfb], peer)),
        Some(DropReason::FrameOther)
    );
    assert_eq!(
        bench.consume(&with(us, us)),
        Some(DropReason::FrameOther),
        "ours, come back"
    );
    assert_eq!(
        bench.consume(&with(us, [3, 0, 0, 0, 0, 1])),
        Some(DropReason::FrameOther)
    );
    assert_eq!(bench.consume(&frame[..13]), Some(DropReason::FrameShort));
    assert_eq!(
        bench.consume(&from_peer(EtherType(0x88cc), b"lldp")),
        Some(DropReason::FrameProtocol)
    );
    assert_eq!(
        bench.consume(&from_peer(EtherType(0x0026), b"802.3")),
        Some(DropReason::FrameProtocol)
    );
    let frame = RxFrame {
        bytes: &frame,
        meta: RxMeta::default(),
    };
    assert!(matches!(
        bench
            .net
            .input(bench.now, PortId(1), &frame, &mut bench.counters),
        Input::Consumed
    ));
    assert_eq!(bench.counters.dropped(DropReason::FramePort), 1);
}

/// RFC 1122 §3.2.1.3: what may not be the source of a packet.
/// RFC 9293 MUST-63.
/// RFC 1122 §3.2.1.3-2.
#[test]
fn impossible_ipv4_sources_are_dropped() {
    for src in [
        "127.0.0.1",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.5",
        "255.255.255.255",
        "10.0.0.255",
        "10.0.0.0",
        "240.0.0.1",
        "10.0.0.1",
    ] {
        let mut bench = Bench::new();
        let frame = ipv4_with(Protocol::TCP, b"segment", |header| {
            header.src = src.parse().unwrap()
        });
        assert_eq!(bench.consume(&frame), Some(DropReason::IpMartian), "{src}");
        assert!(bench.sent().is_empty());
    }
}

/// RFC 9293 MUST-63.
#[test]
fn impossible_ipv6_sources_are_dropped() {
    for src in [
        "::1",
        "::",
        "ff02::1",
        "::ffff:10.0.0.2",
        "2001:db8::1",
        "fe80::1",
    ] {
        let mut bench = Bench::new();
        let frame = ipv6_with(Protocol::TCP, b"segment", |header| {
            header.src = src.parse().unwrap()
        });
        assert_eq!(bench.consume(&frame), Some(DropReason::IpMartian), "{src}");
        assert!(bench.sent().is_empty());
    }
}

/// RFC 9293 MUST-57.
/// RFC 1122 §3.2.1.3-1.
#[test]
fn packets_for_others_are_dropped() {
    let mut bench = Bench::new();
    for dst in [
        "10.0.0.3",
        "10.0.0.255",
        "255.255.255.255",
        "224.0.0.1",
        "127.0.0.1",
    ] {
        let frame = ipv4_with(Protocol::UDP, b"datagram", |header| {
            header.dst = dst.parse().unwrap()
        });
        assert_eq!(bench.consume(&frame), Some(DropReason::IpNotLocal), "{dst}");
    }
    for dst in ["2001:db8::3", "::1", "ff02::2", "ff02::1:ff00:3"] {
        let frame = ipv6_with(Protocol::UDP, b"datagram", |header| {
            header.dst = dst.parse().unwrap()
        });
        let dropped = bench.consume(&frame);
        assert!(
            matches!(
                dropped,
                Some(DropReason::IpNotLocal | DropReason::FrameOther)
            ),
            "{dst} {dropped:?}"
        );
    }
    assert!(bench.sent().is_empty());
}

/// RFC 1122 §3.3.6.
/// RFC 9293 MUST-57.
/// RFC 1122 §3.3.6-1.
#[test]
fn unicast_packets_in_broadcast_frames_are_dropped() {
    let mut bench = Bench::new();
    for frame in [
        ipv4(Protocol::TCP, b"segment"),
        ipv6(Protocol::TCP, b"segment"),
    ] {
        let frame = [&[0xff; 6], &frame[6..]].concat();
        assert_eq!(bench.consume(&frame), Some(DropReason::IpLinkBroadcast));
    }
}

/// RFC 1122 §3.2.1.1-1, §3.2.1.2-1.
#[test]
fn broken_headers_are_dropped() {
    let mut bench = Bench::new();
    let frame = ipv4(Protocol::TCP, b"segment");
    for (at, value, expected) in [
        (14, 0x65, DropReason::IpHeader),
        (14, 0x44, DropReason::IpHeader),
        (16, 0xff, DropReason::IpHeader),
        (22, 63, DropReason::IpChecksum),
        (25, 1, DropReason::IpChecksum),
    ] {
        let mut frame = frame.clone();
        frame[at] = value;
        assert_eq!(bench.consume(&frame), Some(expected), "byte {at}");
    }
    assert_eq!(bench.consume(&frame[..33]), Some(DropReason::IpHeader));
    let frame = ipv6(Protocol::TCP, b"segment");
    assert_eq!(bench.consume(&frame[..60]), Some(DropReason::IpHeader));
    assert_eq!(bench.consume(&frame[..53]), Some(DropReason::IpHeader));
}

/// RFC 1122 §3.2.1.7.
/// RFC 1122 §3.2.1.7-2.
#[test]
fn the_ttl_of_what_arrives_does_not_matter() {
    let mut bench = Bench::new();
    for ttl in [0, 1] {
        let frame = ipv4_with(Protocol::TCP, b"segment", |header| header.ttl = ttl);
        assert!(matches!(bench.input(&frame), Input::Tcp(_)));
    }
}

fn with_options(options: &[u8]) -> Vec<u8> {
    let words = options.len() / 4;
    let mut packet = ipv4_bytes(
        &Ipv4Header::new(PEER4, OUR4, Protocol::TCP, options.len() + 7),
        options,
    );
    packet.extend_from_slice(b"segment");
    packet[0] = 0x45 + words as u8;
    packet[10..12].fill(0);
    let sum = wire::checksum::checksum(&packet[..20 + options.len()]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    from_peer(EtherType::IPV4, &packet)
}

/// RFC 9293 MUST-50.
/// RFC 1122 §3.2.1.8-1.
#[test]
fn source_routes_are_dropped_and_other_options_skipped() {
    let mut bench = Bench::new();
    for kind in [131, 137] {
        assert_eq!(
            bench.consume(&with_options(&[kind, 7, 4, 10, 0, 0, 9, 0])),
            Some(DropReason::IpSourceRoute)
        );
    }
    let frame = with_options(&[1, 1, 0x94, 4, 0, 0, 0, 0]);
    assert_eq!(tcp_payload(bench.input(&frame)).unwrap().2, b"segment");
}

#[test]
fn extension_headers_are_walked() {
    let mut bench = Bench::new();
    // Hop-by-hop with PadN, destination options with an unknown option to be skipped.
    let payload = [
        &[60, 0, 1, 4, 0, 0, 0, 0],
        &[6, 0, 0x1e, 4, 0, 0, 0, 0],
        &b"segment"[..],
    ]
    .concat();
    let frame = ipv6(Protocol::HOP_BY_HOP, &payload);
    assert_eq!(tcp_payload(bench.input(&frame)).unwrap().2, b"segment");
    // RFC 6946: a fragment header on a whole packet.
    let payload = [&[6, 0, 0, 0, 0, 0, 0, 9], &b"segment"[..]].concat();
    let frame = ipv6(Protocol::FRAGMENT, &payload);
    assert_eq!(tcp_payload(bench.input(&frame)).unwrap().2, b"segment");
    let frame = ipv6(Protocol::NO_NEXT_HEADER, b"");
    assert_eq!(bench.consume(&frame), Some(DropReason::IpProtocol));
    assert!(bench.sent().is_empty());
}

#[test]
fn what_tcp_may_not_see_is_dropped() {
    let mut bench = Bench::new();
    // TCP to a group.
    let frame = ipv6_with(Protocol::TCP, b"segment", |header| {
        header.dst = "ff02::1".parse().unwrap()
    });
    assert_eq!(bench.consume(&frame), Some(DropReason::IpProtocol));
    // ICMP of the other family.
    assert_eq!(
        bench.consume(&ipv4(Protocol::ICMPV6, &[0; 8])),
        Some(DropReason::IpProtocol)
    );
    assert_eq!(
        bench.consume(&ipv6(Protocol::ICMP, &[0; 8])),
        Some(DropReason::IpProtocol)
    );
}
