use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::ethernet::VlanTag;
use crate::frame::MacAddr;
use crate::icmpv4::{Echo, Icmpv4Message, UnreachableCode};
use crate::icmpv6::Icmpv6Message;
use crate::ndp::{NdpMessage, NeighborAdvertisement, NeighborSolicitation};
use crate::seq::SeqNumber;
use crate::tcp::{SackBlocks, TcpFlags, TcpHeader, TcpOptions, Timestamps};

const SRC4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const DST4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SRC6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const DST6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

fn ether(ether_type: EtherType, vlan: Option<VlanTag>, payload: &[u8]) -> Vec<u8> {
    let header = EthernetHeader {
        dst: MacAddr([2, 0, 0, 0, 0, 2]),
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        ether_type,
        vlan,
    };
    let mut out = vec![0; header.header_len()];
    header.emit(&mut out);
    out.extend_from_slice(payload);
    out
}

fn frame4(protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 20];
    Ipv4Header::new(SRC4, DST4, protocol, payload.len()).emit(&mut packet);
    packet.extend_from_slice(payload);
    ether(EtherType::IPV4, None, &packet)
}

fn frame6(next: Protocol, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 40];
    Ipv6Header::new(SRC6, DST6, next, payload.len()).emit(&mut packet);
    packet.extend_from_slice(payload);
    ether(EtherType::IPV6, None, &packet)
}

fn segment(flags: TcpFlags, options: TcpOptions, payload: &[u8]) -> Vec<u8> {
    let header = TcpHeader {
        src_port: 4000,
        dst_port: 80,
        seq: SeqNumber(1),
        ack: SeqNumber(7),
        flags,
        window: 64240,
        urgent: 0,
        options,
    };
    let mut out = vec![0; header.header_len()];
    header.emit(&mut out);
    out.extend_from_slice(payload);
    out
}

fn shown(frame: &[u8]) -> String {
    FrameDisplay(frame).to_string()
}

#[test]
fn a_syn() {
    let options = TcpOptions {
        mss: Some(1460),
        sack_permitted: true,
        timestamps: Some(Timestamps { tsval: 1, tsecr: 0 }),
        window_scale: Some(7),
        ..TcpOptions::default()
    };
    let frame = frame4(Protocol::TCP, &segment(TcpFlags::SYN, options, b""));
    assert_eq!(
        shown(&frame),
        "IP 10.0.0.1.4000 > 10.0.0.2.80: Flags [S], seq 1, win 64240, \
         options [mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7], length 0"
    );
}

#[test]
fn data_and_acknowledgments() {
    let push = TcpFlags::PSH | TcpFlags::ACK;
    let bytes = segment(push, TcpOptions::default(), &[0; 100]);
    assert_eq!(
        shown(&frame4(Protocol::TCP, &bytes)),
        "IP 10.0.0.1.4000 > 10.0.0.2.80: Flags [P.], seq 1:101, ack 7, win 64240, length 100"
    );
    let mut sack = SackBlocks::EMPTY;
    sack.push(SeqNumber(10), SeqNumber(20));
    let options = TcpOptions {
        sack,
        ..TcpOptions::default()
    };
    let frame = frame6(Protocol::TCP, &segment(TcpFlags::ACK, options, b""));
    assert_eq!(
        shown(&frame),
        "IP6 fe80::1.4000 > fe80::2.80: Flags [.], ack 7, win 64240, \
         options [nop,nop,sack 1 {10:20}], length 0"
    );
}

#[test]
fn odd_options() {
    let with = |options: &[u8]| {
        let mut bytes = segment(TcpFlags::SYN, TcpOptions::default(), options);
        bytes[12] = ((bytes.len() / 4) as u8) << 4;
        let text = shown(&frame4(Protocol::TCP, &bytes));
        let (_, rest) = text.split_once("options [").unwrap();
        rest.split_once(']').unwrap().0.to_owned()
    };
    assert_eq!(with(&[34, 2, 1, 0]), "tfo cookiereq,nop");
    assert_eq!(
        with(&[34, 6, 1, 2, 3, 0xff, 1, 1]),
        "tfo cookie 010203ff,nop,nop"
    );
    assert_eq!(with(&[253, 4, 0xab, 0xcd]), "unknown-253 0xabcd");
    assert_eq!(with(&[1, 2, 3, 0]), "nop,bad length of option 2");
    assert_eq!(with(&[8, 77, 0, 0]), "bad length of option 8");
}

#[test]
fn arp_and_vlan() {
    let mut packet = ArpPacket {
        operation: ArpOperation::Request,
        sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        sender_ip: SRC4,
        target_mac: MacAddr::default(),
        target_ip: DST4,
    };
    let mut bytes = [0; 28];
    packet.emit(&mut bytes);
    assert_eq!(
        shown(&ether(EtherType::ARP, None, &bytes)),
        "ARP, Request who-has 10.0.0.2 tell 10.0.0.1, length 28"
    );
    packet.operation = ArpOperation::Reply;
    packet.emit(&mut bytes);
    let tag = VlanTag {
        id: 5,
        pcp: 3,
        dei: false,
    };
    assert_eq!(
        shown(&ether(EtherType::ARP, Some(tag), &bytes)),
        "vlan 5, p 3, ARP, Reply 10.0.0.1 is-at 02:00:00:00:00:01, length 28"
    );
    assert_eq!(
        shown(&ether(EtherType(0x88cc), None, &[0; 9])),
        "02:00:00:00:00:01 > 02:00:00:00:00:02, ethertype 0x88cc, length 9"
    );
}

#[test]
fn udp_and_icmp() {
    let mut bytes = vec![0; 13];
    UdpHeader::new(4000, 53, 5).emit(&mut bytes);
    assert_eq!(
        shown(&frame4(Protocol::UDP, &bytes)),
        "IP 10.0.0.1.4000 > 10.0.0.2.53: UDP, length 5"
    );
    let ping = Icmpv4Message::EchoRequest(Echo {
        ident: 3,
        seq: 4,
        payload: b"data",
    });
    let mut bytes = vec![0; ping.len()];
    ping.emit(&mut bytes);
    assert_eq!(
        shown(&frame4(Protocol::ICMP, &bytes)),
        "IP 10.0.0.1 > 10.0.0.2: ICMP echo request, id 3, seq 4, length 12"
    );
}

#[test]
fn errors_name_the_packet_they_are_about() {
    let tcp = segment(TcpFlags::ACK, TcpOptions::default(), b"");
    let about = frame4(Protocol::TCP, &tcp);
    let error = Icmpv4Message::DestinationUnreachable {
        code: UnreachableCode::FRAGMENTATION_NEEDED,
        next_hop_mtu: 1400,
        quoted: &about[14..42],
    };
    let mut bytes = vec![0; error.len()];
    error.emit(&mut bytes);
    assert_eq!(
        shown(&frame4(Protocol::ICMP, &bytes)),
        "IP 10.0.0.1 > 10.0.0.2: ICMP fragmentation needed (mtu 1400) \
         for 10.0.0.1.4000 > 10.0.0.2.80 TCP seq 1, length 36"
    );
    let about = frame6(Protocol::TCP, &tcp);
    let error = Icmpv6Message::PacketTooBig {
        mtu: 1280,
        quoted: &about[14..],
    };
    let mut bytes = vec![0; error.len()];
    error.emit(SRC6, DST6, &mut bytes);
    assert_eq!(
        shown(&frame6(Protocol::ICMPV6, &bytes)),
        "IP6 fe80::1 > fe80::2: ICMP6, packet too big (mtu 1280) \
         for fe80::1.4000 > fe80::2.80 TCP seq 1, length 68"
    );
}

#[test]
fn neighbour_discovery() {
    let shown_ndp = |message: NdpMessage| {
        let message = Icmpv6Message::Ndp(message);
        let mut bytes = vec![0; message.len()];
        message.emit(SRC6, DST6, &mut bytes);
        shown(&frame6(Protocol::ICMPV6, &bytes))
    };
    let solicitation = NeighborSolicitation {
        target: DST6,
        source_lladdr: None,
        nonce: None,
    };
    assert_eq!(
        shown_ndp(NdpMessage::NeighborSolicitation(solicitation)),
        "IP6 fe80::1 > fe80::2: ICMP6, neighbor solicitation, who has fe80::2, length 24"
    );
    let advertisement = NeighborAdvertisement {
        router: false,
        solicited: true,
        override_flag: true,
        target: SRC6,
        target_lladdr: Some(MacAddr([2, 0, 0, 0, 0, 1])),
    };
    assert_eq!(
        shown_ndp(NdpMessage::NeighborAdvertisement(advertisement)),
        "IP6 fe80::1 > fe80::2: ICMP6, neighbor advertisement, tgt is fe80::1 \
         at 02:00:00:00:00:01, flags [SO], length 32"
    );
}

#[test]
fn fragments() {
    let mut packet = vec![0; 36];
    let header = Ipv4Header {
        ident: 9,
        more_fragments: true,
        fragment_offset: 1480,
        ..Ipv4Header::new(SRC4, DST4, Protocol::UDP, 16)
    };
    header.emit(&mut packet);
    assert_eq!(
        shown(&ether(EtherType::IPV4, None, &packet)),
        "IP 10.0.0.1 > 10.0.0.2: UDP frag (id 9:16@1480+)"
    );
    let fragment = FragmentHeader {
        next_header: Protocol::TCP,
        offset: 8,
        more: false,
        ident: 9,
    };
    let mut bytes = vec![0; 18];
    fragment.emit(&mut bytes);
    assert_eq!(
        shown(&frame6(Protocol::FRAGMENT, &bytes)),
        "IP6 fe80::1 > fe80::2: TCP frag (id 9:10@8)"
    );
    assert_eq!(
        shown(&frame6(Protocol::ROUTING, &[6, 0, 0, 1, 0, 0, 0, 0])),
        "IP6 fe80::1 > fe80::2: parameter problem, code 0, at byte 42, length 8"
    );
}

/// What is left of a frame is printed at every length.
#[test]
fn truncated_frames_print_what_is_known() {
    let whole = frame4(
        Protocol::TCP,
        &segment(TcpFlags::SYN, TcpOptions::default(), b"abc"),
    );
    let cases = [
        (10, "[|ether], length 10"),
        (30, "IP [|ip], length 16"),
        (36, "IP 10.0.0.1 > 10.0.0.2: [|tcp] [21 bytes missing]"),
        (
            38,
            "IP 10.0.0.1.4000 > 10.0.0.2.80: [|tcp] [19 bytes missing]",
        ),
        (
            54,
            "IP 10.0.0.1.4000 > 10.0.0.2.80: Flags [S], seq 1:4, win 64240, length 3 [3 bytes missing]",
        ),
    ];
    for (len, text) in cases {
        assert_eq!(shown(&whole[..len]), text);
    }
    let mut bad = whole.clone();
    bad[22] ^= 1;
    assert!(shown(&bad).ends_with("length 3 (bad IP checksum)"));
    bad[14] = 0x41;
    assert_eq!(shown(&bad), "IP bad header, length 43");
    assert_eq!(
        PacketDisplay(&[0x50]).to_string(),
        "not an IP packet, length 1"
    );
    assert_eq!(PacketDisplay(&whole[14..]).to_string(), shown(&whole));
}

proptest! {
    #[test]
    fn truncation_and_damage_never_stop_it(
        v6 in any::<bool>(),
        protocol in prop_oneof![Just(1u8), Just(6), Just(17), Just(44), Just(58), Just(60), any::<u8>()],
        payload in proptest::collection::vec(any::<u8>(), 0..120),
        cut in 0usize..60,
    ) {
        let frame = match v6 {
            true => frame6(Protocol(protocol), &payload),
            false => frame4(Protocol(protocol), &payload),
        };
        let text = shown(&frame[..frame.len().saturating_sub(cut)]);
        prop_assert!(!text.is_empty() && !text.contains('\n'));
    }
}
