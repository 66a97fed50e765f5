//! Requirements of the RFCs that no test of a feature shows by itself.

use std::net::SocketAddr;
use std::time::Duration;

use crate::command::{Command, Keepalive, Options, Reply};
use crate::config::Config;
use crate::info::State;
use crate::testing::{CLIENT, Handshake, Harness, LISTENER, Seg, seg, v4};

const WIN: u16 = 60_000;

fn data(seq: u32, len: usize) -> Seg {
    seg().seq(seq).ack(1).win(WIN).len(len)
}

fn everything() -> Handshake {
    Handshake {
        sack: true,
        ts: Some(1000),
        wscale: Some(2),
        ..Handshake::default()
    }
}

/// ESTABLISHED with `offer`, on a path of 40 ms.
fn far(offer: &Handshake) -> Harness {
    let mut h = Harness::new();
    h.syn_received(offer);
    h.advance(40);
    h.send(h.handshake_ack(offer));
    h.take_accepted();
    h.events();
    h
}

fn ack(n: u32, blocks: &[(u32, u32)]) -> Seg {
    seg().seq(1).ack(n).win(WIN).sack(blocks)
}

// ---- options ------------------------------------------------------------------------------------

/// RFC 9293 MUST-65; RFC 2018 §2-1.
#[test]
fn only_syns_carry_what_only_syns_may() {
    let mut h = Harness::new().and_established(&everything());
    h.write(1500);
    h.send(data(1001, 500).ts(1001, 0));
    h.shutdown();
    let mut sent = 0;
    while let Some((_, _, header, _)) = h.pop() {
        let options = header.options;
        assert_eq!((options.mss, options.window_scale), (None, None));
        assert!(!options.sack_permitted);
        sent += 1;
    }
    assert!(sent >= 3);
}

/// RFC 7323 §2.2-3.
#[test]
fn a_window_scale_without_a_syn_is_ignored() {
    let mut h = Harness::established();
    h.send(data(1, 1).win(100).wscale(7));
    assert_eq!(h.info().snd_wnd, 100);
    let mut h = Harness::new().and_established(&Handshake {
        wscale: Some(2),
        ..Handshake::default()
    });
    h.send(data(1, 1).win(100).wscale(7));
    assert_eq!(h.info().snd_wnd, 400);
}

/// RFC 7323 §2.4-1.
#[test]
fn what_was_offered_once_is_taken() {
    let mut h = Harness::new();
    h.listen(
        4,
        Options {
            recv_buffer: Some(8000),
            ..Options::default()
        },
    );
    h.established_with(&Handshake::default());
    let conn = h.id();
    h.execute(Command::SetOptions {
        conn,
        options: Options {
            recv_buffer: Some(2000),
            ..Options::default()
        },
    });
    for i in 0..8 {
        h.send(data(1 + i * 1000, 1000));
    }
    h.expect_read(1, 8000);
}

/// RFC 7323 §3.2-3.
#[test]
fn the_echo_of_a_segment_without_ack_is_not_measured() {
    let mut h = Harness::new();
    h.connect(Options::default());
    h.advance(30);
    // Its TSecr is that of our SYN.
    h.send(Handshake::default().syn().ts(5, 0));
    h.expect(seg().syn().seq(0).ack(1));
    assert_eq!(h.info().srtt, Duration::ZERO);
}

/// RFC 7323 §4.1-1.
#[test]
fn the_echo_of_a_duplicate_is_not_measured() {
    // Without SACK: a tail loss probe would come first.
    let mut h = Harness::new().and_established(&Handshake {
        ts: Some(1000),
        ..Handshake::default()
    });
    h.write(10);
    h.drain();
    let rto = h.info().rto;
    h.advance(rto.as_millis() as u64);
    h.drain();
    h.advance(5);
    let echo = rto.as_millis() as u32;
    h.send(ack(1, &[]).ts(1001, echo));
    assert_eq!(h.info().rto, 2 * rto);
    h.send(ack(11, &[]).ts(1001, echo));
    assert!(h.info().rto <= rto);
}

/// A deviation from RFC 7323 §5.2: TSval zero would be old to an end in TIME-WAIT, which would then
/// keep the port for itself.
#[test]
fn a_reset_for_no_connection_has_no_timestamps() {
    let mut h = Harness::new();
    h.send(Handshake::default().syn().ts(77, 0));
    let rst = h.expect(seg().rst().any_ack());
    assert_eq!(rst.options.timestamps, None);
    h.send(seg().seq(5).ack(9).ts(78, 0));
    assert_eq!(h.expect(seg().rst()).options.timestamps, None);
}

/// RFC 7323 §3.2-6, §5.2-2.
#[test]
fn the_reset_of_an_abort_carries_timestamps() {
    let mut h = Harness::new().and_established(&everything());
    h.advance(30);
    h.abort();
    h.expect(seg().rst().any_ack().ts(30, 1000));
}

/// RFC 7323 §5.2-4, §5.3-2.
#[test]
fn timestamps_of_segments_that_are_not_taken_change_nothing() {
    let mut h = Harness::new().and_established(&everything());
    h.send(seg().rst().seq(2).ts(5000, 0));
    h.expect(seg().seq(1).ack(1).ts(0, 1000));
    h.send(data(1_000_000, 10).ts(6000, 0));
    h.expect(seg().seq(1).ack(1).ts(0, 1000));
}

// ---- acknowledgments ----------------------------------------------------------------------------

/// RFC 2018 §8-2.
#[test]
fn what_is_not_kept_is_not_reported() {
    let mut h = Harness::new().and_established(&everything());
    for i in 0..64 {
        h.send(data(11 + i * 20, 10).ts(1000, 0));
    }
    h.drain();
    h.send(data(1291, 10).ts(1000, 0));
    let full = h.expect(seg().ack(1));
    let newest = full.ack + 1290;
    assert_eq!(full.options.sack.len(), 3);
    assert!(full.options.sack.iter().all(|(left, _)| left != newest));
}

/// RFC 2883 §7-1: the edges compare well with everything, the block is larger than what is in
/// flight.
#[test]
fn a_block_of_half_the_sequence_space_is_nonsense() {
    let mut h = Harness::new().and_established(&everything());
    h.write(1976);
    h.drain();
    let block = (582_114_142, 1977 + (1 << 31));
    h.send(seg().seq(1).ack(2).win(WIN).sack(&[block]));
    h.send(seg().seq(1).ack(1).win(WIN).sack(&[block]));
    assert_eq!(h.stack.usage().range_sets, 0);
    h.send(ack(1977, &[]));
    assert_eq!(h.info().flight, 0);
}

// ---- retransmission and congestion --------------------------------------------------------------

/// RFC 6298 §3-2.
#[test]
fn every_round_trip_is_measured() {
    let mut h = far(&Handshake::default());
    let mut acked = 1;
    let mut srtt = h.info().srtt;
    for _ in 0..6 {
        h.write(5000);
        assert_eq!(h.drain(), 5);
        h.advance(100);
        acked += 5000;
        h.send(ack(acked, &[]));
        let now = h.info().srtt;
        assert!(now > srtt, "{now:?} after {srtt:?}");
        srtt = now;
    }
}

/// RFC 5681 §3.2-3; RFC 3042 §2-2.
#[test]
fn limited_transmit_does_not_change_the_window() {
    let mut h = far(&Handshake::default());
    h.write(40_000);
    assert_eq!(h.drain(), 10);
    let cwnd = h.info().cwnd;
    h.send(ack(1, &[]));
    h.send(ack(1, &[]));
    assert_eq!(h.drain(), 2);
    let info = h.info();
    assert_eq!((info.cwnd, info.flight), (cwnd, 12_000));
}

/// RFC 6675 §5.1-2.
#[test]
fn no_recovery_begins_inside_that_of_a_time_out() {
    let mut h = far(&Handshake {
        sack: true,
        ..Handshake::default()
    });
    h.write(9000);
    while h.stack.counters().timeouts == 0 {
        h.advance(10);
    }
    h.drain();
    let ssthresh = h.info().ssthresh;
    h.advance(40);
    h.send(ack(1001, &[]));
    h.expect(seg().seq(1001).len(1000));
    h.expect(seg().seq(2001).len(1000));
    h.advance(40);
    // The first of the two is lost again.
    h.send(ack(1001, &[(2001, 3001)]));
    h.expect(seg().seq(1001).len(1000));
    let counters = h.stack.counters();
    assert_eq!(
        (counters.lost_retransmissions, counters.fast_retransmits),
        (1, 0)
    );
    assert_eq!(h.info().ssthresh, ssthresh);
}

/// RFC 8985 §7.1-1.
#[test]
fn fast_recovery_ends_the_episode_of_a_probe() {
    let offer = Handshake {
        sack: true,
        ..Handshake::default()
    };
    let mut h = far(&offer);
    h.write(10_000);
    h.drain();
    h.advance(80);
    h.expect(seg().seq(9001).len(1000));
    h.advance(40);
    // The probe arrived; everything before it is lost.
    h.send(ack(1, &[(9001, 10_001)]));
    h.expect(seg().seq(1).len(1000));
    h.drain();
    let ssthresh = h.info().ssthresh;
    assert!(ssthresh >= 5000);
    h.advance(40);
    h.send(ack(10_001, &[]));
    h.write(1000);
    h.drain();
    h.send(ack(11_001, &[]));
    assert_eq!(h.info().ssthresh, ssthresh);
}

/// RFC 8985 §7.3-2, §7.3-3.
#[test]
fn a_probe_needs_a_measurement_since_the_last() {
    let mut h = far(&Handshake {
        sack: true,
        ..Handshake::default()
    });
    h.write(100);
    h.expect(seg().seq(1).len(100));
    h.advance(180);
    h.expect(seg().seq(1).len(100));
    // Both arrived, and nobody knows which was acknowledged.
    h.send(ack(101, &[(1, 101)]));
    h.write(100);
    h.expect(seg().seq(101).len(100));
    h.expect_silence(199);
    h.advance(1);
    h.expect(seg().seq(101).len(100));
    let counters = h.stack.counters();
    assert_eq!((counters.tail_probes, counters.timeouts), (1, 1));
}

// ---- connections --------------------------------------------------------------------------------

/// When the first segment was sent again, and when the connection failed, in ms since the first.
fn retries(h: &mut Harness) -> (Vec<u64>, u64) {
    let start = h.elapsed();
    let mut at = Vec::new();
    while h.ready().1.is_none() {
        h.advance(100);
        if h.drain() > 0 {
            at.push(h.elapsed() - start);
        }
    }
    (at, h.elapsed() - start)
}

/// RFC 9293 MUST-23.
#[test]
fn a_syn_is_sent_again_for_three_minutes() {
    let mut h = Harness::new();
    h.connect(Options::default());
    let (at, failed) = retries(&mut h);
    assert_eq!(at, [1, 3, 7, 15, 31, 63, 123].map(|seconds| seconds * 1000));
    assert!(failed >= 180_000, "{failed}");
}

/// RFC 9293 SHLD-11.
#[test]
fn data_is_sent_again_for_a_hundred_seconds() {
    let mut h = Harness::established();
    h.write(10);
    h.drain();
    let (at, failed) = retries(&mut h);
    assert!(at.last() >= Some(&100_000), "{at:?}");
    assert!(failed >= 100_000, "{failed}");
}

/// RFC 9293 MUST-24.
#[test]
fn keepalive_is_turned_on_and_off() {
    let mut h = Harness::established();
    let conn = h.id();
    let set = |h: &mut Harness, keepalive| {
        let options = Options {
            keepalive,
            ..Options::default()
        };
        h.execute(Command::SetOptions { conn, options });
    };
    let keepalive = Keepalive {
        idle: Duration::from_secs(60),
        interval: Duration::from_secs(10),
        count: 3,
    };
    set(&mut h, Some(keepalive));
    h.advance(60_000);
    h.expect(seg().seq(0).ack(1));
    h.send(ack(1, &[]));
    set(&mut h, None);
    h.expect_silence(600_000);
    h.expect_state(State::Established);
}

/// RFC 9293 MUST-40.
#[test]
fn half_a_second_is_too_long_for_an_ack() {
    let config = |delayed_ack| Config {
        delayed_ack,
        ..Config::default()
    };
    assert!(config(Duration::from_millis(499)).check().is_ok());
    assert!(config(Duration::from_millis(500)).check().is_err());
}

/// RFC 9293 MUST-42.
#[test]
fn one_can_listen_on_the_port_of_a_connection_being_opened() {
    let mut h = Harness::new();
    let local = SocketAddr::new(v4(1), 4000);
    h.execute(Command::Connect {
        token: CLIENT,
        local: Some(local),
        remote: SocketAddr::new(v4(77), 80),
        options: Options::default(),
    });
    let reply = h.execute(Command::Listen {
        token: LISTENER,
        local,
        only_v6: false,
        backlog: 1,
        options: Options::default(),
    });
    assert!(matches!(reply, Reply::Listening(_, at) if at == local));
}

/// RFC 9293 MUST-44, MUST-45.
#[test]
fn the_source_address_is_that_of_the_route_and_stays() {
    let mut h = Harness::new();
    let remote = SocketAddr::new(v4(2), 80);
    let reply = h.execute(Command::Connect {
        token: CLIENT,
        local: None,
        remote,
        options: Options::default(),
    });
    let Reply::Connecting(_, local) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(local.ip(), v4(1));
    for _ in 0..3 {
        h.advance(4000);
    }
    let mut sent = 0;
    while let Some((src, dst, ..)) = h.pop() {
        assert_eq!((src, dst), (local, remote));
        sent += 1;
    }
    assert!(sent >= 3);
}

/// RFC 9293 SHLD-2.
#[test]
fn a_reset_may_carry_data() {
    let mut h = Harness::established();
    h.send(seg().rst().seq(1).len(20));
    h.expect_nothing();
    h.expect_state(State::Closed);
}

/// RFC 9293 SHLD-15, SHLD-16, SHLD-17; RFC 7323 §2.4-5.
#[test]
fn a_window_that_shrank_below_the_flight_is_survived() {
    let mut h = far(&Handshake::default());
    h.write(5000);
    assert_eq!(h.drain(), 5);
    h.send(ack(1001, &[]).win(500));
    h.write(1000);
    h.expect_nothing();
    // 3500 bytes are beyond the edge now, and half of the first segment. The peer takes a piece of
    // what goes again, each time.
    for acked in (1001..5001).step_by(500) {
        let mut again = false;
        for _ in 0..700 {
            h.advance(100);
            while let Some((_, _, header, _)) = h.pop() {
                again |= header.seq - h.sent_syn() == acked;
            }
            if again {
                break;
            }
        }
        assert!(again, "{acked}");
        h.send(ack(acked + 500, &[]).win(500));
    }
    h.drain();
    h.expect_state(State::Established);
    h.send(ack(5001, &[]));
    h.drain();
    assert!(h.info().flight <= 1000);
}

/// RFC 5482 §3.1-2.
#[test]
fn a_closed_window_is_no_user_timeout() {
    let mut h = Harness::new();
    h.listen(
        4,
        Options {
            user_timeout: Some(Duration::from_secs(2)),
            ..Options::default()
        },
    );
    h.established_with(&Handshake::default());
    h.write(1000);
    h.drain();
    h.send(ack(1001, &[]).win(0));
    h.write(1000);
    for _ in 0..100 {
        h.advance(100);
        if h.drain() > 0 {
            h.send(ack(1001, &[]).win(0));
        }
    }
    h.expect_state(State::Established);
}
