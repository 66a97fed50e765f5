//! A stack ends, or stops listening, while others with its addresses go on: what no application had
//! accepted is taken up by one of them.

use wire::handed::Handed;
use wire::ip::Ecn;

use super::handover::{handed, pass, take};
use crate::command::{Command, Options};
use crate::config::{Config, CongestionControl, Seat};
use crate::error::Error;
use crate::info::State;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;
const HANDSHAKE: Handshake = Handshake {
    mss: Some(1460),
    wscale: Some(7),
    sack: true,
    ts: Some(100),
    window: WIN,
};

/// One of two, and it listens.
fn heir(index: u8) -> Harness {
    heir_with(index, Config::default().congestion)
}

fn heir_with(index: u8, congestion: CongestionControl) -> Harness {
    let mut h = Harness::with(|config| {
        config.congestion = congestion;
        config.seat = Some(Seat {
            index,
            seats: 2,
            bequeaths: true,
        });
        config.secret = [index; 32];
        config.common_secret = Some([9; 32]);
    });
    h.listen(8, Options::default());
    h
}

fn leave(h: &mut Harness) {
    let listener = h.listener();
    h.execute(Command::Leave(listener));
    h.transmit();
    h.expect_nothing();
}

/// Stops listening and starts again: what was there is forgotten.
fn forget(h: &mut Harness) {
    leave(h);
    h.listen(8, Options::default());
}

fn request() -> Seg {
    seg().seq(1).ack(1).win(WIN).len(500).ts(101, 0)
}

/// Both have answered the SYN with the same numbers, and only the first remembers it.
fn begun() -> (Harness, Harness) {
    let (mut first, mut second) = (heir(0), heir(1));
    let numbers = [&mut first, &mut second].map(|h| h.syn_received(&HANDSHAKE).seq);
    assert_eq!(numbers[0], numbers[1]);
    forget(&mut second);
    (first, second)
}

/// The other stack is gone: whoever asks gets the question back.
fn ask_nobody(h: &mut Harness) {
    for (frame, words) in handed(h) {
        let tried = u64::MAX;
        take(h, &(frame, Handed { tried, ..words }));
    }
}

/// The connection is whole, with what was agreed on with the other stack.
fn accept_and_answer(h: &mut Harness) {
    h.take_accepted();
    h.transmit();
    h.expect(seg().seq(1).ack(501));
    h.expect_state(State::Established);
    h.expect_read(1, 500);
    let info = h.info();
    assert_eq!((info.snd_wscale, info.sack, info.snd_mss), (7, true, 1448));
    assert_eq!(info.snd_wnd, u32::from(WIN) << 7);
    h.write(10);
    h.expect(seg().seq(1).ack(501).len(10));
    h.send(seg().seq(501).ack(11).win(WIN).ts(102, 0));
    h.expect_nothing();
}

#[test]
fn a_listener_that_leaves_leaves_connections_too() {
    let (mut first, mut second) = begun();
    first.send(request());
    first.expect_nothing();
    assert_eq!(first.stack.usage().connections, 1);
    leave(&mut first);
    // The peer has no ACK, so it sends it again.
    first.send(request());
    first.expect_nothing();
    assert_eq!(pass(&mut first, &mut second), 1);
    accept_and_answer(&mut second);
}

#[test]
fn so_does_a_stack_that_is_gone() {
    let (mut first, mut second) = begun();
    first.send(request());
    drop(first);
    second.send(request());
    second.expect_nothing();
    ask_nobody(&mut second);
    accept_and_answer(&mut second);
}

/// The one that was asked last does not listen, and the one that does has not been asked for this.
#[test]
fn who_listens_is_found() {
    let (mut first, mut second) = begun();
    leave(&mut first);
    second.inject(request());
    assert_eq!(pass(&mut second, &mut first), 1);
    first.expect_nothing();
    assert_eq!(pass(&mut first, &mut second), 1);
    accept_and_answer(&mut second);
}

#[test]
fn a_handshake_goes_on_without_data() {
    let (first, mut second) = begun();
    drop(first);
    let ack = second.handshake_ack(&HANDSHAKE);
    second.send(ack);
    ask_nobody(&mut second);
    second.send(request());
    accept_and_answer(&mut second);
}

/// The endpoints are those of a connection that the first closed, and that only the first
/// remembers.
#[test]
fn a_port_that_is_used_again_goes_on_too() {
    let (mut first, mut second) = (heir(0), heir(1));
    first.established_with(&HANDSHAKE);
    first.shutdown();
    first.drain();
    first.send(seg().seq(1).fin().ack(2).win(WIN).ts(101, 0));
    first.close();
    first.drain();
    assert_eq!(first.stack.usage().time_wait, 1);
    let again = Handshake {
        ts: Some(102),
        ..HANDSHAKE
    };
    let numbers = [&mut first, &mut second].map(|h| {
        h.send(again.syn().seq(500));
        h.expect(seg().syn().ack(501)).seq
    });
    assert_eq!(numbers[0], numbers[1]);
    forget(&mut second);
    drop(first);
    second.send(seg().seq(501).ack(1).win(WIN).len(500).ts(103, 0));
    ask_nobody(&mut second);
    second.take_accepted();
    second.transmit();
    second.expect(seg().seq(1).ack(1001));
}

/// Whoever has the connection keeps it, wherever its segments come.
#[test]
fn what_is_known_is_not_taken() {
    let (mut first, mut second) = begun();
    second.inject(request());
    assert_eq!(pass(&mut second, &mut first), 1);
    assert_eq!(second.stack.usage().connections, 0);
    accept_and_answer(&mut first);
}

/// Others will listen, but none does yet: nobody is told that there is no such port.
#[test]
fn what_was_left_is_not_refused() {
    let (mut first, _) = begun();
    leave(&mut first);
    for segment in [HANDSHAKE.syn(), request()] {
        first.inject(segment);
        while !handed_back(&mut first) {}
        first.transmit();
        first.expect_nothing();
    }
    // One that was closed is.
    let mut h = heir(0);
    let listener = h.listener();
    h.execute(Command::Unlisten(listener));
    h.inject(HANDSHAKE.syn());
    while !handed_back(&mut h) {}
    h.transmit();
    h.expect(seg().rst().ack(1));
}

/// Returns whether nothing more was asked.
fn handed_back(h: &mut Harness) -> bool {
    let frames = handed(h);
    for (frame, words) in &frames {
        let tried = u64::MAX;
        take(h, &(frame.clone(), Handed { tried, ..*words }));
    }
    frames.is_empty()
}

/// The first leaves, the peer sends its request again, and the second goes on.
fn leave_to(mut first: Harness, mut second: Harness) {
    leave(&mut first);
    first.send(request());
    assert_eq!(pass(&mut first, &mut second), 1);
    accept_and_answer(&mut second);
}

/// RFC 9293 MUST-40: not for half a second.
#[test]
fn data_waits_for_its_ack_as_long_as_nobody_has_accepted() {
    let (mut first, _) = begun();
    first.send(request());
    first.expect_silence(390);
    first.advance(20);
    first.expect(seg().seq(1).ack(501));
    first.take_accepted();
    first.send(seg().seq(501).ack(1).win(WIN).len(500).ts(102, 0));
    first.expect(seg().seq(1).ack(1001));
}

/// The peer asks again after its RTO, and there is a tail loss probe before (RFC 8985 §7): neither
/// makes it known that the data has come.
#[test]
fn data_that_comes_again_waits_with_it() {
    let (mut first, second) = begun();
    first.send(request());
    first.advance(200);
    first.send(request());
    first.expect_nothing();
    leave_to(first, second);
}

/// What comes before the missing part, or is forged, is answered with an ACK: not with one that
/// makes it known (RFC 5681 §4.2, RFC 5961 §3, §4).
#[test]
fn no_other_answer_tells_of_it() {
    let beyond = seg().seq(1001).ack(1).win(WIN).len(500).ts(102, 0);
    let reset = seg().rst().seq(600);
    let syn = seg().syn().seq(600).win(WIN);
    for answered in [beyond, reset, syn] {
        let (mut first, second) = begun();
        first.send(request());
        first.send(answered);
        first.expect_nothing();
        assert_eq!(first.stack.counters().challenge_acks, 0);
        leave_to(first, second);
    }
}

/// Nor does one that was due already when it came: the segments of one burst, in the wrong order.
#[test]
fn an_answer_that_was_due_before_does_not_either() {
    let beyond = seg().seq(1001).ack(1).win(WIN).len(500).ts(102, 0);
    let reset = seg().rst().seq(600);
    for answered in [beyond, reset] {
        let (mut first, second) = begun();
        first.send(seg().seq(1).ack(1).win(WIN).ts(101, 0));
        first.inject(answered);
        first.send(request());
        first.expect_nothing();
        leave_to(first, second);
    }
}

/// DCTCP acknowledges what came before the first mark at once (RFC 8257 §3.2).
#[test]
fn a_mark_does_not_tell_of_it_either() {
    let mut h = heir_with(0, CongestionControl::Dctcp);
    h.send(HANDSHAKE.syn().ece().cwr());
    h.expect(seg().syn().ece().ack(1));
    h.send(request().ecn(Ecn::Ect0));
    let marked = seg().seq(501).ack(1).win(WIN).len(10).ts(102, 0);
    h.send(marked.ecn(Ecn::Ce));
    h.expect_nothing();
    h.take_accepted();
    h.transmit();
    h.expect(seg().ack(511).ece());
}

/// The end of the peer's data waits with it.
#[test]
fn so_does_a_fin() {
    let (mut first, _) = begun();
    first.send(request().fin());
    first.expect_silence(300);
    first.take_accepted();
    first.transmit();
    first.expect(seg().seq(1).ack(502));
}

/// A later segment of the first stack had another timestamp: what the SYNs agreed on cannot be
/// known any more.
#[test]
fn without_its_timestamp_a_cookie_is_none() {
    let (first, mut second) = begun();
    drop(first);
    second.inject(request().ts(101, 1));
    ask_nobody(&mut second);
    second.transmit();
    second.expect(seg().rst().seq(1));
}

#[test]
fn without_timestamps_there_is_no_heir() {
    let handshake = Handshake {
        ts: None,
        ..HANDSHAKE
    };
    let (mut first, mut second) = (heir(0), heir(1));
    for h in [&mut first, &mut second] {
        h.syn_received(&handshake);
    }
    forget(&mut second);
    drop(first);
    second.inject(seg().seq(1).ack(1).win(WIN).len(500));
    ask_nobody(&mut second);
    second.transmit();
    second.expect(seg().rst().seq(1));
}

/// RFC 9293 MUST-42: the port is free again for this stack.
#[test]
fn one_that_left_may_listen_again() {
    let mut h = heir(0);
    let listener = h.listener();
    leave(&mut h);
    assert_eq!(h.refuse(Command::Leave(listener)), Error::BadId);
    h.listen(8, Options::default());
    h.send(HANDSHAKE.syn());
    h.expect(seg().syn().ack(1));
}
