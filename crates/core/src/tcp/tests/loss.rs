//! Loss without SACK: fast retransmit and NewReno (RFC 5681 §3.2, RFC 6582), limited transmit
//! (RFC 3042), time-outs (RFC 6298).

use std::time::Duration;

use crate::command::Options;
use crate::config::Config;
use crate::error::Error;
use crate::info::State;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;

/// ESTABLISHED, with ten segments of 1000 bytes in flight and more to send.
fn ten_in_flight(change: impl FnOnce(&mut Config)) -> Harness {
    let mut h = Harness::with(change).and_established(&Handshake::default());
    h.write(40_000);
    for i in 0..10 {
        h.expect(seg().seq(1 + i * 1000).len(1000));
    }
    h.expect_nothing();
    h
}

fn ack(n: u32) -> Seg {
    seg().seq(1).ack(n).win(WIN)
}

/// RFC 5681 §3.1-5, §3.2-1, §3.2-2, §3.2-4, §3.2-5; RFC 3042 §2-1.
#[test]
fn two_duplicates_send_new_data_the_third_retransmits() {
    let mut h = ten_in_flight(|_| {});
    // RFC 3042: one new segment for each of the first two.
    h.send(ack(1));
    h.expect(seg().seq(10_001).len(1000));
    h.send(ack(1));
    h.expect(seg().seq(11_001).len(1000));
    h.expect_nothing();
    h.send(ack(1));
    h.expect(seg().seq(1).len(1000));
    h.expect_nothing();
    let info = h.info();
    // FlightSize without what limited transmit sent: 10 segments.
    assert_eq!((info.ssthresh, info.cwnd), (5000, 5000));
    assert_eq!(h.stack.counters().fast_retransmits, 1);
}

/// RFC 5681 §3.2-6, §3.2-7.
#[test]
fn more_duplicates_clock_out_new_data() {
    let mut h = ten_in_flight(|_| {});
    for _ in 0..3 {
        h.send(ack(1));
    }
    h.drain();
    // 12 in flight, 3 gone: RFC 6582 lets new data go when flight - duplicates < ssthresh.
    for n in 4..=7 {
        h.send(ack(1));
        h.expect_nothing();
        assert_eq!(h.info().flight, 12_000, "duplicate {n}");
    }
    h.send(ack(1));
    h.expect(seg().seq(12_001).len(1000));
    h.send(ack(1));
    h.expect(seg().seq(13_001).len(1000));
    h.expect_nothing();
}

/// RFC 5681 §3.2-8, §4.3-3.
/// RFC 6582 §3.2-3.
#[test]
fn a_full_ack_ends_recovery() {
    let mut h = ten_in_flight(|_| {});
    for _ in 0..3 {
        h.send(ack(1));
    }
    h.drain();
    h.send(ack(12_001));
    let info = h.info();
    // RFC 6582 §3.2 step 3, option 1: min(ssthresh, max(FlightSize, SMSS) + SMSS), and slow start
    // from there.
    assert_eq!(info.ssthresh, 5000);
    assert_eq!(info.cwnd, 2000);
    assert_eq!(h.drain(), 2);
    h.send(ack(14_001));
    assert_eq!(h.info().cwnd, 4000);
}

/// RFC 6582 §3.2-4, §5-1.
#[test]
fn a_partial_ack_retransmits_the_next_hole() {
    let mut h = ten_in_flight(|_| {});
    for _ in 0..3 {
        h.send(ack(1));
    }
    h.drain();
    h.send(ack(3001));
    h.expect(seg().seq(3001).len(1000));
    h.send(ack(6001));
    h.expect(seg().seq(6001).len(1000));
    let info = h.info();
    // One reduction for all of it.
    assert_eq!((info.ssthresh, info.cwnd), (5000, 5000));
    assert_eq!(h.stack.counters().fast_retransmits, 1);
}

/// RFC 6582 §3.2-2, §3.2-6.
#[test]
fn duplicates_of_retransmitted_data_do_not_start_another_recovery() {
    // RFC 6582 §3.2 step 2.
    let mut h = ten_in_flight(|_| {});
    h.advance(1000);
    h.drain();
    for _ in 0..5 {
        h.send(ack(1));
    }
    h.expect_nothing();
    assert_eq!(h.stack.counters().fast_retransmits, 0);
}

#[test]
fn what_is_not_a_duplicate_does_not_count() {
    let mut h = ten_in_flight(|_| {});
    // Data, a changed window, nothing in flight: RFC 5681 §2.
    for i in 0..4 {
        h.send(seg().seq(1 + i * 10).ack(1).win(WIN).len(10));
    }
    h.drain();
    for i in 1..5 {
        h.send(seg().seq(41).ack(1).win(WIN - i));
    }
    h.expect_nothing();
    assert_eq!(h.stack.counters().duplicate_acks_in, 0);
    let mut h = Harness::established();
    for _ in 0..5 {
        h.send(ack(1));
    }
    h.expect_nothing();
}

/// RFC 6298 §5-5; RFC 5681 §3.1-10, §3.1-12; RFC 9293 MUST-19.
#[test]
fn a_time_out_goes_back_to_one_segment() {
    let mut h = ten_in_flight(|_| {});
    let rto = h.info().rto;
    h.advance(rto.as_millis() as u64);
    h.expect(seg().seq(1).len(1000));
    h.expect_nothing();
    let info = h.info();
    assert_eq!((info.cwnd, info.ssthresh), (1000, 5000));
    assert_eq!(info.rto, 2 * rto);
    // Was anything else lost (RFC 5682 §2.1 step 2b)? It was: slow start over everything that was
    // in flight.
    h.send(ack(1001));
    h.expect(seg().seq(10_001).len(1000));
    h.expect(seg().seq(11_001).len(1000));
    h.expect_nothing();
    h.send(ack(1001));
    h.expect(seg().seq(1001).len(1000));
    h.expect_nothing();
    h.send(ack(2001));
    h.expect(seg().seq(2001).len(1000));
    h.expect(seg().seq(3001).len(1000));
    h.expect_nothing();
}

#[test]
fn what_arrived_is_not_sent_again_after_a_time_out() {
    let mut h = ten_in_flight(|_| {});
    h.advance(200);
    h.expect(seg().seq(1).len(1000));
    // Only the first was lost.
    h.send(ack(10_001));
    h.expect(seg().seq(10_001).len(1000));
    h.expect(seg().seq(11_001).len(1000));
    h.expect_nothing();
}

/// RFC 9293 MUST-19, MUST-20; RFC 6298 §1-1, §5-1, §5-6, §5-7.
#[test]
fn time_outs_double_up_to_the_bound_and_then_fail() {
    let mut h = Harness::with(|config| {
        config.data_retries = 5;
        config.rto_max = Duration::from_secs(8);
    })
    .and_established(&Handshake::default());
    h.write(10);
    h.expect(seg().seq(1).len(10));
    let start = h.elapsed();
    let mut at = Vec::new();
    for _ in 0..500 {
        h.advance(100);
        if h.pop().is_some() {
            at.push(h.elapsed() - start);
        }
    }
    // The handshake took no time: the RTO is the lower bound of 200 ms.
    assert_eq!(at, [200, 600, 1400, 3000, 6200]);
    assert_eq!(h.ready().1, Some(Error::TimedOut));
    h.close();
    h.expect_gone();
}

/// RFC 9293 MUST-18; RFC 6298 §3-1.
#[test]
fn karn() {
    // A segment that was sent twice is not measured, and the back-off stays until one is.
    let mut h = Harness::established();
    h.write(10);
    h.advance(200);
    assert_eq!(h.drain(), 2);
    h.advance(100);
    h.send(ack(11));
    let info = h.info();
    assert_eq!((info.rto.as_millis(), info.backoff), (400, 0));
    h.write(10);
    h.advance(100);
    h.send(ack(21));
    let info = h.info();
    assert!(info.srtt > Duration::ZERO);
    assert!(info.rto < Duration::from_millis(400), "{:?}", info.rto);
}

/// RFC 6298 §5-4.
#[test]
fn the_timer_restarts_with_every_ack_of_new_data() {
    // RFC 6298 §5.3.
    let mut h = Harness::established();
    h.write(8000);
    assert_eq!(h.drain(), 8);
    h.advance(150);
    h.send(ack(2001));
    h.advance(150);
    h.expect_nothing();
    h.send(ack(4001));
    h.advance(150);
    h.expect_nothing();
}

#[test]
fn near_the_end_the_timer_counts_from_the_first_transmission() {
    // RFC 7765 §4: three segments are in flight, fewer than can make three duplicates, and no more
    // follow.
    let mut h = Harness::established();
    h.write(5000);
    assert_eq!(h.drain(), 5);
    h.advance(150);
    h.send(ack(2001));
    let rto = h.info().rto.as_millis() as u64;
    h.expect_silence(rto - 150 - 1);
    h.advance(2);
    h.expect(seg().seq(2001).len(1000));
    // Not with more to come.
    let mut h = ten_in_flight(|_| {});
    h.advance(150);
    h.send(ack(8001));
    h.drain();
    let rto = h.info().rto.as_millis() as u64;
    h.expect_silence(rto - 1);
}

/// RFC 6298 §5-2, §5-3.
#[test]
fn the_timer_stops_when_all_is_acknowledged() {
    let mut h = Harness::established();
    h.write(3000);
    h.send(ack(3001));
    assert_eq!(h.drain(), 3);
    h.expect_silence(100_000);
}

/// RFC 6298 §2-2, §2-3.
#[test]
fn rtt_and_rto_follow_rfc_6298() {
    let mut h = Harness::new();
    h.connect(Options::default());
    h.advance(100);
    h.send(Handshake::default().syn().ack(1));
    h.expect(seg().ack(1));
    assert_eq!(h.info().rto.as_millis(), 300);
    h.write(10);
    h.expect(seg().len(10));
    h.advance(200);
    h.send(ack(11));
    let info = h.info();
    assert_eq!(info.srtt, Duration::from_micros(112_500));
    assert_eq!(info.rttvar, Duration::from_micros(62_500));
    assert_eq!(info.rto, Duration::from_micros(362_500));
    assert_eq!(info.min_rtt.as_millis(), 100);
}

/// RFC 9293 MUST-19; RFC 5681 §3.1-13.
/// RFC 5681 §2-1.
#[test]
fn slow_start_and_congestion_avoidance() {
    let mut h = ten_in_flight(|_| {});
    h.send(ack(2001));
    assert_eq!(h.info().cwnd, 12_000);
    assert_eq!(h.drain(), 4);
    h.send(ack(10_001));
    assert_eq!(h.info().cwnd, 20_000);
}

#[test]
fn a_lost_fin_is_recovered_with_the_data_before_it() {
    let mut h = Harness::established();
    h.write_without_transmit(1500);
    h.shutdown();
    assert_eq!(h.drain(), 2);
    h.advance(200);
    h.expect(seg().seq(1).len(1000));
    h.send(ack(1001));
    h.expect(seg().seq(1001).len(500).fin());
    h.send(ack(1502));
    h.expect_state(State::FinWait2);
}
