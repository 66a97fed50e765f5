//! A receiver that lies to be served faster ("TCP Congestion Control with a Misbehaving Receiver",
//! Savage et al., 1999).

use crate::testing::{Handshake, Harness, seg};

const WIN: u16 = 60_000;

fn sending() -> Harness {
    let mut h = Harness::new().and_established(&Handshake {
        wscale: Some(7),
        sack: true,
        ..Handshake::default()
    });
    h.write(60_000);
    assert_eq!(h.drain(), 10);
    h
}

/// Optimistic ACKs: what was not sent cannot be acknowledged.
#[test]
fn optimistic_acks() {
    let mut h = sending();
    let before = h.info();
    for ack in (10_002..40_000).step_by(1000) {
        h.send(seg().seq(1).ack(ack).win(WIN));
    }
    let after = h.info();
    assert_eq!(
        (after.cwnd, after.bytes_acked, after.flight),
        (before.cwnd, before.bytes_acked, before.flight)
    );
    // Nor can it be SACKed.
    h.send(seg().seq(1).ack(1).win(WIN).sack(&[(20_001, 40_001)]));
    assert_eq!(h.info().flight, before.flight);
}

/// ACK division: the window grows by what is acknowledged, not by how often
/// (RFC 3465, RFC 5681 §3.1).
#[test]
fn divided_acks() {
    let cwnd = |step: usize| {
        let mut h = sending();
        for ack in (1..=10_001).step_by(step).skip(1) {
            h.send(seg().seq(1).ack(ack).win(WIN));
        }
        h.info().cwnd
    };
    let (honest, divided) = (cwnd(1000), cwnd(10));
    assert!(divided <= honest, "{divided} > {honest}");
}

/// Duplicate ACKs by the thousand, without SACK: they let go what a window of honest ones would,
/// once.
#[test]
fn spoofed_duplicate_acks_without_sack() {
    let mut h = Harness::established();
    h.write(60_000);
    assert_eq!(h.drain(), 10);
    for _ in 0..5000 {
        h.send(seg().seq(1).ack(1).win(WIN));
    }
    // The retransmission, and no more new segments than there were outstanding.
    assert!(h.drain() <= 11);
    assert!(h.info().flight <= 20_000);
}

/// Duplicate ACKs by the thousand: with SACK, those that report nothing count for nothing.
#[test]
fn spoofed_duplicate_acks() {
    let mut h = sending();
    for _ in 0..5000 {
        h.send(seg().seq(1).ack(1).win(WIN));
    }
    h.expect_nothing();
}

/// A window that was never offered in the handshake is offered later: nothing overflows.
#[test]
fn windows_and_scales_at_their_limits() {
    let mut h = Harness::new().and_established(&Handshake {
        wscale: Some(255),
        window: u16::MAX,
        ..Handshake::default()
    });
    // RFC 7323 §2.3: more than 14 is 14.
    h.send(seg().seq(1).ack(1).win(u16::MAX));
    assert_eq!(h.info().snd_wnd, u32::from(u16::MAX) << 14);
    h.write(60_000);
    assert_eq!(h.drain(), 10);
    h.send(seg().seq(1).ack(10_001).win(u16::MAX));
    h.send(seg().seq(1).ack(1).win(u16::MAX));
    assert!(h.info().flight <= 60_000);
}
