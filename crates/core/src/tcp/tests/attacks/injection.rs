//! Blind injection (RFC 5961): the attacker knows addresses and ports and guesses numbers.

use std::time::Duration;

use wire::impair::Rng;

use crate::command::Options;
use crate::drops::DropReason;
use crate::info::State;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;
/// The window that we offer.
const WINDOW: u32 = 64 << 10;

/// Numbers all over the sequence space, some of them next to the only right one, which is left out.
fn guesses(right: u32) -> impl Iterator<Item = u32> {
    let mut rng = Rng::new(7);
    (0..20_000)
        .map(move |i| match i % 4 {
            0 => rng.next_u32(),
            1 => right.wrapping_add(rng.next_u32() % 16).wrapping_sub(8),
            2 => right.wrapping_add(rng.next_u32() % WINDOW),
            _ => right.wrapping_sub(rng.next_u32() % WINDOW),
        })
        .filter(move |&guess| guess != right)
}

/// The attacker sends `forge` of each guess, a thousand a second. Answers are few, and the
/// connection goes on.
#[track_caller]
fn survives(forge: impl Fn(u32) -> Seg) {
    let mut h = Harness::established();
    let mut answers = 0;
    for guess in guesses(1) {
        h.send(forge(guess));
        answers += h.drain();
        h.advance(1);
    }
    h.expect_state(State::Established);
    // RFC 5961 §7: ten, and two in each of the twenty seconds.
    assert!(answers <= 10 + 2 * 20, "{answers} answers");
    h.send(seg().seq(1).ack(1).win(WIN).len(100));
    h.drain();
    h.expect_read(1, 100);
    h.write(100);
    h.expect(seg().seq(1).ack(101).len(100));
}

/// RFC 5961 §3.2-1, §3.2-3, §3.2-4.
#[test]
fn blind_resets() {
    survives(|guess| seg().rst().seq(guess));
    survives(|guess| seg().rst().seq(guess).ack(1));
}

/// A SYN ends nothing wherever it lies, not even at RCV.NXT.
/// RFC 5961 §4.2-1, §4.2-2.
#[test]
fn blind_syns() {
    survives(|guess| seg().syn().seq(guess).win(WIN));
    survives(|guess| seg().syn().seq(guess).ack(1).win(WIN));
    let mut h = Harness::established();
    h.send(seg().syn().seq(1).win(WIN));
    h.expect(seg().seq(1).ack(1));
    h.expect_state(State::Established);
}

/// Data in the window needs an acknowledgment number that was possible, too (§5): one in 2^32 /
/// (MAX.SND.WND + 1) guesses, both together. RFC 5961 §5.2-1.
#[test]
fn blind_data() {
    let mut h = Harness::established();
    h.write(1000);
    h.drain();
    h.send(seg().seq(1).ack(1001).win(WIN));
    for guess in guesses(1001) {
        let possible = guess.wrapping_sub(1) <= 1000;
        if possible {
            continue;
        }
        h.send(seg().seq(1).ack(guess).win(WIN).len(20));
        h.send(seg().seq(50).ack(guess).win(WIN).len(20));
    }
    assert_eq!(h.app.readable(h.slot()), 0);
    assert_eq!(h.stack.usage().range_sets, 0);
    h.drain();
    h.send(seg().seq(1).ack(1001).win(WIN).len(200));
    h.advance(100);
    h.expect(seg().seq(1001).ack(201));
    h.expect_read(1, 200);
}

/// A young connection: what was never acknowledged cannot be repeated, however large the window
/// (§5.2).
#[test]
fn acks_older_than_the_connection() {
    let mut h = Harness::established();
    for age in [2, 100, 1000, 59_999] {
        h.send(seg().seq(1).ack(1u32.wrapping_sub(age)).win(WIN).len(10));
    }
    assert_eq!(h.stack.counters().dropped(DropReason::TcpAck), 4);
    assert_eq!(h.app.readable(h.slot()), 0);
}

/// What has an impossible acknowledgment number does not even show that somebody is there.
#[test]
fn blind_segments_are_no_sign_of_life() {
    let mut h = Harness::new();
    let options = Options {
        idle_timeout: Some(Duration::from_secs(30)),
        ..Options::default()
    };
    h.listen(4, options);
    let mut h = h.and_established(&Handshake::default());
    h.advance(20_000);
    h.send(seg().seq(1).ack(70_000).win(WIN).len(10));
    h.drain();
    h.advance(9_900);
    h.expect_nothing();
    h.advance(200);
    h.expect(seg().rst().any_ack());
}

/// A forged FIN needs the same numbers as data.
#[test]
fn blind_fins() {
    survives(|guess| seg().fin().seq(guess.wrapping_add(200_000)).ack(1).win(WIN));
    let mut h = Harness::established();
    for ack in [100, 70_000, 1 << 31] {
        h.send(seg().fin().seq(1).ack(ack).win(WIN));
    }
    h.expect_state(State::Established);
}

/// A SYN without the number of ours, that crosses it, must not spoil an attempt to connect.
#[test]
fn a_blind_syn_at_an_attempt_to_connect() {
    let mut h = Harness::new();
    h.start_connect(Options::default());
    h.drain();
    for guess in guesses(0).take(100) {
        h.send(seg().syn().seq(guess).win(WIN));
        h.drain();
    }
    h.send(Handshake::default().syn().ack(1));
    h.expect_state(State::Established);
    h.drain();
    h.send(seg().seq(1).ack(1).win(WIN).len(100));
    h.expect_read(1, 100);
}

/// Half-open: what is not exactly right neither completes nor ends it.
#[test]
fn blind_segments_at_a_half_open_connection() {
    let mut h = Harness::new();
    h.syn_received(&Default::default());
    let mut answers = 0;
    for guess in guesses(1) {
        h.send(seg().rst().seq(guess));
        answers += h.drain();
    }
    assert_eq!(h.stack.usage().half_open, 1);
    assert!(answers <= 1500, "{answers}");
    for guess in guesses(1).take(1000) {
        h.send(seg().seq(1).ack(guess).win(WIN));
    }
    assert_eq!(h.stack.usage().connections, 0);
    h.drain();
    let ack = h.handshake_ack(&Default::default());
    h.send(ack);
    h.take_accepted();
}
