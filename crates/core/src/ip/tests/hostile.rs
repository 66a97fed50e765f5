//! Whatever arrives: nothing panics, every bound holds, and nothing is left in the end.

use super::*;
use proptest::prelude::*;
use wire::arp::{ArpOperation, ArpPacket};
use wire::ndp::{NdpMessage, NeighborAdvertisement, NeighborSolicitation, solicited_node};

fn arp(operation: ArpOperation) -> Vec<u8> {
    let packet = ArpPacket {
        operation,
        sender_mac: PEER,
        sender_ip: PEER4,
        target_mac: our_mac(0),
        target_ip: OUR4,
    };
    let mut bytes = [0; 46];
    packet.emit(&mut bytes);
    from_peer(EtherType::ARP, &bytes)
}

fn ndp(dst: Ipv6Addr, message: NdpMessage) -> Vec<u8> {
    let payload = icmpv6_bytes(PEER6, dst, &Icmpv6Message::Ndp(message));
    ipv6_with(Protocol::ICMPV6, &payload, |header| {
        (header.dst, header.hop_limit) = (dst, 255)
    })
}

fn solicitation() -> Vec<u8> {
    let message = NeighborSolicitation {
        target: OUR6,
        source_lladdr: Some(PEER),
        nonce: None,
    };
    let group = solicited_node(OUR6);
    ndp(group, NdpMessage::NeighborSolicitation(message))
}

fn advertisement() -> Vec<u8> {
    let message = NeighborAdvertisement {
        router: true,
        solicited: true,
        override_flag: true,
        target: PEER6,
        target_lladdr: Some(PEER),
    };
    ndp(OUR6, NdpMessage::NeighborAdvertisement(message))
}

fn too_big() -> Vec<u8> {
    let header = Ipv4Header::new(OUR4, PEER4, Protocol::TCP, 100);
    let message = Icmpv4Message::DestinationUnreachable {
        code: wire::icmpv4::UnreachableCode::FRAGMENTATION_NEEDED,
        next_hop_mtu: 1000,
        quoted: &ipv4_bytes(&header, &[0; 20]),
    };
    ipv4(Protocol::ICMP, &icmpv4_bytes(&message))
}

/// One good frame of every kind.
fn seeds() -> Vec<Vec<u8>> {
    let echo = wire::icmpv4::Echo {
        ident: 1,
        seq: 2,
        payload: &[9; 64],
    };
    vec![
        arp(ArpOperation::Request),
        arp(ArpOperation::Reply),
        solicitation(),
        advertisement(),
        ipv4(Protocol::TCP, &[0; 40]),
        ipv6(Protocol::TCP, &[0; 40]),
        ipv4(Protocol::UDP, &[0, 9, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]),
        too_big(),
        ipv4(
            Protocol::ICMP,
            &icmpv4_bytes(&Icmpv4Message::EchoRequest(echo)),
        ),
        ipv6(
            Protocol::ICMPV6,
            &icmpv6_bytes(PEER6, OUR6, &Icmpv6Message::EchoRequest(echo)),
        ),
        ipv4_with(Protocol::UDP, &[1; 64], |header| {
            header.more_fragments = true
        }),
        ipv6(
            Protocol::FRAGMENT,
            &[[17, 0, 0, 1, 0, 0, 0, 7], [0, 1, 0, 2, 0, 99, 1, 1], [3; 8]].concat(),
        ),
        ipv6(
            Protocol::HOP_BY_HOP,
            &[
                [60, 0, 1, 4, 0, 0, 0, 0],
                [43, 0, 0x80, 4, 0, 0, 0, 0],
                [6, 0, 9, 0, 0, 0, 0, 0],
            ]
            .concat(),
        ),
        ipv4(Protocol(99), &[0; 30]),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    /// A good frame, with bytes changed, cut at the end.
    Changed {
        seed: usize,
        changes: Vec<(usize, u8)>,
        cut: usize,
        mend: bool,
    },
    /// Anything, behind an Ethernet header for us.
    Random {
        ether_type: u16,
        payload: Vec<u8>,
    },
    /// Anything at all.
    Raw(Vec<u8>),
    Send(u8),
    Wait(u64),
    Transmit(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let changes = prop::collection::vec((0usize..120, any::<u8>()), 0..4);
    prop_oneof![
        8 => (0usize..14, changes, 0usize..30, any::<bool>())
            .prop_map(|(seed, changes, cut, mend)| Step::Changed { seed, changes, cut: cut.saturating_sub(20), mend }),
        2 => (prop::sample::select(vec![0x0800, 0x0806, 0x86dd, 0x8100]), prop::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(ether_type, payload)| Step::Random { ether_type, payload }),
        1 => prop::collection::vec(any::<u8>(), 0..100).prop_map(Step::Raw),
        2 => any::<u8>().prop_map(Step::Send),
        1 => (0u64..20_000).prop_map(Step::Wait),
        1 => (0usize..10).prop_map(Step::Transmit),
    ]
}

/// Corrects the checksum of the IPv4 header, so that changes get past it.
fn mend(frame: &mut [u8]) {
    if frame.len() >= 34 && frame[12..14] == [8, 0] {
        let end = (14 + usize::from(frame[14] & 15) * 4).clamp(34, frame.len());
        frame[24..26].fill(0);
        let sum = wire::checksum::checksum(&frame[14..end]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}

fn frame(seeds: &[Vec<u8>], step: &Step) -> Option<Vec<u8>> {
    match step {
        Step::Changed {
            seed,
            changes,
            cut,
            mend: mended,
        } => {
            let mut frame = seeds[*seed].clone();
            for &(at, value) in changes {
                let len = frame.len();
                frame[at % len] = value;
            }
            frame.truncate(frame.len() - cut);
            if *mended {
                mend(&mut frame);
            }
            Some(frame)
        }
        Step::Random {
            ether_type,
            payload,
        } => Some(from_peer(EtherType(*ether_type), payload)),
        Step::Raw(bytes) => Some(bytes.clone()),
        Step::Send(_) | Step::Wait(_) | Step::Transmit(_) => None,
    }
}

proptest! {
    #[test]
    fn nothing_panics_and_bounds_hold(steps in prop::collection::vec(step(), 0..150)) {
        let seeds = seeds();
        let mut config = base_config();
        config.reassembly_bytes = 4_000;
        let mut bench = Bench::at_start(&config);
        for step in &steps {
            match step {
                Step::Send(n) => bench.send(Ipv4Addr::new(10, 0, 0, (*n).clamp(2, 250)).into(), &[0; 20]),
                Step::Wait(millis) => bench.advance(Duration::from_millis(*millis)),
                Step::Transmit(room) => {
                    let mut sink = Sink { frames: Vec::new(), room: *room };
                    bench.net.links.transmit(PORT, &mut sink, &mut bench.counters);
                }
                _ => {
                    let dropped = bench.counters.total_dropped();
                    let bytes = frame(&seeds, step).unwrap_or_default();
                    if let Input::Tcp(datagram) = bench.input(&bytes) {
                        prop_assert!(is_host_address(datagram.src) && bench.net.is_local(datagram.dst));
                        prop_assert!(!bench.net.is_local(datagram.src));
                        prop_assert_eq!(bench.counters.total_dropped(), dropped, "delivered, not dropped");
                    }
                }
            }
            prop_assert!(bench.net.links.neighbours.len() <= 16);
            prop_assert!(bench.net.reassembler.used() <= 4_000);
            while bench.net.links.poll_resolved().is_some() {}
        }
        bench.advance(Duration::from_secs(120));
        for sent in bench.sent() {
            prop_assert!(EthernetHeader::parse(&sent).is_ok());
        }
        prop_assert!(bench.net.links.packets.is_idle());
        prop_assert_eq!(bench.net.reassembler.used(), 0);
    }
}
