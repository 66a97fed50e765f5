//! SACK: what a receiver reports (RFC 2018, RFC 2883), what a sender does with it (RFC 6675,
//! RFC 8985).

use crate::info::State;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;

fn offer() -> Handshake {
    Handshake {
        sack: true,
        ..Handshake::default()
    }
}

fn data(seq: u32, len: usize) -> Seg {
    seg().seq(seq).ack(1).win(WIN).len(len)
}

/// Connections with a round-trip time of 40 ms.
fn far() -> Harness {
    let mut h = Harness::new();
    let offer = offer();
    h.syn_received(&offer);
    h.advance(40);
    h.send(h.handshake_ack(&offer));
    h.take_accepted();
    h.events();
    h
}

/// Ten segments, one round trip ago; there is more.
fn ten_in_flight() -> Harness {
    in_flight(40_000)
}

fn in_flight(len: usize) -> Harness {
    let mut h = far();
    h.write(len);
    assert_eq!(h.drain(), 10);
    h.advance(40);
    h
}

fn ack(n: u32, blocks: &[(u32, u32)]) -> Seg {
    seg().seq(1).ack(n).win(WIN).sack(blocks)
}

// ---- receiver -----------------------------------------------------------------------------------

/// RFC 2018 §4-2, §4-3, §4-4, §4-6.
#[test]
fn what_is_held_is_reported_latest_first() {
    let mut h = Harness::new().and_established(&offer());
    h.send(data(1001, 500));
    h.expect(seg().ack(1).sack(&[(1001, 1501)]));
    h.send(data(2001, 500));
    h.expect(seg().ack(1).sack(&[(2001, 2501), (1001, 1501)]));
    h.send(data(3001, 500));
    h.expect(
        seg()
            .ack(1)
            .sack(&[(3001, 3501), (2001, 2501), (1001, 1501)]),
    );
    h.send(data(1501, 500));
    h.expect(seg().ack(1).sack(&[(1001, 2501), (3001, 3501)]));
    h.send(data(1, 1000));
    h.expect(seg().ack(2501).sack(&[(3001, 3501)]));
    h.send(data(2501, 500));
    h.expect(seg().ack(3501).sack(&[]));
}

/// RFC 2018 §4-5.
#[test]
fn four_blocks_fit_and_three_with_timestamps() {
    for (ts, fit) in [(None, 4), (Some(1), 3)] {
        let mut h = Harness::new().and_established(&Handshake { ts, ..offer() });
        let mut blocks = Vec::new();
        for i in 0..6 {
            let seq = 1001 + i * 1000;
            let segment = data(seq, 100);
            h.send(if ts.is_some() {
                segment.ts(1, 0)
            } else {
                segment
            });
            blocks.insert(0, (seq, seq + 100));
            blocks.truncate(fit);
            h.expect(seg().ack(1).sack(&blocks));
        }
    }
}

/// RFC 2018 §4-1.
#[test]
fn nothing_is_reported_unless_it_was_agreed_on() {
    let mut h = Harness::established();
    h.send(data(1001, 500));
    h.expect(seg().ack(1).sack(&[]));
}

#[test]
fn data_makes_room_for_blocks() {
    let mut h = Harness::new().and_established(&offer());
    h.send(data(1001, 500));
    h.expect(seg().ack(1));
    h.write(2000);
    // 12 bytes of option: RFC 6691.
    h.expect(seg().seq(1).len(988).sack(&[(1001, 1501)]));
    h.expect(seg().seq(989).len(988).sack(&[(1001, 1501)]));
}

/// RFC 2883 §4-1, §4-2, §4-3, §4-4, §4-5.
#[test]
fn what_came_twice_is_reported() {
    // RFC 2883 §4.1.1: below the ACK.
    let mut h = Harness::new().and_established(&offer());
    h.send(data(1, 1000));
    h.expect(seg().ack(1001).sack(&[]));
    h.send(data(1, 1000));
    h.expect(seg().ack(1001).sack(&[(1, 1001)]));
    // Once.
    h.send(data(1001, 500));
    h.expect(seg().ack(1501).sack(&[]));
    // §4.2: above it, with the block around it.
    h.send(data(3001, 1000));
    h.expect(seg().ack(1501).sack(&[(3001, 4001)]));
    h.send(data(5001, 1000));
    h.expect(seg().ack(1501).sack(&[(5001, 6001), (3001, 4001)]));
    h.send(data(3501, 500));
    h.expect(
        seg()
            .ack(1501)
            .sack(&[(3501, 4001), (3001, 4001), (5001, 6001)]),
    );
}

/// RFC 2883 §4.2: part of a segment is a duplicate. The first such part, if there are several.
/// RFC 2883 §4-1, §4-3.
#[test]
fn parts_that_came_twice_are_reported() {
    let mut h = Harness::new().and_established(&offer());
    h.send(data(1, 1000));
    h.expect(seg().ack(1001).sack(&[]));
    // §4.2.1: the sender's segments have grown.
    h.send(data(501, 1000));
    h.expect(seg().ack(1501).sack(&[(501, 1001)]));
    h.send(data(2001, 500));
    h.expect(seg().ack(1501).sack(&[(2001, 2501)]));
    h.send(data(3001, 500));
    h.expect(seg().ack(1501).sack(&[(3001, 3501), (2001, 2501)]));
    // §4.2.3: two parts above the ACK.
    h.send(data(2001, 2000));
    h.expect(seg().ack(1501).sack(&[(2001, 2501), (2001, 4001)]));
    // In order, into what is held.
    h.send(data(1501, 1000));
    h.expect(seg().ack(4001).sack(&[(2001, 2501)]));
    // Below the ACK, and again beyond a gap: the first of the two parts.
    h.send(data(5001, 500));
    h.expect(seg().ack(4001).sack(&[(5001, 5501)]));
    h.send(data(3501, 2500));
    h.expect(seg().ack(6001).sack(&[(3501, 4001)]));
}

#[test]
fn what_came_twice_is_not_reported_unless_agreed_on() {
    let mut h = Harness::established();
    h.send(data(1, 1000));
    h.expect(seg().ack(1001));
    h.send(data(1, 1000));
    h.expect(seg().ack(1001).sack(&[]));
}

// ---- sender -------------------------------------------------------------------------------------

/// RFC 2018 §5.1-1; RFC 6675 §5-2, §5-11, §5-4, §5-5, §5-6.
#[test]
fn three_sacked_segments_start_recovery() {
    let mut h = ten_in_flight();
    h.send(ack(1, &[(1001, 2001)]));
    h.expect(seg().seq(10_001).len(1000));
    h.send(ack(1, &[(1001, 3001)]));
    h.expect(seg().seq(11_001).len(1000));
    h.expect_nothing();
    h.send(ack(1, &[(1001, 4001)]));
    h.expect(seg().seq(1).len(1000));
    h.expect_nothing();
    assert_eq!(h.info().ssthresh, 5000);
}

/// RFC 6675 §4-2, §5-2, §5-6.
#[test]
fn one_ack_that_sacks_enough_starts_recovery() {
    // RFC 6675 §5 step 2: more than DupThresh - 1 segments above, in a single (stretch) ACK.
    let mut h = ten_in_flight();
    h.send(ack(1, &[(1001, 6001)]));
    h.expect(seg().seq(1).len(1000));
}

/// RFC 3042 §2-3; RFC 5681 §3.2-9.
#[test]
fn duplicates_without_news_do_not_count() {
    let mut h = ten_in_flight();
    for _ in 0..5 {
        h.send(ack(1, &[]));
    }
    h.expect_nothing();
    for _ in 0..5 {
        h.send(ack(1, &[(1001, 2001)]));
    }
    // One report, one segment of limited transmit.
    h.expect(seg().seq(10_001).len(1000));
    h.expect_nothing();
}

/// RFC 2018 §5-1, §5-2; RFC 6675 §4-1, §4-4, §5-1, §5-7, §5-12, §5-13, §5-9, §5-10.
#[test]
fn only_holes_are_retransmitted() {
    let mut h = ten_in_flight();
    // 1, 3, 4 and 6 are lost.
    h.send(ack(1, &[(1001, 2001)]));
    h.send(ack(1, &[(4001, 5001), (1001, 2001)]));
    // Limited transmit.
    assert_eq!(h.drain(), 2);
    h.advance(1);
    h.send(ack(1, &[(6001, 10_001), (4001, 5001), (1001, 2001)]));
    // 2 segments in the pipe, 4 lost, room for 5.
    h.expect(seg().seq(1).len(1000));
    h.expect(seg().seq(2001).len(1000));
    h.expect(seg().seq(3001).len(1000));
    h.expect_nothing();
    h.advance(39);
    h.send(ack(1, &[(6001, 11_001), (4001, 5001), (1001, 2001)]));
    h.expect(seg().seq(5001).len(1000));
    h.expect_nothing();
    assert_eq!(h.stack.counters().retransmits, 4);
    h.send(ack(12_001, &[]));
    assert_eq!(h.stack.counters().fast_retransmits, 1);
    assert_eq!(h.info().cwnd, 5000);
}

/// RFC 6675 §4-3, §5-10; RFC 8985 §9.3-1; RFC 5681 §4.3-2; RFC 9937 §3-2.
#[test]
fn the_pipe_limits_recovery() {
    let mut h = ten_in_flight();
    // Half of the flight has left: pipe is 1 (retransmitted) + 4 behind.
    h.send(ack(1, &[(1001, 6001)]));
    h.expect(seg().seq(1).len(1000));
    h.expect_nothing();
    // Each segment SACKed lets one new go.
    h.send(ack(1, &[(1001, 7001)]));
    h.expect(seg().seq(10_001).len(1000));
    h.expect_nothing();
    h.send(ack(1, &[(1001, 9001)]));
    h.expect(seg().seq(11_001).len(1000));
    h.expect(seg().seq(12_001).len(1000));
    h.expect_nothing();
}

/// RFC 2018 §5-4; RFC 6675 §5.1-1, §5.1-3.
#[test]
fn after_a_time_out_what_is_sacked_is_not_sent_again() {
    let mut h = in_flight(10_000);
    h.send(ack(1, &[(1001, 2001)]));
    h.advance(1000);
    // Everything else is taken for lost: the first again and again.
    assert!(h.stack.counters().timeouts > 0);
    while let Some((_, _, header, _)) = h.pop() {
        assert_eq!(header.seq - h.sent_syn(), 1);
    }
    h.send(ack(2001, &[]));
    h.expect(seg().seq(2001).len(1000));
    h.expect(seg().seq(3001).len(1000));
    h.expect_nothing();
}

/// RFC 2018 §5-4, §8-1; RFC 6675 §4-5.
#[test]
fn a_peer_that_discards_what_it_sacked_gets_it_again() {
    // RFC 2018 §8.
    let mut h = in_flight(10_000);
    h.send(ack(1, &[(1001, 2001)]));
    h.drain();
    h.send(ack(1001, &[]));
    h.advance(300);
    h.drain();
    h.send(ack(2001, &[]));
    h.expect(seg().seq(2001).len(1000));
}

/// RFC 2883 §7-1.
#[test]
fn nonsense_is_ignored() {
    let mut h = ten_in_flight();
    h.send(ack(1, &[(50_001, 60_001)]));
    h.send(ack(1, &[(5001, 4001)]));
    h.send(ack(1001, &[(1, 501)]));
    h.send(ack(1001, &[(0, 1001)]));
    assert_eq!(h.stack.usage().range_sets, 0);
    h.expect_state(State::Established);
}

/// RFC 6675 §3-1; RFC 8985 §4-2.
#[test]
fn the_scoreboard_goes_when_it_is_empty() {
    let mut h = ten_in_flight();
    h.send(ack(1, &[(1001, 6001)]));
    assert_eq!(h.stack.usage().range_sets, 1);
    h.send(ack(6001, &[]));
    assert_eq!(h.stack.usage().range_sets, 0);
}

/// RFC 9293 MUST-5.
#[test]
fn dup_acks_with_data_still_report() {
    let mut h = ten_in_flight();
    h.send(ack(1, &[(1001, 6001)]).len(10));
    h.expect(seg().seq(1).len(1000).ack(11));
}

/// Sequence numbers compare in a circle (RFC 9293 §3.4): this block begins beyond SND.UNA and ends
/// before SND.NXT, and is neither.
#[test]
fn a_block_around_the_sequence_space_is_nonsense() {
    let mut h = far();
    h.write(1976);
    h.drain();
    h.send(ack(2, &[(582_114_142, 2_147_485_625)]));
    assert_eq!(h.stack.usage().range_sets, 0);
}
