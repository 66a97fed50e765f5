//! TCP_INFO: what Linux's numbers say of the same segments.

use std::time::Duration;

use crate::command::Options;
use crate::info::LossState;
use crate::testing::{Handshake, Harness, seg};

const WIN: u16 = 60_000;

fn with_sack() -> Harness {
    Harness::new().and_established(&Handshake {
        sack: true,
        ..Handshake::default()
    })
}

#[test]
fn segments_are_counted_from_the_handshake_on() {
    // As Linux: the SYN-ACK of a passive open is nobody's.
    let mut h = Harness::established();
    let info = h.info();
    assert_eq!((info.segments_in, info.segments_out), (2, 0));
    assert_eq!((info.delivered, info.sequence_acked), (1, 0));
    h.send(seg().seq(1).ack(1).win(WIN).len(500));
    h.write(300);
    let info = h.info();
    assert_eq!((info.segments_in, info.data_segments_in), (3, 1));
    assert_eq!((info.data_segments_out, info.delivered), (1, 1));
    h.send(seg().seq(501).ack(301).win(WIN));
    let info = h.info();
    assert_eq!((info.bytes_sent, info.sequence_acked), (300, 300));
    assert_eq!(info.delivered, 2);
}

#[test]
fn syn_and_fin_are_acknowledged_like_bytes() {
    let mut h = Harness::new().and_connected(&Handshake::default(), Options::default());
    let info = h.info();
    assert_eq!((info.segments_in, info.segments_out), (1, 2));
    assert_eq!((info.sequence_acked, info.delivered), (1, 1));
    h.write(10);
    h.shutdown();
    h.send(seg().seq(1).ack(12).win(WIN));
    let info = h.info();
    assert_eq!((info.sequence_acked, info.delivered), (12, 3));
    h.send(seg().seq(1).ack(12).win(WIN).len(5));
    assert_eq!(h.info().sequence_received, 5);
}

#[test]
fn time_outs_are_counted_and_timed() {
    let mut h = Harness::established();
    h.write(1000);
    h.advance(200);
    let info = h.info();
    assert_eq!((info.timeouts, info.timeout_runs), (1, 1));
    assert_eq!((info.backoff, info.doublings), (1, 1));
    assert_eq!(info.loss_state, LossState::Loss);
    assert_eq!((info.bytes_sent, info.bytes_retransmitted), (2000, 1000));
    h.advance(400);
    assert_eq!(h.info().timeouts, 2);
    h.send(seg().seq(1).ack(1001).win(WIN));
    h.advance(5_000);
    let info = h.info();
    assert_eq!((info.timeouts, info.timeout_runs), (2, 1));
    assert_eq!(info.timeout_time, Duration::from_millis(400));
    assert_eq!(info.loss_state, LossState::Open);
    assert_eq!(info.delivered, 2);
}

#[test]
fn a_duplicate_is_disorder() {
    let mut h = Harness::established();
    h.write(3000);
    h.drain();
    h.send(seg().seq(1).ack(1).win(WIN));
    assert_eq!(h.info().loss_state, LossState::Disorder);
    h.send(seg().seq(1).ack(1001).win(WIN));
    assert_eq!(h.info().loss_state, LossState::Open);
}

#[test]
fn what_the_peer_holds_is_told_apart_from_what_is_lost() {
    let mut h = with_sack();
    h.write(5000);
    assert_eq!(h.drain(), 5);
    h.send(seg().seq(1).ack(1).win(WIN).sack(&[(1001, 5001)]));
    h.expect(seg().seq(1).len(1000));
    let info = h.info();
    assert_eq!(info.loss_state, LossState::Recovery);
    assert_eq!((info.sacked, info.lost, info.resent), (4000, 0, 1000));
    assert_eq!(info.delivered, 1 + 4);
}

#[test]
fn what_came_out_of_order_or_twice_is_counted() {
    let mut h = with_sack();
    h.send(seg().seq(1001).ack(1).win(WIN).len(1000));
    h.send(seg().seq(2001).ack(1).win(WIN).len(1000));
    h.send(seg().seq(1).ack(1).win(WIN).len(1000));
    h.send(seg().seq(1).ack(1).win(WIN).len(1000));
    let info = h.info();
    assert_eq!((info.out_of_order, info.data_segments_in), (2, 4));
    h.write(1000);
    // RFC 2883 §4.1: it had this.
    h.send(seg().seq(3001).ack(1001).win(WIN).sack(&[(1, 1001)]));
    assert_eq!(h.info().duplicates_reported, 1);
}

#[test]
fn it_is_known_what_holds_a_connection_up() {
    let mut h = Harness::new().and_established(&Handshake {
        window: 1000,
        ..Handshake::default()
    });
    h.write(1000);
    h.advance(10);
    let info = h.info();
    let ms = Duration::from_millis;
    assert_eq!((info.busy, info.window_limited), (ms(10), ms(0)));
    h.send(seg().seq(1).ack(1001).win(1000));
    h.advance(50);
    assert_eq!(h.info().busy, ms(10));
    h.write(2000);
    h.advance(20);
    let info = h.info();
    assert_eq!((info.busy, info.window_limited), (ms(30), ms(20)));
    h.send(seg().seq(1).ack(2001).win(60_000));
    h.advance(7);
    let info = h.info();
    assert_eq!((info.busy, info.window_limited), (ms(37), ms(20)));
    assert_eq!(info.last_sent, ms(7));
}

#[test]
fn data_that_came_is_told_apart_from_acks() {
    let mut h = Harness::established();
    h.send(seg().seq(1).ack(1).win(WIN).len(10));
    assert_eq!(h.info().ack_delay, Duration::from_millis(40));
    h.advance(100);
    h.write(10);
    h.send(seg().seq(11).ack(11).win(WIN));
    h.advance(5);
    let info = h.info();
    assert_eq!(info.last_data_received, Duration::from_millis(105));
    assert_eq!(info.last_received, Duration::from_millis(5));
}
