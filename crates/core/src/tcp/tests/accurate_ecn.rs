//! Accurate ECN: RFC 9768 §3.

use wire::ip::Ecn;
use wire::tcp::TcpFlags;

use crate::command::Options;
use crate::config::{CongestionControl, EcnUse};
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;

fn harness() -> Harness {
    Harness::with(|config| {
        config.ecn = EcnUse::On;
        config.congestion = CongestionControl::NewReno;
    })
}

/// A passive handshake; the client's last ACK is `last`.
fn accepted(last: impl Fn(Seg) -> Seg) -> Harness {
    let mut h = harness();
    let offer = Handshake::default();
    h.listen(16, Options::default());
    h.send(offer.syn().ace(0b111));
    h.expect(seg().syn().ack(1).ace(0b010).ecn_bytes(1, 0, 1));
    h.send(last(h.handshake_ack(&offer)));
    h.expect_nothing();
    h.take_accepted();
    h.events();
    h
}

/// An active open whose SYN-ACK agrees and has the option.
fn connected() -> Harness {
    let mut h = harness();
    h.start_connect(Options::default());
    h.expect(seg().syn().ace(0b111));
    h.send(
        Handshake::default()
            .syn()
            .ack(1)
            .ace(0b010)
            .ecn_bytes(1, 0, 1),
    );
    h.expect(seg().seq(1).ack(1).ace(0b010).ecn_bytes(1, 0, 1));
    h.expect_nothing();
    h
}

fn data(seq: u32) -> Seg {
    seg().seq(seq).ack(1).ace(5).win(WIN).len(1000)
}

fn ack(ack: u32, ace: u16) -> Seg {
    seg().seq(1).ack(ack).ace(ace).win(WIN)
}

// ---- the handshake ------------------------------------------------------------------------------

/// RFC 9768 §3.1.1-1.
#[test]
fn the_syn_ack_says_how_the_syn_arrived() {
    // Table 2.
    for (arrived, code) in [
        (Ecn::NotEct, 0b010),
        (Ecn::Ect1, 0b011),
        (Ecn::Ect0, 0b100),
        (Ecn::Ce, 0b110),
    ] {
        let mut h = harness();
        h.listen(16, Options::default());
        h.send(Handshake::default().syn().ace(0b111).ecn(arrived));
        h.expect(seg().syn().ack(1).ace(code));
    }
}

/// RFC 9768 §3.2.2.1-1.
#[test]
fn the_ack_says_how_the_syn_ack_arrived() {
    // Table 3.
    for (arrived, code, next) in [
        (Ecn::NotEct, 0b010, 5),
        (Ecn::Ect1, 0b011, 5),
        (Ecn::Ect0, 0b100, 5),
        (Ecn::Ce, 0b110, 6),
    ] {
        let mut h = harness();
        h.start_connect(Options::default());
        h.expect(seg().syn().ace(0b111));
        h.send(Handshake::default().syn().ack(1).ace(0b010).ecn(arrived));
        h.expect(seg().seq(1).ack(1).ace(code));
        h.write(10);
        h.expect(seg().seq(1).len(10).ace(next));
    }
}

/// RFC 9768 §3.2.3.2.1-1.
#[test]
fn the_ack_of_the_syn_ack_goes_alone_even_if_there_is_data() {
    // §3.2.2.1: only a pure ACK can carry the code.
    let mut h = harness();
    h.start_connect(Options::default());
    let syn = h.expect(seg().syn().ace(0b111));
    assert_eq!(syn.options.ecn_bytes, None);
    h.write(10);
    h.send(Handshake::default().syn().ack(1).ace(0b010));
    h.expect(seg().seq(1).ack(1).ace(0b010));
    h.expect(seg().seq(1).len(10).ace(5).ecn(Ecn::Ect0));
}

/// RFC 9768 §3.2.3.2.2-1, §3.2.3.2.2-2.
#[test]
fn a_syn_ack_that_is_lost_loses_the_option_and_then_the_bits() {
    let offer = Handshake::default();
    let mut h = harness();
    h.listen(16, Options::default());
    h.send(offer.syn().ace(0b111));
    h.expect(seg().syn().ack(1).ace(0b010).ecn_bytes(1, 0, 1));
    h.advance(1000);
    let again = h.expect(seg().syn().ack(1).ace(0b010));
    assert_eq!(again.options.ecn_bytes, None);
    h.advance(2000);
    let bare = h.expect(seg().syn().ack(1).ace(0));
    assert_eq!(bare.options.ecn_bytes, None);
    // The client may have got the first: it counts. If it got the last, it does not know of ECN,
    // and nothing is marked as capable.
    h.send(h.handshake_ack(&offer).ace(0b010));
    h.take_accepted();
    h.write(1000);
    h.expect(seg().seq(1).len(1000).ace(5).ecn(Ecn::NotEct));
}

/// RFC 9768 §3.2.3.2.2-1.
#[test]
fn a_syn_that_comes_again_is_answered_without_the_option() {
    let mut h = harness();
    h.listen(16, Options::default());
    h.send(Handshake::default().syn().ace(0b111));
    h.expect(seg().syn().ack(1).ace(0b010).ecn_bytes(1, 0, 1));
    h.send(Handshake::default().syn().ace(0b111));
    let again = h.expect(seg().syn().ack(1).ace(0b010));
    assert_eq!(again.options.ecn_bytes, None);
}

/// RFC 9768 §3.2.2.1-3.
#[test]
fn a_repeated_syn_ack_is_answered_as_the_first() {
    let mut h = connected();
    let syn_ack = || Handshake::default().syn().ack(1).ace(0b010);
    h.send(syn_ack().ecn(Ecn::Ect0));
    h.expect(seg().seq(1).ack(1).ace(0b100));
    // Later the bits are a counter.
    h.send(data(1));
    h.drain();
    h.send(syn_ack());
    h.expect(seg().seq(1).ack(1001).ace(5));
}

/// RFC 9768 §3.2.2.3-1.
#[test]
fn a_peer_whose_bits_are_cleared_gets_no_ecn_capable_data() {
    // §3.2.2.4.
    let mut h = accepted(|ack| ack);
    h.write(1000);
    h.expect(seg().seq(1).len(1000).ace(5).ecn(Ecn::NotEct));
}

/// RFC 9768 §3.2.2.3-1.
#[test]
fn a_syn_that_cannot_have_been_marked_was_mangled() {
    // §3.2.2.3.
    let mut h = harness();
    h.start_connect(Options::default());
    h.expect(seg().syn().ace(0b111).ecn(Ecn::NotEct));
    h.send(Handshake::default().syn().ack(1).ace(0b110));
    h.expect(seg().seq(1).ack(1).ace(0b010));
    h.write(1000);
    h.expect(seg().seq(1).len(1000).ace(5).ecn(Ecn::NotEct));
}

/// RFC 9768 §3.2.2.1-2.
#[test]
fn what_such_a_peer_says_of_congestion_is_ignored() {
    let mut h = accepted(|ack| ack);
    h.write(20_000);
    h.drain();
    h.send(ack(2001, 6));
    h.send(ack(4001, 1));
    assert_eq!(h.stack.counters().congestion_marks_obeyed, 0);
    // As a receiver it goes on.
    h.send(data(1).ecn(Ecn::Ce));
    h.drain();
    h.send(data(1001));
    assert_eq!(h.stack.counters().congestion_marks_in, 1);
}

/// RFC 9768 §3.1.3-2.
#[test]
fn an_answer_without_a_meaning_is_a_yes() {
    let mut h = harness();
    h.start_connect(Options::default());
    h.expect(seg().syn().ace(0b111));
    h.send(Handshake::default().syn().ack(1).ace(0b101));
    h.expect(seg().seq(1).ack(1).ace(0b010));
    h.write(1000);
    h.expect(seg().seq(1).len(1000).ace(5).ecn(Ecn::Ect0));
}

/// RFC 9768 §3.1.5-1, §3.1.5-2, §3.1.5-3.
#[test]
fn later_syns_change_what_is_told_and_not_what_was_agreed_on() {
    let mut h = harness();
    let offer = Handshake::default();
    h.listen(16, Options::default());
    h.send(offer.syn().ace(0b111));
    h.expect(seg().syn().ack(1).ace(0b010));
    h.send(offer.syn().ace(0b111).ecn(Ecn::Ce));
    h.expect(seg().syn().ack(1).ace(0b110));
    h.send(offer.syn());
    h.expect(seg().syn().ack(1).ace(0b010));
    h.send(h.handshake_ack(&offer).ace(0b010));
    h.take_accepted();
    // Perhaps the peer does not count: nothing is marked. But it may.
    h.write(1000);
    h.expect(seg().seq(1).len(1000).ace(5).ecn(Ecn::NotEct));
    h.send(data(1).ecn(Ecn::Ce));
    h.expect(seg().ack(1001).ace(6));
}

/// RFC 9768 §3.1.5-4.
#[test]
fn two_questions_that_exclude_each_other_end_the_handshake() {
    for (first, second) in [(0b111, 0b011), (0b011, 0b111)] {
        let mut h = harness();
        h.listen(16, Options::default());
        h.send(Handshake::default().syn().ace(first));
        h.drain();
        h.send(Handshake::default().syn().ace(second));
        let (_, _, answer, _) = h.pop().unwrap();
        assert!(answer.flags.contains(TcpFlags::RST));
        assert_eq!(h.stack.usage().half_open, 0);
    }
}

// ---- the receiver -------------------------------------------------------------------------------

/// RFC 9768 §3.2.1-1, §3.2.2.2-1, §3.2.2.5.1-1.
#[test]
fn marks_are_counted_in_the_field() {
    let mut h = accepted(|ack| ack.ace(0b010));
    h.send(data(1).ecn(Ecn::Ect0));
    h.send(data(1001).ecn(Ecn::Ce));
    h.drain();
    h.send(data(2001).ecn(Ecn::Ce));
    h.expect(seg().ack(3001).ace(7));
    h.send(data(3001).ecn(Ecn::Ce));
    h.expect(seg().ack(4001).ace(0));
    // CWR of the classic kind is a part of the field, and means nothing by itself.
    h.write(10);
    h.expect(seg().len(10).ace(0).ecn(Ecn::Ect0));
}

/// RFC 9768 §3.2.2.5.1-2.
#[test]
fn marks_on_acks_are_reported_before_the_field_can_go_round() {
    let mut h = accepted(|ack| ack.ace(0b010));
    for _ in 0..2 {
        h.send(ack(1, 5).ecn(Ecn::Ce));
        h.expect_nothing();
    }
    h.send(ack(1, 5).ecn(Ecn::Ce));
    h.expect(seg().seq(1).ack(1).ace(0));
    h.send(ack(1, 5).ecn(Ecn::Ce));
    h.expect_nothing();
}

/// RFC 9768 §3.2.3-1.
#[test]
fn bytes_are_counted_for_a_peer_that_counts_them_too() {
    let mut h = accepted(|ack| ack.ace(0b010).ecn_bytes(1, 0, 1));
    h.send(data(1).ecn(Ecn::Ect0));
    h.send(data(1001).ecn(Ecn::Ce));
    h.drain();
    h.send(data(2001).ecn(Ecn::Ce));
    h.expect(seg().ack(3001).ace(7).ecn_bytes(1001, 2000, 1));
    // Nothing new to count: nothing to say.
    h.write(1000);
    let header = h.expect(seg().len(1000).ace(7));
    assert_eq!(header.options.ecn_bytes, None);
}

#[test]
fn counters_take_room_from_the_payload() {
    let mut h = connected();
    h.inject(data(1).ecn(Ecn::Ect0));
    h.inject(data(1001).ecn(Ecn::Ect0));
    h.write(1000);
    // Our ACK is due; it rides on the data. An MSS of 1000 less 12.
    h.expect(seg().seq(1).len(988).ack(2001).ace(5).ecn_bytes(2001, 0, 1));
}

#[test]
fn unmarked_data_takes_the_short_way() {
    let mut h = accepted(|ack| ack.ace(0b010));
    let before = h.stack.counters().fast_path;
    for i in 0..10 {
        h.send(data(1 + 1000 * i).ecn(Ecn::Ect0));
    }
    assert_eq!(h.stack.counters().fast_path, before + 10);
}

// ---- the sender ---------------------------------------------------------------------------------

/// RFC 9768 §3.1.5-5.
#[test]
fn a_counter_that_moves_is_congestion_once_per_window() {
    let mut h = accepted(|ack| ack.ace(0b010));
    h.write(20_000);
    assert_eq!(h.drain(), 10);
    h.send(ack(2001, 6));
    assert_eq!(h.info().ssthresh, 5000);
    h.send(ack(4001, 0));
    assert_eq!(h.info().ssthresh, 5000);
    h.send(ack(10_001, 0));
    assert_eq!(h.stack.counters().congestion_marks_obeyed, 1);
    while let Some((_, _, header, _)) = h.pop() {
        assert_eq!(crate::tcp::ecn::ace(header.flags), 5, "no CWR");
    }
    // The window after that, unmarked and marked.
    h.send(ack(11_001, 0));
    assert_eq!(h.stack.counters().congestion_marks_obeyed, 1);
    h.send(ack(12_001, 1));
    assert_eq!(h.stack.counters().congestion_marks_obeyed, 2);
}

#[test]
fn bytes_show_marks_that_the_field_hides() {
    let mut h = accepted(|ack| ack.ace(0b010).ecn_bytes(1, 0, 1));
    h.write(20_000);
    assert_eq!(h.drain(), 10);
    // Eight marks: the field has gone round.
    h.send(ack(8001, 5).ecn_bytes(1, 8000, 1));
    assert_eq!(h.stack.counters().congestion_marks_obeyed, 1);
}

#[test]
fn an_ack_that_was_overtaken_says_nothing() {
    let mut h = accepted(|ack| ack.ace(0b010));
    h.write(20_000);
    h.drain();
    h.send(ack(4001, 5));
    h.send(ack(2001, 4));
    h.send(ack(5001, 5));
    assert_eq!(h.stack.counters().congestion_marks_obeyed, 0);
}
