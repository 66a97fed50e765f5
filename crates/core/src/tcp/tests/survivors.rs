//! A stack ends without a word, and another takes its place: peers of connections that an
//! application had learn that these are gone (RFC 9293 §3.5.1).

use std::sync::Arc;

use ring::region::Shared;
use wire::handed::Handed;
use wire::tcp::{TcpFlags, TcpHeader};

use super::handover::{handed, pass, take};
use crate::command::Options;
use crate::config::{Config, Seat};
use crate::estate::Start;
use crate::testament::Testament;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;
const SLOTS: u32 = 64;
/// Bytes in front of a segment.
const ETHERNET_AND_IPV4: usize = 34;
const HANDSHAKE: Handshake = Handshake {
    mss: Some(1460),
    wscale: Some(7),
    sack: true,
    ts: Some(100),
    window: WIN,
};

/// What is left when a stack is gone.
fn memory() -> Arc<Shared> {
    Arc::new(Shared::create("survivors", Testament::size(SLOTS)).unwrap())
}

/// One of `seats`, and it listens. It has the place that `memory` belongs to.
fn seated(index: u8, seats: u8, memory: &Arc<Shared>) -> Harness {
    let sit = |config: &mut Config| {
        config.seat = Some(Seat {
            index,
            seats,
            bequeaths: true,
        });
        config.secret = [index; 32];
        config.common_secret = Some([9; 32]);
    };
    let testament = || Testament::new(Arc::clone(memory), 0, SLOTS);
    let mut h = Harness::heir(Harness::new(), sit, testament);
    h.listen(8, Options::default());
    h
}

/// A stack that has the connection, with some data either way.
fn served(memory: &Arc<Shared>) -> Harness {
    let mut h = seated(0, 2, memory);
    h.established_with(&HANDSHAKE);
    h.send(request());
    h.transmit();
    h.expect(seg().seq(1).ack(501));
    h
}

fn request() -> Seg {
    seg().seq(1).ack(1).win(WIN).len(500).ts(101, 0)
}

/// The next segment, numbers as on the wire.
fn sent(h: &mut Harness) -> TcpHeader {
    h.pop().expect("a segment").2
}

/// The peer is asked, a second after the stack took its place.
fn asked(h: &mut Harness) -> TcpHeader {
    h.expect_silence(990);
    h.advance(20);
    let syn = sent(h);
    assert_eq!(syn.flags, TcpFlags::SYN);
    assert!(syn.options.timestamps.is_some());
    h.expect_nothing();
    syn
}

/// The other seat is empty: whoever asks gets the question back.
fn ask_nobody(h: &mut Harness) {
    for (frame, words) in handed(h) {
        let tried = u64::MAX;
        take(h, &(frame, Handed { tried, ..words }));
    }
}

/// The ACK with which the peer answers a SYN (RFC 5961 §4).
fn challenge() -> Seg {
    seg().seq(501).ack(1).win(WIN).ts(102, 0)
}

#[test]
fn a_peer_that_waits_is_told() {
    let memory = memory();
    let first = served(&memory);
    let answer = first.compose(&challenge());
    drop(first);
    let mut second = seated(0, 2, &memory);
    asked(&mut second);
    assert_eq!(second.stack.counters().survivors_asked, 1);
    second.inject_raw(&answer);
    ask_nobody(&mut second);
    let reset = sent(&mut second);
    assert_eq!(reset.flags, TcpFlags::RST);
    // RFC 9293 §3.10.7.1: what the peer expects next.
    let (_, segment) = answer.split_at(ETHERNET_AND_IPV4);
    assert_eq!(reset.seq, TcpHeader::split(segment).unwrap().0.ack);
    // Once.
    second.expect_silence(60_000);
    drop(second);
    seated(0, 2, &memory).expect_silence(60_000);
}

#[test]
fn one_that_knows_already_is_not_asked_again() {
    let memory = memory();
    let first = served(&memory);
    let refused = first.compose(&seg().rst().ack(1));
    drop(first);
    let mut second = seated(0, 2, &memory);
    asked(&mut second);
    second.inject_raw(&refused);
    ask_nobody(&mut second);
    second.expect_silence(60_000);
}

#[test]
fn one_that_does_not_answer_is_asked_five_times() {
    let memory = memory();
    drop(served(&memory));
    let mut second = seated(0, 2, &memory);
    asked(&mut second);
    for wait in [2000, 4000, 8000, 16_000] {
        waits_and_asks(&mut second, wait);
    }
    second.expect_silence(60_000);
    drop(second);
    seated(0, 2, &memory).expect_silence(60_000);
}

fn waits_and_asks(h: &mut Harness, ms: u64) {
    h.expect_silence(ms - 20);
    h.advance(20);
    assert_eq!(sent(h).flags, TcpFlags::SYN);
    h.expect_nothing();
}

#[test]
fn the_next_after_that_goes_on() {
    let memory = memory();
    drop(served(&memory));
    drop(seated(0, 2, &memory));
    asked(&mut seated(0, 2, &memory));
}

#[test]
fn connections_that_ended_leave_nobody() {
    let memory = memory();
    let mut first = served(&memory);
    first.abort();
    drop(first);
    seated(0, 2, &memory).expect_silence(60_000);
}

#[test]
fn one_that_was_opened_is_left_too() {
    let memory = memory();
    let mut first = seated(0, 2, &memory);
    first.connect(Options::default());
    drop(first);
    asked(&mut seated(0, 2, &memory));
}

/// Nobody has accepted it: the peer has no ACK of its request and brings it to whoever listens.
#[test]
fn what_can_be_taken_up_is() {
    let memory = memory();
    let mut first = seated(0, 2, &memory);
    first.syn_received(&HANDSHAKE);
    first.send(request());
    let again = first.compose(&request());
    drop(first);
    let mut second = seated(0, 2, &memory);
    second.inject_raw(&again);
    ask_nobody(&mut second);
    assert_eq!(second.stack.usage().connections, 1);
    second.expect_silence(390);
}

/// Accepted, and then the stack ended before it acknowledged anything: the request is there again
/// before anybody asks.
#[test]
fn so_is_what_was_not_acknowledged() {
    let memory = memory();
    let mut first = seated(0, 2, &memory);
    first.established_with(&HANDSHAKE);
    let request = first.compose(&request());
    drop(first);
    let mut second = seated(0, 2, &memory);
    second.inject_raw(&request);
    ask_nobody(&mut second);
    assert_eq!(second.stack.usage().connections, 1);
    second.advance(500);
    second.drain();
    second.expect_silence(60_000);
}

/// The endpoints are another connection's, with a stack that was asked before anybody answered.
#[test]
fn what_another_stack_knows_is_not_reset() {
    let (memory, others) = (memory(), memory());
    drop(served(&memory));
    let mut other = seated(1, 2, &others);
    other.established_with(&HANDSHAKE);
    let data = other.compose(&request());
    let mut second = seated(0, 2, &memory);
    second.inject_raw(&data);
    second.transmit();
    second.expect_nothing();
    assert_eq!(pass(&mut second, &mut other), 1);
    other.expect(seg().seq(1).ack(501));
}

/// What the others do not know comes back to the stack that asked, which tells, however much is
/// answered at a time.
#[test]
fn the_one_that_asked_tells() {
    let memory = memory();
    let first = served(&memory);
    let answer = first.compose(&challenge());
    drop(first);
    let mut second = seated(0, 2, &memory);
    let mut other = seated(1, 2, &self::memory());
    second.inject_raw(&answer);
    assert_eq!(pass(&mut second, &mut other), 1);
    other.expect_nothing();
    assert_eq!(pass(&mut other, &mut second), 1);
    assert_eq!(sent(&mut second).flags, TcpFlags::RST);
    assert_eq!(handed(&mut second), []);
}

/// Thousands at once: a part at a time, and all.
#[test]
fn a_crowd_is_told_as_well() {
    const CROWD: u32 = 3000;
    let memory = Arc::new(Shared::create("crowd", Testament::size(CROWD)).unwrap());
    let testament = || Testament::new(Arc::clone(&memory), 0, CROWD);
    let before = Harness::new();
    let mut first = testament();
    for slot in 0..CROWD {
        let peer = std::net::SocketAddr::new(before.peer().ip(), 1024 + slot as u16);
        let key = crate::flow::FlowKey::new(before.local(), peer);
        first.enter(slot, &key, Start::default());
    }
    let change = |config: &mut Config| config.common_secret = Some([9; 32]);
    let mut h = Harness::heir(before, change, testament);
    h.advance(1000);
    assert!(h.drain() < CROWD as usize);
    h.advance(30);
    assert_eq!(u64::from(CROWD), h.stack.counters().survivors_asked);
    h.drain();
    let answers: Vec<Seg> = (0..CROWD)
        .map(|slot| seg().seq(7).ack(9).port(1024 + slot as u16))
        .collect();
    h.inject_all(&answers);
    h.transmit();
    assert_eq!(h.drain(), CROWD as usize);
}
