//! Links that take several segments in one frame, and peers that send such frames.

use std::time::Duration;

use super::transfer::{Dice, transfer};
use crate::command::Options;
use crate::config::Config;
use crate::testing::{Fate, Handshake, Harness, Pair, seg};

const WIN: u16 = 60_000;

fn offload(config: &mut Config) {
    config.interfaces[0].capabilities.tx_gso = 60_000;
}

fn established(options: Options) -> Harness {
    let mut h = Harness::with(offload);
    h.listen(4, options);
    h.established_with(&Handshake::default());
    h
}

/// What one frame holds is what the windows let go; the rest waits as it would in segments of its
/// own.
#[test]
fn full_segments_go_together() {
    let mut h = established(Options::default());
    h.write(10);
    h.expect(seg().seq(1).len(10).psh());
    h.write(3500);
    h.expect(seg().seq(11).len(3000).no_psh());
    h.expect_nothing();
    h.send(seg().seq(1).ack(3011).win(WIN));
    h.expect(seg().seq(3011).len(500).psh());
}

#[test]
fn the_end_of_a_message_goes_along() {
    let mut h = established(Options::default());
    h.write(3500);
    h.expect(seg().seq(1).len(3500).psh());
    // It ended with a small segment.
    h.write(3500);
    h.expect(seg().seq(3501).len(3000).no_psh());
    h.expect_nothing();
    h.send(seg().seq(1).ack(3501).win(WIN));
    h.expect(seg().seq(6501).len(500).psh());
}

#[test]
fn without_nagle_the_rest_goes_along() {
    let mut h = established(Options {
        nodelay: true,
        ..Options::default()
    });
    h.write(3500);
    h.expect(seg().seq(1).len(3500).psh());
    h.shutdown();
    h.expect(seg().seq(3501).fin());
}

/// RFC 9293 §3.8.4: never beyond the right edge of the window.
#[test]
fn no_more_goes_than_the_peer_has_room_for() {
    let mut h = established(Options::default());
    h.send(seg().seq(1).ack(1).win(2500));
    h.write(10_000);
    h.expect(seg().seq(1).len(2000));
    h.expect_nothing();
}

/// RFC 6928 §2: ten segments, in however many frames.
#[test]
fn no_more_goes_than_the_congestion_window() {
    let mut h = established(Options::default());
    h.write(20_000);
    h.expect(seg().seq(1).len(10_000));
    h.expect_nothing();
}

#[test]
fn a_short_frame_takes_what_fits() {
    let mut h = established(Options::default());
    h.sink.gso_len = 3000;
    h.write(5000);
    h.expect(seg().seq(1).len(2000).no_psh());
    h.expect(seg().seq(2001).len(2000).no_psh());
    h.expect(seg().seq(4001).len(1000).psh());
}

/// What was lost goes again in segments of its own.
#[test]
fn retransmissions_are_single_segments() {
    let mut h = established(Options::default());
    h.write(4000);
    h.expect(seg().seq(1).len(4000));
    h.advance(3000);
    let mut count = 0;
    while let Some((_, _, _, payload)) = h.pop() {
        assert!(payload.len() <= 1000, "{} bytes", payload.len());
        count += 1;
    }
    assert!(count > 0);
}

/// RFC 5681 §4.2: an ACK for at least every second segment, and a frame with more than two of them
/// asks for one.
#[test]
fn a_received_gso_frame_is_taken_and_acknowledged() {
    let mut h = Harness::established();
    h.send(seg().seq(1).len(5000).ack(1).win(WIN));
    h.expect(seg().seq(1).ack(5001));
    h.expect_read(1, 5000);
}

#[test]
fn a_link_that_carries_gso_frames_whole_loses_nothing() {
    let mut pair = Pair::new(Duration::from_millis(5), offload);
    transfer(&mut pair, 3_000_000, |_, _| Fate::Pass);
    let counters = pair.ends[0].stack.counters();
    assert_eq!(counters.retransmits, 0);
    assert!(counters.frames_out < 300, "{}", counters.frames_out);
}

#[test]
fn a_lossy_link_carries_gso_frames_all_the_same() {
    for seed in 1..20 {
        let mut dice = Dice(seed);
        let mut pair = Pair::new(Duration::from_millis(1), offload);
        transfer(&mut pair, 300_000, |_, _| match dice.roll(5) {
            true => Fate::Lose,
            false => Fate::Pass,
        });
    }
}
