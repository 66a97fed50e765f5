//! The window that we offer: RFC 9293 §3.8.6.2.2, RFC 7323 §2.

use crate::command::{Command, Options};
use crate::info::State;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;

fn data(seq: u32, len: usize) -> Seg {
    seg().seq(seq).ack(1).win(WIN).len(len)
}

fn with_buffer(bytes: u32) -> Harness {
    let mut h = Harness::new();
    h.listen(
        4,
        Options {
            recv_buffer: Some(bytes),
            ..Options::default()
        },
    );
    h.and_established(&Handshake::default())
}

fn read_some(h: &mut Harness, len: usize) {
    let slot = h.slot();
    let mut bytes = vec![0; len];
    assert_eq!(h.app.read(slot, &mut bytes), len);
    let id = h.id();
    h.execute(Command::Received(id));
    h.transmit();
}

/// RFC 9293 SHLD-14.
#[test]
fn it_closes_as_data_comes_and_never_shrinks() {
    let mut h = with_buffer(8000);
    for i in 0..8 {
        h.send(data(1 + i * 1000, 1000));
        let left = 8000 - 1000 * (i as u16 + 1);
        h.expect(seg().ack(1001 + i * 1000).win(left));
    }
}

/// RFC 9293 MUST-39.
#[test]
fn it_opens_in_worthwhile_steps() {
    let mut h = with_buffer(8000);
    for i in 0..8 {
        h.send(data(1 + i * 1000, 1000));
    }
    h.drain();
    // Our MSS is 1460; an update is sent when two of them, or half the buffer, are free.
    read_some(&mut h, 1000);
    read_some(&mut h, 1000);
    h.expect_nothing();
    read_some(&mut h, 1000);
    h.expect(seg().seq(1).ack(8001).win(3000));
    read_some(&mut h, 500);
    h.expect_nothing();
}

/// RFC 9293 MUST-39.
#[test]
fn an_ack_does_not_open_it_by_crumbs() {
    let mut h = with_buffer(8000);
    for i in 0..8 {
        h.send(data(1 + i * 1000, 1000));
    }
    h.drain();
    read_some(&mut h, 1000);
    // Whatever makes us send: the window stays closed.
    h.write(1);
    h.expect(seg().seq(1).len(1).win(0));
}

/// RFC 9293 SHLD-14.
#[test]
fn a_lower_limit_does_not_take_back_what_was_offered() {
    let mut h = with_buffer(8000);
    let id = h.id();
    h.execute(Command::SetOptions {
        conn: id,
        options: Options {
            recv_buffer: Some(2000),
            ..Options::default()
        },
    });
    h.send(data(1, 1000));
    h.expect(seg().ack(1001).win(7000));
}

/// RFC 7323 §2.2-4, §2.3-2.
#[test]
fn a_scaled_window_is_offered_after_the_handshake() {
    let mut h = Harness::with(|config| config.recv_buffer = 1 << 20);
    let offer = Handshake {
        wscale: Some(0),
        ..Handshake::default()
    };
    h.syn_received(&offer);
    h.send(h.handshake_ack(&offer));
    h.take_accepted();
    h.write(1);
    // 1 MiB >> 5, the SYN-ACK having offered 65,535.
    h.expect(seg().seq(1).len(1).win((1u32 << (20 - 5)) as u16));
}

#[test]
fn a_probe_of_a_closed_window_is_answered() {
    let mut h = with_buffer(2000);
    h.send(data(1, 1000));
    h.send(data(1001, 1000));
    h.drain();
    for _ in 0..3 {
        h.send(data(2001, 1));
        h.expect(seg().seq(1).ack(2001).win(0));
    }
    assert_eq!(h.app.readable(h.slot()), 2000);
}

/// RFC 9293 MUST-66.
#[test]
fn a_closed_window_still_takes_acks_and_resets() {
    let mut h = with_buffer(1000);
    h.send(data(1, 1000));
    h.drain();
    h.write(10);
    h.drain();
    h.send(seg().seq(1001).ack(11).win(WIN).len(5));
    assert_eq!(h.info().flight, 0);
    h.send(seg().rst().seq(1001));
    h.expect_state(State::Closed);
}

#[test]
fn no_update_after_the_peers_fin() {
    let mut h = with_buffer(2000);
    h.send(data(1, 1000).fin());
    h.drain();
    read_some(&mut h, 1000);
    h.expect_nothing();
}
