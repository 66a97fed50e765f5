//! The order in which things leave: control, ACKs, data, a few at a time; everybody in turn;
//! nothing lost when the link is full.

use wire::tcp::TcpFlags;

use crate::command::{Command, Options};
use crate::event::Event;
use crate::id::{ConnId, PortId};
use crate::testing::{CLIENT, Handshake, Harness, seg};

const WIN: u16 = 60_000;

/// `n` accepted connections, from ports 6000 on.
fn many(n: u16) -> (Harness, Vec<ConnId>) {
    let mut h = Harness::new();
    h.listen(64, Options::default());
    let mut ids = Vec::new();
    for port in 6000..6000 + n {
        h.send(Handshake::default().syn().port(port));
        h.expect(seg().syn().ack(1).port(port));
        h.send(seg().seq(1).ack(1).win(WIN).port(port));
        for event in h.events() {
            if let Event::Accepted { conn, .. } = event {
                h.execute(Command::Accept {
                    conn,
                    token: CLIENT,
                });
                ids.push(conn);
            }
        }
    }
    (h, ids)
}

fn write(h: &mut Harness, conn: ConnId, len: usize) {
    assert_eq!(h.app.write(conn.slot, &vec![1; len]), len);
    h.execute(Command::Send(conn));
}

#[test]
fn a_full_link_loses_nothing() {
    let (mut h, ids) = many(1);
    h.sink.room = 3;
    write(&mut h, ids[0], 8000);
    h.transmit();
    assert_eq!(h.drain(), 3);
    assert!(h.stack.has_output(PortId(0)));
    h.sink.room = 2;
    h.transmit();
    h.expect(seg().seq(3001).len(1000).port(6000));
    h.expect(seg().seq(4001).len(1000).port(6000));
    h.sink.room = usize::MAX;
    h.transmit();
    assert_eq!(h.drain(), 3);
    assert!(!h.stack.has_output(PortId(0)));
}

#[test]
fn a_link_without_any_room_loses_no_control_segment_and_no_ack() {
    let (mut h, ids) = many(2);
    h.sink.room = 0;
    h.send(Handshake::default().syn().port(7000));
    h.execute(Command::Shutdown(ids[0]));
    h.send(seg().seq(1).ack(1).win(WIN).len(10).port(6001));
    h.expect_nothing();
    h.sink.room = usize::MAX;
    h.transmit();
    h.expect(seg().syn().ack(1).port(7000));
    h.expect(seg().fin().seq(1).ack(1).port(6000));
    h.expect(seg().seq(1).ack(11).port(6001));
}

#[test]
fn control_goes_before_acks_before_data() {
    let (mut h, ids) = many(3);
    write(&mut h, ids[0], 100);
    h.inject(seg().seq(1).ack(1).win(WIN).len(10).port(6001));
    h.execute(Command::Shutdown(ids[2]));
    h.inject(Handshake::default().syn().port(7000));
    h.transmit();
    h.expect(seg().syn().ack(1).port(7000));
    h.expect(seg().fin().seq(1).port(6002).any_ack());
    h.expect(seg().seq(1).ack(11).port(6001));
    h.expect(seg().seq(1).len(100).any_ack().port(6000));
    h.expect_nothing();
}

/// However many begin, who has begun gets on: a crowd of new ones on a link that is full would have
/// all of them open before any ends.
#[test]
fn on_a_full_link_what_has_begun_goes_on_beside_what_begins() {
    let (mut h, ids) = many(2);
    h.sink.room = 0;
    for port in 7000..7000 + 62 {
        h.send(Handshake::default().syn().port(port));
    }
    write(&mut h, ids[0], 100);
    h.execute(Command::Shutdown(ids[1]));
    h.sink.room = 34;
    h.transmit();
    let mut order = Vec::new();
    while let Some((_, to, _, _)) = h.pop() {
        order.push(to.port());
    }
    assert_eq!(order[32..], [6001, 6000], "behind a round of the new ones");
    h.sink.room = usize::MAX;
    h.transmit();
    assert_eq!(h.drain(), 30);
}

/// A link that takes a few frames at a time is full at the end of each call: shares are not of a
/// call, or the first list would have all of it.
#[test]
fn on_a_link_that_takes_little_what_has_begun_ends_before_all_have_begun() {
    let (mut h, ids) = many(100);
    h.sink.room = 0;
    for port in 7000..7000 + 60 {
        h.send(Handshake::default().syn().port(port));
    }
    for &id in &ids {
        write(&mut h, id, 100);
    }
    let mut order = Vec::new();
    while h.stack.has_output(PortId(0)) {
        h.sink.room = 8;
        h.transmit();
        while let Some((_, to, _, _)) = h.pop() {
            order.push(to.port() >= 7000);
        }
    }
    assert_eq!(order.len(), 160, "nothing is lost");
    let new = |part: &[bool]| part.iter().filter(|&&new| new).count();
    assert_eq!(
        new(&order[..96]),
        32,
        "a round of the new ones, and two thirds of what has begun"
    );
    assert_eq!(new(&order[96..]), 28, "and new ones do have their turn");
}

#[test]
fn connections_take_turns() {
    // One with a window of 60 segments, and one with a single segment behind it.
    let mut h = Harness::with(|config| {
        config.initial_window = 60;
        config.send_buffer = 128 << 10;
    });
    h.listen(8, Options::default());
    let offer = Handshake {
        mss: Some(500),
        ..Handshake::default()
    };
    let mut ids = Vec::new();
    for port in [6000, 6001] {
        h.send(offer.syn().port(port));
        h.expect(seg().syn().ack(1).port(port));
        h.send(seg().seq(1).ack(1).win(WIN).port(port));
    }
    for event in h.events() {
        if let Event::Accepted { conn, .. } = event {
            ids.push(conn);
        }
    }
    write(&mut h, ids[0], 30_000);
    write(&mut h, ids[1], 10);
    h.transmit();
    let mut order = Vec::new();
    while let Some((_, to, _, _)) = h.pop() {
        order.push(to.port());
    }
    assert_eq!(order.len(), 61);
    let place = order.iter().position(|&port| port == 6001).unwrap();
    assert_eq!(place, 16, "behind one quantum of the other");
}

#[test]
fn segments_over_a_larger_mtu() {
    let mut h = Harness::with(|config| config.interfaces[0].capabilities.mtu = 9000);
    h.listen(8, Options::default());
    h.established_with(&Handshake {
        mss: Some(8960),
        ..Handshake::default()
    });
    h.write(10_000);
    h.expect(seg().seq(1).len(8960));
}

/// RFC 9293 MUST-61, SHLD-27.
#[test]
fn psh_is_on_the_last_segment_of_what_was_written() {
    let (mut h, ids) = many(1);
    write(&mut h, ids[0], 3000);
    h.transmit();
    h.expect(seg().seq(1).len(1000).any_ack().no_psh().port(6000));
    h.expect(seg().seq(1001).len(1000).any_ack().no_psh().port(6000));
    let last = h.expect(seg().seq(2001).len(1000).any_ack().psh().port(6000));
    assert!(last.flags.contains(TcpFlags::PSH));
}
