//! Explicit congestion notification: RFC 3168 §6.1, RFC 8257 §3.2.

use std::time::Duration;

use wire::ip::Ecn;

use super::transfer::transfer;
use crate::command::Options;
use crate::config::{CongestionControl, EcnUse, SynCookies};
use crate::error::Error;
use crate::testing::{Fate, Handshake, Harness, Pair, Seg, seg};

const WIN: u16 = 60_000;

fn with_ecn(ecn: EcnUse) -> Harness {
    Harness::with(|config| {
        config.ecn = ecn;
        config.congestion = CongestionControl::NewReno;
    })
}

/// A passive handshake whose SYN asks for classic ECN.
fn agreed_with(mut h: Harness) -> Harness {
    let offer = Handshake::default();
    h.listen(16, Options::default());
    h.send(offer.syn().ece().cwr());
    h.expect(seg().syn().ece().ack(1).ecn(Ecn::NotEct));
    h.send(h.handshake_ack(&offer));
    h.expect_nothing();
    h.take_accepted();
    h.events();
    h
}

fn agreed() -> Harness {
    agreed_with(with_ecn(EcnUse::Passive))
}

fn data(seq: u32) -> Seg {
    seg().seq(seq).ack(1).win(WIN).len(1000)
}

// ---- the handshake (RFC 3168 §6.1.1) ------------------------------------------------------------

/// RFC 3168 §6.1.1-1, §6.1.1-3.
#[test]
fn nobody_asks_and_nothing_is_marked() {
    let mut h = Harness::established();
    h.write(1000);
    h.expect(seg().len(1000).ecn(Ecn::NotEct));
    // Marks of somebody who was not asked for them change nothing.
    h.send(data(1).ecn(Ecn::Ce));
    h.advance(100);
    h.expect(seg().seq(1001).ack(1001));
}

#[test]
fn a_stack_that_has_it_off_does_not_agree() {
    let mut h = with_ecn(EcnUse::Off);
    h.listen(16, Options::default());
    h.send(Handshake::default().syn().ece().cwr());
    h.expect(seg().syn().ack(1));
}

#[test]
fn a_peer_that_gives_up_asking_is_not_told_yes() {
    let mut h = with_ecn(EcnUse::Passive);
    h.listen(16, Options::default());
    h.send(Handshake::default().syn().ece().cwr());
    h.expect(seg().syn().ece().ack(1));
    h.send(Handshake::default().syn());
    h.expect(seg().syn().ack(1));
}

/// RFC 9768 §3.1.2-2.
#[test]
fn a_peer_without_accurate_ecn_gets_the_classic() {
    let mut h = with_ecn(EcnUse::On);
    h.start_connect(Options::default());
    h.expect(seg().syn().ace(0b111).ecn(Ecn::NotEct));
    h.send(Handshake::default().syn().ece().ack(1));
    h.expect(seg().seq(1).ack(1).ecn(Ecn::NotEct));
    h.write(1000);
    h.expect(seg().seq(1).len(1000).ecn(Ecn::Ect0));
}

/// RFC 3168 §6.1.1-1; RFC 9768 §3.1.2-2.
#[test]
fn a_peer_without_ecn_gets_none() {
    let mut h = with_ecn(EcnUse::On);
    h.start_connect(Options::default());
    h.expect(seg().syn().ace(0b111));
    h.send(Handshake::default().syn().ack(1));
    h.expect(seg().seq(1).ack(1));
    h.write(1000);
    h.expect(seg().seq(1).len(1000).ecn(Ecn::NotEct));
}

/// RFC 3168 §6.1.1.1-1; RFC 9768 §3.1.4.1-1.
#[test]
fn a_question_that_gets_lost_is_not_asked_for_ever() {
    // RFC 3168 §6.1.1.1, RFC 9768 §3.1.4.1.
    let mut h = with_ecn(EcnUse::On);
    h.start_connect(Options::default());
    h.expect(seg().syn().ace(0b111));
    h.advance(1000);
    h.expect(seg().syn().ace(0b111));
    h.advance(2000);
    h.expect(seg().syn());
    // RFC 3168 §6.1.1: after a SYN without the question, a late answer to it does not count.
    h.send(Handshake::default().syn().ece().ack(1));
    h.expect(seg().seq(1).ack(1));
    h.write(1000);
    h.expect(seg().seq(1).len(1000).ecn(Ecn::NotEct));
}

/// RFC 3168 §6.1.1.1-1.
#[test]
fn a_question_that_is_answered_with_rst_is_dropped() {
    // RFC 3168 §6.1.1.1.
    let mut h = with_ecn(EcnUse::On);
    h.start_connect(Options::default());
    h.expect(seg().syn().ace(0b111));
    h.send(seg().rst().ack(1));
    h.expect(seg().syn().seq(0));
    h.send(seg().rst().ack(1));
    h.expect_nothing();
    assert_eq!(h.ready().1, Some(Error::Refused));
}

#[test]
fn a_syn_cookie_remembers_the_answer_if_there_are_timestamps() {
    for (ts, codepoint) in [(Some(1000), Ecn::Ect0), (None, Ecn::NotEct)] {
        let mut h = Harness::with(|config| config.syn_cookies = SynCookies::Always);
        let offer = Handshake {
            ts,
            ..Handshake::default()
        };
        h.listen(16, Options::default());
        h.send(offer.syn().ace(0b111));
        let answer = seg().syn().ack(1);
        // The codes of accurate ECN would be forgotten: the answer is the classic one.
        h.expect(if ts.is_some() { answer.ece() } else { answer });
        h.send(h.handshake_ack(&offer));
        h.take_accepted();
        h.write(100);
        h.expect(seg().seq(1).len(100).ecn(codepoint));
    }
}

// ---- what may be marked (§6.1.4 to §6.1.6) ------------------------------------------------------

/// RFC 3168 §6.1.1-2, §6.1.4-1, §6.1.5-1.
#[test]
fn only_new_data_is_ecn_capable() {
    let mut h = agreed();
    h.write(2000);
    h.expect(seg().seq(1).len(1000).ecn(Ecn::Ect0));
    h.expect(seg().seq(1001).len(1000).ecn(Ecn::Ect0));
    h.advance(250);
    h.expect(seg().seq(1).len(1000).ecn(Ecn::NotEct));
    h.send(seg().seq(1).ack(2001).win(WIN));
    h.send(data(1));
    h.send(data(1001));
    h.advance(100);
    while let Some((_, _, header, payload)) = h.pop() {
        assert!(payload.is_empty(), "{header:?}");
    }
    h.send(data(2001));
    h.advance(100);
    h.expect(seg().ack(3001).ecn(Ecn::NotEct));
    h.shutdown();
    h.expect(seg().fin().ecn(Ecn::NotEct));
}

/// RFC 3168 §6.1.6-1.
#[test]
fn a_window_probe_is_not_ecn_capable() {
    let mut h = agreed();
    h.send(seg().seq(1).ack(1).win(0));
    h.write(1000);
    h.advance(2000);
    h.expect(seg().seq(1).len(1).ecn(Ecn::NotEct));
}

#[test]
fn ipv6_carries_the_same_bits() {
    let mut h = agreed_with(with_ecn(EcnUse::Passive).over_ipv6());
    h.write(1000);
    h.expect(seg().seq(1).len(1000).ecn(Ecn::Ect0));
    h.send(data(1).ecn(Ecn::Ce));
    h.expect(seg().ack(1001).ece());
}

// ---- the sender (§6.1.2) ------------------------------------------------------------------------

/// RFC 3168 §6.1.2-1, §6.1.2-2, §6.1.2-3; RFC 9293 SHLD-8.
#[test]
fn an_echo_halves_the_window_once_per_window_and_is_answered() {
    let mut h = agreed();
    h.write(20_000);
    assert_eq!(h.drain(), 10);
    assert_eq!(h.info().cwnd, 10_000);
    h.send(seg().seq(1).ack(1001).win(WIN).ece());
    let reduced = h.info();
    assert_eq!(reduced.ssthresh, 5000);
    for acked in (2001..=9001).step_by(1000) {
        h.send(seg().seq(1).ack(acked).win(WIN).ece());
    }
    assert_eq!(h.info().ssthresh, 5000, "one reduction for one window");
    // CWR goes with the first new data after it, and with nothing else.
    let (_, _, first, _) = h.pop().expect("new data");
    assert!(first.flags.contains(wire::tcp::TcpFlags::CWR));
    while let Some((_, _, header, _)) = h.pop() {
        assert!(!header.flags.contains(wire::tcp::TcpFlags::CWR));
    }
    assert_eq!(h.stack.counters().congestion_marks_obeyed, 1);
    assert_eq!(h.stack.counters().retransmits, 0);
}

#[test]
fn an_echo_in_the_next_window_counts_again() {
    let mut h = agreed();
    h.write(40_000);
    h.drain();
    h.send(seg().seq(1).ack(1001).win(WIN).ece());
    // The last segment of that window carries no CWR yet: still the same congestion.
    h.send(seg().seq(1).ack(10_001).win(WIN).ece());
    assert_eq!(h.stack.counters().congestion_marks_obeyed, 1);
    h.drain();
    h.send(seg().seq(1).ack(11_001).win(WIN).ece());
    assert_eq!(h.stack.counters().congestion_marks_obeyed, 2);
}

/// RFC 3168 §6.1.2-3.
#[test]
fn a_loss_is_reported_as_a_reduction_too() {
    let mut h = agreed();
    h.write(1000);
    h.expect(seg().len(1000).ecn(Ecn::Ect0));
    h.advance(250);
    // The retransmission carries neither CWR nor ECT.
    h.expect(seg().seq(1).len(1000).ecn(Ecn::NotEct));
    h.send(seg().seq(1).ack(1001).win(WIN));
    h.write(1000);
    h.expect(seg().seq(1001).len(1000).cwr().ecn(Ecn::Ect0));
}

/// RFC 3168 §6.1.2-4; RFC 9438 §4.6-4, §4.6-5.
#[test]
fn an_echo_to_a_window_of_one_segment_waits_for_the_timer() {
    let mut h = agreed();
    h.write(40_000);
    let echo = |n: u32| seg().seq(1).ack(n).win(WIN).ece();
    for (n, cwnd) in [
        (1001, 5000),
        (10_001, 5000),
        (11_001, 2500),
        (15_001, 2500),
        (16_001, 1000),
        (17_001, 1000),
    ] {
        h.send(echo(n));
        assert_eq!(h.info().cwnd, cwnd, "{n}");
    }
    h.drain();
    h.send(echo(18_001));
    h.advance(195);
    h.expect_nothing();
    h.advance(10);
    h.expect(seg().seq(18_001).len(1000).cwr());
    // Twice as long the second time in a row.
    h.send(echo(19_001));
    h.advance(395);
    h.expect_nothing();
    h.advance(10);
    h.expect(seg().seq(19_001).len(1000).cwr());
    // It is over.
    h.send(seg().seq(1).ack(20_001).win(WIN));
    h.expect(seg().seq(20_001).len(1000));
    h.expect(seg().seq(21_001).len(1000));
}

#[test]
fn an_echo_on_top_of_a_loss_is_the_same_congestion() {
    let mut h = agreed();
    h.write(10_000);
    h.drain();
    for _ in 0..3 {
        h.send(seg().seq(1).ack(1).win(WIN));
    }
    let before = h.info().ssthresh;
    h.send(seg().seq(1).ack(2001).win(WIN).ece());
    assert_eq!(h.info().ssthresh, before);
    assert_eq!(h.stack.counters().congestion_marks_obeyed, 0);
}

#[test]
fn what_is_not_marked_takes_the_short_way() {
    let mut h = agreed();
    let before = h.stack.counters().fast_path;
    for i in 0..10 {
        h.send(data(1 + 1000 * i).ecn(Ecn::Ect0));
    }
    h.write(3000);
    h.send(seg().seq(10_001).ack(3001).win(WIN));
    assert_eq!(h.stack.counters().fast_path, before + 11);
}

// ---- the receiver (§6.1.3) ----------------------------------------------------------------------

/// RFC 3168 §6.1.3-1; RFC 9293 SHLD-8.
#[test]
fn a_mark_is_echoed_until_the_sender_knows() {
    let mut h = agreed();
    h.send(data(1).ecn(Ecn::Ect0));
    h.send(data(1001).ecn(Ecn::Ce));
    h.drain();
    for i in 2..6 {
        h.send(data(1 + 1000 * i).ecn(Ecn::Ect0));
        h.advance(50);
        h.expect(seg().ack(1001 + 1000 * i).ece());
    }
    h.send(data(6001).cwr().ecn(Ecn::Ect0));
    h.expect(seg().ack(7001));
    // CWR and another mark: the echo goes on.
    h.send(data(7001).cwr().ecn(Ecn::Ce));
    h.expect(seg().ack(8001).ece());
    h.write(500);
    h.expect(seg().len(500).ece().ecn(Ecn::Ect0));
}

/// RFC 3168 §6.1.5-2.
#[test]
fn marks_outside_of_the_window_and_on_acks_say_nothing() {
    let mut h = agreed();
    h.send(data(1).ecn(Ecn::Ect0));
    h.advance(50);
    h.drain();
    // Old, beyond the window, and without data.
    h.send(data(1).ecn(Ecn::Ce));
    h.expect(seg().ack(1001));
    h.send(data(300_000).ecn(Ecn::Ce));
    h.expect(seg().ack(1001));
    h.send(seg().seq(1001).ack(1).win(WIN).ecn(Ecn::Ce));
    h.expect_nothing();
    h.write(10);
    h.expect(seg().len(10));
}

/// RFC 5961 §5.2: it is forged, and would have the peer slow down.
#[test]
fn a_mark_on_a_segment_with_a_wrong_ack_is_not_echoed() {
    let mut h = agreed();
    h.send(data(1).ack(9999).ecn(Ecn::Ce));
    h.expect(seg().seq(1).ack(1));
    h.send(data(1).ecn(Ecn::Ect0));
    h.advance(50);
    h.expect(seg().seq(1).ack(1001));
}

/// RFC 8257 §3.2-1.
#[test]
fn dctcp_says_of_each_segment_whether_it_was_marked() {
    // RFC 8257 §3.2, figure 1.
    let mut h = Harness::with(|config| config.congestion = CongestionControl::Dctcp);
    h = agreed_with_capable_answer(h);
    let send = |h: &mut Harness, seq, ecn| h.inject(data(seq).ecn(ecn));
    send(&mut h, 1, Ecn::Ect0);
    send(&mut h, 1001, Ecn::Ce);
    send(&mut h, 2001, Ecn::Ce);
    send(&mut h, 3001, Ecn::Ect0);
    h.transmit();
    h.expect(seg().ack(1001));
    h.expect(seg().ack(3001).ece());
    h.expect(seg().ack(4001).ecn(Ecn::Ect0));
    h.expect_nothing();
}

/// RFC 8257 §3.2-2.
#[test]
fn dctcp_says_at_once_what_has_changed() {
    let h = Harness::with(|config| {
        config.congestion = CongestionControl::Dctcp;
        config.quick_acks = 0;
    });
    let mut h = agreed_with_capable_answer(h);
    let small = |seq: u32| seg().seq(seq).ack(1).win(WIN).len(10);
    h.send(small(1).ecn(Ecn::Ect0));
    h.expect_nothing();
    h.send(small(11).ecn(Ecn::Ce));
    h.expect(seg().ack(11));
    h.expect(seg().ack(21).ece());
    h.send(small(21).ecn(Ecn::Ce));
    h.expect_nothing();
    h.send(small(31).ecn(Ecn::Ect0));
    h.expect(seg().ack(31).ece());
    h.expect(seg().ack(41));
}

/// With DCTCP, everything is ECN-capable (RFC 8257 §3.6), except what has no control block.
fn agreed_with_capable_answer(mut h: Harness) -> Harness {
    let offer = Handshake::default();
    h.listen(16, Options::default());
    h.send(offer.syn().ece().cwr());
    h.expect(seg().syn().ece().ack(1));
    h.send(h.handshake_ack(&offer));
    h.take_accepted();
    h
}

/// RFC 8257 §3.6-1.
#[test]
fn dctcp_asks_whatever_the_configuration_says() {
    let mut h = Harness::with(|config| config.congestion = CongestionControl::Dctcp);
    h.start_connect(Options::default());
    h.expect(seg().syn().ace(0b111).ecn(Ecn::Ect0));
}

// ---- end to end ---------------------------------------------------------------------------------

/// A transfer of 2 MB with one frame in `every` marked.
fn marked_transfer(ecn: EcnUse, congestion: CongestionControl, every: u64) -> Pair {
    let mut pair = Pair::new(Duration::from_millis(5), |config| {
        config.ecn = ecn;
        config.congestion = congestion;
    });
    let mut count = 0;
    transfer(&mut pair, 2_000_000, |from, _| {
        count += u64::from(from == 0);
        if from == 0 && count > 20 && count % every == 0 {
            Fate::Mark
        } else {
            Fate::Pass
        }
    });
    pair
}

#[test]
fn marks_slow_a_transfer_down_and_lose_nothing() {
    for congestion in [CongestionControl::NewReno, CongestionControl::Dctcp] {
        let pair = marked_transfer(EcnUse::On, congestion, 100);
        let [client, server] = &pair.ends;
        assert!(server.stack.counters().congestion_marks_in > 5);
        assert!(client.stack.counters().congestion_marks_obeyed > 3);
        // Only what may not be marked was lost: a FIN, say.
        assert!(client.stack.counters().retransmits < 3);
    }
}

#[test]
fn without_ecn_the_same_congestion_loses_data() {
    let pair = marked_transfer(EcnUse::Off, CongestionControl::NewReno, 100);
    assert!(pair.ends[0].stack.counters().retransmits > 5);
}
