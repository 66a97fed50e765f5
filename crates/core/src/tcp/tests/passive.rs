//! Passive open: CLOSED, LISTEN and SYN_RECEIVED (RFC 9293 §3.10.7.1, §3.10.7.2, §3.10.7.4).

use crate::command::Options;
use crate::drops::DropReason;
use crate::event::Ready;
use crate::info::State;
use crate::testing::{Handshake, Harness, seg};

fn listening() -> Harness {
    let mut h = Harness::new();
    h.listen(16, Options::default());
    h
}

#[test]
fn closed_answers_everything_but_rst_with_rst() {
    let mut h = Harness::new();
    // "If the ACK bit is off, sequence number zero is used:
    // <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>".
    h.send(seg().syn().seq(0).len(10));
    let rst = h.expect(seg().rst().ack(11));
    assert_eq!(rst.seq.0, 0);
    // "If the ACK bit is on, <SEQ=SEG.ACK><CTL=RST>".
    h.send(seg().seq(5).ack(77).len(3));
    h.expect(seg().rst().seq(77));
    h.send(seg().rst().seq(5));
    h.send(seg().rst().seq(5).ack(9));
    h.expect_nothing();
    assert_eq!(h.stack.counters().dropped(DropReason::TcpNoConnection), 4);
}

#[test]
fn resets_to_nowhere_are_limited() {
    let mut h = Harness::with(|config| config.reset_rate = 5);
    for _ in 0..20 {
        h.send(seg().seq(5).ack(77));
    }
    // From half of it to one and a half: nobody outside knows the quota of a second.
    let sent = h.drain() as u64;
    assert!((3..8).contains(&sent), "{sent}");
    let counters = h.stack.counters();
    assert_eq!(counters.dropped(DropReason::ReplyLimited), 20 - sent);
}

/// All closed ports of a host are found closed: as fast as anybody asks who waits for the answers.
#[test]
fn a_scan_of_all_ports_is_answered() {
    let mut h = Harness::new();
    for port in 1..40_000 {
        h.inject(Handshake::default().syn().port(port));
        if port % 64 == 0 {
            h.transmit();
        }
    }
    h.transmit();
    assert_eq!(h.drain(), 39_999);
    assert_eq!(h.stack.counters().dropped(DropReason::ReplyLimited), 0);
}

#[test]
fn listen_answers_only_syns() {
    let mut h = listening();
    h.send(seg().rst().seq(1));
    h.send(seg().seq(1).len(5));
    h.send(seg().fin().seq(1));
    h.send(seg().syn().fin().seq(0));
    h.expect_nothing();
    // "Any acknowledgment is bad if it arrives on a connection still in the LISTEN state."
    h.send(seg().seq(1).ack(500));
    h.expect(seg().rst().seq(500));
    h.send(seg().syn().ack(500));
    h.expect(seg().rst().seq(500));
    assert_eq!(h.stack.usage().half_open, 0);
}

/// RFC 7323 §2.2-2, §3.2-4; RFC 2018 §4-1.
#[test]
fn handshake_establishes_and_announces() {
    let mut h = listening();
    let offer = Handshake::default();
    let syn_ack = h.syn_received(&offer);
    // Nothing that was not offered is answered with.
    assert_eq!(syn_ack.options.mss, Some(1460));
    assert_eq!(syn_ack.options.window_scale, None);
    assert_eq!(syn_ack.options.timestamps, None);
    assert!(!syn_ack.options.sack_permitted);
    assert_eq!(syn_ack.window, u16::MAX);
    assert_eq!(
        (h.stack.usage().half_open, h.stack.usage().connections),
        (1, 0)
    );
    h.send(h.handshake_ack(&offer));
    h.expect_nothing();
    assert_eq!(
        (h.stack.usage().half_open, h.stack.usage().connections),
        (0, 1)
    );
    h.take_accepted();
    h.expect_state(State::Established);
    assert!(h.ready().0.contains(Ready::CONNECTED | Ready::WRITABLE));
}

/// RFC 9293 MUST-1, REC-1, MUST-14; RFC 7323 §2.2-1, §2.3-1.
#[test]
fn options_are_agreed_on() {
    let mut h = listening();
    let offer = Handshake {
        mss: Some(1200),
        wscale: Some(3),
        sack: true,
        ts: Some(9000),
        ..Handshake::default()
    };
    h.syn_received(&offer);
    h.send(offer.syn());
    // max_buffer is 1 MiB: scale 5 makes it expressible.
    h.expect(seg().syn().ack(1).seq(0).wscale(5).sack_ok().ts(0, 9000));
    h.send(h.handshake_ack(&offer));
    h.take_accepted();
    let info = h.info();
    assert!(info.sack && info.timestamps);
    assert_eq!((info.snd_wscale, info.rcv_wscale), (3, 5));
    assert_eq!(info.snd_wnd, 60_000 << 3);
    // The peer's MSS less the timestamps in every segment.
    assert_eq!(info.snd_mss, 1188);
}

#[test]
fn without_an_mss_option_it_is_536() {
    let offer = Handshake {
        mss: None,
        ..Handshake::default()
    };
    let mut h = Harness::new().and_established(&offer);
    assert_eq!(h.info().snd_mss, 536);
}

/// RFC 9293 MUST-15.
#[test]
fn over_ipv6_without_an_mss_option_it_is_1220() {
    let offer = Handshake {
        mss: None,
        ..Handshake::default()
    };
    let mut h = Harness::new().over_ipv6();
    h.listen(16, Options::default());
    let syn_ack = h.syn_received(&offer);
    assert_eq!(syn_ack.options.mss, Some(1440));
    h.send(h.handshake_ack(&offer));
    h.take_accepted();
    assert_eq!(h.info().snd_mss, 1220);
    h.write(5);
    h.expect(seg().seq(1).ack(1).len(5).psh());
}

#[test]
fn a_repeated_syn_gets_the_same_answer() {
    let mut h = listening();
    let offer = Handshake::default();
    let first = h.syn_received(&offer);
    h.send(offer.syn());
    let again = h.expect(seg().syn().ack(1).seq(0));
    assert_eq!(first.seq, again.seq);
    assert_eq!(h.stack.usage().half_open, 1);
}

#[test]
fn the_syn_ack_is_sent_again_until_it_is_given_up() {
    let mut h = Harness::with(|config| config.syn_ack_retries = 3);
    h.syn_received(&Handshake::default());
    let mut at = Vec::new();
    for _ in 0..200 {
        h.advance(100);
        if h.pop().is_some() {
            at.push(h.elapsed());
        }
    }
    // RFC 6298 §2.1, §5.5: 1 s, then doubled.
    assert_eq!(at, [1000, 3000, 7000]);
    assert_eq!(h.stack.usage().half_open, 0);
    assert_eq!(h.stack.usage().timers, 0);
}

/// RFC 9293 MUST-11.
#[test]
fn reset_in_syn_received_goes_back_to_listen() {
    let mut h = listening();
    let offer = Handshake::default();
    h.syn_received(&offer);
    // Not exactly RCV.NXT: a challenge (RFC 5961 §3.2).
    h.send(seg().rst().seq(2));
    h.expect(seg().seq(1).ack(1));
    assert_eq!(h.stack.usage().half_open, 1);
    h.send(seg().rst().seq(1));
    h.expect_nothing();
    assert_eq!(h.stack.usage().half_open, 0);
    h.syn_received(&offer);
}

#[test]
fn another_syn_in_the_window_goes_back_to_listen() {
    let mut h = listening();
    h.syn_received(&Handshake::default());
    h.send(seg().syn().seq(100));
    h.expect_nothing();
    assert_eq!(h.stack.usage().half_open, 0);
}

#[test]
fn a_segment_outside_the_window_is_acknowledged() {
    let mut h = listening();
    h.syn_received(&Handshake::default());
    h.send(seg().seq(200_000).ack(1).len(3));
    h.expect(seg().seq(1).ack(1));
    assert_eq!(h.stack.usage().half_open, 1);
}

#[test]
fn a_wrong_ack_in_syn_received_is_reset() {
    let mut h = listening();
    h.syn_received(&Handshake::default());
    h.send(seg().seq(1).ack(2));
    h.expect(seg().rst().seq(2));
    h.send(seg().seq(1).ack(0));
    h.expect(seg().rst().seq(0));
    assert_eq!(h.stack.usage().half_open, 1);
}

/// A SYN of a connection that is over here comes late. The peer, in TIME_WAIT, acknowledges what
/// it had got, which may be what a new connection begins with. Its timestamps are those of the old
/// one.
#[test]
fn an_ack_that_echoes_what_was_sent_before_the_syn_completes_nothing() {
    let mut h = listening();
    h.advance(5000);
    let offer = Handshake {
        ts: Some(1000),
        ..Handshake::default()
    };
    h.syn_received(&offer);
    h.advance(3);
    // The SYN-ACK's timestamp is the harness's 0.
    for echoed in [0_u32.wrapping_sub(2), 0_u32.wrapping_sub(700), 4] {
        h.send(seg().seq(1).ack(1).win(60_000).len(5).ts(1010, echoed));
        h.expect(seg().seq(1).ack(1).ts(3, 1000));
    }
    assert_eq!(h.stack.counters().dropped(DropReason::TcpAck), 3);
    assert_eq!(h.stack.usage().half_open, 1);
    // The SYN-ACK goes again; the answer to the first comes after all.
    h.advance(1000);
    h.expect(seg().syn().ack(1).seq(0).ts(1000, 1000));
    h.send(seg().seq(1).ack(1).win(60_000).ts(1011, 0));
    h.take_accepted();
    h.expect_state(State::Established);
}

/// As on Linux: something between the two may have cleared it.
#[test]
fn an_ack_that_echoes_zero_completes_the_handshake() {
    let mut h = listening();
    let syn_ack = h.syn_received(&Handshake {
        ts: Some(1000),
        ..Handshake::default()
    });
    let first = syn_ack.options.timestamps.unwrap().tsval;
    let zero = 0_u32.wrapping_sub(first);
    h.send(seg().seq(1).ack(1).win(60_000).ts(1001, zero));
    h.take_accepted();
    h.expect_state(State::Established);
}

#[test]
fn data_and_fin_may_come_with_the_last_ack() {
    let mut h = listening();
    h.syn_received(&Handshake::default());
    h.send(seg().seq(1).ack(1).win(60_000).len(100).fin());
    h.expect(seg().seq(1).ack(102));
    h.take_accepted();
    h.expect_state(State::CloseWait);
    h.expect_read(1, 100);
}

#[test]
fn data_may_come_before_the_last_ack() {
    let mut h = listening();
    h.syn_received(&Handshake::default());
    // The ACK was lost; the data segment does its work.
    h.send(seg().seq(1).ack(1).win(60_000).len(10));
    h.take_accepted();
    h.expect_read(1, 10);
}

#[test]
fn text_in_a_syn_comes_again() {
    let mut h = listening();
    h.send(Handshake::default().syn().len(10));
    h.expect(seg().syn().ack(1));
    h.send(seg().seq(1).ack(1).win(60_000).len(10));
    h.expect(seg().ack(11));
    h.take_accepted();
    assert_eq!(h.app.readable(h.slot()), 10);
}

/// RFC 5681 §3.1-2.
#[test]
fn the_handshake_measures_the_round_trip() {
    let mut h = listening();
    let offer = Handshake::default();
    h.syn_received(&offer);
    h.advance(120);
    h.send(h.handshake_ack(&offer));
    h.take_accepted();
    let info = h.info();
    assert_eq!(info.srtt.as_millis(), 120);
    assert_eq!(info.rto.as_millis(), 120 + 4 * 60);
    // RFC 6928: ten segments.
    assert_eq!(info.cwnd, 10_000);
}

/// RFC 6298 §5-8; RFC 5681 §3.1-3.
#[test]
fn a_lost_syn_ack_costs_the_initial_window() {
    let mut h = listening();
    let offer = Handshake::default();
    h.syn_received(&offer);
    h.advance(1100);
    h.expect(seg().syn().ack(1));
    h.send(h.handshake_ack(&offer));
    h.take_accepted();
    let info = h.info();
    // RFC 5681 §3.1: one segment; RFC 6298 §5.7: 3 s; Karn: no measurement.
    assert_eq!(info.cwnd, 1000);
    assert_eq!(info.rto.as_secs(), 3);
    assert_eq!(info.srtt.as_micros(), 0);
}

#[test]
fn a_reset_before_accept_leaves_nothing() {
    let mut h = listening();
    let offer = Handshake::default();
    h.syn_received(&offer);
    h.send(h.handshake_ack(&offer));
    h.send(seg().rst().seq(1));
    assert_eq!(h.events(), []);
    let usage = h.stack.usage();
    assert_eq!((usage.connections, usage.flows, usage.events), (0, 0, 0));
}
