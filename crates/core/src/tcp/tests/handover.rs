//! Several stacks with the same addresses, each with a queue: what comes to the wrong one is handed
//! to the one that knows it.

use wire::arp::{ArpOperation, ArpPacket};
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::{RxFrame, RxMeta};
use wire::handed::Handed;

use crate::command::Options;
use crate::config::Seat;
use crate::drops::DropReason;
use crate::error::Error;
use crate::id::PortId;
use crate::info::State;
use crate::testing::{Handshake, Harness, Sink, mac, seg};

fn seated(index: u8, seats: u8) -> Harness {
    Harness::with(|config| {
        config.seat = Some(Seat {
            index,
            seats,
            bequeaths: false,
        });
        config.secret = [index; 32];
    })
}

/// What one stack hands to others, with the words that follow it.
pub(super) fn handed(h: &mut Harness) -> Vec<(Vec<u8>, Handed)> {
    let mut sink = Sink {
        frame_len: 1600,
        ..Sink::default()
    };
    let now = h.now();
    h.stack.transmit(now, PortId::SIBLINGS, &mut sink);
    let split = |frame: Vec<u8>| {
        let (bytes, words) = Handed::split(&frame).unwrap();
        (bytes.to_vec(), words)
    };
    sink.frames.into_iter().map(split).collect()
}

pub(super) fn take(h: &mut Harness, (frame, words): &(Vec<u8>, Handed)) {
    let mut bytes = vec![0; frame.len() + Handed::LEN];
    words.emit(frame, &mut bytes);
    let meta = RxMeta::default();
    let now = h.now();
    h.stack.receive(
        now,
        PortId::SIBLINGS,
        &[RxFrame {
            bytes: &bytes,
            meta,
        }],
    );
    h.transmit();
}

/// All that `from` has for others goes to `to`. Returns how much it was.
pub(super) fn pass(from: &mut Harness, to: &mut Harness) -> usize {
    let frames = handed(from);
    for frame in &frames {
        take(to, frame);
    }
    frames.len()
}

#[test]
fn an_answer_on_another_queue_reaches_who_asked() {
    let (mut other, mut h) = (seated(0, 2), seated(1, 2));
    h.connect(Options::default());
    let answer = h.compose(&Handshake::default().syn().ack(1));
    other.inject_raw(&answer);
    other.transmit();
    other.expect_nothing();
    assert_eq!(pass(&mut other, &mut h), 1);
    h.expect(seg().seq(1).ack(1));
    h.expect_state(State::Established);
    assert_eq!(other.stack.counters().handed_out, 1);
    assert_eq!(h.stack.counters().handed_in, 1);
}

/// RFC 9293 §3.10.7.1: somebody has to say that there is no such connection, and only one.
#[test]
fn what_nobody_knows_is_answered_once() {
    let mut stacks = [seated(0, 3), seated(1, 3), seated(2, 3)];
    let unknown = stacks[0].compose(&seg().seq(1).ack(1));
    stacks[0].inject_raw(&unknown);
    for at in 0..2 {
        let frames = handed(&mut stacks[at]);
        assert_eq!(frames.len(), 1);
        stacks[at].transmit();
        stacks[at].expect_nothing();
        take(&mut stacks[at + 1], &frames[0]);
    }
    assert_eq!(handed(&mut stacks[2]), []);
    stacks[2].expect(seg().rst());
    stacks[2].expect_nothing();
    let dropped = stacks[2]
        .stack
        .counters()
        .dropped(DropReason::TcpNoConnection);
    assert_eq!(dropped, 1);
}

#[test]
fn a_lone_stack_answers_by_itself() {
    let mut h = Harness::new();
    let unknown = h.compose(&seg().seq(1).ack(1));
    h.inject_raw(&unknown);
    assert_eq!(handed(&mut h), []);
    h.transmit();
    h.expect(seg().rst());
}

#[test]
fn a_connection_is_opened_by_any_stack_that_listens() {
    let (mut deaf, mut h) = (seated(0, 2), seated(1, 2));
    h.listen(8, Options::default());
    let syn = h.compose(&Handshake::default().syn());
    deaf.inject_raw(&syn);
    assert_eq!(pass(&mut deaf, &mut h), 1);
    h.expect(seg().syn().ack(1));
    // One that listens has it.
    h.inject_raw(&syn);
    assert_eq!(handed(&mut h), []);
}

#[test]
fn a_reset_reaches_the_connection_it_is_for() {
    let (mut other, mut h) = (seated(0, 2), seated(1, 2));
    h.connect(Options::default());
    let refused = h.compose(&seg().rst().seq(0).ack(1));
    other.inject_raw(&refused);
    pass(&mut other, &mut h);
    assert_eq!(h.ready().1, Some(Error::Refused));
}

/// A peer whose first SYN was answered late has sent a second, on another queue.
#[test]
fn an_acknowledgment_of_another_stacks_syn_is_not_refused() {
    let (mut second, mut first) = (seated(0, 2), seated(1, 2));
    for h in [&mut first, &mut second] {
        h.listen(8, Options::default());
        h.send(Handshake::default().syn());
        h.expect(seg().syn().ack(1));
    }
    let ack = first.compose(&seg().seq(1).ack(1));
    second.inject_raw(&ack);
    second.transmit();
    second.expect_nothing();
    pass(&mut second, &mut first);
    assert_eq!(first.stack.usage().connections, 1);
}

#[test]
fn where_a_neighbour_is_all_are_told() {
    let reply = ArpPacket {
        operation: ArpOperation::Reply,
        sender_mac: mac(9),
        sender_ip: "10.0.0.9".parse().unwrap(),
        target_mac: mac(1),
        target_ip: "10.0.0.1".parse().unwrap(),
    };
    let header = EthernetHeader {
        dst: mac(1),
        src: mac(9),
        ether_type: EtherType::ARP,
        vlan: None,
    };
    let mut frame = vec![0; 60];
    let start = header.emit(&mut frame);
    reply.emit(&mut frame[start..]);
    let (mut other, mut h) = (seated(0, 2), seated(1, 2));
    other.inject_raw(&frame);
    let frames = handed(&mut other);
    assert!(frames.len() == 1 && frames[0].1.for_all);
    take(&mut h, &frames[0]);
    assert_eq!(h.stack.counters().arp_in, 1);
    // It is not told again.
    assert_eq!(handed(&mut h), []);
}

/// It is the driver's to send.
#[test]
fn what_another_stack_sends_is_not_received() {
    let mut h = seated(1, 2);
    h.listen(8, Options::default());
    let syn = h.compose(&Handshake::default().syn());
    let words = Handed {
        relay: true,
        ..Handed::default()
    };
    take(&mut h, &(syn, words));
    h.expect_nothing();
    assert_eq!(h.stack.counters().handed_in, 0);
}

#[test]
fn no_two_stacks_connect_from_the_same_port() {
    for index in 0..3 {
        let mut h = seated(index, 3);
        for _ in 0..8 {
            h.connect(Options::default());
            assert_eq!(h.local().port() % 3, u16::from(index));
        }
    }
}

#[test]
fn what_waits_is_bounded() {
    let mut h = seated(0, 2);
    let unknown = h.compose(&seg().seq(1).ack(1));
    for _ in 0..1000 {
        h.inject_raw(&unknown);
    }
    let counters = h.stack.counters().clone();
    let dropped = counters.dropped(DropReason::HandoverFull);
    assert!(dropped > 0 && counters.handed_out + dropped == 1000);
    assert_eq!(handed(&mut h).len() as u64, counters.handed_out);
    h.expect_silence(1000);
}
