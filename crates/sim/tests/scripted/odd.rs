//! Peers without options, with senseless options, with segments that overlap or come in dust.

use std::time::Duration;

use sim::{Ending, Expect, Pattern, Plan, Rng, Segment};
use wire::icmpv4::{Icmpv4Message, UnreachableCode};
use wire::tcp::{TcpFlags, Timestamps};

use crate::common::ms;
use crate::common::script::{Flow, Script};

/// Receives what the host sends until it is silent; acknowledges everything. Returns the bytes and
/// the largest segment.
fn drain(script: &mut Script, flow: &mut Flow) -> (Vec<u8>, usize) {
    let (mut bytes, mut largest, mut silent) = (Vec::new(), 0, 0);
    while silent < 20 {
        let segments = script.take();
        largest = segments
            .iter()
            .map(|segment| segment.payload.len())
            .max()
            .unwrap_or(0)
            .max(largest);
        silent = if segments.is_empty() { silent + 1 } else { 0 };
        bytes.extend(flow.take(&segments));
        if !segments.is_empty() {
            script.send(&flow.seg());
        }
        script.run(ms(100));
    }
    (bytes, largest)
}

fn check(script: &Script, flow: &Flow, bytes: &[u8], len: usize) {
    assert_eq!(bytes.len(), len);
    let pattern = Pattern::between(script.net.seed(), flow.you, flow.me);
    assert_eq!(pattern.mismatch(0, bytes), None);
}

/// No options at all: 536 bytes per segment (RFC 9293 §3.7.1), no timestamps, no scaling, no SACK
/// in either direction.
#[test]
fn a_peer_without_options() {
    for active in [false, true] {
        let mut script = Script::new(1);
        let plan = Plan::default().sends(20_000);
        let mut flow = if active {
            script.connected(plan, |syn_ack| syn_ack)
        } else {
            let you = script.server(plan);
            let flow = script.handshake(you, |syn| syn);
            script.run(ms(3));
            flow
        };
        let (bytes, largest) = drain(&mut script, &mut flow);
        check(&script, &flow, &bytes, 20_000);
        assert_eq!(largest, 536);
        script.send(&flow.seg().fin());
        script.finish();
        assert!(script.records()[0].is_clean());
    }
}

#[test]
fn silly_segment_sizes() {
    for mss in [0, 1, 47, 88, 9000, u16::MAX] {
        let mut script = Script::new(2);
        let you = script.server(Plan::default().sends(3000));
        let mut flow = script.handshake(you, |syn| syn.mss(mss));
        script.run(ms(3));
        let (bytes, largest) = drain(&mut script, &mut flow);
        check(&script, &flow, &bytes, 3000);
        assert!(
            (1..=1460).contains(&largest),
            "MSS {mss}: segments of {largest}"
        );
        script.send(&flow.seg().fin());
        script.finish();
    }
}

/// Window scales beyond 14 mean 14 (RFC 7323 §2.3).
#[test]
fn a_window_scale_of_255() {
    let mut script = Script::new(3);
    let you = script.server(Plan::default().sends(100_000));
    let mut flow = script.handshake(you, |mut syn| {
        syn.header.options.window_scale = Some(255);
        syn.mss(1460)
    });
    flow.seq = flow.seq.wrapping_add(0);
    script.run(ms(3));
    let (bytes, _) = drain(&mut script, &mut flow);
    check(&script, &flow, &bytes, 100_000);
    script.send(&flow.seg().fin());
    script.finish();
}

/// Data that the peer sends in single bytes, shuffled, repeated and overlapping: in the end every
/// byte is there once; meanwhile memory is bounded by the buffer, however many holes there are.
#[test]
fn dust() {
    const LEN: usize = 3000;
    for seed in 0..5 {
        let mut script = Script::new(seed);
        let mut flow = script.accepted(Plan::default().ends(Ending::AfterEof));
        let mut data = [0; LEN];
        Pattern::between(seed, flow.me, flow.you).fill(0, &mut data);
        let mut rng = Rng::new(seed);
        let start = flow.seq;
        for _ in 0..6 {
            let mut order: Vec<usize> = (0..LEN).collect();
            for index in (1..LEN).rev() {
                order.swap(index, rng.below(index as u64 + 1) as usize);
            }
            for at in order {
                let end = (at + 1 + rng.below(3) as usize).min(LEN);
                let segment = flow
                    .seg()
                    .seq(start.wrapping_add(at as u32))
                    .data(&data[at..end]);
                script.send(&segment);
            }
            script.run(ms(10));
            assert!(
                script.usage().recv_bytes <= 16 << 10,
                "{:?}",
                script.usage()
            );
            assert!(script.usage().range_sets <= 1);
        }
        flow.seq = start.wrapping_add(LEN as u32);
        // Whatever was refused for too many holes comes once more, in order.
        script.send(&flow.seg().seq(start).data(&data[..1500]));
        script.send(
            &flow
                .seg()
                .seq(start.wrapping_add(1000))
                .data(&data[1000..2400]),
        );
        script.send(
            &flow
                .seg()
                .seq(start.wrapping_add(2000))
                .data(&data[2000..])
                .fin(),
        );
        flow.seq = flow.seq.wrapping_add(1);
        script.run(ms(10));
        flow.take(&script.take());
        script.run(ms(10));
        flow.take(&script.take());
        script.send(&flow.seg());
        script.finish();
        assert_eq!(script.records()[0].received, LEN as u64);
        assert!(script.records()[0].is_clean());
    }
}

/// Two versions of the same bytes: what arrived first counts, also out of order (an attacker must
/// not rewrite what was acknowledged).
#[test]
fn contradicting_overlaps() {
    let mut script = Script::new(5);
    let mut flow = script.accepted(Plan::default().ends(Ending::AfterEof));
    let mut good = [0; 300];
    Pattern::between(5, flow.me, flow.you).fill(0, &mut good);
    let evil = good.map(|byte| !byte);
    let start = flow.seq;
    let at =
        |offset: usize, data: &[u8]| flow.seg().seq(start.wrapping_add(offset as u32)).data(data);
    for segment in [
        at(100, &good[100..200]), // out of order
        at(100, &evil[100..200]), // the same range again
        at(0, &good[..100]),      // fills the hole
        at(50, &evil[50..150]),   // old
        at(250, &good[250..300]),
        at(200, &good[200..260]), // overlaps its neighbour
        at(0, &evil[..300]),
    ] {
        script.send(&segment);
        script.run(ms(3));
    }
    flow.seq = start.wrapping_add(300);
    script.send(&flow.seg().fin());
    flow.seq = flow.seq.wrapping_add(1);
    script.run(ms(10));
    flow.take(&script.take());
    script.send(&flow.seg());
    script.finish();
    // The application compared every byte.
    assert_eq!(script.records()[0].received, 300);
}

/// After its FIN a peer has nothing more to say.
#[test]
fn data_behind_a_fin() {
    let mut script = Script::new(6);
    let plan = Plan {
        expect: Expect::Anything,
        first_read: ms(500),
        ..Plan::default().ends(Ending::AfterEof)
    };
    let mut flow = script.accepted(plan);
    script.send(&flow.seg().data(b"first").fin());
    flow.seq = flow.seq.wrapping_add(6);
    script.run(ms(3));
    script.send(&flow.seg().data(b"more"));
    script.send(&flow.seg().data(b"and more").fin());
    script.run(ms(1000));
    flow.take(&script.take());
    script.send(&flow.seg());
    script.finish();
    assert_eq!(script.records()[0].received, 5);
}

/// PAWS (RFC 7323 §5): an old timestamp is refused, with an ACK.
#[test]
fn old_timestamps() {
    let mut script = Script::new(7);
    let you = script.server(Plan {
        expect: Expect::Anything,
        ..Plan::default().ends(Ending::AfterEof)
    });
    let stamp = |mut segment: Segment, tsval: u32| {
        segment.header.options.timestamps = Some(Timestamps { tsval, tsecr: 0 });
        segment
    };
    let flow = script.handshake(you, |syn| stamp(syn, 1000));
    script.run(ms(3));
    let data = |tsval| stamp(flow.seg().data(b"x"), tsval);
    let answers = script.ask(&data(999));
    assert!(
        answers.iter().all(|answer| answer.header.ack.0 == flow.seq),
        "{answers:?}"
    );
    assert_eq!(script.counters().dropped(mtcp_core::DropReason::TcpPaws), 1);
    script.send(&data(1001));
    script.run(ms(500));
    assert_eq!(script.counters().tcp_bytes_in, 1);
}

/// A router says that packets are too big: the path MTU goes down; one that lies about what was
/// never sent is ignored (RFC 5927).
#[test]
fn packet_too_big() {
    let mut script = Script::new(8);
    let mut flow = script.accepted(Plan::default().sends(30_000));
    let segments = script.take();
    assert!(segments.iter().any(|segment| segment.payload.len() == 1460));
    let peer = script.peer;
    let report = |script: &mut Script, segment: &Segment, mtu: u16| {
        let frame = segment.to_frame(
            wire::frame::MacAddr::default(),
            wire::frame::MacAddr::default(),
        );
        let message = Icmpv4Message::DestinationUnreachable {
            code: UnreachableCode::FRAGMENTATION_NEEDED,
            next_hop_mtu: mtu,
            quoted: &frame[14..14 + 28],
        };
        let mut body = vec![0; message.len()];
        message.emit(&mut body);
        let (src, dst) = (script.remote(9, 0).ip(), segment.src.ip());
        let frame = script
            .net
            .peer_mut(peer)
            .unwrap()
            .icmp_frame(src, dst, &body);
        script.net.peer_send_frame(peer, frame);
        script.run(ms(5));
    };
    let mut forged = segments[0].clone();
    forged.header.seq += 1 << 20;
    report(&mut script, &forged, 600);
    report(&mut script, &segments[0], 1000);
    let resent = script.take();
    assert!(
        !resent.is_empty() && resent.iter().all(|segment| segment.payload.len() <= 960),
        "{resent:?}"
    );
    let first = &resent[0];
    assert_eq!(
        (first.header.seq, first.payload.len()),
        (segments[0].header.seq, 960)
    );
    let mut bytes = flow.take(&resent);
    script.send(&flow.seg());
    let (rest, largest) = drain(&mut script, &mut flow);
    bytes.extend(rest);
    check(&script, &flow, &bytes, 30_000);
    assert!(largest <= 960);
    script.send(&flow.seg().fin());
    script.finish();
}

/// The SYN-ACK is lost, the peer's SYN comes again with other options; the handshake completes all
/// the same, once.
#[test]
fn a_repeated_syn() {
    let mut script = Script::new(9);
    let you = script.server(Plan::default().sends(10));
    let me = script.remote(1, 5);
    let syn = Segment::new(me, you).syn().seq(7).mss(1000);
    let first = script.ask(&syn);
    let second = script.ask(&syn);
    assert_eq!(first[0].header.seq, second[0].header.seq);
    assert_eq!(script.usage().half_open, 1);
    // Now from a peer that has started again with another number: the old attempt is no connection
    // of its.
    script.run(Duration::from_secs(1));
    let answers = script.ask(&Segment::new(me, you).syn().seq(70_000));
    assert!(
        answers
            .iter()
            .all(|answer| !answer.has(TcpFlags::SYN) || answer.header.ack.0 == 8),
        "{answers:?}"
    );
    script.finish();
}
