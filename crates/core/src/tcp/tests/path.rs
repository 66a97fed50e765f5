//! The path's MTU without trust in ICMP and without ICMP: RFC 5927 §7, RFC 4821, RFC 8899; and what
//! is remembered of it (RFC 1191 §6.3).

use wire::ip::Ecn;

use super::messages::report;
use crate::command::Options;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;
/// Payload of a full segment of the link: 1500 bytes less the headers.
const FULL: usize = 1460;

fn ack(n: u32, blocks: &[(u32, u32)]) -> Seg {
    seg().seq(1).ack(n).win(WIN).sack(blocks)
}

fn offer(sack: bool) -> Handshake {
    Handshake {
        mss: Some(FULL as u16),
        sack,
        ..Handshake::default()
    }
}

fn established(sack: bool) -> Harness {
    let mut h = Harness::new();
    let options = Options {
        nodelay: true,
        ..Options::default()
    };
    h.listen(4, options);
    h.and_established(&offer(sack))
}

/// Four full segments in flight, the last of them in a frame of its own.
fn four_in_flight(sack: bool) -> (Harness, Vec<u8>) {
    let mut h = established(sack);
    h.write(4 * FULL);
    let frame = h.sink.frames.back().cloned().unwrap();
    assert_eq!(h.drain(), 4);
    (h, frame)
}

/// A connection whose path takes 1000 bytes, as an ICMP error said, with nothing in flight.
fn narrow(sack: bool) -> Harness {
    let (mut h, frame) = four_in_flight(sack);
    report(&mut h, 4, 1000, &frame);
    h.send(ack(5841, &[]));
    h.drain();
    assert_eq!(h.info().pmtu, 1000);
    h
}

#[test]
fn an_error_that_contradicts_what_arrived_waits_for_a_time_out() {
    // RFC 5927 §7.2: the first segment of this size was acknowledged.
    let (mut h, frame) = four_in_flight(false);
    h.send(ack(1461, &[]));
    report(&mut h, 4, 1000, &frame);
    h.expect_nothing();
    assert_eq!(h.info().snd_mss, FULL as u16);
    // It is true: the time-out says so.
    h.advance(200);
    h.expect(seg().seq(1461).len(960));
    assert_eq!(h.info().pmtu, 1000);
}

#[test]
fn an_error_that_contradicts_what_arrives_is_forgotten() {
    let (mut h, frame) = four_in_flight(false);
    h.send(ack(1461, &[]));
    report(&mut h, 4, 1000, &frame);
    h.send(ack(5841, &[]));
    h.write(2 * FULL);
    assert_eq!(h.drain(), 2);
    h.advance(200);
    h.expect(seg().seq(5841).len(FULL));
}

#[test]
fn other_connections_to_the_host_know_for_ten_minutes() {
    let mut h = narrow(false);
    // What we offer is what our link takes (RFC 6691), whatever the path to that host does.
    assert_eq!(h.connect(Options::default()).options.mss, Some(1460));
    h.send(offer(false).syn().ack(1));
    h.drain();
    assert_eq!((h.info().pmtu, h.info().snd_mss), (1000, 960));
    h.advance(600_000);
    h.connect(Options::default());
    h.send(offer(false).syn().ack(1));
    h.drain();
    assert_eq!(h.info().pmtu, 1500);
}

/// RFC 4821 §7.3-1, §7.3-2, §7.4-1, §7.4-2, §7.6.1-1.
#[test]
fn a_larger_size_is_probed_after_ten_minutes() {
    let mut h = narrow(true);
    h.advance(599_000);
    h.write(9600);
    assert_eq!(h.stack.counters().mtu_probes, 0);
    h.send(ack(15_441, &[]));
    h.drain();
    h.advance(1000);
    h.write(9600);
    h.expect(seg().seq(15_441).len(FULL));
    h.expect(seg().seq(16_901).len(960));
    h.drain();
    h.send(ack(25_041, &[]));
    h.write(3 * FULL);
    for i in 0..3 {
        h.expect(seg().seq(25_041 + i * FULL as u32).len(FULL));
    }
    assert_eq!((h.info().pmtu, h.stack.counters().mtu_probes), (1500, 1));
}

#[test]
fn a_probe_takes_no_options_along_that_make_it_larger() {
    let mut h = Harness::new();
    let options = Options {
        nodelay: true,
        ..Options::default()
    };
    h.listen(4, options);
    h.send(offer(true).syn().ace(0b111));
    h.pop();
    let last = h.handshake_ack(&offer(true));
    h.send(last.ace(0b010).ecn_bytes(1, 0, 1));
    h.take_accepted();
    h.write(4 * FULL);
    let frame = h.sink.frames.back().cloned().unwrap();
    h.drain();
    report(&mut h, 4, 1000, &frame);
    h.send(ack(5841, &[]).ace(5));
    h.drain();
    h.advance(600_000);
    // The counters of what arrives now go with the next segment: 12 bytes.
    let data = seg().seq(1).ack(5841).ace(5).win(WIN);
    h.inject(data.len(100).ecn(Ecn::Ect0));
    h.write(9600);
    h.expect(
        seg()
            .seq(5841)
            .len(948)
            .ack(101)
            .ace(5)
            .ecn_bytes(101, 0, 1),
    );
    h.expect(seg().seq(6789).len(FULL).ack(101).ace(5));
}

/// RFC 4821 §7.4-2, §7.6.2-1.
#[test]
fn a_probe_that_is_lost_is_no_congestion() {
    let mut h = narrow(true);
    h.advance(600_000);
    h.write(9600);
    h.expect(seg().seq(5841).len(FULL));
    h.drain();
    let window = h.info().cwnd;
    h.send(ack(5841, &[(7301, 10_181)]));
    // Again, in segments that get through.
    h.expect(seg().seq(5841).len(960));
    let info = h.info();
    assert_eq!((info.cwnd, info.ssthresh), (window, u32::MAX));
    h.drain();
    h.send(ack(15_441, &[]));
    assert_eq!((h.info().pmtu, h.info().ssthresh), (1000, u32::MAX));
    // The next one later, and in the middle of 1000 and 1499.
    h.write(9600);
    h.expect(seg().seq(15_441).len(960));
    h.drain();
    h.send(ack(25_041, &[]));
    h.advance(30_000);
    h.write(9600);
    h.expect(seg().seq(25_041).len(1210));
}

/// RFC 4821 §7.6.4-1.
#[test]
fn losses_besides_the_probe_are_congestion() {
    let mut h = narrow(true);
    h.advance(600_000);
    h.write(12_000);
    h.expect(seg().seq(5841).len(FULL));
    h.drain();
    // The segment behind the probe is missing as well.
    h.send(ack(5841, &[(8261, 12_101)]));
    assert!(h.info().ssthresh < u32::MAX);
}

/// RFC 4821 §7.7-1.
#[test]
fn a_black_hole_is_left_within_a_second() {
    let mut h = established(false);
    h.write(4 * FULL);
    assert_eq!(h.drain(), 4);
    let start = h.elapsed();
    // Nobody says why nothing arrives.
    h.advance(200);
    h.expect(seg().seq(1).len(FULL));
    h.advance(400);
    h.expect(seg().seq(1).len(1240));
    h.send(ack(1241, &[]));
    assert!(h.elapsed() - start < 1000);
    assert_eq!(h.info().pmtu, 1280);
    assert_eq!(h.stack.counters().black_holes, 1);
    h.drain();
    // Others need not find out.
    h.connect(Options::default());
    h.send(offer(false).syn().ack(1));
    h.drain();
    assert_eq!(h.info().pmtu, 1280);
}

#[test]
fn time_outs_of_small_segments_say_nothing_of_the_path() {
    let mut h = established(false);
    h.write(100);
    h.advance(10_000);
    h.send(ack(101, &[]));
    assert_eq!(h.info().pmtu, 1500);
    assert_eq!(h.stack.counters().black_holes, 0);
}

/// Full segments time out `times` times in a row, then the path takes everything again.
fn after_timeouts(times: u32) -> Harness {
    let mut h = established(true);
    h.write(4 * FULL);
    assert_eq!(h.drain(), 4);
    time_out(&mut h, times);
    h.send(ack(5841, &[]));
    h.drain();
    h
}

/// Nothing gets through until there were so many time-outs. A probe of the tail comes before the
/// first.
fn time_out(h: &mut Harness, times: u32) {
    while h.info().timeouts < times {
        h.advance(50);
        h.drain();
    }
}

/// All that is in flight arrives.
fn acknowledge(h: &mut Harness) {
    h.drain();
    let all = 1 + h.info().bytes_acked as u32 + h.info().flight;
    h.send(ack(all, &[]));
}

#[test]
fn an_outage_that_ends_costs_small_segments_until_a_probe_gets_through() {
    let mut h = after_timeouts(4);
    assert_eq!(h.info().pmtu, 576);
    // Enough of a window for the probe.
    for _ in 0..12 {
        h.write(4000);
        acknowledge(&mut h);
    }
    assert_eq!(h.info().pmtu, 1500);
    assert_eq!(h.stack.counters().black_holes, 0);
}

/// Two time-outs in a row and an ACK of what was sent after them in smaller segments: so does a
/// full queue look, and those who come later must not have small segments for ten minutes because
/// of it.
#[test]
fn what_may_be_congestion_is_not_told_to_others() {
    let mut h = after_timeouts(2);
    assert_eq!(h.info().pmtu, 1280);
    h.connect(Options::default());
    h.send(offer(false).syn().ack(1));
    h.drain();
    assert_eq!(h.info().pmtu, 1500);
}

/// RFC 4821 §7.4-2.
#[test]
fn a_black_hole_is_believed_in_when_probes_of_the_old_size_are_lost() {
    let mut h = after_timeouts(2);
    lose_probes(&mut h);
    assert_eq!(h.stack.counters().black_holes, 1);
    h.connect(Options::default());
    h.send(offer(false).syn().ack(1));
    h.drain();
    assert_eq!(h.info().pmtu, 1280);
}

/// A thousand connections through a full queue: of those that lose all they send at first, some
/// lose three probes as well.
#[test]
fn others_are_not_told_of_a_black_hole_that_their_segments_get_through() {
    let mut h = established(true);
    h.write(2 * FULL);
    h.drain();
    h.send(ack(2921, &[]));
    // The next full segment says that one has got through.
    h.write(FULL);
    h.drain();
    h.send(ack(4381, &[]));
    begin_again(&mut h);
    h.write(4 * FULL);
    assert_eq!(h.drain(), 4);
    time_out(&mut h, 2);
    h.send(ack(5841, &[]));
    h.drain();
    lose_probes(&mut h);
    assert_eq!((h.info().pmtu, h.stack.counters().black_holes), (1280, 1));
    begin_again(&mut h);
    assert_eq!(h.info().pmtu, 1500);
}

/// Another connection to the same host.
fn begin_again(h: &mut Harness) {
    let options = Options {
        nodelay: true,
        ..Options::default()
    };
    h.connect(options);
    h.send(offer(true).syn().ack(1));
    h.drain();
}

/// All three that are made after a time-out.
fn lose_probes(h: &mut Harness) {
    // Opens the window, a little at a time: with no room for a probe.
    for _ in 0..4 {
        h.write(4 * 1240);
        acknowledge(h);
    }
    for probes in 1..=3 {
        assert_eq!(h.stack.counters().black_holes, 0);
        let start = 1 + h.info().bytes_acked as u32;
        h.write(FULL + 3 * 1240);
        h.expect(seg().seq(start).len(FULL));
        assert_eq!(h.stack.counters().mtu_probes, probes);
        h.drain();
        let (from, to) = (start + FULL as u32, start + FULL as u32 + 3720);
        h.send(ack(start, &[(from, to)]));
        h.expect(seg().seq(start).len(1240));
        acknowledge(h);
        // Not again at once.
        h.write(FULL + 3 * 1240);
        acknowledge(h);
        assert_eq!(h.stack.counters().mtu_probes, probes);
        h.advance(1000);
    }
}

#[test]
fn a_size_that_has_got_through_is_not_given_up_so_soon() {
    let mut h = established(true);
    h.write(4 * FULL);
    h.drain();
    h.send(ack(5841, &[]));
    h.write(4 * FULL);
    assert_eq!(h.drain(), 4);
    time_out(&mut h, 3);
    assert_eq!(h.info().pmtu, 1500);
    time_out(&mut h, 4);
    assert_eq!(h.info().pmtu, 1280);
}

/// RFC 8201 §4-1, §4-2.
#[test]
fn ipv6_goes_no_lower_than_1280() {
    let mut h = Harness::new().over_ipv6().and_established(&offer(false));
    h.write(4 * FULL);
    h.advance(20_000);
    assert_eq!(h.info().pmtu, 1280);
}

#[test]
fn the_mss_can_be_clamped() {
    let mut h = Harness::with(|config| config.max_segment = Some(900));
    let syn_ack = h.syn_received(&offer(false));
    assert_eq!(syn_ack.options.mss, Some(900));
    h.send(h.handshake_ack(&offer(false)));
    h.take_accepted();
    h.write(2000);
    h.expect(seg().seq(1).len(900));
}
