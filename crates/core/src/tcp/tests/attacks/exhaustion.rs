//! Memory and time that one peer can make us spend.

use crate::drops::DropReason;
use crate::info::State;
use crate::testing::{Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;

fn with_sack(mss: u16) -> Harness {
    Harness::new().and_established(&Handshake {
        mss: Some(mss),
        sack: true,
        wscale: Some(7),
        ts: Some(1),
        ..Handshake::default()
    })
}

/// SACK panic, SACK slowness (CVE-2019-11477, CVE-2019-11478): tiny segments, and every second one
/// SACKed.
#[test]
fn combs_of_sacks() {
    for mss in [48, 100, 536] {
        let mut h = with_sack(mss);
        h.write(60_000);
        let step = u32::from(h.info().snd_mss);
        let mut acked = 1;
        // Slow start opens the window; then the comb is drawn through all of it, from the end.
        for _ in 0..200 {
            let flight = h.info().flight;
            h.drain();
            let teeth: Vec<_> = (0..flight / step / 2)
                .map(|i| {
                    let left = acked + (2 * i + 1) * step;
                    (left, left + step)
                })
                .collect();
            for blocks in teeth.rchunks(3) {
                h.send(seg().seq(1).ack(acked).win(WIN).ts(1, 0).sack(blocks));
            }
            let usage = h.stack.usage();
            assert!(usage.range_sets <= 1 && usage.sent_logs <= 1, "{usage:?}");
            acked += flight.min(20 * step);
            h.send(seg().seq(1).ack(acked).win(WIN).ts(1, 0));
            h.advance(10);
        }
        // An honest receiver gets the rest.
        while h.info().unacked > 0 {
            h.advance(1000);
            acked += h.info().flight;
            h.drain();
            h.send(seg().seq(1).ack(acked).win(WIN).ts(1, 0));
        }
        assert_eq!(acked, 60_001, "MSS {mss}");
        assert_eq!(h.stack.usage().range_sets, 0);
    }
}

/// Blocks that contradict each other, overlap, lie backwards or outside.
#[test]
fn sacks_that_make_no_sense() {
    let mut h = with_sack(1000);
    h.write(10_000);
    h.drain();
    for blocks in [
        [(5000, 4000), (0, u32::MAX), (9_999, 10_001)],
        [(1, 10_001), (1, 1), (2000, 2000)],
        [(u32::MAX, 5), (1 << 31, 1), (1, 1 << 31)],
        [(3000, 5000), (4000, 6000), (3500, 3600)],
    ] {
        h.send(seg().seq(1).ack(1).win(WIN).ts(1, 0).sack(&blocks));
    }
    h.expect_state(State::Established);
    h.drain();
    let flight = h.info().flight;
    h.send(seg().seq(1).ack(1 + flight).win(WIN).ts(1, 0));
    assert_eq!(h.stack.usage().range_sets, 0);
}

/// Half the sequence space behind what was sent, "before" and "behind" are the same.
#[test]
fn sacks_from_the_other_half() {
    let mut h = with_sack(1000);
    h.write(5000);
    h.drain();
    let nxt = 1 + h.info().flight;
    for left in [nxt, nxt + 1, 582_114_142, nxt + (1 << 31) - 1] {
        let block = (left, nxt + (1 << 31));
        h.send(seg().seq(1).ack(1).win(WIN).ts(1, 0).sack(&[block]));
        assert_eq!(h.stack.usage().range_sets, 0, "{left}");
    }
    h.send(seg().seq(1).ack(nxt).win(WIN).ts(1, 0));
    assert_eq!(h.info().bytes_acked, u64::from(nxt - 1));
}

/// A small MSS (CVE-2019-11479): however small the peer says its segments are, headers stay the
/// smaller part.
#[test]
fn a_tiny_mss() {
    for mss in 0..64 {
        let mut h = with_sack(mss);
        h.write(5000);
        let (_, _, _, payload) = h.pop().unwrap();
        assert!(payload.len() >= 48, "MSS {mss}: {} bytes", payload.len());
    }
}

/// Reassembly exhaustion (CVE-2018-5390): bytes out of order, one by one, each in a place of its
/// own.
#[test]
fn crumbs_out_of_order() {
    let mut h = Harness::established();
    let before = h.stack.usage();
    for i in 0..30_000u32 {
        h.send(seg().seq(3 + i * 2).ack(1).win(WIN).len(1));
        h.sink.frames.clear();
    }
    let usage = h.stack.usage();
    assert_eq!(usage.range_sets, 1);
    assert!(usage.recv_bytes <= 128 << 10, "{usage:?}");
    assert_eq!(usage.connections, before.connections);
    assert!(h.stack.counters().dropped(DropReason::TcpRanges) > 29_000);
    // It costs the sender its crumbs, not the connection.
    h.send(seg().seq(1).ack(1).win(WIN).len(1000));
    h.drain();
    h.expect_read(1, 1000);
}

/// Bytes far ahead in the window of many connections: the pool is all they get.
#[test]
fn far_bytes_on_many_connections() {
    let mut h = Harness::with(|config| config.recv_pool = 1 << 20);
    h.listen(200, Default::default());
    for port in 6000..6150 {
        h.send(Handshake::default().syn().port(port));
        h.expect(seg().syn().ack(1).port(port));
        h.send(seg().seq(1).ack(1).win(WIN).port(port));
        h.send(seg().seq(60_000).ack(1).win(WIN).len(10).port(port));
        h.drain();
        assert!(h.stack.usage().recv_bytes <= 1 << 20);
    }
    assert!(h.stack.counters().dropped(DropReason::TcpMemory) > 0);
}

/// A closed window held open for ever (sockstress): when the application has gone, so does the
/// connection, however dutifully the peer answers probes.
#[test]
fn closed_windows() {
    let mut h = Harness::established();
    h.send(seg().seq(1).ack(1).win(0));
    h.write(1000);
    h.close();
    for _ in 0..100 {
        h.advance(60_000);
        if h.drain() > 0 && h.stack.usage().connections > 0 {
            h.send(seg().seq(1).ack(1).win(0));
        }
    }
    h.expect_gone();
}

/// The same with a window that opens by a byte whenever it is probed: each byte is progress, and a
/// small buffer is drained at last.
#[test]
fn windows_opened_by_a_byte() {
    let mut h = Harness::established();
    h.send(seg().seq(1).ack(1).win(0));
    h.write(20);
    h.close();
    let mut acked = 1;
    for _ in 0..1000 {
        h.advance(60_000);
        while let Some((_, _, header, payload)) = h.pop() {
            if header.flags.contains(wire::tcp::TcpFlags::RST) {
                break;
            }
            acked += payload.len() as u32;
        }
        h.send(seg().seq(1).ack(acked).win(0));
        if h.stack.usage().connections == 0 {
            break;
        }
    }
    h.expect_gone();
}

/// Peers that complete the handshake and never speak again hold no buffer, and with keepalive not
/// even a control block.
#[test]
fn silent_connections() {
    let mut h = Harness::new();
    let options = crate::command::Options {
        keepalive: Some(crate::command::Keepalive {
            idle: std::time::Duration::from_secs(60),
            interval: std::time::Duration::from_secs(10),
            count: 3,
        }),
        ..Default::default()
    };
    h.listen(100, options);
    for port in 6000..6100 {
        h.send(Handshake::default().syn().port(port));
        h.send(seg().seq(1).ack(1).win(WIN).port(port));
        h.drain();
    }
    assert!(h.stack.usage().connections == 0 || h.stack.usage().recv_bytes == 0);
}

/// The receiver closes, and the peer does not: FIN_WAIT_2 ends (RFC 9293 leaves it open).
#[test]
fn a_peer_that_never_closes() {
    let mut h = Harness::established();
    h.close();
    h.expect(seg().fin().seq(1).ack(1));
    h.send(seg().seq(1).ack(2).win(WIN));
    h.advance(61_000);
    h.expect_gone();
}

/// Old duplicates by the thousand are answered, but what they make us send is no more than what
/// they are.
#[test]
fn replayed_segments() {
    let mut h = Harness::established();
    let data = |seq| -> Seg { seg().seq(seq).ack(1).win(WIN).len(100) };
    h.send(data(1));
    h.send(data(101));
    h.drain();
    for _ in 0..1000 {
        h.send(data(1));
    }
    assert!(h.drain() <= 1000);
    h.expect_state(State::Established);
}
