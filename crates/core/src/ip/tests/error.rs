//! Echo, errors about our segments, errors that we send.

use super::*;
use wire::icmpv4::{self, Echo};
use wire::icmpv6::{self, ParameterProblemCode};
use wire::seq::SeqNumber;
use wire::udp::{UdpHeader, fill_checksum};

const ECHO: Echo<'_> = Echo {
    ident: 7,
    seq: 8,
    payload: b"are you there?",
};

fn udp(src: IpAddr, dst: IpAddr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    UdpHeader::new(9, 53, payload.len()).emit(&mut bytes);
    bytes.extend_from_slice(payload);
    fill_checksum(src, dst, &mut bytes);
    bytes
}

/// RFC 1122 §3.2.2.6-1; RFC 4443 §4.2-1.
#[test]
fn pings_are_answered() {
    let mut bench = Bench::acquainted();
    assert_eq!(
        bench.consume(&ipv4(
            Protocol::ICMP,
            &icmpv4_bytes(&Icmpv4Message::EchoRequest(ECHO))
        )),
        None
    );
    let frame = bench.sent_one();
    let (link, header, payload) = parse_ipv4(&frame);
    assert_eq!((link.dst, header.src, header.dst), (PEER, OUR4, PEER4));
    assert_eq!(
        Icmpv4Message::parse(payload),
        Ok(Icmpv4Message::EchoReply(ECHO))
    );

    assert_eq!(
        bench.consume(&ipv6(
            Protocol::ICMPV6,
            &icmpv6_bytes(PEER6, OUR6, &Icmpv6Message::EchoRequest(ECHO))
        )),
        None
    );
    let frame = bench.sent_one();
    let (_, header, payload) = parse_ipv6(&frame);
    assert_eq!(
        Icmpv6Message::parse(header.src, header.dst, payload),
        Ok(Icmpv6Message::EchoReply(ECHO))
    );
    assert_eq!(bench.counters.echo_replies, 2);
}

/// RFC 1122 §3.2.2.6-2; RFC 4443 §2.4-1.
#[test]
fn pings_to_groups_and_broken_ones_are_not_answered() {
    let mut bench = Bench::acquainted();
    let all = "ff02::1".parse().unwrap();
    let to_all = ipv6_with(
        Protocol::ICMPV6,
        &icmpv6_bytes(PEER6, all, &Icmpv6Message::EchoRequest(ECHO)),
        |header| header.dst = all,
    );
    assert_eq!(bench.consume(&to_all), Some(DropReason::IcmpIgnored));
    let mut broken = ipv4(
        Protocol::ICMP,
        &icmpv4_bytes(&Icmpv4Message::EchoRequest(ECHO)),
    );
    *broken.last_mut().unwrap() ^= 1;
    assert_eq!(bench.consume(&broken), Some(DropReason::IcmpChecksum));
    assert_eq!(
        bench.consume(&ipv4(Protocol::ICMP, &[8, 0, 0])),
        Some(DropReason::IcmpMalformed)
    );
    assert_eq!(
        bench.consume(&ipv4(
            Protocol::ICMP,
            &icmpv4_bytes(&Icmpv4Message::EchoReply(ECHO))
        )),
        Some(DropReason::IcmpIgnored)
    );
    assert!(bench.sent().is_empty());
}

/// RFC 1122 §4.1.3.1.
/// RFC 1122 §4.1.3.1-1; RFC 4443 §2.4-2.
#[test]
fn udp_is_unreachable() {
    let mut bench = Bench::acquainted();
    let frame = ipv4(Protocol::UDP, &udp(PEER4.into(), OUR4.into(), b"question"));
    assert_eq!(bench.consume(&frame), Some(DropReason::UdpNoPort));
    let answer = bench.sent_one();
    let (_, header, payload) = parse_ipv4(&answer);
    assert_eq!((header.dst, header.protocol), (PEER4, Protocol::ICMP));
    let expected = Icmpv4Message::DestinationUnreachable {
        code: icmpv4::UnreachableCode::PORT,
        next_hop_mtu: 0,
        quoted: &frame[14..],
    };
    assert_eq!(Icmpv4Message::parse(payload), Ok(expected));

    let frame = ipv6(Protocol::UDP, &udp(PEER6.into(), OUR6.into(), &[7; 1400]));
    assert_eq!(bench.consume(&frame), Some(DropReason::UdpNoPort));
    let answer = bench.sent_one();
    let (_, header, payload) = parse_ipv6(&answer);
    assert_eq!(
        header.payload_len, 1240,
        "RFC 4443 §3: fills the smallest MTU"
    );
    let expected = Icmpv6Message::DestinationUnreachable {
        code: icmpv6::UnreachableCode::PORT,
        quoted: &frame[14..14 + 1232],
    };
    assert_eq!(
        Icmpv6Message::parse(header.src, header.dst, payload),
        Ok(expected)
    );
}

/// RFC 1122 §3.2.2-2; RFC 4443 §2.4-3.
#[test]
fn broken_udp_and_udp_to_groups_is_not_answered() {
    let mut bench = Bench::acquainted();
    let mut bytes = udp(PEER4.into(), OUR4.into(), b"question");
    bytes[9] ^= 1;
    assert_eq!(
        bench.consume(&ipv4(Protocol::UDP, &bytes)),
        Some(DropReason::UdpMalformed)
    );
    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let frame = ipv6_with(
        Protocol::UDP,
        &udp(PEER6.into(), all.into(), b"question"),
        |header| header.dst = all,
    );
    assert_eq!(bench.consume(&frame), Some(DropReason::UdpNoPort));
    assert!(bench.sent().is_empty());
}

/// RFC 4443 §2.4-4.
#[test]
fn errors_are_limited() {
    let mut bench = Bench::acquainted();
    let frame = ipv4(Protocol::UDP, &udp(PEER4.into(), OUR4.into(), b"question"));
    for _ in 0..500 {
        bench.input(&frame);
    }
    let sent = bench.sent().len() as u64;
    assert_eq!(
        (sent, bench.counters.dropped(DropReason::ReplyLimited)),
        (50, 450)
    );
    bench.now += Duration::from_millis(10);
    for _ in 0..500 {
        bench.input(&frame);
    }
    assert_eq!(bench.sent().len(), 10, "1000 a second");
}

/// RFC 1122 §3.2.2.1; RFC 4443 §3.4.
/// RFC 8200 §4-2.
#[test]
fn unknown_protocols_are_refused() {
    let mut bench = Bench::acquainted();
    assert_eq!(
        bench.consume(&ipv4(Protocol(132), b"sctp")),
        Some(DropReason::IpProtocol)
    );
    let answer = bench.sent_one();
    let message = Icmpv4Message::parse(parse_ipv4(&answer).2).unwrap();
    assert!(matches!(
        message,
        Icmpv4Message::DestinationUnreachable {
            code: icmpv4::UnreachableCode::PROTOCOL,
            ..
        }
    ));

    let payload = [&[132, 0, 1, 4, 0, 0, 0, 0], &b"sctp"[..]].concat();
    let frame = ipv6(Protocol::DESTINATION_OPTIONS, &payload);
    assert_eq!(bench.consume(&frame), Some(DropReason::IpProtocol));
    let answer = bench.sent_one();
    let (_, header, payload) = parse_ipv6(&answer);
    let expected = Icmpv6Message::ParameterProblem {
        code: ParameterProblemCode::NEXT_HEADER,
        pointer: 40,
        quoted: &frame[14..],
    };
    assert_eq!(
        Icmpv6Message::parse(header.src, header.dst, payload),
        Ok(expected)
    );
}

/// RFC 8200 §4.2: the two high bits of an option.
/// RFC 8200 §4.2-1.
#[test]
fn unknown_options_are_refused_as_they_say() {
    for (kind, to_group, answered) in [
        (0x40, false, false),
        (0x80, false, true),
        (0xc0, false, true),
        (0x80, true, true),
        (0xc0, true, false),
    ] {
        let mut bench = Bench::acquainted();
        let payload = [6, 0, kind, 4, 0, 0, 0, 0];
        let frame = ipv6_with(Protocol::DESTINATION_OPTIONS, &payload, |header| {
            if to_group {
                header.dst = "ff02::1".parse().unwrap();
            }
        });
        assert_eq!(bench.consume(&frame), Some(DropReason::IpExtension));
        let sent = bench.sent();
        assert_eq!(sent.len(), usize::from(answered), "{kind:#x} {to_group}");
        for frame in &sent {
            let (_, header, payload) = parse_ipv6(frame);
            let message = Icmpv6Message::parse(header.src, header.dst, payload).unwrap();
            assert!(matches!(
                message,
                Icmpv6Message::ParameterProblem {
                    code: ParameterProblemCode::OPTION,
                    pointer: 42,
                    ..
                }
            ));
            assert_eq!(header.src, OUR6);
        }
    }
}

/// The start of a segment from us to the peer, as a router quotes it.
fn quoted_v4(src: Ipv4Addr, len: usize) -> Vec<u8> {
    let segment = [0x1f, 0x90, 0, 80, 1, 2, 3, 4];
    ipv4_bytes(
        &Ipv4Header::new(src, PEER4, Protocol::TCP, len - 20),
        &segment,
    )
}

fn quoted_v6(src: Ipv6Addr, len: usize) -> Vec<u8> {
    let mut packet = vec![0; 40];
    Ipv6Header::new(src, PEER6, Protocol::TCP, len - 40).emit(&mut packet);
    packet.extend_from_slice(&[0x1f, 0x90, 0, 80, 1, 2, 3, 4]);
    packet
}

fn error(input: Input<'_>) -> Option<TransportError> {
    match input {
        Input::Error(error) => Some(error),
        _ => None,
    }
}

#[test]
fn errors_about_our_segments_are_passed_on() {
    let mut bench = Bench::new();
    let quoted = quoted_v4(OUR4, 1500);
    let unreachable = |code, next_hop_mtu| {
        let message = Icmpv4Message::DestinationUnreachable {
            code: icmpv4::UnreachableCode(code),
            next_hop_mtu,
            quoted: &quoted,
        };
        ipv4_with(Protocol::ICMP, &icmpv4_bytes(&message), |header| {
            header.src = "192.0.2.254".parse().unwrap()
        })
    };
    let got = error(bench.input(&unreachable(3, 0))).unwrap();
    let expected = QuotedTcp {
        src: (OUR4, 8080).into(),
        dst: (PEER4, 80).into(),
        seq: SeqNumber(0x0102_0304),
    };
    assert_eq!(
        (got.quoted, got.kind, got.mtu),
        (expected, ErrorKind::Hard(Error::Refused), None)
    );
    let got = error(bench.input(&unreachable(1, 0))).unwrap();
    assert_eq!(got.kind, ErrorKind::Soft(Error::HostUnreachable));
    for (said, mtu) in [(1400, 1400), (0, 1492), (9000, 1492)] {
        let got = error(bench.input(&unreachable(4, said))).unwrap();
        assert_eq!((got.kind, got.mtu), (ErrorKind::TooBig, Some(mtu)));
    }
    assert_eq!(bench.counters.icmp_errors_in, 5);
}

#[test]
fn errors_about_our_ipv6_segments_are_passed_on() {
    let mut bench = Bench::new();
    let quoted = quoted_v6(OUR6, 1500);
    let mut pass = |message: Icmpv6Message<'_>| {
        error(bench.input(&ipv6(
            Protocol::ICMPV6,
            &icmpv6_bytes(PEER6, OUR6, &message),
        )))
        .map(|error| (error.kind, error.mtu))
    };
    let unreachable = |code| Icmpv6Message::DestinationUnreachable {
        code: icmpv6::UnreachableCode(code),
        quoted: &quoted,
    };
    assert_eq!(
        pass(unreachable(4)),
        Some((ErrorKind::Hard(Error::Refused), None))
    );
    assert_eq!(
        pass(unreachable(0)),
        Some((ErrorKind::Soft(Error::NetworkUnreachable), None))
    );
    assert_eq!(
        pass(unreachable(1)),
        Some((ErrorKind::Hard(Error::Prohibited), None))
    );
    assert_eq!(
        pass(Icmpv6Message::PacketTooBig {
            mtu: 1300,
            quoted: &quoted
        }),
        Some((ErrorKind::TooBig, Some(1300)))
    );
    for mtu in [1500, 1279, 0] {
        let message = Icmpv6Message::PacketTooBig {
            mtu,
            quoted: &quoted,
        };
        assert_eq!(pass(message), None, "{mtu}: too large, or too small");
    }
    assert_eq!(
        pass(Icmpv6Message::TimeExceeded {
            code: 0,
            quoted: &quoted
        }),
        Some((ErrorKind::Soft(Error::HostUnreachable), None))
    );
    let problem = Icmpv6Message::ParameterProblem {
        code: ParameterProblemCode::NEXT_HEADER,
        pointer: 6,
        quoted: &quoted,
    };
    assert_eq!(
        pass(problem),
        Some((ErrorKind::Hard(Error::ProtocolUnreachable), None))
    );
}

/// RFC 9293 MUST-55.
/// RFC 1122 §3.2.2-1; RFC 5927 §6.2-1.
#[test]
fn source_quench_is_discarded() {
    let mut bench = Bench::new();
    let quench = Icmpv4Message::Other {
        kind: 4,
        code: 0,
        rest: [0; 4],
        payload: &quoted_v4(OUR4, 1500),
    };
    let frame = ipv4(Protocol::ICMP, &icmpv4_bytes(&quench));
    assert_eq!(bench.consume(&frame), Some(DropReason::IcmpIgnored));
    assert!(bench.sent().is_empty());
}

#[test]
fn errors_about_segments_of_others_are_dropped() {
    let mut bench = Bench::new();
    for quoted in [
        quoted_v4(PEER4, 1500),
        quoted_v4(OUR4, 1500)[..27].to_vec(),
        vec![],
        quoted_v6(OUR6, 1500),
    ] {
        let message = Icmpv4Message::TimeExceeded {
            code: 0,
            quoted: &quoted,
        };
        assert_eq!(
            bench.consume(&ipv4(Protocol::ICMP, &icmpv4_bytes(&message))),
            Some(DropReason::IcmpQuote)
        );
    }
    assert!(
        bench.sent().is_empty(),
        "errors are not answered with errors"
    );
}
