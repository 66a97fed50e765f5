//! Keepalive (RFC 9293 §3.8.4).

use std::time::Duration;

use crate::command::{Keepalive, Options};
use crate::error::Error;
use crate::info::State;
use crate::testing::{Handshake, Harness, seg};

const WIN: u16 = 60_000;

fn established() -> Harness {
    let mut h = Harness::new();
    h.listen(
        4,
        Options {
            keepalive: Some(Keepalive {
                idle: Duration::from_secs(60),
                interval: Duration::from_secs(10),
                count: 3,
            }),
            ..Options::default()
        },
    );
    h.and_established(&Handshake::default())
}

/// RFC 9293 MUST-25.
#[test]
fn off_by_default() {
    let mut h = Harness::established();
    h.expect_silence(24 * 3600 * 1000);
}

/// RFC 9293 MUST-27, MUST-29, SHLD-12.
#[test]
fn a_silent_peer_is_probed_and_given_up() {
    let mut h = established();
    h.expect_silence(59_000);
    h.advance(1_000);
    // SEG.SEQ = SND.NXT - 1, no data.
    h.expect(seg().seq(0).ack(1));
    h.advance(10_000);
    h.expect(seg().seq(0).ack(1));
    h.advance(10_000);
    h.expect(seg().seq(0).ack(1));
    h.expect_state(State::Established);
    h.advance(10_000);
    h.expect(seg().rst().any_ack());
    assert_eq!(h.ready().1, Some(Error::TimedOut));
    h.close();
    h.expect_gone();
}

/// RFC 9293 MUST-26.
#[test]
fn an_answer_starts_the_silence_over() {
    let mut h = established();
    for _ in 0..5 {
        h.advance(60_000);
        h.expect(seg().seq(0).ack(1));
        h.send(seg().seq(1).ack(1).win(WIN));
        h.expect_silence(59_000);
        h.advance(1_000);
        h.expect(seg().seq(0).ack(1));
        h.send(seg().seq(1).ack(1).win(WIN));
    }
    h.expect_state(State::Established);
}

/// RFC 9293 MUST-26.
#[test]
fn data_in_flight_is_probe_enough() {
    let mut h = established();
    h.write(10);
    h.advance(70_000);
    while let Some((_, _, _, payload)) = h.pop() {
        assert_eq!(payload.len(), 10, "retransmissions only");
    }
}

#[test]
fn the_probes_of_a_peer_are_answered() {
    // With and without the octet of garbage.
    let mut h = Harness::established();
    for probe in [
        seg().seq(0).ack(1).win(WIN),
        seg().seq(0).ack(1).win(WIN).len(1),
    ] {
        h.send(probe);
        h.expect(seg().seq(1).ack(1));
    }
    assert_eq!(h.app.readable(h.slot()), 0);
}
