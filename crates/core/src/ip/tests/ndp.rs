use super::*;
use wire::ndp::{
    NdpMessage, NeighborAdvertisement, NeighborSolicitation, Prefixes, RouterAdvertisement,
    RouterSolicitation, multicast_mac, solicited_node,
};

const STRANGER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x66]);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

fn ndp(src: Ipv6Addr, dst: Ipv6Addr, message: NdpMessage) -> Vec<u8> {
    ndp_with(src, dst, message, |_| {})
}

fn ndp_with(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    message: NdpMessage,
    change: impl FnOnce(&mut Ipv6Header),
) -> Vec<u8> {
    let payload = icmpv6_bytes(src, dst, &Icmpv6Message::Ndp(message));
    ipv6_with(Protocol::ICMPV6, &payload, |header| {
        (header.src, header.dst, header.hop_limit) = (src, dst, 255);
        change(header);
    })
}

fn solicitation(source_lladdr: Option<MacAddr>) -> NdpMessage {
    NdpMessage::NeighborSolicitation(NeighborSolicitation {
        target: OUR6,
        source_lladdr,
        nonce: None,
    })
}

/// Of the peer's address.
fn advertisement(mac: Option<MacAddr>, solicited: bool, override_flag: bool) -> NdpMessage {
    NdpMessage::NeighborAdvertisement(NeighborAdvertisement {
        router: false,
        solicited,
        override_flag,
        target: PEER6,
        target_lladdr: mac,
    })
}

#[track_caller]
fn parse(frame: &[u8]) -> (EthernetHeader, Ipv6Header, NdpMessage) {
    let (link, header, payload) = parse_ipv6(frame);
    assert_eq!(header.hop_limit, 255);
    match Icmpv6Message::parse(header.src, header.dst, payload).unwrap() {
        Icmpv6Message::Ndp(message) => (link, header, message),
        other => panic!("{other:?}"),
    }
}

/// RFC 4861 §7.2.4.
/// RFC 4861 §7.2.4-1.
#[test]
fn solicitations_for_our_address_are_answered() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.consume(&ndp(PEER6, solicited_node(OUR6), solicitation(Some(PEER)))),
        None
    );
    let (link, header, message) = parse(&bench.sent_one());
    assert_eq!((link.dst, header.src, header.dst), (PEER, OUR6, PEER6));
    let expected = NeighborAdvertisement {
        router: false,
        solicited: true,
        override_flag: true,
        target: OUR6,
        target_lladdr: Some(our_mac(0)),
    };
    assert_eq!(message, NdpMessage::NeighborAdvertisement(expected));
    bench.send(PEER6.into(), &[0; 20]);
    let frame = bench.sent_one();
    assert_eq!(frame[..6], PEER.0, "who asked is known");
}

#[test]
fn a_solicitation_without_hardware_address_makes_us_ask_back() {
    let mut bench = Bench::new();
    assert_eq!(bench.consume(&ndp(PEER6, OUR6, solicitation(None))), None);
    let (link, header, message) = parse(&bench.sent_one());
    assert_eq!(
        (link.dst, header.dst),
        (multicast_mac(solicited_node(PEER6)), solicited_node(PEER6))
    );
    let expected = NeighborSolicitation {
        target: PEER6,
        source_lladdr: Some(our_mac(0)),
        nonce: None,
    };
    assert_eq!(message, NdpMessage::NeighborSolicitation(expected));
    assert_eq!(
        bench.consume(&ndp(PEER6, OUR6, advertisement(Some(PEER), true, true))),
        None
    );
    let (link, header, _) = parse(&bench.sent_one());
    assert_eq!((link.dst, header.dst), (PEER, PEER6));
}

/// RFC 4862 §5.4.3, RFC 4861 §7.2.4: to all, because the prober has no address.
#[test]
fn a_probe_for_our_address_is_answered_to_all() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.consume(&ndp(
            Ipv6Addr::UNSPECIFIED,
            solicited_node(OUR6),
            solicitation(None)
        )),
        None
    );
    let (link, header, message) = parse(&bench.sent_one());
    assert_eq!(
        (link.dst, header.dst),
        (multicast_mac(ALL_NODES), ALL_NODES)
    );
    let NdpMessage::NeighborAdvertisement(message) = message else {
        panic!("{message:?}")
    };
    assert!(!message.solicited && message.override_flag);
    assert_eq!(bench.counters.address_conflicts, 0);
}

/// RFC 4861 §7.1.1 and §7.1.2.
/// RFC 4861 §7.1-1.
#[test]
fn invalid_messages_are_dropped() {
    let group = solicited_node(OUR6);
    let unspecified = Ipv6Addr::UNSPECIFIED;
    let frames = [
        ndp_with(PEER6, group, solicitation(Some(PEER)), |header| {
            header.hop_limit = 254
        }),
        ndp_with(
            PEER6,
            OUR6,
            advertisement(Some(PEER), true, true),
            |header| header.hop_limit = 1,
        ),
        ndp(unspecified, group, solicitation(Some(PEER))),
        ndp(unspecified, OUR6, solicitation(None)),
        ndp(unspecified, ALL_NODES, solicitation(None)),
        ndp(PEER6, group, solicitation(Some(MacAddr::BROADCAST))),
        ndp(PEER6, ALL_NODES, advertisement(Some(PEER), true, true)),
        ndp(
            PEER6,
            OUR6,
            advertisement(Some(MacAddr::BROADCAST), true, true),
        ),
        ndp(
            unspecified,
            ALL_NODES,
            advertisement(Some(PEER), false, true),
        ),
    ];
    for (i, frame) in frames.iter().enumerate() {
        let mut bench = Bench::acquainted();
        assert_eq!(
            bench.consume(frame),
            Some(DropReason::NdpInvalid),
            "frame {i}"
        );
        assert!(bench.sent().is_empty());
    }
    let mut bench = Bench::new();
    let mut frame = ndp(PEER6, group, solicitation(Some(PEER)));
    *frame.last_mut().unwrap() ^= 1;
    assert_eq!(bench.consume(&frame), Some(DropReason::IcmpChecksum));
    let other = NdpMessage::NeighborSolicitation(NeighborSolicitation {
        target: PEER6,
        source_lladdr: Some(PEER),
        nonce: None,
    });
    assert_eq!(
        bench.consume(&ndp(PEER6, OUR6, other)),
        Some(DropReason::NdpIgnored)
    );
    let router = NdpMessage::RouterSolicitation(RouterSolicitation {
        source_lladdr: None,
    });
    assert_eq!(
        bench.consume(&ndp(PEER6, ALL_NODES, router)),
        Some(DropReason::NdpRouter)
    );
}

#[test]
fn advertisements_resolve_what_was_asked_and_nothing_else() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.consume(&ndp(PEER6, OUR6, advertisement(Some(PEER), true, true))),
        Some(DropReason::NdpIgnored)
    );
    bench.send(PEER6.into(), &[0; 20]);
    assert!(matches!(
        parse(&bench.sent_one()).2,
        NdpMessage::NeighborSolicitation(_)
    ));
    assert_eq!(
        bench.consume(&ndp(PEER6, OUR6, advertisement(None, true, true))),
        Some(DropReason::NdpIgnored),
        "no hardware address"
    );
    assert_eq!(
        bench.consume(&ndp(PEER6, OUR6, advertisement(Some(PEER), true, true))),
        None
    );
    assert_eq!(parse_ipv6(&bench.sent_one()).0.dst, PEER);
    assert_eq!(bench.resolved(), Some((PORT, PEER6.into(), true)));
    // §7.2.5: without the override flag a known address stays.
    assert_eq!(
        bench.consume(&ndp(
            PEER6,
            OUR6,
            advertisement(Some(STRANGER), false, false)
        )),
        None
    );
    bench.send(PEER6.into(), &[0; 20]);
    assert_eq!(parse_ipv6(&bench.sent_one()).0.dst, PEER);
    assert_eq!(
        bench.consume(&ndp(
            PEER6,
            OUR6,
            advertisement(Some(STRANGER), false, true)
        )),
        None
    );
    bench.send(PEER6.into(), &[0; 20]);
    assert_eq!(parse_ipv6(&bench.sent_one()).0.dst, STRANGER);
}

/// RFC 4861 §6.3.4.
#[test]
fn a_router_that_moves_says_so() {
    let router: Ipv6Addr = "fe80::254".parse().unwrap();
    let moved = |mac| {
        NdpMessage::RouterAdvertisement(RouterAdvertisement {
            hop_limit: 0,
            managed: false,
            other_config: false,
            router_lifetime: Duration::from_secs(1_800),
            reachable_time: Duration::ZERO,
            retrans_timer: Duration::ZERO,
            source_lladdr: Some(mac),
            mtu: None,
            prefixes: Prefixes::default(),
        })
    };
    let mut bench = Bench::new();
    let told = ndp(router, ALL_NODES, moved(PEER));
    assert_eq!(
        bench.consume(&told),
        Some(DropReason::NdpRouter),
        "nobody we know"
    );
    bench.send(router.into(), &[0; 20]);
    assert_eq!(bench.consume(&told), None);
    bench.sent();
    assert_eq!(
        bench.consume(&ndp(router, ALL_NODES, moved(STRANGER))),
        None
    );
    bench.send(router.into(), &[0; 20]);
    assert_eq!(parse_ipv6(&bench.sent_one()).0.dst, STRANGER);
    let forged = ndp(PEER6, ALL_NODES, moved(PEER));
    assert_eq!(bench.consume(&forged), Some(DropReason::NdpInvalid));
}

/// RFC 4862 §5.1, §5.4.2.
#[test]
fn our_addresses_are_in_use_while_they_are_probed() {
    let mut bench = Bench::at_start(&config(vec![interface(
        0,
        &["2001:db8::1/64", "fe80::1/64"],
    )]));
    bench.advance(Duration::ZERO);
    let probes: Vec<_> = bench.sent().iter().map(|frame| parse(frame)).collect();
    assert_eq!(probes.len(), 2);
    for (_, header, message) in &probes {
        let NdpMessage::NeighborSolicitation(message) = message else {
            panic!("{message:?}")
        };
        assert!(header.src.is_unspecified() && message.source_lladdr.is_none());
        assert_eq!(header.dst, solicited_node(message.target));
    }
    // In use, but not replacing anybody in an answer.
    bench.send(PEER6.into(), &[0; 20]);
    let (_, header, message) = parse(&bench.sent_one());
    let NdpMessage::NeighborSolicitation(message) = message else {
        panic!("{message:?}")
    };
    assert_eq!(
        (header.src, message.source_lladdr),
        (OUR6, Some(our_mac(0)))
    );
    bench.consume(&ndp(PEER6, solicited_node(OUR6), solicitation(Some(PEER))));
    // What waited goes out first: the question answered ours, too.
    let frames = bench.sent();
    assert_eq!(
        (frames.len(), parse_ipv6(&frames[0]).1.next_header),
        (2, Protocol::TCP)
    );
    let NdpMessage::NeighborAdvertisement(message) = parse(&frames[1]).2 else {
        panic!("{frames:?}")
    };
    assert!(!message.override_flag && message.solicited);
    // A second later they are ours.
    bench.advance(Duration::from_millis(1_001));
    let claims: Vec<_> = bench.sent().iter().map(|frame| parse(frame)).collect();
    assert_eq!(claims.len(), 2, "{claims:?}");
    for (_, header, message) in &claims {
        let NdpMessage::NeighborAdvertisement(message) = message else {
            panic!("{message:?}")
        };
        assert!(header.dst == ALL_NODES && message.override_flag && !message.solicited);
    }
}

#[test]
fn conflicts_are_counted() {
    let mut bench = Bench::at_start(&base_config());
    bench.advance(Duration::ZERO);
    // Somebody probes for the address that we are probing for.
    bench.consume(&ndp(
        Ipv6Addr::UNSPECIFIED,
        solicited_node(OUR6),
        solicitation(None),
    ));
    assert_eq!(bench.counters.address_conflicts, 1);
    // The owner answers our probe, from the address itself.
    let message = NdpMessage::NeighborAdvertisement(NeighborAdvertisement {
        router: false,
        solicited: false,
        override_flag: true,
        target: OUR6,
        target_lladdr: Some(STRANGER),
    });
    assert_eq!(
        bench.consume(&ndp(OUR6, ALL_NODES, message)),
        Some(DropReason::IpMartian)
    );
    assert_eq!(bench.counters.address_conflicts, 2);
    assert_eq!(
        bench.consume(&ndp(PEER6, ALL_NODES, message)),
        Some(DropReason::NdpIgnored)
    );
    assert_eq!(bench.counters.address_conflicts, 3);
}
