//! When data is acknowledged: RFC 9293 §3.8.6.3, RFC 5681 §4.2.

use std::time::Duration;

use crate::command::Command;
use crate::id::PortId;
use crate::info::State;
use crate::testing::{Harness, Seg, seg};

const WIN: u16 = 60_000;

/// ESTABLISHED, without quick ACKs.
fn established() -> Harness {
    Harness::with(|config| config.quick_acks = 0).and_established(&Default::default())
}

fn data(seq: u32, len: usize) -> Seg {
    seg().seq(seq).ack(1).win(WIN).len(len)
}

/// RFC 9293 SHLD-18, MUST-40; RFC 5681 §4.2-2, §4.2-6.
#[test]
fn a_small_segment_waits_for_the_timer() {
    let mut h = established();
    h.send(data(1, 100));
    h.expect_silence(39);
    h.advance(1);
    h.expect(seg().seq(1).ack(101));
    h.expect_silence(5_000);
}

/// RFC 9293 SHLD-19; RFC 5681 §4.2-1.
#[test]
fn the_second_full_segment_is_acknowledged_at_once() {
    let mut h = established();
    h.send(data(1, 1000));
    h.expect_nothing();
    h.send(data(1001, 1000));
    h.expect(seg().ack(2001));
    h.send(data(2001, 1000));
    h.expect_nothing();
    h.send(data(3001, 1000));
    h.expect(seg().ack(4001));
}

/// RFC 9293 MUST-58, MUST-59.
#[test]
fn a_burst_gets_one_ack() {
    let mut h = established();
    let burst: Vec<_> = (0..10).map(|i| data(1 + i * 1000, 1000)).collect();
    h.inject_all(&burst);
    h.transmit();
    h.expect(seg().ack(10_001));
    h.expect_nothing();
}

#[test]
fn an_ack_rides_on_data() {
    let mut h = established();
    h.send(data(1, 100));
    h.write(10);
    h.expect(seg().seq(1).ack(101).len(10));
    // It has been sent: the timer has nothing to do.
    h.send(seg().seq(101).ack(11).win(WIN));
    h.expect_silence(5_000);
}

#[test]
fn an_ack_that_is_due_rides_on_data_that_is_there() {
    let mut h = established();
    h.inject_all(&[data(1, 1000), data(1001, 1000)]);
    h.write(10);
    h.expect(seg().seq(1).ack(2001).len(10));
    h.expect_nothing();
}

#[test]
fn an_ack_does_not_wait_for_data_that_cannot_go() {
    let mut h = established();
    h.write(10);
    h.expect(seg().seq(1).len(10).ack(1));
    // Nagle holds these back.
    h.write_without_transmit(10);
    h.inject_all(&[data(1, 1000), data(1001, 1000)]);
    h.transmit();
    h.expect(seg().seq(11).ack(2001));
    h.expect_nothing();
}

/// RFC 9293 MAY-13; RFC 5681 §4.2-3.
#[test]
fn out_of_order_segments_are_acknowledged_one_by_one() {
    // RFC 5681 §4.2: the peer needs three of them.
    let mut h = established();
    h.inject_all(&[data(1001, 1000), data(2001, 1000), data(3001, 1000)]);
    h.transmit();
    for _ in 0..3 {
        h.expect(seg().seq(1).ack(1));
    }
    h.expect_nothing();
}

#[test]
fn duplicate_acks_do_not_ride_on_data() {
    let mut h = established();
    h.inject_all(&[data(1001, 1000), data(2001, 1000)]);
    h.write(10);
    h.expect(seg().seq(1).ack(1));
    h.expect(seg().seq(1).ack(1));
    h.expect(seg().seq(1).ack(1).len(10));
    h.expect_nothing();
}

/// RFC 5681 §4.2-4.
#[test]
fn filling_a_gap_is_acknowledged_at_once() {
    let mut h = established();
    h.send(data(1001, 1000));
    h.expect(seg().ack(1));
    h.send(data(1, 1000));
    h.expect(seg().ack(2001));
    // Part of a gap, too.
    let mut h = established();
    h.send(data(1001, 1000));
    h.expect(seg().ack(1));
    h.send(data(1, 500));
    h.expect(seg().ack(501));
}

/// RFC 5681 §4.2-5.
#[test]
fn progress_within_a_burst_makes_no_false_duplicates() {
    let mut h = established();
    h.inject_all(&[
        data(1001, 1000),
        data(2001, 1000),
        data(1, 1000),
        data(4001, 1000),
    ]);
    h.transmit();
    h.expect(seg().ack(3001));
    h.expect(seg().ack(3001));
    h.expect_nothing();
}

#[test]
fn a_fin_is_acknowledged_at_once() {
    let mut h = established();
    h.send(data(1, 10).fin());
    h.expect(seg().ack(12));
    h.expect_state(State::CloseWait);
}

#[test]
fn a_duplicate_is_acknowledged_at_once() {
    let mut h = established();
    h.send(data(1, 100));
    h.advance(40);
    h.expect(seg().ack(101));
    h.send(data(1, 100));
    h.expect(seg().ack(101));
}

#[test]
fn the_first_acks_are_quick() {
    let mut h = Harness::established();
    for i in 0..16 {
        h.send(data(1 + i * 100, 100));
        h.expect(seg().ack(101 + i * 100));
    }
    h.send(data(1601, 100));
    h.expect_nothing();
    h.advance(40);
    h.expect(seg().ack(1701));
    // And again after a silence.
    h.advance(5_000);
    h.send(data(1701, 100));
    h.expect(seg().ack(1801));
}

#[test]
fn in_order_segments_take_the_short_way() {
    let mut h = established();
    let before = h.stack.counters().fast_path;
    h.send(data(1, 100));
    h.write(10);
    h.send(seg().seq(101).ack(11).win(WIN));
    assert_eq!(h.stack.counters().fast_path - before, 2);
}

/// Data came that is to be acknowledged at once, and the application is being told.
fn told(seg: Seg) -> Harness {
    let mut h = Harness::established();
    h.inject(seg);
    h.transmit_before_answers();
    h
}

#[test]
fn an_ack_waits_for_the_answer() {
    let mut h = told(data(1, 100));
    h.expect_nothing();
    assert!(h.stack.has_output(PortId(0)));
    h.write_without_transmit(10);
    h.transmit_before_answers();
    h.expect(seg().seq(1).ack(101).len(10));
    assert!(!h.stack.has_output(PortId(0)));
    h.send(seg().seq(101).ack(11).win(WIN));
    h.expect_silence(5_000);
}

/// RFC 5681 §4.2: "within 500 ms". Much earlier, in truth.
#[test]
fn an_ack_does_not_wait_long_for_an_answer() {
    let mut h = told(data(1, 100));
    let mut waits = Duration::ZERO;
    let step = Duration::from_micros(100);
    while h.stack.has_output(PortId(0)) {
        h.expect_nothing();
        h.pass(step);
        waits += step;
        h.transmit_before_answers();
    }
    h.expect(seg().seq(1).ack(101));
    h.expect_nothing();
    assert!(waits > step && waits <= Duration::from_millis(2));
}

#[test]
fn an_ack_goes_when_no_answer_comes() {
    let mut h = told(data(1, 100));
    h.transmit();
    h.expect(seg().seq(1).ack(101));
    h.expect_nothing();
}

#[test]
fn an_ack_waits_for_a_while_whenever_it_came() {
    let mut h = told(data(1, 100));
    h.pass(Duration::from_micros(1100));
    h.transmit_before_answers();
    h.expect(seg().seq(1).ack(101));
    h.inject(data(101, 100));
    for _ in 0..2 {
        h.transmit_before_answers();
        h.expect_nothing();
        h.pass(Duration::from_micros(900));
    }
    h.transmit_before_answers();
    h.expect(seg().seq(1).ack(201));
    h.expect_nothing();
}

/// RFC 9293 SHLD-19; RFC 5681 §4.2-1.
#[test]
fn two_segments_do_not_wait_for_an_answer() {
    let mut h = told(data(1, 1000));
    h.expect_nothing();
    h.inject(data(1001, 1000));
    h.transmit_before_answers();
    h.expect(seg().ack(2001));
    h.expect_nothing();
}

/// RFC 5681 §4.2-3.
#[test]
fn duplicate_acks_do_not_wait_for_an_answer() {
    let mut h = told(data(1, 100));
    h.expect_nothing();
    h.inject(data(1101, 1000));
    h.transmit_before_answers();
    // The one that waited, and the duplicate.
    h.expect(seg().ack(101));
    h.expect(seg().ack(101));
    // What fills a part of the gap neither.
    h.inject(data(101, 100));
    h.transmit_before_answers();
    h.expect(seg().ack(201));
    h.expect_nothing();
}

/// RFC 9293 §3.10.7.4: what was acknowledged before has been lost on the way.
#[test]
fn a_duplicate_does_not_wait_for_an_answer() {
    let mut h = told(data(1, 100));
    h.transmit();
    h.expect(seg().ack(101));
    h.inject(data(1, 100));
    h.transmit_before_answers();
    h.expect(seg().ack(101));
}

#[test]
fn an_ack_that_waited_rides_on_a_fin() {
    let mut h = told(data(1, 100));
    h.expect_nothing();
    h.execute(Command::Shutdown(h.id()));
    h.transmit_before_answers();
    h.expect(seg().seq(1).ack(101).fin());
    h.expect_nothing();
}
