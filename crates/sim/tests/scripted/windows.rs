//! Peers whose window is closed, tiny, shrinking, or lies.

use std::time::Duration;

use mtcp_core::Error;
use sim::{Ending, Pattern, Plan, Segment};
use wire::tcp::TcpFlags;

use crate::common::ms;
use crate::common::script::{Flow, Script};

fn sends(bytes: u64) -> Plan {
    Plan::default().sends(bytes)
}

/// What `flow` should receive.
fn expected(script: &Script, flow: &Flow, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Pattern::between(script.net.seed(), flow.you, flow.me).fill(0, &mut bytes);
    bytes
}

/// Zero window for an hour: probes come ever more rarely, one byte each at most, for as long as
/// they are answered (RFC 9293 §3.8.6.1); then everything is delivered.
#[test]
fn a_window_closed_for_an_hour() {
    let mut script = Script::new(1);
    let you = script.server(sends(5000));
    let mut flow = script.handshake(you, |syn| syn.mss(1460).window(0));
    let mut probes = 0;
    for _ in 0..3600 * 10 {
        script.run(ms(100));
        for segment in script.take() {
            assert!(segment.payload.len() <= 1, "{segment:?}");
            probes += 1;
            script.send(&flow.seg().window(0));
        }
    }
    assert!((60..100).contains(&probes), "{probes} probes");
    script.send(&flow.seg());
    let mut got = Vec::new();
    for _ in 0..100 {
        script.run(ms(100));
        got.extend(flow.take(&script.take()));
        script.send(&flow.seg());
    }
    assert_eq!(got, expected(&script, &flow, 5000));
    script.send(&flow.seg().fin());
    script.finish();
    assert!(script.records()[0].is_clean());
}

/// A zero window whose owner has died: the connection ends after `data_retries`.
#[test]
fn a_closed_window_that_nobody_answers_for() {
    let mut script = Script::with(2, |config| config.stack.data_retries = 5);
    let you = script.server(sends(5000));
    script.handshake(you, |syn| syn.mss(1460).window(0));
    script.finish();
    assert_eq!(script.records()[0].error, Some(Error::TimedOut));
}

/// A peer that takes one byte at a time.
#[test]
fn a_window_of_one() {
    let mut script = Script::new(3);
    let you = script.server(sends(40));
    let mut flow = script.handshake(you, |syn| syn.mss(1460).window(1));
    let mut got = Vec::new();
    for _ in 0..1000 {
        script.run(ms(500));
        for segment in script.take() {
            assert!(segment.payload.len() <= 1);
            got.extend(flow.take(&[segment]));
        }
        script.send(&flow.seg().window(1));
    }
    assert_eq!(got, expected(&script, &flow, 40));
    script.send(&flow.seg().fin());
    script.finish();
}

/// The right edge moves left under data in flight, which RFC 9293 §3.8.6 discourages and says one
/// must survive.
#[test]
fn a_window_that_shrinks() {
    let mut script = Script::new(4);
    let you = script.server(sends(20_000));
    let mut flow = script.handshake(you, |syn| syn.mss(1000).window(10_000));
    script.run(ms(3));
    let segments = script.take();
    assert!(segments.len() >= 9, "{}", segments.len());
    // Takes the first, and now offers less than is in flight already.
    let mut got = flow.take(&segments[..1]);
    script.send(&flow.seg().window(500));
    for turn in 0..2000u32 {
        script.run(ms(100));
        // Takes what fits its window, as a receiver does.
        let window = if turn % 3 == 0 { 0 } else { 1500 };
        let edge = flow.ack.wrapping_add(window);
        let fits: Vec<Segment> = script
            .take()
            .into_iter()
            .filter(|segment| edge.wrapping_sub(segment.end().0) < 1 << 31)
            .collect();
        got.extend(flow.take(&fits));
        script.send(&flow.seg().window(window as u16));
    }
    assert_eq!(got, expected(&script, &flow, 20_000));
    script.send(&flow.seg().fin());
    script.finish();
    assert!(script.records()[0].is_clean());
}

/// A peer that never acknowledges anything: the connection ends, and all it held comes back.
#[test]
fn a_peer_that_never_acknowledges() {
    let mut script = Script::with(5, |config| config.stack.data_retries = 6);
    for _ in 0..20 {
        script.accepted(sends(1 << 20));
    }
    assert_eq!(script.usage().connections, 20);
    script.finish();
    for record in script.records() {
        assert_eq!(record.error, Some(Error::TimedOut));
    }
}

/// RFC 9293 §3.8.3: user time-out.
#[test]
fn a_user_timeout_is_kept() {
    let mut script = Script::new(6);
    let mut plan = sends(1000);
    plan.options.user_timeout = Some(Duration::from_secs(20));
    script.accepted(plan);
    script.finish();
    let record = script.records()[0];
    assert_eq!(record.error, Some(Error::TimedOut));
    let took = record.closed_at.since(record.opened_at);
    assert!(
        (Duration::from_secs(19)..Duration::from_secs(60)).contains(&took),
        "{took:?}"
    );
}

/// Acknowledgments of what was never sent (optimistic ACKs) are refused (RFC 5961 §5).
#[test]
fn acks_of_the_future() {
    let mut script = Script::new(7);
    let mut plan = sends(3000).ends(Ending::AfterEof);
    plan.options.nodelay = true;
    let mut flow = script.accepted(plan);
    let data = script.take();
    let got = flow.take(&data);
    assert_eq!(got.len(), 3000);
    for ahead in [1, 1000, 1 << 30] {
        let answers = script.ask(&flow.seg().ack(flow.ack.wrapping_add(ahead)));
        assert!(
            answers
                .iter()
                .all(|answer| answer.header.flags == TcpFlags::ACK),
            "{answers:?}"
        );
    }
    assert_eq!(script.usage().connections, 1);
    script.send(&flow.seg().fin());
    script.finish();
    assert!(script.records()[0].is_clean());
}

/// Our own window: data beyond it is not taken, a probe into a closed one is answered, and it never
/// shrinks.
#[test]
fn what_does_not_fit_our_window() {
    let mut script = Script::with(8, |config| config.stack.recv_buffer = 4096);
    let sleeper = Plan {
        first_read: Duration::from_secs(100),
        ..Plan::default().ends(Ending::AfterEof)
    };
    let mut flow = script.accepted(sleeper);
    let pattern = Pattern::between(script.net.seed(), flow.me, flow.you);
    let mut edge = None;
    let mut sent = 0;
    for _ in 0..20 {
        let mut data = [0; 1000];
        pattern.fill(sent, &mut data);
        let answers = script.ask(&flow.seg().data(&data));
        let ack = answers.last().unwrap();
        let taken = ack.header.ack.0.wrapping_sub(flow.seq);
        assert!(taken <= 1000);
        sent += u64::from(taken);
        flow.seq = ack.header.ack.0;
        let right = ack.header.ack.0.wrapping_add(u32::from(ack.header.window));
        assert!(
            edge.is_none_or(|edge: u32| right.wrapping_sub(edge) < 1 << 31),
            "the window shrank"
        );
        edge = Some(right);
        let held = script.usage().recv_bytes;
        // The buffer of the first bytes may live beside the one that it grew into.
        assert!(held <= 3 * 4096, "{held} bytes");
    }
    assert!((3000..=4096).contains(&sent), "{sent} bytes were taken");
    script.run(Duration::from_secs(101));
    assert_eq!(script.usage().recv_bytes, 0);
    script.take();
    script.send(&flow.seg().fin());
    script.run(ms(5));
    flow.seq = flow.seq.wrapping_add(1);
    flow.take(&script.take());
    script.send(&flow.seg());
    script.finish();
    assert_eq!(script.records()[0].received, sent);
}
