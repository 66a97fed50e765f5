//! What idles is packed, and nobody can tell.

use std::time::Duration;

use crate::command::{Command, Keepalive, Options};
use crate::config::CongestionControl;
use crate::event::Event;
use crate::info::TcpInfo;
use crate::testing::{CLIENT, Handshake, Harness, seg};

const WIN: u16 = 60_000;
const NEVER: u32 = u32::MAX;

fn harness(max_resident: u32, congestion: CongestionControl) -> Harness {
    let h = Harness::with(|config| {
        config.max_resident = max_resident;
        config.congestion = congestion;
    });
    h.and_established(&Handshake::default())
}

/// A driver's turn, and then nothing for so long.
fn idle(h: &mut Harness, ms: u64) {
    h.stack.advance(h.now());
    h.advance(ms);
}

/// How many have all at hand, and how many are packed.
fn counts(h: &Harness) -> (u32, u32) {
    let usage = h.stack.usage();
    (usage.resident, usage.compact)
}

/// A request of 100 bytes and an answer of `len` bytes, the `round`-th, and what is known of the
/// connection long afterwards.
fn exchange(h: &mut Harness, round: u32, len: u32) -> TcpInfo {
    let (from, to) = (1 + 100 * round, 1 + len * round);
    h.inject(seg().seq(from).ack(to).win(WIN).len(100));
    assert_eq!(h.read().len(), 100);
    // News that nobody has asked for keeps it awake.
    h.events();
    h.write(len as usize);
    h.drain();
    h.advance(20);
    h.drain();
    h.send(seg().seq(from + 100).ack(to + len).win(WIN));
    h.advance(10_000);
    h.expect_nothing();
    h.info()
}

#[test]
fn what_idles_is_packed_and_unpacked_as_it_was() {
    for congestion in [CongestionControl::Cubic, CongestionControl::NewReno] {
        let mut packed = harness(0, congestion);
        let mut kept = harness(NEVER, congestion);
        // Full segments leave more behind than small ones.
        for (round, len) in (0..4).map(|round| (round, 500)).chain([(0, 4000)]) {
            if len == 4000 {
                (packed, kept) = (harness(0, congestion), harness(NEVER, congestion));
            }
            let (one, other) = (
                exchange(&mut packed, round, len),
                exchange(&mut kept, round, len),
            );
            assert_eq!(one, other, "{congestion:?} {round} {len}");
            // To ask has unpacked it; after a while it is packed again.
            assert_eq!((counts(&packed), counts(&kept)), ((1, 0), (1, 0)));
            packed.advance(1000);
            kept.advance(1000);
            assert_eq!((counts(&packed), counts(&kept)), ((0, 1), (1, 0)));
        }
    }
}

#[test]
fn what_is_in_flight_keeps_a_connection_resident() {
    let mut h = harness(0, CongestionControl::Cubic);
    h.write(100);
    h.drain();
    h.advance(150);
    assert_eq!(counts(&h), (1, 0));
    h.send(seg().seq(1).ack(101).win(WIN));
    h.advance(1000);
    assert_eq!(counts(&h), (0, 1));
}

/// Each answer that comes is for a connection that sleeps.
#[test]
fn keepalive_probes_wake_and_let_sleep() {
    let mut h = harness(0, CongestionControl::Cubic);
    let options = Options {
        keepalive: Some(Keepalive {
            idle: Duration::from_secs(60),
            interval: Duration::from_secs(10),
            count: 3,
        }),
        ..Options::default()
    };
    let id = h.id();
    h.execute(Command::SetOptions { conn: id, options });
    for _ in 0..3 {
        h.advance(59_000);
        assert_eq!(counts(&h), (0, 1));
        h.advance(1_000);
        h.expect(seg().seq(0).ack(1));
        h.send(seg().seq(1).ack(1).win(WIN));
    }
}

#[test]
fn a_packed_connection_can_be_closed_and_aborted() {
    for aborts in [false, true] {
        let mut h = harness(0, CongestionControl::Cubic);
        idle(&mut h, 1000);
        assert_eq!(counts(&h), (0, 1));
        if aborts {
            h.abort();
            h.expect(seg().rst().any_ack());
        } else {
            h.close();
            h.expect(seg().seq(1).fin().ack(1));
            h.send(seg().seq(1).fin().ack(2).win(WIN));
            h.expect(seg().seq(2).ack(2));
        }
        assert_eq!(h.stack.usage().connections, 0);
        assert_eq!(counts(&h), (0, 0));
    }
}

/// As long as there are few of them, nobody bothers.
#[test]
fn a_few_stay_at_hand() {
    let mut h = harness(1, CongestionControl::Cubic);
    idle(&mut h, 60_000);
    assert_eq!(counts(&h), (1, 0));
}

/// What was counted of one that was not lucky does not fit into a packed record, and is kept beside
/// it.
#[test]
fn what_came_out_of_order_is_not_forgotten() {
    let unlucky = |max_resident| {
        let mut h = harness(max_resident, CongestionControl::Cubic);
        h.inject(seg().seq(101).ack(1).win(WIN).len(100));
        h.inject(seg().seq(1).ack(1).win(WIN).len(100));
        assert_eq!(h.read().len(), 200);
        h.events();
        h.drain();
        idle(&mut h, 10_000);
        h
    };
    let (mut packed, mut kept) = (unlucky(0), unlucky(NEVER));
    assert_eq!((counts(&packed), counts(&kept)), ((0, 1), (1, 0)));
    let info = packed.info();
    assert_eq!(info, kept.info());
    assert_eq!(info.out_of_order, 1);
    // Once more: its place was given back.
    packed.advance(10_000);
    assert_eq!(counts(&packed), (0, 1));
    packed.abort();
    packed.drain();
    assert_eq!(counts(&packed), (0, 0));
}

/// Its addresses are kept beside the packed record.
#[test]
fn one_of_ipv6_is_found_while_it_sleeps() {
    let h = Harness::with(|config| config.max_resident = 0).over_ipv6();
    let mut h = h.and_established(&Handshake::default());
    for round in 0..3 {
        idle(&mut h, 1000);
        assert_eq!(counts(&h), (0, 1), "{round}");
        let (from, to) = (1 + 100 * round, 1 + 10 * round);
        h.inject(seg().seq(from).ack(to).win(WIN).len(100));
        assert_eq!((h.read().len(), counts(&h)), (100, (1, 0)));
        h.events();
        h.write(10);
        assert!(h.drain() > 0);
        h.send(seg().seq(from + 100).ack(to + 10).win(WIN));
    }
    idle(&mut h, 1000);
    h.abort();
    h.drain();
    assert_eq!(counts(&h), (0, 0));
}

/// Makes another connection with the peer, from this port.
fn establish(h: &mut Harness, port: u16) {
    h.send(Handshake::default().syn().port(port));
    h.expect(seg().port(port).syn().ack(1));
    h.send(seg().port(port).seq(1).ack(1).win(WIN));
    h.conn = h.events().iter().find_map(|event| match event {
        Event::Accepted { conn, .. } => Some(*conn),
        Event::Ready { .. } => None,
    });
    let (conn, token) = (h.id(), CLIENT);
    h.execute(Command::Accept { conn, token });
    h.events();
}

const CROWD: u16 = 3000;

/// A crowd was there, and all but the last idle: it is where nobody else is any more, and moves.
fn most_of_a_crowd_idles(prefault: u32) -> Harness {
    let mut h = Harness::with(|config| {
        config.prefault = prefault;
        config.max_resident = 0;
        config.max_connections = 4096;
    });
    h.listen(4096, Options::default());
    for port in 1000..1000 + CROWD {
        establish(&mut h, port);
    }
    assert!(h.stack.places() >= CROWD.into());
    let last = 1000 + CROWD - 1;
    // Never longer than packing needs.
    for round in 0..50 {
        let (from, to) = (1 + 100 * round, 1 + 10 * round);
        h.send(seg().port(last).seq(from).ack(to).win(WIN).len(100));
        assert_eq!(h.read().len(), 100);
        h.events();
        h.write(10);
        assert!(h.drain() > 0);
        h.send(seg().port(last).seq(from + 100).ack(to + 10).win(WIN));
        h.advance(200);
        h.drain();
    }
    assert_eq!(counts(&h), (1, u32::from(CROWD) - 1));
    h
}

#[test]
fn places_that_nobody_needs_are_given_back() {
    let mut h = most_of_a_crowd_idles(0);
    assert!(h.stack.places() <= 1024, "{}", h.stack.places());
    // There is room for all of them again, and each answers.
    for port in 1000..1000 + CROWD - 1 {
        h.inject(seg().port(port).seq(1).ack(1).win(WIN).len(1));
    }
    assert_eq!(counts(&h), (CROWD.into(), 0));
    h.advance(100);
    assert_eq!(h.drain(), usize::from(CROWD) - 1);
}

#[test]
fn places_with_memory_from_the_start_keep_it() {
    let h = most_of_a_crowd_idles(2000);
    assert_eq!(h.stack.places(), 2000);
}
