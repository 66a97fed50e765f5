//! Proportional rate reduction (RFC 9937) with SACK: the examples of RFC 6937 §4 with a peer.

use crate::command::Options;
use crate::config::CongestionControl;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;
const RTT: u64 = 40;

fn ack(n: u32, blocks: &[(u32, u32)]) -> Seg {
    seg().seq(1).ack(n).win(WIN).sack(blocks)
}

/// Twenty segments in flight from 10001 on, sent one round trip ago, with a window of twenty and
/// more to send.
fn twenty_in_flight() -> Harness {
    let offer = Handshake {
        sack: true,
        ..Handshake::default()
    };
    let mut h = Harness::with(|config| config.congestion = CongestionControl::NewReno);
    let options = Options {
        nodelay: true,
        ..Options::default()
    };
    h.listen(4, options);
    h.syn_received(&offer);
    h.advance(RTT);
    h.send(h.handshake_ack(&offer));
    h.take_accepted();
    h.write(60_000);
    assert_eq!(h.drain(), 10);
    h.advance(RTT);
    h.send(ack(5001, &[]));
    h.send(ack(10_001, &[]));
    assert_eq!(h.drain(), 20);
    h.advance(RTT);
    assert_eq!(h.info().cwnd, 20_000);
    h
}

/// RFC 9937 §6.1-1, §6.2-1, §6.2-3, §6.4-1; RFC 8985 §9.3-2.
#[test]
fn one_loss_halves_the_flight_in_the_course_of_a_round_trip() {
    let mut h = twenty_in_flight();
    let mut sent = Vec::new();
    for arrived in 1..=14 {
        h.send(ack(10_001, &[(11_001, 11_001 + 1000 * arrived)]));
        if arrived == 3 {
            h.expect(seg().seq(10_001).len(1000));
            sent.push(1 + h.drain());
        } else {
            sent.push(h.drain());
        }
    }
    // Limited transmit, the retransmission, and then one for two.
    assert_eq!(sent, [1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
    assert_eq!(h.info().ssthresh, 10_000);
    // The end: "cwnd = ssthresh".
    h.advance(RTT);
    let end = 10_001 + h.info().flight;
    h.send(ack(end, &[]));
    assert_eq!(h.info().cwnd, 10_000);
}

#[test]
fn many_losses_are_not_repaired_in_a_burst() {
    // The first sixteen of twenty are lost: the flight is below ssthresh at once, and what is
    // delivered decides.
    let mut h = twenty_in_flight();
    let mut sent = Vec::new();
    for arrived in 1..=4 {
        h.send(ack(10_001, &[(26_001, 26_001 + 1000 * arrived)]));
        sent.push(h.drain());
    }
    assert_eq!(sent, [1, 1, 1, 1]);
    // The repair makes progress: slow start, two for one.
    h.advance(RTT);
    h.send(ack(11_001, &[(26_001, 32_001)]));
    assert!((2..=3).contains(&h.drain()));
    assert_eq!(h.stack.counters().timeouts, 0);
}

#[test]
fn losses_that_time_reveals_make_no_burst() {
    // Half of the flight is SACKed in one range of the peer's, but too few to count: the reordering
    // timer finds the rest.
    let mut h = twenty_in_flight();
    h.send(ack(10_001, &[(28_001, 29_001), (29_001, 30_001)]));
    h.drain();
    h.advance(RTT / 4);
    let sent = h.drain();
    assert!(sent <= 2, "{sent} segments without an ACK");
}
