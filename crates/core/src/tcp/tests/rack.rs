//! RACK and tail loss probes (RFC 8985), on a path of 40 ms.

use std::time::Duration;

use crate::command::Options;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;
const RTT: u64 = 40;

fn offer() -> Handshake {
    Handshake {
        sack: true,
        ..Handshake::default()
    }
}

fn far() -> Harness {
    at_a_distance(RTT)
}

/// A connection over a path of so many milliseconds.
fn at_a_distance(rtt: u64) -> Harness {
    after_handshake(rtt, &offer())
}

fn after_handshake(rtt: u64, offer: &Handshake) -> Harness {
    let mut h = Harness::new();
    let options = Options {
        nodelay: true,
        ..Options::default()
    };
    h.listen(4, options);
    h.syn_received(offer);
    h.advance(rtt);
    h.send(h.handshake_ack(offer));
    h.take_accepted();
    h.events();
    h
}

fn ack(n: u32, blocks: &[(u32, u32)]) -> Seg {
    seg().seq(1).ack(n).win(WIN).sack(blocks)
}

/// `n` segments in flight, one round trip ago, and nothing behind them.
fn in_flight(n: usize) -> Harness {
    let mut h = far();
    h.write(1000 * n);
    assert_eq!(h.drain(), n);
    h.advance(RTT);
    h
}

/// RFC 8985 §4-3, §6.2-4, §6.2-6, §6.2-7.
#[test]
fn what_was_sent_before_something_that_arrived_is_lost_after_a_quarter_round_trip() {
    let mut h = in_flight(3);
    // A single report: too little for DupThresh.
    h.send(ack(1, &[(1001, 2001)]));
    h.expect_silence(9);
    h.advance(1);
    h.expect(seg().seq(1).len(1000));
    // The third was sent after the second, for all we know.
    h.expect_nothing();
    assert_eq!(h.stack.counters().fast_retransmits, 1);
    assert_eq!(h.info().ssthresh, 2000);
}

#[test]
fn what_arrives_meanwhile_is_not_lost() {
    let mut h = in_flight(3);
    h.send(ack(1, &[(1001, 2001)]));
    h.advance(5);
    h.send(ack(2001, &[]));
    h.expect_silence(30);
    assert_eq!(h.stack.counters().fast_retransmits, 0);
}

/// RFC 8985 §6.2-3, §6.2-4, §9.2-1.
#[test]
fn after_reordering_was_seen_three_duplicates_are_not_enough() {
    let mut h = in_flight(8);
    h.send(ack(1, &[(1001, 2001)]));
    h.send(ack(2001, &[]));
    // Sent once, and below what was SACKed before: reordering, not loss.
    h.send(ack(2001, &[(3001, 8001)]));
    h.expect_silence(9);
    h.advance(1);
    h.expect(seg().seq(2001).len(1000));
}

/// RFC 8985 §6.1-1, §6.2-6, §9.3-3; RFC 5681 §4.3-4.
#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
    let mut h = far();
    h.write(40_000);
    assert_eq!(h.drain(), 10);
    h.advance(RTT);
    h.send(ack(1, &[(1001, 10_001)]));
    h.expect(seg().seq(1).len(1000));
    let sent = h.drain();
    assert!(sent >= 3, "new data behind the retransmission");
    let window = h.info().ssthresh;
    h.advance(RTT);
    // It is lost again, the new data arrives.
    h.send(ack(1, &[(1001, 13_001)]));
    h.expect(seg().seq(1).len(1000));
    assert_eq!(h.stack.counters().timeouts, 0);
    assert_eq!(h.stack.counters().lost_retransmissions, 1);
    // RFC 5681 §4.3: twice.
    assert!(h.info().ssthresh < window);
}

/// RFC 7323 §4.3: while there is a hole all ACKs echo what was sent before it, also those that
/// report what was sent again behind it. RFC 8985 §6.2-2.
#[test]
fn a_lost_retransmission_is_found_whatever_old_timestamp_is_echoed() {
    let stamped = Handshake {
        ts: Some(1000),
        ..offer()
    };
    let mut h = after_handshake(RTT, &stamped);
    let start_of = |n: u32| 1 + 988 * n;
    h.write(9880);
    assert_eq!(h.drain(), 10);
    h.advance(RTT);
    let blocks = [(start_of(1), start_of(4)), (start_of(5), start_of(10))];
    h.send(ack(1, &blocks).ts(1001, 0));
    h.expect(seg().seq(1).len(988));
    h.expect(seg().seq(start_of(4)).len(988));
    h.advance(RTT);
    // The first was lost again.
    h.send(ack(1, &[(start_of(1), start_of(10))]).ts(1002, 0));
    h.expect(seg().seq(1).len(988));
    assert_eq!(h.stack.counters().lost_retransmissions, 1);
    assert_eq!(h.stack.counters().timeouts, 0);
}

/// The last ACK that advanced came when the reordering timer was started, 10 ms earlier.
/// RFC 6675 §6-1.
#[test]
fn the_timeout_counts_from_the_retransmission() {
    let mut h = in_flight(4);
    h.send(ack(1001, &[(2001, 3001)]));
    h.expect_silence(9);
    h.advance(1);
    h.expect(seg().seq(1001).len(1000));
    h.expect_silence(199);
    h.advance(1);
    h.expect(seg().seq(1001).len(1000));
    assert_eq!(h.stack.counters().timeouts, 1);
}

/// RFC 8985 §6.2-2.
#[test]
fn an_ack_that_comes_too_soon_is_not_for_the_retransmission() {
    let mut h = in_flight(10);
    h.send(ack(1, &[(1001, 5001)]));
    h.expect(seg().seq(1).len(1000));
    h.advance(1);
    // The first copy was late: says nothing about what was sent between the two.
    h.send(ack(5001, &[]));
    h.expect_silence(20);
    assert_eq!(h.info().flight, 5000);
}

/// RFC 8985 §7.2-1, §7.2-2, §7.3-5, §7.3-6.
#[test]
fn a_lost_tail_is_probed_after_two_round_trips() {
    let mut h = far();
    h.write(3000);
    assert_eq!(h.drain(), 3);
    h.advance(RTT);
    // 2 and 3 are lost.
    h.send(ack(1001, &[]));
    h.expect_silence(2 * RTT - 1);
    h.advance(1);
    h.expect(seg().seq(2001).len(1000));
    h.expect_nothing();
    assert_eq!(h.stack.counters().tail_probes, 1);
    h.advance(RTT);
    // Its SACK shows that the second is lost too.
    h.send(ack(1001, &[(2001, 3001)]));
    h.expect(seg().seq(1001).len(1000));
    h.advance(RTT);
    h.send(ack(3001, &[]));
    assert_eq!(h.stack.counters().timeouts, 0);
    h.expect_silence(10_000);
}

/// RFC 8985 §7.2-3, §7.3-1, §7.3-7.
#[test]
fn a_single_segment_is_given_time_for_a_delayed_ack() {
    let mut h = far();
    h.write(100);
    h.expect(seg().seq(1).len(100));
    h.expect_silence(2 * RTT + 99);
    h.advance(1);
    h.expect(seg().seq(1).len(100));
    // Once: then the RTO.
    h.expect_silence(100);
}

/// RFC 8985 §7.2-3: Linux delays an ACK by 40 ms, which its timer rounds up to a tick of up to 10
/// ms, and is late where it has much to do.
#[test]
fn an_ack_that_linux_delays_comes_before_the_probe() {
    let mut h = at_a_distance(1);
    h.write(100);
    h.expect(seg().seq(1).len(100));
    h.expect_silence(70);
    h.send(ack(101, &[]));
    h.expect_silence(10_000);
    assert_eq!(h.stack.counters().tail_probes, 0);
}

/// RFC 8985 §7.3-4.
#[test]
fn a_probe_carries_new_data_if_there_is_some() {
    let mut h = far();
    h.write(12_000);
    assert_eq!(h.drain(), 10);
    h.advance(2 * RTT);
    // Although the congestion window is full.
    h.expect(seg().seq(10_001).len(1000));
    h.expect_nothing();
}

#[test]
fn a_probe_repeats_the_fin() {
    let mut h = far();
    h.write(100);
    h.shutdown();
    h.drain();
    h.advance(2 * RTT + 100);
    h.expect(seg().seq(1).len(100).fin());
}

#[test]
fn a_probe_into_a_closed_window_is_the_persist_timers() {
    let mut h = far();
    h.write(2000);
    assert_eq!(h.drain(), 2);
    h.send(seg().seq(1).ack(1001).win(0));
    h.expect_silence(150);
    assert_eq!(h.stack.counters().tail_probes, 0);
}

/// RFC 8985 §7.4.2-1, §7.4.2-2.
#[test]
fn the_loss_that_a_probe_repaired_counts() {
    // RFC 8985 §7.4: nothing else shows it.
    let mut h = in_flight(10);
    h.send(ack(9001, &[]));
    h.advance(2 * RTT + 100);
    h.expect(seg().seq(9001).len(1000));
    h.send(ack(10_001, &[]));
    assert_eq!(h.info().ssthresh, u32::MAX);
    h.write(1000);
    h.drain();
    h.send(ack(11_001, &[]));
    assert!(h.info().ssthresh < u32::MAX);
}

/// RFC 8985 §7.4.2-1.
#[test]
fn a_probe_that_was_not_needed_costs_nothing() {
    for report in [&[(9001, 10_001)][..], &[]] {
        let mut h = in_flight(10);
        h.send(ack(9001, &[]));
        h.advance(2 * RTT + 100);
        h.expect(seg().seq(9001).len(1000));
        // The original arrived, then the probe: a D-SACK (RFC 2883), or a plain duplicate.
        h.send(ack(10_001, &[]));
        h.send(ack(10_001, report));
        h.write(1000);
        h.drain();
        h.send(ack(11_001, &[]));
        assert_eq!(h.info().ssthresh, u32::MAX);
    }
}

/// RFC 8985 §4-4, §6.2-5.
#[test]
fn spurious_retransmissions_widen_the_window_for_reordering() {
    let mut h = in_flight(10);
    h.send(ack(1, &[(1001, 2001)]));
    h.advance(10);
    h.expect(seg().seq(1).len(1000));
    // It was only late.
    h.send(ack(2001, &[]));
    h.send(ack(2001, &[(1, 1001)]));
    assert_eq!(h.stack.counters().spurious_retransmits, 1);
    h.send(ack(10_001, &[]));
    h.write(3000);
    h.drain();
    h.advance(RTT);
    h.send(ack(10_001, &[(11_001, 12_001)]));
    // Two quarters now.
    h.expect_silence(19);
    h.advance(1);
    h.expect(seg().seq(10_001).len(1000));
}

/// RFC 8985 §4-1.
#[test]
fn without_sack_there_is_neither() {
    let mut h = Harness::established();
    h.write(1000);
    h.expect(seg().len(1000));
    h.expect_silence(199);
    assert_eq!(h.stack.counters().tail_probes, 0);
}

/// RFC 8985 §6.3-1.
#[test]
fn a_time_out_leaves_alone_what_was_sent_just_now() {
    // RFC 8985 §6.3.
    let mut h = far();
    h.write(2000);
    assert_eq!(h.drain(), 2);
    let rto = h.info().rto;
    h.advance(2 * RTT);
    // The probe.
    h.expect(seg().seq(1001).len(1000));
    h.advance(rto.as_millis() as u64 - 10);
    h.write(1000);
    h.expect(seg().seq(2001).len(1000));
    h.advance(10);
    h.expect(seg().seq(1).len(1000));
    h.send(ack(1001, &[]));
    h.expect(seg().seq(1001).len(1000));
    h.expect_nothing();
    assert_eq!(h.stack.counters().timeouts, 1);
    assert!(rto >= Duration::from_millis(200));
}

#[test]
fn nothing_is_left_of_it() {
    let mut h = in_flight(10);
    h.send(ack(1, &[(1001, 2001)]));
    h.advance(20);
    assert_eq!(h.stack.usage().sent_logs, 1);
    h.send(ack(10_001, &[]));
    let usage = h.stack.usage();
    assert_eq!((usage.sent_logs, usage.range_sets), (0, 0));
}

#[test]
fn a_comb_of_holes_is_filled_once() {
    // More runs of bytes than a log has spans: each sent at its own time, every second one lost.
    let mut h = far();
    for _ in 0..70 {
        h.write(1);
        h.advance(1);
    }
    h.drain();
    let ranges: Vec<_> = (0..31).map(|i| (2 + 2 * i, 3 + 2 * i)).collect();
    let mut again = 0;
    for blocks in ranges.chunks(4) {
        h.send(ack(1, blocks));
        again += h.drain();
    }
    assert_eq!(again, 31);
    h.send(ack(71, &[]));
    assert_eq!((h.info().flight, h.stack.usage().sent_logs), (0, 0));
}
