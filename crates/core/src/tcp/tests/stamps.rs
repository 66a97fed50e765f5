//! Timestamps and PAWS (RFC 7323).

use std::time::Duration;

use crate::drops::DropReason;
use crate::info::State;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;

fn established() -> Harness {
    Harness::new().and_established(&Handshake {
        ts: Some(1000),
        ..Handshake::default()
    })
}

fn data(seq: u32, len: usize, tsval: u32) -> Seg {
    seg().seq(seq).ack(1).win(WIN).len(len).ts(tsval, 0)
}

/// RFC 7323 §3.2-1, §3.2-5, §4.1-2, §4.3-2, §5.4-1.
#[test]
fn every_segment_carries_them() {
    let mut h = established();
    h.advance(25);
    h.write(10);
    h.expect(seg().seq(1).len(10).ts(25, 1000));
    h.send(data(1, 10, 1030));
    h.expect(seg().seq(11).ack(11).ts(25, 1030));
    h.shutdown();
    h.expect(seg().fin().seq(11).ack(11).ts(25, 1030));
}

/// RFC 7323 §4.3-1, §4.3-3, §4.3-4, §4.3-5, §5.3-3, §5.3-4.
#[test]
fn the_echo_is_of_the_segment_that_moved_the_left_edge() {
    // RFC 7323 §4.3: not of one that came out of order, nor of one sent after a delayed ACK became
    // due.
    let mut h = Harness::with(|config| config.quick_acks = 0).and_established(&Handshake {
        ts: Some(1000),
        ..Handshake::default()
    });
    h.inject_all(&[data(1, 1000, 1001), data(1001, 1000, 1002)]);
    h.transmit();
    h.expect(seg().ack(2001).ts(0, 1001));
    h.send(data(3001, 1000, 1005));
    h.expect(seg().ack(2001).ts(0, 1001));
    h.send(data(2001, 1000, 1007));
    h.expect(seg().ack(4001).ts(0, 1007));
}

/// RFC 7323 §5.3-5.
#[test]
fn what_waited_for_a_gap_is_not_checked_again() {
    let mut h = established();
    h.send(data(101, 100, 1001));
    h.drain();
    h.send(data(1, 100, 5000));
    h.expect(seg().ack(201).ts(0, 5000));
    h.expect_read(1, 200);
}

/// RFC 5961 §5.2: what has a wrong ACK is not believed in anything.
#[test]
fn a_segment_with_a_wrong_ack_leaves_no_timestamp() {
    let mut h = established();
    h.send(seg().seq(1).fin().ack(9999).win(WIN).ts(900_000, 0));
    h.expect(seg().seq(1).ack(1).ts(0, 1000));
    h.send(data(1, 10, 1001));
    h.expect(seg().seq(1).ack(11).ts(0, 1001));
}

/// RFC 7323 §5.3-1.
#[test]
fn old_segments_are_dropped_and_acknowledged() {
    let mut h = established();
    h.send(data(1, 10, 2000));
    h.drain();
    h.send(data(11, 10, 1999));
    h.expect(seg().seq(1).ack(11).ts(0, 2000));
    assert_eq!(h.stack.counters().dropped(DropReason::TcpPaws), 1);
    assert_eq!(h.app.readable(h.slot()), 10);
    // Across the wrap they are not old.
    h.send(data(11, 10, 2000 + (1 << 31) - 1));
    assert_eq!(h.app.readable(h.slot()), 20);
    h.send(data(21, 10, 2000 + (1 << 31) - 2));
    assert_eq!(h.app.readable(h.slot()), 20);
}

/// RFC 7323 §5.2-3.
#[test]
fn a_reset_is_not_checked() {
    // RFC 7323 §5.3 R1: "... and if the RST bit is not set".
    let mut h = established();
    h.send(data(1, 10, 2000));
    h.send(seg().rst().seq(11).ts(5, 0));
    h.expect_state(State::Closed);
}

/// RFC 7323 §5.5-1.
#[test]
fn after_24_days_of_silence_anything_is_new() {
    // RFC 7323 §5.5.
    let mut h = established();
    h.send(data(1, 10, 2000));
    h.advance(25 * 24 * 3600 * 1000);
    h.drain();
    h.send(data(11, 10, 100));
    assert_eq!(h.app.readable(h.slot()), 20);
    h.send(data(21, 10, 99));
    assert_eq!(h.app.readable(h.slot()), 20);
}

/// RFC 7323 §3.2-8.
#[test]
fn a_segment_without_them_is_taken() {
    let mut h = established();
    h.send(seg().seq(1).ack(1).win(WIN).len(10));
    assert_eq!(h.app.readable(h.slot()), 10);
}

/// RFC 7323 §3.2-9.
#[test]
fn they_do_not_count_unless_agreed_on() {
    let mut h = Harness::established();
    h.send(data(1, 10, 2000));
    h.send(data(11, 10, 5));
    assert_eq!(h.app.readable(h.slot()), 20);
    h.write(1);
    let sent = h.expect(seg().ack(11));
    assert_eq!(sent.options.timestamps, None);
}

#[test]
fn they_measure_retransmitted_segments() {
    let mut h = established();
    h.write(10);
    h.expect(seg().seq(1).len(10));
    let rto = h.info().rto;
    h.advance(rto.as_millis() as u64);
    h.expect(seg().seq(1).len(10));
    h.advance(40);
    // The echo of the second copy.
    h.send(
        seg()
            .seq(1)
            .ack(11)
            .win(WIN)
            .ts(1001, rto.as_millis() as u32),
    );
    let info = h.info();
    assert_eq!(info.backoff, 0);
    assert!(info.srtt <= Duration::from_millis(40), "{:?}", info.srtt);
    assert!(info.rto < 2 * rto);
}

/// RFC 7323 §7.1-1.
#[test]
fn each_connection_has_its_own_offset() {
    let offset = |port: u16| {
        let mut h = Harness::new();
        h.listen(4, Default::default());
        let offer = Handshake {
            ts: Some(1),
            ..Handshake::default()
        };
        h.send(offer.syn().port(port));
        let (_, _, header, _) = h.pop().unwrap();
        header.options.timestamps.unwrap().tsval
    };
    assert_ne!(offset(6000), offset(6001));
    assert_eq!(offset(6000), offset(6000));
}

#[test]
fn any_ack_with_an_echo_ends_the_back_off() {
    let mut h = established();
    h.write(2 * 988);
    h.drain();
    let rto = h.info().rto.as_millis() as u64;
    h.advance(rto);
    h.expect(seg().seq(1).len(988));
    // An ACK without an echo measures nothing.
    h.send(seg().seq(1).ack(989).win(WIN));
    h.expect(seg().seq(989).len(988));
    assert!(h.info().rto.as_millis() as u64 >= 2 * rto);
    // New data, which is being timed from now on; but the next ACK is for something older.
    h.write(988);
    h.expect(seg().seq(1977).len(988));
    h.advance(10);
    h.send(seg().seq(1).ack(1977).win(WIN).ts(1001, rto as u32));
    assert!(h.info().rto.as_millis() as u64 <= rto);
}
