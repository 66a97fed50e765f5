//! Floods: more peers than there is room for.

use std::time::Duration;

use mtcp_core::{DropReason, Error};
use sim::{Ending, Expect, ListenPlan, Plan, Rng, Segment};
use wire::tcp::TcpFlags;

use crate::common::ms;
use crate::common::script::{ISS, Script};

/// A thousand SYNs from a thousand hosts, none of which completes its handshake.
#[test]
fn syns() {
    let mut script = Script::new(1);
    let you = script.server(Plan::default());
    for index in 0..1000 {
        let me = script.remote(index, 1 + index);
        script.send(&Segment::new(me, you).syn().seq(ISS).mss(1460));
        if index % 50 == 0 {
            script.run(ms(2));
            let usage = script.usage();
            assert!(usage.half_open <= 64 && usage.connections == 0, "{usage:?}");
            assert_eq!(usage.recv_bytes, 0);
        }
    }
    script.run(ms(5));
    assert_eq!(script.counters().syn_cookies_sent, 1000 - 64);
    script.finish();
    // And life goes on.
    let mut flow = script.handshake(you, |syn| syn);
    script.run(ms(5));
    flow.take(&script.take());
    script.send(&flow.seg().fin());
    script.finish();
    assert!(script.records()[0].is_clean());
}

/// More complete handshakes than there are control blocks; then the flooder goes silent. With an
/// idle time-out all of it comes back.
#[test]
fn connections() {
    let mut script = Script::new(2);
    let mut plan = Plan {
        expect: Expect::Anything,
        ..Plan::default().ends(Ending::AfterEof)
    };
    plan.options.idle_timeout = Some(Duration::from_secs(30));
    let you = script.listen(ListenPlan::new("10.0.0.1:80".parse().unwrap(), plan));
    // Whatever comes is answered: the SYN-ACK with an ACK and a request.
    let react = |arrival: &sim::Arrival| {
        let got = &arrival.segment;
        let ack = Segment::new(got.dst, got.src)
            .seq(got.header.ack)
            .ack(got.end());
        if got.has(TcpFlags::SYN) {
            vec![ack.data(b"GET")]
        } else {
            Vec::new()
        }
    };
    script
        .net
        .peer_mut(script.peer)
        .unwrap()
        .react(Some(Box::new(react)));
    for index in 0..500 {
        let me = script.remote(index, 1 + index);
        script.send(&Segment::new(me, you).syn().seq(ISS).mss(1460));
        script.run(ms(5));
        assert!(script.usage().connections <= 64);
    }
    assert_eq!(script.usage().connections, 64);
    assert!(script.counters().dropped(DropReason::TcpConnections) > 0);
    script.net.peer_mut(script.peer).unwrap().react(None);
    script.finish();
    assert!(
        script
            .records()
            .iter()
            .all(|record| record.error == Some(Error::TimedOut))
    );
}

/// Out-of-order bytes at the far end of the window of every connection: the pool is all that they
/// can take.
#[test]
fn far_bytes() {
    let mut script = Script::with(3, |config| {
        config.stack.recv_pool = 1 << 20;
        config.stack.recv_buffer = 256 << 10;
    });
    let mut flows = Vec::new();
    for _ in 0..50 {
        flows.push(script.accepted(Plan::default().ends(Ending::AfterEof)));
    }
    for flow in &flows {
        for offset in [60_000, 30_000, 10_000, 65_000] {
            script.send(
                &flow
                    .seg()
                    .seq(flow.seq.wrapping_add(offset))
                    .data(&[7; 100]),
            );
        }
        script.run(ms(2));
        assert!(script.usage().recv_bytes <= 1 << 20);
    }
    assert!(script.counters().dropped(DropReason::TcpMemory) > 0);
    for flow in &flows {
        script.send(&Segment::new(flow.me, flow.you).seq(flow.seq).rst());
    }
    script.finish();
}

/// Random segments at everything that exists: nothing breaks, answers are bounded, everything comes
/// back.
#[test]
fn noise() {
    for seed in 0..4 {
        let mut script = Script::new(100 + seed);
        let mut rng = Rng::new(seed);
        let mut plan = Plan {
            expect: Expect::Anything,
            ..Plan::default().sends(50_000).ends(Ending::AfterEof)
        };
        plan.options.idle_timeout = Some(Duration::from_secs(60));
        let flows: Vec<_> = (0..10).map(|_| script.accepted(plan)).collect();
        for _ in 0..5000 {
            let flow = flows[rng.below(10) as usize];
            let around = |rng: &mut Rng, n: u32| {
                n.wrapping_add((rng.below(200_000) as u32).wrapping_sub(100_000))
            };
            let flags = TcpFlags::from_bits_truncate(rng.below(512) as u16);
            let mut segment = flow
                .seg()
                .seq(around(&mut rng, flow.seq))
                .ack(around(&mut rng, flow.ack));
            segment.header.flags = flags;
            segment.header.window = rng.next_u32() as u16;
            segment.header.urgent = rng.next_u32() as u16;
            let len = rng.below(1400) as usize;
            script.send(&segment.data(&vec![rng.next_u32() as u8; len]));
            script.run(Duration::from_micros(rng.below(3000)));
        }
        let sent = script.counters().frames_out;
        assert!(sent < 40_000, "{sent} frames answer 5000");
        script.finish();
    }
}
