use super::*;
use crate::neigh::cache::State;
use wire::arp::{ArpOperation, ArpPacket};

const STRANGER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x66]);

fn arp_frame(to: MacAddr, packet: &ArpPacket) -> Vec<u8> {
    let mut bytes = [0; 46];
    packet.emit(&mut bytes);
    ethernet(packet.sender_mac, to, EtherType::ARP, &bytes)
}

fn request(sender_mac: MacAddr, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> ArpPacket {
    ArpPacket {
        operation: ArpOperation::Request,
        sender_mac,
        sender_ip,
        target_mac: MacAddr::default(),
        target_ip,
    }
}

/// From the peer to us.
fn reply() -> ArpPacket {
    ArpPacket {
        operation: ArpOperation::Reply,
        sender_mac: PEER,
        sender_ip: PEER4,
        target_mac: our_mac(0),
        target_ip: OUR4,
    }
}

#[track_caller]
fn parse(frame: &[u8]) -> (MacAddr, ArpPacket) {
    let (link, payload) = EthernetHeader::parse(frame).unwrap();
    assert_eq!((link.ether_type, link.src), (EtherType::ARP, our_mac(0)));
    (link.dst, ArpPacket::parse(payload).unwrap().0)
}

/// RFC 826 §0-1.
#[test]
fn requests_for_our_address_are_answered() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.consume(&arp_frame(MacAddr::BROADCAST, &request(PEER, PEER4, OUR4))),
        None
    );
    let (to, answer) = parse(&bench.sent_one());
    let expected = ArpPacket {
        operation: ArpOperation::Reply,
        sender_mac: our_mac(0),
        sender_ip: OUR4,
        target_mac: PEER,
        target_ip: PEER4,
    };
    assert_eq!((to, answer), (PEER, expected));
    bench.send(PEER4.into(), &[0; 20]);
    assert_eq!(
        parse_ipv4(&bench.sent_one()).0.dst,
        PEER,
        "who asked is known"
    );
    let other = request(
        STRANGER,
        Ipv4Addr::new(10, 0, 0, 8),
        Ipv4Addr::new(10, 0, 0, 9),
    );
    assert_eq!(
        bench.consume(&arp_frame(MacAddr::BROADCAST, &other)),
        Some(DropReason::ArpIgnored)
    );
    assert!(bench.sent().is_empty());
}

#[test]
fn who_asks_from_elsewhere_is_not_made_a_neighbour() {
    let mut bench = Bench::new();
    let request = request(PEER, Ipv4Addr::new(192, 0, 2, 7), OUR4);
    assert_eq!(
        bench.consume(&arp_frame(MacAddr::BROADCAST, &request)),
        None
    );
    assert_eq!(bench.net.links.neighbours.len(), 0);
}

/// RFC 1122 §2.3.2-3; RFC 4861 §7.2.2-1.
#[test]
fn packets_wait_for_the_answer() {
    let mut bench = Bench::new();
    for n in 0..4u8 {
        bench.send(PEER4.into(), &[n; 20]);
    }
    let (to, question) = parse(&bench.sent_one());
    assert_eq!(
        (to, question),
        (MacAddr::BROADCAST, request(our_mac(0), OUR4, PEER4))
    );
    assert_eq!(bench.resolved(), None);
    assert_eq!(bench.consume(&arp_frame(our_mac(0), &reply())), None);
    let frames = bench.sent();
    let got: Vec<_> = frames
        .iter()
        .map(|frame| (parse_ipv4(frame).0.dst, parse_ipv4(frame).2[0]))
        .collect();
    assert_eq!(
        got,
        [(PEER, 1), (PEER, 2), (PEER, 3)],
        "the oldest one had to go"
    );
    assert_eq!(bench.counters.dropped(DropReason::NeighbourQueueFull), 1);
    assert_eq!(bench.resolved(), Some((PORT, PEER4.into(), true)));
    assert_eq!(bench.resolved(), None);
    let path = bench.net.path(PEER4.into(), None).unwrap();
    assert_eq!(
        bench.net.resolve(bench.now, &path, &mut bench.counters),
        Resolution::Ready(PEER)
    );
}

#[test]
fn no_answer_drops_the_packets_and_says_so() {
    let mut bench = Bench::new();
    bench.send("192.0.2.1".parse().unwrap(), &[0; 20]);
    bench.advance(Duration::from_millis(3_500));
    let targets: Vec<_> = bench
        .sent()
        .iter()
        .map(|frame| parse(frame).1.target_ip.to_string())
        .collect();
    assert_eq!(targets, ["10.0.0.254"; 3], "the gateway was asked for");
    let gateway = "10.0.0.254".parse().unwrap();
    assert_eq!(bench.resolved(), Some((PORT, gateway, false)));
    assert_eq!(
        (
            bench.counters.dropped(DropReason::NeighbourFailed),
            bench.counters.neighbour_failures
        ),
        (1, 1)
    );
    let path = bench.net.path(gateway, None).unwrap();
    assert_eq!(
        bench.net.resolve(bench.now, &path, &mut bench.counters),
        Resolution::Failed
    );
    bench.send(gateway, &[0; 20]);
    assert_eq!(bench.counters.dropped(DropReason::NeighbourFailed), 2);
    assert!(bench.net.links.packets.is_idle());
}

/// RFC 826 §0-2.
#[test]
fn known_neighbours_are_updated_and_unknown_ones_are_not_made() {
    let gratuitous = request(STRANGER, PEER4, PEER4);
    let unasked = ArpPacket {
        sender_mac: STRANGER,
        ..reply()
    };
    for packet in [gratuitous, unasked] {
        let mut bench = Bench::new();
        assert_eq!(
            bench.consume(&arp_frame(MacAddr::BROADCAST, &packet)),
            Some(DropReason::ArpIgnored)
        );
        assert_eq!(bench.net.links.neighbours.len(), 0);
        let mut bench = Bench::acquainted();
        assert_eq!(bench.consume(&arp_frame(MacAddr::BROADCAST, &packet)), None);
        bench.send(PEER4.into(), &[0; 20]);
        assert_eq!(parse_ipv4(&bench.sent_one()).0.dst, STRANGER);
        // It has to prove itself: a unicast question after the delay.
        bench.advance(Duration::from_secs(6));
        let (to, question) = parse(&bench.sent()[0]);
        assert_eq!((to, question.target_ip), (STRANGER, PEER4));
    }
}

/// A reply whose frame comes from elsewhere than it says: damaged, or from a router with a virtual
/// address.
fn inconsistent_reply() -> Vec<u8> {
    let packet = ArpPacket {
        sender_mac: STRANGER,
        ..reply()
    };
    let mut bytes = [0; 46];
    packet.emit(&mut bytes);
    ethernet(PEER, our_mac(0), EtherType::ARP, &bytes)
}

#[test]
fn a_hardware_address_that_is_not_the_source_of_its_frame_is_probed() {
    for answers in [false, true] {
        let mut bench = Bench::new();
        bench.send(PEER4.into(), &[0; 20]);
        bench.sent();
        assert_eq!(bench.consume(&inconsistent_reply()), None);
        let state = |bench: &Bench| {
            bench
                .net
                .links
                .neighbours
                .state(PORT, PEER4.into())
                .unwrap()
        };
        assert_eq!(state(&bench), (State::Stale, STRANGER));
        bench.send(PEER4.into(), &[0; 20]);
        bench.advance(Duration::from_millis(5_500));
        bench.sent();
        assert_eq!(state(&bench), (State::Probe, STRANGER));
        if answers {
            bench.consume(&inconsistent_reply());
            assert_eq!(state(&bench), (State::Reachable, STRANGER));
        } else {
            bench.advance(Duration::from_secs(3));
            let asked: Vec<_> = bench.sent().iter().map(|frame| parse(frame).0).collect();
            assert_eq!(asked, [STRANGER, STRANGER, MacAddr::BROADCAST]);
        }
    }
}

/// RFC 5227 §2.1.1, §2.3.
#[test]
fn our_address_is_probed_and_announced_at_the_start() {
    let mut bench = Bench::at_start(&config(vec![interface(0, &["10.0.0.1/24"])]));
    assert_eq!(bench.net.next_deadline(), Some(Instant::ZERO));
    bench.advance(Duration::from_secs(20));
    let said: Vec<_> = bench.sent().iter().map(|frame| parse(frame)).collect();
    let probe = request(our_mac(0), Ipv4Addr::UNSPECIFIED, OUR4);
    let claim = request(our_mac(0), OUR4, OUR4);
    assert_eq!(
        said,
        [probe, claim, claim].map(|packet| (MacAddr::BROADCAST, packet))
    );
}

/// RFC 5227 §2.4.
#[test]
fn conflicts_are_counted_and_the_address_defended() {
    let mut bench = Bench::new();
    let usurper = arp_frame(MacAddr::BROADCAST, &request(STRANGER, OUR4, PEER4));
    for _ in 0..3 {
        assert_eq!(bench.consume(&usurper), Some(DropReason::ArpIgnored));
        bench.advance(Duration::from_secs(1));
    }
    assert_eq!(bench.counters.address_conflicts, 3);
    assert_eq!(
        parse(&bench.sent()[0]),
        (MacAddr::BROADCAST, request(our_mac(0), OUR4, OUR4))
    );
    assert!(
        bench.sent().is_empty(),
        "not more often than every ten seconds"
    );
    // A probe for our address is answered: it is ours.
    let probe = request(STRANGER, Ipv4Addr::UNSPECIFIED, OUR4);
    assert_eq!(bench.consume(&arp_frame(MacAddr::BROADCAST, &probe)), None);
    let (to, answer) = parse(&bench.sent_one());
    assert_eq!(
        (to, answer.sender_ip, answer.target_ip),
        (STRANGER, OUR4, Ipv4Addr::UNSPECIFIED)
    );
    assert_eq!(bench.counters.address_conflicts, 3);
}

#[test]
fn a_probe_for_an_address_that_we_are_probing_is_a_conflict() {
    let mut bench = Bench::at_start(&config(vec![interface(0, &["10.0.0.1/24"])]));
    bench.advance(Duration::ZERO);
    let probe = request(STRANGER, Ipv4Addr::UNSPECIFIED, OUR4);
    bench.consume(&arp_frame(MacAddr::BROADCAST, &probe));
    assert_eq!(bench.counters.address_conflicts, 1);
}

#[test]
fn malformed_arp_is_dropped() {
    let mut bench = Bench::new();
    let good = arp_frame(MacAddr::BROADCAST, &request(PEER, PEER4, OUR4));
    for (at, value) in [(15, 6), (18, 8), (19, 16), (21, 9)] {
        let mut frame = good.clone();
        frame[at] = value;
        assert_eq!(
            bench.consume(&frame),
            Some(DropReason::ArpMalformed),
            "byte {at}"
        );
    }
    assert_eq!(bench.consume(&good[..41]), Some(DropReason::ArpMalformed));
    for sender in ["255.255.255.255", "224.0.0.1", "127.0.0.1"] {
        let frame = arp_frame(
            MacAddr::BROADCAST,
            &request(PEER, sender.parse().unwrap(), OUR4),
        );
        assert_eq!(
            bench.consume(&frame),
            Some(DropReason::ArpMalformed),
            "{sender}"
        );
    }
    let mut group = good.clone();
    group[22] = 0xff;
    assert_eq!(bench.consume(&group), Some(DropReason::ArpMalformed));
    assert!(bench.sent().is_empty());
}

#[test]
fn floods_of_requests_are_answered_within_the_pool() {
    let mut bench = Bench::new();
    for n in 0..5_000u16 {
        let [a, b] = n.to_be_bytes();
        let frame = arp_frame(
            MacAddr::BROADCAST,
            &request(PEER, Ipv4Addr::new(10, 1, a, b), OUR4),
        );
        bench.input(&frame);
    }
    let answered = bench.sent().len() as u64;
    assert_eq!(
        answered + bench.counters.dropped(DropReason::ReplyQueueFull),
        5_000
    );
    assert!(bench.net.links.packets.is_idle() && bench.net.links.neighbours.len() == 0);
}

#[test]
fn floods_of_unknown_neighbours_stay_within_the_cache() {
    let mut bench = Bench::new();
    for n in 0..2_000u16 {
        let [_, low] = n.to_be_bytes();
        if low > 2 && low < 250 {
            bench.send(Ipv4Addr::new(10, 0, 0, low).into(), &[0; 20]);
        }
        bench.now += Duration::from_millis(1);
        assert!(bench.net.links.neighbours.len() <= 16 && bench.net.links.resolved.len() <= 64);
    }
    bench.advance(Duration::from_secs(10));
    bench.sent();
    assert!(
        bench.net.links.packets.is_idle(),
        "everything that waited was dropped"
    );
}
