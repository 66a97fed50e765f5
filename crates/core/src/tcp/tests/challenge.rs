//! Blind attacks (RFC 5961).

use crate::drops::DropReason;
use crate::info::State;
use crate::testing::{Harness, seg};

const WIN: u16 = 60_000;

/// RFC 5961 §3.2-1, §3.2-2, §3.2-3, §3.2-4.
#[test]
fn only_the_exact_reset_is_believed() {
    let mut h = Harness::established();
    // In the window, but not RCV.NXT.
    h.send(seg().rst().seq(2));
    h.expect(seg().seq(1).ack(1));
    h.send(seg().rst().seq(60_000));
    h.expect(seg().seq(1).ack(1));
    // Outside of it.
    h.send(seg().rst().seq(0));
    h.send(seg().rst().seq(100_000));
    h.expect_nothing();
    h.expect_state(State::Established);
    assert_eq!(h.stack.counters().challenge_acks, 2);
    assert_eq!(h.stack.counters().dropped(DropReason::TcpReset), 2);
    h.send(seg().rst().seq(1));
    h.expect_state(State::Closed);
}

#[test]
fn the_exact_reset_beyond_unread_data() {
    let mut h = Harness::established();
    h.send(seg().seq(1).ack(1).win(WIN).len(10));
    h.drain();
    h.send(seg().rst().seq(11));
    h.expect_state(State::Closed);
    // What had arrived stays readable.
    h.expect_read(1, 10);
}

/// RFC 5961 §4.2-1, §4.2-2.
#[test]
fn a_syn_is_challenged_in_every_synchronized_state() {
    for mut h in [
        Harness::established(),
        Harness::fin_wait_1(),
        Harness::fin_wait_2(),
        Harness::close_wait(),
        Harness::closing(),
        Harness::last_ack(),
    ] {
        let state = h.info().state;
        let nxt = match state {
            State::Established | State::CloseWait => 1,
            _ => 2,
        };
        h.send(seg().syn().seq(5).win(WIN));
        h.expect(seg().seq(nxt).any_ack());
        h.send(seg().syn().seq(5).ack(1).win(WIN));
        h.expect(seg().seq(nxt).any_ack());
        h.send(seg().syn().seq(500_000).win(WIN));
        h.expect(seg().seq(nxt).any_ack());
        h.expect_state(state);
    }
}

#[test]
fn a_restarted_peer_finds_out() {
    // RFC 9293 §3.5.1, half-open connections: SYN, challenge ACK, RST.
    let mut h = Harness::established();
    h.write(10);
    h.drain();
    h.send(seg().syn().seq(700_000).win(WIN));
    let challenge = h.expect(seg().seq(11).ack(1));
    assert!(challenge.flags.contains(wire::tcp::TcpFlags::ACK));
    h.send(seg().rst().seq(1));
    h.expect_state(State::Closed);
}

/// RFC 9293 MAY-12; RFC 5961 §5.2-1, §5.2-2.
#[test]
fn acks_have_a_range() {
    // RFC 5961 §5.2: SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT.
    let mut h = Harness::established();
    h.write(100);
    h.drain();
    h.send(seg().seq(1).ack(101).win(WIN));
    // Old, but possible.
    h.send(seg().seq(1).ack(1).win(WIN).len(5));
    h.expect(seg().ack(6));
    // What was never sent.
    h.send(seg().seq(6).ack(102).win(WIN).len(5));
    h.expect(seg().seq(101).ack(6));
    // Impossibly old.
    h.send(
        seg()
            .seq(6)
            .ack(101u32.wrapping_sub(60_001))
            .win(WIN)
            .len(5),
    );
    h.expect(seg().seq(101).ack(6));
    assert_eq!(h.stack.counters().dropped(DropReason::TcpAck), 2);
    assert_eq!(h.app.readable(h.slot()), 5);
}

/// RFC 5961 §7-1, §7-2.
#[test]
fn challenges_are_limited() {
    // RFC 5961 §7: ten in five seconds on one connection ...
    let mut h = Harness::established();
    let mut sent = 0;
    for i in 0..100 {
        h.send(seg().rst().seq(2 + i));
        sent += h.drain();
    }
    assert_eq!(sent, 10);
    h.advance(500);
    h.send(seg().rst().seq(2));
    assert_eq!(h.drain(), 1);
    // ... and about so many on all of them, in a second.
    let mut h = Harness::with(|config| config.reply_rate = 4).and_established(&Default::default());
    for i in 0..100 {
        h.send(seg().rst().seq(2 + i));
    }
    let sent = h.drain();
    assert!((2..6).contains(&sent), "{sent}");
}

#[test]
fn old_windows_do_not_replace_new_ones() {
    // RFC 9293 §3.10.7.4: SND.WL1 and SND.WL2.
    let mut h = Harness::established();
    h.send(seg().seq(1).ack(1).win(1000).len(10));
    assert_eq!(h.info().snd_wnd, 1000);
    h.send(seg().seq(11).ack(1).win(500).len(10));
    assert_eq!(h.info().snd_wnd, 500);
    // An older segment that was delayed: still (partly) in the window, but before WL1.
    h.send(seg().seq(5).ack(1).win(9000).len(30));
    assert_eq!(h.info().snd_wnd, 500);
    h.write(10);
    h.send(seg().seq(35).ack(11).win(800));
    assert_eq!(h.info().snd_wnd, 800);
    h.send(seg().seq(35).ack(1).win(7000));
    assert_eq!(h.info().snd_wnd, 800);
}
