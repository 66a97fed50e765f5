//! What is worth sending: Nagle (RFC 9293 §3.7.4) and the sender's side of silly window avoidance
//! (§3.8.6.2.1).

use crate::command::{Command, Options};
use crate::testing::{Handshake, Harness, seg};

const WIN: u16 = 60_000;

/// RFC 9293 SHLD-7, MUST-60, SHLD-27.
#[test]
fn small_writes_wait_while_something_is_in_flight() {
    let mut h = Harness::established();
    h.write(10);
    h.expect(seg().seq(1).len(10).psh());
    h.write(10);
    h.write(10);
    h.expect_nothing();
    h.send(seg().seq(1).ack(11).win(WIN));
    h.expect(seg().seq(11).len(20).psh());
}

/// RFC 9293 SHLD-28.
#[test]
fn full_segments_do_not_wait() {
    let mut h = Harness::established();
    h.write(10);
    h.expect(seg().seq(1).len(10));
    h.write(2500);
    h.expect(seg().seq(11).len(1000).no_psh());
    h.expect(seg().seq(1011).len(1000).no_psh());
    h.expect_nothing();
    h.send(seg().seq(1).ack(2011).win(WIN));
    h.expect(seg().seq(2011).len(500).psh());
}

/// Minshall's variant: what waits would wait for the peer's delayed ACK.
#[test]
fn the_end_of_a_long_message_goes_at_once() {
    let mut h = Harness::established();
    h.write(1400);
    h.expect(seg().seq(1).len(1000).no_psh());
    h.expect(seg().seq(1001).len(400).psh());
    // A small segment waits for the ACK of another small one, and only of that.
    h.write(10);
    h.expect_nothing();
    h.send(seg().seq(1).ack(1001).win(WIN));
    h.expect_nothing();
    h.send(seg().seq(1).ack(1401).win(WIN));
    h.expect(seg().seq(1401).len(10).psh());
}

#[test]
fn after_full_segments_a_small_one_goes() {
    let mut h = Harness::established();
    h.write(2000);
    h.expect(seg().seq(1).len(1000));
    h.expect(seg().seq(1001).len(1000).psh());
    h.write(10);
    h.expect(seg().seq(2001).len(10).psh());
    h.write(10);
    h.expect_nothing();
}

#[test]
fn a_small_segment_that_goes_again_is_still_waited_for() {
    let mut h = Harness::established();
    h.write(10);
    h.expect(seg().seq(1).len(10));
    h.write(10);
    h.advance(1000);
    // The retransmission takes along what waits.
    h.expect(seg().seq(1).len(20).psh());
    h.drain();
    h.write(10);
    h.expect_nothing();
    h.send(seg().seq(1).ack(21).win(WIN));
    h.expect(seg().seq(21).len(10));
}

#[test]
fn without_nagle_nothing_waits() {
    let mut h = Harness::new();
    h.listen(
        4,
        Options {
            nodelay: true,
            ..Options::default()
        },
    );
    h.established_with(&Handshake::default());
    for i in 0..5 {
        h.write(10);
        h.expect(seg().seq(1 + i * 10).len(10).psh());
    }
}

/// RFC 9293 MUST-17.
#[test]
fn turning_nagle_off_lets_go_what_waits() {
    let mut h = Harness::established();
    h.write(10);
    h.write(10);
    h.expect(seg().len(10));
    h.expect_nothing();
    let id = h.id();
    h.execute(Command::SetOptions {
        conn: id,
        options: Options {
            nodelay: true,
            ..Options::default()
        },
    });
    h.transmit();
    h.expect(seg().seq(11).len(10));
}

#[test]
fn the_last_bytes_before_a_fin_do_not_wait() {
    let mut h = Harness::established();
    h.write(10);
    h.expect(seg().seq(1).len(10));
    h.write(10);
    h.expect_nothing();
    h.shutdown();
    h.expect(seg().seq(11).len(10).fin().psh());
}

/// RFC 9293 MUST-38; RFC 7323 §2.4-4.
/// RFC 5681 §2-1; RFC 9937 §3-1.
#[test]
fn the_window_is_respected() {
    let mut h = Harness::new().and_established(&Handshake {
        window: 2500,
        ..Handshake::default()
    });
    h.write(10_000);
    h.expect(seg().seq(1).len(1000));
    h.expect(seg().seq(1001).len(1000));
    // 500 bytes of window are left: not a full segment, and less than half of the largest window.
    h.expect_nothing();
    h.send(seg().seq(1).ack(1001).win(2500));
    h.expect(seg().seq(2001).len(1000));
    h.expect_nothing();
}

/// RFC 9293 MUST-38; RFC 5961 §5.2-2.
#[test]
fn half_of_the_largest_window_is_worth_sending() {
    // A peer whose window is smaller than a segment.
    let mut h = Harness::new().and_established(&Handshake {
        window: 600,
        ..Handshake::default()
    });
    h.write(2000);
    h.expect(seg().seq(1).len(600));
    h.send(seg().seq(1).ack(601).win(299));
    h.expect_nothing();
    h.send(seg().seq(1).ack(601).win(300));
    h.expect(seg().seq(601).len(300));
}

/// RFC 5681 §4.1-1.
/// RFC 6928 §2-3.
#[test]
fn an_idle_connection_restarts_slowly() {
    // RFC 5681 §4.1.
    let mut h = Harness::established();
    let mut acked = 1;
    for _ in 0..4 {
        h.write(10_000);
        h.drain();
        acked += 10_000;
        h.send(seg().seq(1).ack(acked).win(WIN));
    }
    let grown = h.info().cwnd;
    assert!(grown > 10_000, "{grown}");
    h.advance(10_000);
    h.write(30_000);
    assert_eq!(h.drain(), 10);
    assert_eq!(h.info().cwnd, 10_000);
}
