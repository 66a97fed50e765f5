use super::*;
use wire::ipv6::FragmentHeader;
use wire::udp::{UdpHeader, fill_checksum};

/// The pieces of a datagram from the peer, of at most `size` bytes.
fn split_v4(protocol: Protocol, payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    let pieces = payload.chunks(size).enumerate();
    pieces
        .map(|(i, piece)| {
            ipv4_with(protocol, piece, |header| {
                header.ident = 77;
                header.dont_fragment = false;
                header.fragment_offset = (i * size) as u16;
                header.more_fragments = (i + 1) * size < payload.len();
            })
        })
        .collect()
}

fn split_v6(next_header: Protocol, payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    let pieces = payload.chunks(size).enumerate();
    pieces
        .map(|(i, piece)| {
            let more = (i + 1) * size < payload.len();
            let mut bytes = vec![0; 8];
            FragmentHeader {
                next_header,
                offset: (i * size) as u16,
                more,
                ident: 77,
            }
            .emit(&mut bytes);
            bytes.extend_from_slice(piece);
            ipv6(Protocol::FRAGMENT, &bytes)
        })
        .collect()
}

fn segment() -> Vec<u8> {
    (0..100).collect()
}

/// RFC 1122 §3.3.2-1; RFC 8200 §5-1.
#[test]
fn fragmented_tcp_is_delivered_whole() {
    for frames in [
        split_v4(Protocol::TCP, &segment(), 40),
        split_v6(Protocol::TCP, &segment(), 40),
    ] {
        let mut bench = Bench::new();
        assert_eq!(bench.consume(&frames[2]), None);
        assert_eq!(bench.consume(&frames[0]), None);
        match bench.input(&frames[1]) {
            Input::Tcp(datagram) => {
                assert_eq!(
                    (&*datagram.payload, datagram.checksum),
                    (segment().as_slice(), RxChecksum::Unverified)
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(
            (
                bench.counters.fragments_in,
                bench.counters.reassembled,
                bench.counters.total_dropped()
            ),
            (3, 1, 0)
        );
    }
}

#[test]
fn extension_headers_inside_the_fragments_are_walked() {
    let payload = [&[6, 0, 1, 4, 0, 0, 0, 0], segment().as_slice()].concat();
    let frames = split_v6(Protocol::DESTINATION_OPTIONS, &payload, 40);
    let mut bench = Bench::new();
    bench.consume(&frames[0]);
    bench.consume(&frames[1]);
    match bench.input(&frames[2]) {
        Input::Tcp(datagram) => assert_eq!(&*datagram.payload, segment().as_slice()),
        other => panic!("{other:?}"),
    }
    // Fragments in fragments are refused.
    let inner = [&[6, 0, 0, 1, 0, 0, 0, 1], segment().as_slice()].concat();
    let frames = split_v6(Protocol::FRAGMENT, &inner, 56);
    let mut bench = Bench::new();
    let last: Vec<_> = frames.iter().map(|frame| bench.consume(frame)).collect();
    assert_eq!(last.last(), Some(&Some(DropReason::IpExtension)));
}

/// RFC 5722, and the same for IPv4.
#[test]
fn overlaps_are_dropped_in_both_families() {
    let changed: Vec<u8> = segment().iter().map(|byte| byte ^ 0xff).collect();
    for (good, evil) in [
        (
            split_v4(Protocol::TCP, &segment(), 40),
            split_v4(Protocol::TCP, &changed, 48),
        ),
        (
            split_v6(Protocol::TCP, &segment(), 40),
            split_v6(Protocol::TCP, &changed, 48),
        ),
    ] {
        let mut bench = Bench::new();
        bench.consume(&good[0]);
        assert_eq!(bench.consume(&evil[1]), None, "48..96");
        for frame in &good[1..] {
            assert_eq!(bench.consume(frame), Some(DropReason::FragmentOverlap));
        }
        assert_eq!(bench.counters.dropped(DropReason::FragmentOverlap), 4);
    }
}

#[test]
fn fragmented_pings_are_answered() {
    let payload = [5; 1000];
    let echo = wire::icmpv4::Echo {
        ident: 1,
        seq: 2,
        payload: &payload,
    };
    let mut bench = Bench::acquainted();
    for frame in split_v4(
        Protocol::ICMP,
        &icmpv4_bytes(&Icmpv4Message::EchoRequest(echo)),
        504,
    ) {
        assert_eq!(bench.consume(&frame), None);
    }
    let answer = bench.sent_one();
    assert_eq!(
        Icmpv4Message::parse(parse_ipv4(&answer).2),
        Ok(Icmpv4Message::EchoReply(echo))
    );
}

/// RFC 1122 §3.2.2.6: the reply is sent in any case.
#[test]
fn the_reply_to_a_long_ping_is_cut_off() {
    let payload: Vec<u8> = (0..4000).map(|i| (i % 251) as u8).collect();
    let echo = wire::icmpv4::Echo {
        ident: 1,
        seq: 2,
        payload: &payload,
    };
    let request = icmpv4_bytes(&Icmpv4Message::EchoRequest(echo));
    let mut bench = Bench::acquainted();
    for frame in split_v4(Protocol::ICMP, &request, 1480) {
        assert_eq!(bench.consume(&frame), None);
    }
    let answer = bench.sent_one();
    assert_eq!(answer.len(), 14 + 1500);
    // Length and checksum are those of what is sent.
    let cut = wire::icmpv4::Echo {
        payload: &payload[..1472],
        ..echo
    };
    assert_eq!(
        Icmpv4Message::parse(parse_ipv4(&answer).2),
        Ok(Icmpv4Message::EchoReply(cut))
    );
    assert_eq!(bench.counters.echo_replies, 1);
}

/// RFC 4443 §4.2: all of the data or nothing.
#[test]
fn a_ping_over_ipv6_is_not_answered_in_part() {
    let echo = wire::icmpv4::Echo {
        ident: 1,
        seq: 2,
        payload: &[5; 3000],
    };
    let message = Icmpv6Message::EchoRequest(echo);
    let mut request = vec![0; message.len()];
    message.emit(PEER6, OUR6, &mut request);
    let mut bench = Bench::acquainted();
    let frames = split_v6(Protocol::ICMPV6, &request, 1200);
    let last: Vec<_> = frames.iter().map(|frame| bench.consume(frame)).collect();
    assert_eq!(last, [None, None, Some(DropReason::ReplyTooLong)]);
}

#[test]
fn errors_about_fragmented_datagrams_quote_the_first_header() {
    let mut datagram = vec![0; 8];
    UdpHeader::new(9, 53, 200).emit(&mut datagram);
    datagram.extend_from_slice(&[3; 200]);
    fill_checksum(PEER6.into(), OUR6.into(), &mut datagram);
    let mut bench = Bench::acquainted();
    let frames = split_v6(Protocol::UDP, &datagram, 104);
    let last: Vec<_> = frames.iter().map(|frame| bench.consume(frame)).collect();
    assert_eq!(last, [None, Some(DropReason::UdpNoPort)]);
    let answer = bench.sent_one();
    let (_, header, payload) = parse_ipv6(&answer);
    match Icmpv6Message::parse(header.src, header.dst, payload) {
        Ok(Icmpv6Message::DestinationUnreachable { quoted, .. }) => {
            assert_eq!(
                quoted,
                [&frames[0][14..14 + 48], datagram.as_slice()].concat()
            );
        }
        other => panic!("{other:?}"),
    }
}

/// RFC 792, RFC 1122 §3.3.2, RFC 8200 §4.5.
/// RFC 1122 §3.3.2-2.
#[test]
fn the_sender_hears_of_a_time_out_if_the_first_fragment_came() {
    let v4 = split_v4(Protocol::TCP, &segment(), 40);
    let v6 = split_v6(Protocol::TCP, &segment(), 40);
    for (frames, keep) in [(&v4, 0), (&v4, 1), (&v6, 0), (&v6, 1)] {
        let mut bench = Bench::new();
        let next_hop = if frames == &v4 {
            PEER4.into()
        } else {
            PEER6.into()
        };
        bench.consume(&frames[keep]);
        bench.advance(Duration::from_millis(14_999));
        assert!(bench.sent().is_empty());
        // The neighbour is looked up when there is something to send.
        bench.advance(Duration::from_millis(2));
        assert_eq!(bench.counters.dropped(DropReason::FragmentTimeout), 1);
        assert_eq!(bench.sent().len(), usize::from(keep == 0));
        let what = crate::neigh::cache::Advertisement {
            mac: Some(PEER),
            solicited: true,
            override_flag: true,
        };
        bench
            .net
            .links
            .neighbours
            .advertise(bench.now, PORT, next_hop, what);
        bench.net.links.settle(&mut bench.counters);
        for frame in bench.sent() {
            let quoted_start = if next_hop.is_ipv4() {
                let payload = parse_ipv4(&frame).2;
                assert!(matches!(
                    Icmpv4Message::parse(payload),
                    Ok(Icmpv4Message::TimeExceeded { code: 1, .. })
                ));
                14 + 20 + 8
            } else {
                let (_, header, payload) = parse_ipv6(&frame);
                let message = Icmpv6Message::parse(header.src, header.dst, payload);
                assert!(matches!(
                    message,
                    Ok(Icmpv6Message::TimeExceeded { code: 1, .. })
                ));
                14 + 40 + 8
            };
            assert_eq!(frame[quoted_start..], frames[0][14..]);
        }
        assert_eq!(bench.net.reassembler.used(), 0);
    }
}
