//! A closed window is probed (RFC 9293 §3.8.6.1).

use crate::error::Error;
use crate::info::State;
use crate::testing::{Handshake, Harness, seg};

const WIN: u16 = 60_000;

/// A closed window, and data that waits for it. The RTO is 1 s at least.
fn blocked() -> Harness {
    blocked_with(|_| {})
}

fn blocked_with(change: impl FnOnce(&mut crate::Config)) -> Harness {
    let mut h = Harness::with(|config| {
        config.rto_min = std::time::Duration::from_secs(1);
        change(config);
    })
    .and_established(&Handshake::default());
    h.write(1000);
    h.expect(seg().seq(1).len(1000));
    h.send(seg().seq(1).ack(1001).win(0));
    h.write(3000);
    h.expect_nothing();
    h
}

/// RFC 9293 MUST-36, SHLD-29, SHLD-30.
#[test]
fn probes_come_ever_more_rarely() {
    let mut h = blocked();
    let start = h.elapsed();
    let mut at = Vec::new();
    for _ in 0..310 {
        h.advance(100);
        if let Some((_, _, header, payload)) = h.pop() {
            assert_eq!(payload.len(), 1, "one octet of new data");
            assert_eq!(header.flags, wire::tcp::TcpFlags::ACK);
            at.push(h.elapsed() - start);
            h.send(seg().seq(1).ack(1001).win(0));
        }
    }
    // After one RTO, then doubled.
    assert_eq!(at, [1000, 3000, 7000, 15_000, 31_000]);
}

#[test]
fn the_window_opens() {
    let mut h = blocked();
    h.advance(1000);
    h.expect(seg().seq(1001).len(1));
    h.send(seg().seq(1).ack(1001).win(0));
    h.send(seg().seq(1).ack(1001).win(WIN));
    // The octet of the probe was not taken: it goes again, in a full segment.
    h.expect(seg().seq(1001).len(1000));
    h.expect(seg().seq(2001).len(1000));
    h.expect(seg().seq(3001).len(1000));
    h.expect_nothing();
    h.send(seg().seq(1).ack(4001).win(WIN));
    h.expect_silence(10_000);
}

#[test]
fn the_window_opens_before_the_first_probe() {
    let mut h = blocked();
    h.send(seg().seq(1).ack(1001).win(1500));
    h.expect(seg().seq(1001).len(1000));
    h.expect_nothing();
}

#[test]
fn a_probe_may_be_taken() {
    let mut h = blocked();
    h.advance(1000);
    h.expect(seg().seq(1001).len(1));
    h.send(seg().seq(1).ack(1002).win(0));
    h.expect_nothing();
    h.send(seg().seq(1).ack(1002).win(WIN));
    h.expect(seg().seq(1002).len(1000));
}

/// RFC 9293 MUST-37.
#[test]
fn the_connection_stays_open_while_the_peer_answers() {
    let mut h = blocked();
    for _ in 0..2000 {
        h.advance(1000);
        if h.pop().is_some() {
            h.send(seg().seq(1).ack(1001).win(0));
        }
    }
    h.expect_state(State::Established);
    h.send(seg().seq(1).ack(1001).win(WIN));
    assert_eq!(h.drain(), 3, "{:?}", h.info());
}

#[test]
fn the_connection_fails_when_the_peer_is_silent() {
    let mut h =
        Harness::with(|config| config.data_retries = 4).and_established(&Handshake::default());
    h.write(1000);
    h.send(seg().seq(1).ack(1001).win(0));
    h.write(10);
    h.advance(100_000);
    assert_eq!(h.ready().1, Some(Error::TimedOut));
    assert_eq!(h.stack.counters().window_probes, 4);
}

fn blocked_for(user_timeout: u64) -> Harness {
    let mut h = blocked();
    let id = h.id();
    h.execute(crate::Command::SetOptions {
        conn: id,
        options: crate::command::Options {
            user_timeout: Some(std::time::Duration::from_millis(user_timeout)),
            ..Default::default()
        },
    });
    h
}

/// tcp(7): TCP_USER_TIMEOUT also ends the wait for a window that nobody says to be closed any more.
/// RFC 9293 MUST-21.
#[test]
fn the_user_timeout_counts_from_the_first_probe_without_an_answer() {
    let mut h = blocked_for(5000);
    h.advance(1000);
    h.expect(seg().seq(1001).len(1));
    h.send(seg().seq(1).ack(1001).win(0));
    h.advance(2000);
    h.expect(seg().seq(1001).len(1));
    h.advance(4999);
    h.expect_state(State::Established);
    h.advance(1);
    assert_eq!(h.ready().1, Some(Error::TimedOut));
    h.expect_state(State::Closed);
}

/// RFC 9293 MUST-37.
#[test]
fn the_user_timeout_does_not_count_while_the_peer_answers_probes() {
    let mut h = blocked_for(500);
    for _ in 0..1000 {
        h.advance(1000);
        while h.pop().is_some() {
            h.send(seg().seq(1).ack(1001).win(0));
        }
    }
    h.expect_state(State::Established);
}

#[test]
fn nobody_waits_forever_for_a_connection_that_was_closed() {
    for (orphan_retries, lasts) in [(8, 1..2000), (2, 6..8)] {
        let mut h = blocked_with(|config| config.orphan_retries = orphan_retries);
        h.close();
        let start = h.elapsed();
        while h.stack.usage().connections > 0 {
            h.advance(1000);
            while let Some((_, _, header, _)) = h.pop() {
                if !header.flags.contains(wire::tcp::TcpFlags::RST) {
                    h.send(seg().seq(1).ack(1001).win(0));
                }
            }
        }
        h.expect_gone();
        assert!(lasts.contains(&((h.elapsed() - start) / 1000)));
    }
}

#[test]
fn a_fin_waits_for_the_window_and_probes() {
    let mut h = Harness::established();
    h.write(10);
    h.expect(seg().seq(1).len(10));
    h.send(seg().seq(1).ack(11).win(0));
    h.shutdown();
    h.expect_nothing();
    h.advance(1000);
    h.expect(seg().seq(11).fin().ack(1));
    h.send(seg().seq(1).ack(12).win(0));
    h.expect_state(State::FinWait2);
}

/// RFC 9293 MUST-34, MUST-35; RFC 7323 §2.4-3.
#[test]
fn a_window_that_closes_on_data_in_flight_is_probed_too() {
    let mut h = Harness::established();
    h.write(2000);
    assert_eq!(h.drain(), 2);
    // The peer took the first and shrank its window (it should not).
    h.send(seg().seq(1).ack(1001).win(0));
    h.advance(200);
    h.expect(seg().seq(1001).len(1));
    let info = h.info();
    assert_eq!(info.cwnd, 10_000, "a closed window is no congestion");
    h.send(seg().seq(1).ack(1001).win(WIN));
    h.expect(seg().seq(1001).len(1000));
}

#[test]
fn a_window_smaller_than_worthwhile_is_used_at_last() {
    // RFC 9293 §3.8.6.2.1 (4): the override time-out.
    let mut h = Harness::established();
    h.write(1000);
    h.expect(seg().len(1000));
    h.send(seg().seq(1).ack(1001).win(100));
    h.write(5000);
    h.expect_nothing();
    h.advance(200);
    h.expect(seg().seq(1001).len(100));
    h.send(seg().seq(1).ack(1101).win(WIN));
    h.expect(seg().seq(1101).len(1000));
}

#[test]
fn a_window_that_stays_closed_for_too_long_ends_the_connection() {
    // RFC 6429 §5: not by default, but whoever has to may.
    let limit = std::time::Duration::from_secs(30);
    let mut h = blocked_with(|config| config.persist_timeout = Some(limit));
    let start = h.elapsed();
    let reset = loop {
        h.advance(1000);
        match h.pop() {
            Some((_, _, header, _)) if header.flags.contains(wire::tcp::TcpFlags::RST) => {
                break h.elapsed() - start;
            }
            Some(_) => h.send(seg().seq(1).ack(1001).win(0)),
            None => assert!(h.elapsed() - start < 120_000, "no end"),
        }
    };
    // The first probe after that.
    assert!((30_000..64_000).contains(&reset), "{reset}");
    assert_eq!(h.ready().1, Some(Error::TimedOut));
}

/// RFC 9293 MUST-34, SHLD-15.
#[test]
fn a_window_taken_back_below_what_is_in_flight_is_kept_to() {
    // RFC 9293 §3.8.6: a sender MUST be robust against that. Nothing new is sent, and what lies in
    // the window again and again.
    let mut h = Harness::established();
    h.write(12_000);
    assert_eq!(h.drain(), 10);
    h.send(seg().seq(1).ack(1001).win(1500));
    h.expect_nothing();
    h.advance(250);
    h.expect(seg().seq(1001).len(1000));
    h.send(seg().seq(1).ack(2001).win(1500));
    h.expect(seg().seq(2001).len(1000));
    h.expect(seg().seq(3001).len(500));
    h.expect_nothing();
    h.send(seg().seq(1).ack(3501).win(0));
    // Closed altogether: one octet from time to time.
    h.advance(1000);
    h.expect(seg().seq(3501).len(1));
    h.drain();
    h.send(seg().seq(1).ack(3501).win(WIN));
    let mut next = 3501;
    for _ in 0..200 {
        while let Some((_, _, header, payload)) = h.pop() {
            let seq = header.seq - h.sent_syn();
            if seq <= next {
                next = next.max(seq + payload.len() as u32);
            }
        }
        h.send(seg().seq(1).ack(next).win(WIN));
        h.advance(10);
    }
    assert_eq!(next, 12_001);
    assert_eq!(h.info().flight, 0);
}
