//! Text in and out of order, and what is done with it (RFC 9293 §3.10.7.4, first and seventh).

use crate::command::Options;
use crate::drops::DropReason;
use crate::event::Ready;
use crate::info::State;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;

fn data(seq: u32, len: usize) -> Seg {
    seg().seq(seq).ack(1).win(WIN).len(len)
}

fn small_buffer(bytes: u32) -> Harness {
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

#[test]
fn in_order() {
    let mut h = Harness::established();
    h.send(data(1, 700));
    assert_eq!(h.ready().0, Ready::READABLE);
    h.send(data(701, 300));
    h.expect_read(1, 1000);
}

/// RFC 9293 SHLD-31.
#[test]
fn every_order_gives_the_same_bytes() {
    for order in [
        [0, 1, 2, 3],
        [3, 2, 1, 0],
        [1, 3, 0, 2],
        [2, 0, 3, 1],
        [0, 3, 1, 2],
    ] {
        let mut h = Harness::established();
        for i in order {
            h.send(data(1 + i * 500, 500));
        }
        h.expect_read(1, 2000);
        h.drain();
        h.abort();
        h.drain();
        h.expect_gone();
    }
}

#[test]
fn overlaps_give_the_same_bytes() {
    let mut h = Harness::established();
    for (seq, len) in [
        (401, 300),
        (201, 300),
        (901, 100),
        (601, 350),
        (1, 250),
        (101, 900),
    ] {
        h.send(data(seq, len));
    }
    h.expect_read(1, 1000);
    assert_eq!(h.stack.usage().range_sets, 0);
}

#[test]
fn the_bytes_that_came_first_stay() {
    let mut h = Harness::established();
    let x = |seq: u32, byte: u8, len: usize| seg().seq(seq).ack(1).win(WIN).data(&vec![byte; len]);
    h.send(x(11, b'a', 10));
    h.send(x(1, b'b', 30));
    assert_eq!(h.read(), [[b'b'; 10], [b'a'; 10], [b'b'; 10]].concat());
}

#[test]
fn old_bytes_are_cut_off() {
    let mut h = Harness::established();
    h.send(data(1, 500));
    h.send(data(1, 800));
    h.expect_read(1, 800);
}

#[test]
fn wholly_old_segments_are_dropped_and_acknowledged() {
    let mut h = Harness::established();
    h.send(data(1, 500));
    h.drain();
    h.send(data(101, 300));
    h.expect(seg().seq(1).ack(501));
    assert_eq!(h.stack.counters().dropped(DropReason::TcpWindow), 1);
    h.expect_read(1, 500);
}

#[test]
fn beyond_the_window_is_dropped_and_acknowledged() {
    let mut h = small_buffer(4000);
    h.send(data(4001, 10));
    h.expect(seg().seq(1).ack(1));
    h.send(data(50_000, 10));
    h.expect(seg().seq(1).ack(1));
    assert_eq!(h.stack.counters().dropped(DropReason::TcpWindow), 2);
}

#[test]
fn what_does_not_fit_the_window_is_cut_off() {
    let mut h = small_buffer(4000);
    h.send(data(3001, 2000));
    h.expect(seg().ack(1));
    h.send(data(1, 3000));
    h.expect(seg().ack(4001).win(0));
    h.expect_read(1, 4000);
}

#[test]
fn too_many_ranges_are_dropped() {
    // One for each whole KiB of the window.
    let mut h = Harness::established();
    for i in 0..64 {
        h.send(data(11 + i * 20, 10));
    }
    assert_eq!(h.stack.counters().dropped(DropReason::TcpRanges), 1);
    // Each was acknowledged all the same.
    assert_eq!(h.drain(), 64);
    h.send(data(1, 10));
    h.expect(seg().ack(21));
}

#[test]
fn an_exhausted_pool_drops_and_loses_nothing() {
    let mut h = Harness::with(|config| {
        config.recv_pool = 1 << 20;
        config.recv_buffer = 1 << 20;
        config.quick_acks = 0;
    })
    .and_established(&Handshake {
        wscale: Some(0),
        ..Handshake::default()
    });
    // One connection takes all of the pool ...
    let mut sent = 0;
    while h.stack.counters().dropped(DropReason::TcpMemory) == 0 && sent < 2 << 20 {
        h.send(data(1 + sent, 1000));
        sent += 1000;
    }
    h.drain();
    let readable = h.app.readable(h.slot());
    assert!(readable > 0 && readable <= sent);
    // ... and everything that was acknowledged is there.
    h.expect_read(1, readable as usize);
}

/// RFC 9293 MUST-3.
#[test]
fn a_corrupt_segment_is_dropped() {
    let mut h = Harness::established();
    let mut frame = h.compose(&data(1, 10));
    *frame.last_mut().unwrap() ^= 1;
    h.inject_raw(&frame);
    assert_eq!(h.stack.counters().dropped(DropReason::TcpChecksum), 1);
    // A data offset that points past the end.
    let mut frame = h.compose(&data(1, 0));
    frame[14 + 20 + 12] = 0xf0;
    h.inject_raw(&frame);
    assert_eq!(h.stack.counters().dropped(DropReason::TcpMalformed), 1);
    h.transmit();
    h.expect_nothing();
}

#[test]
fn a_segment_without_ack_is_dropped() {
    let mut h = Harness::established();
    h.send(seg().seq(1).len(10));
    h.expect_nothing();
    assert_eq!(h.stack.counters().dropped(DropReason::TcpState), 1);
}

#[test]
fn buffers_go_back_when_drained() {
    let mut h = Harness::established();
    h.send(data(1, 1000));
    assert!(h.stack.usage().recv_bytes > 0);
    h.expect_read(1, 1000);
    let id = h.id();
    h.execute(crate::Command::Received(id));
    assert_eq!(h.stack.usage().recv_bytes, 0);
}

/// Though it waits for the ACK of its FIN, and nobody has said that something was read.
#[test]
fn who_read_all_and_closed_owns_no_receive_buffer() {
    let mut h = Harness::established();
    h.send(data(1, 1000));
    h.expect_read(1, 1000);
    assert!(h.stack.usage().recv_bytes > 0);
    h.close();
    assert_eq!(h.stack.usage().recv_bytes, 0);
    assert_eq!(h.stack.usage().connections, 1);
}

/// RFC 2525 §2.17: nobody will read what fills the gap.
#[test]
fn who_closed_keeps_nothing_out_of_order() {
    let mut h = Harness::established();
    h.send(data(1001, 1000));
    assert!(h.stack.usage().recv_bytes > 0);
    h.close();
    assert_eq!(h.stack.usage().recv_bytes, 0);
    h.transmit();
    h.drain();
    h.send(data(1, 1000));
    assert_eq!(h.stack.usage().recv_bytes, 0);
    h.expect_gone();
}

/// RCV.NXT would jump over it, and the real one would come in vain.
#[test]
fn a_fin_in_front_of_data_that_arrived_is_a_lie() {
    let mut h = Harness::established();
    h.send(seg().seq(101).ack(1).win(WIN).len(100));
    h.send(seg().fin().seq(101).ack(1).win(WIN));
    h.send(seg().fin().seq(150).ack(1).win(WIN));
    h.drain();
    h.send(seg().seq(1).ack(1).win(WIN).len(100));
    h.drain();
    h.expect_read(1, 200);
    h.expect_state(State::Established);
    h.send(seg().fin().seq(201).ack(1).win(WIN));
    h.expect_state(State::CloseWait);
}
