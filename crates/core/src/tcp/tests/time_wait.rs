//! TIME_WAIT (RFC 9293 §3.10.7.4, RFC 1337, RFC 6191).

use std::net::SocketAddr;

use crate::command::{Command, Options};
use crate::error::Error;
use crate::testing::{CLIENT, Handshake, Harness, seg};

const WIN: u16 = 60_000;

/// TIME_WAIT of a connection with timestamps (ours starts at 0, the peer's at 1000).
fn with_timestamps() -> Harness {
    let mut h = Harness::new().and_established(&Handshake {
        ts: Some(1000),
        ..Handshake::default()
    });
    h.shutdown();
    h.expect(seg().fin().seq(1));
    h.send(seg().seq(1).fin().ack(2).win(WIN).ts(1001, 0));
    h.expect(seg().seq(2).ack(2).ts(0, 1001));
    h
}

/// RFC 9293 MUST-13.
#[test]
fn it_lasts_two_msl() {
    let mut h = Harness::time_wait();
    h.advance(59_999);
    assert_eq!(h.stack.usage().time_wait, 1);
    h.advance(1);
    assert_eq!(h.stack.usage().time_wait, 0);
    h.expect_nothing();
    // The endpoints are free again.
    h.send(seg().seq(2).ack(2));
    h.expect(seg().rst());
}

#[test]
fn a_repeated_fin_is_acknowledged_and_restarts_it() {
    let mut h = Harness::time_wait();
    h.advance(50_000);
    h.send(seg().seq(1).fin().ack(2).win(WIN));
    h.expect(seg().seq(2).ack(2));
    h.advance(59_000);
    assert_eq!(h.stack.usage().time_wait, 1);
    h.advance(1000);
    assert_eq!(h.stack.usage().time_wait, 0);
}

#[test]
fn its_acks_carry_timestamps() {
    let mut h = with_timestamps();
    h.advance(10);
    h.send(seg().seq(1).fin().ack(2).win(WIN).ts(1005, 0));
    h.expect(seg().seq(2).ack(2).ts(10, 1001));
}

/// RFC 1337 §3-1.
#[test]
fn a_reset_does_not_end_it() {
    // RFC 1337.
    let mut h = Harness::time_wait();
    h.send(seg().rst().seq(2));
    h.expect_nothing();
    assert_eq!(h.stack.usage().time_wait, 1);
}

#[test]
fn an_ack_of_everything_gets_no_answer() {
    let mut h = Harness::time_wait();
    h.send(seg().seq(2).ack(2).win(WIN));
    h.expect_nothing();
}

/// RFC 9293 MAY-2.
#[test]
fn a_higher_syn_opens_the_next_connection() {
    let mut h = Harness::time_wait();
    let old = h.sent_syn();
    h.send(Handshake::default().syn().seq(500));
    let syn_ack = h.expect(seg().syn().ack(501));
    assert!(syn_ack.seq > old, "the ISS must be beyond what was sent");
    let usage = h.stack.usage();
    assert_eq!((usage.time_wait, usage.half_open), (0, 1));
    h.send(seg().seq(501).ack(1).win(WIN));
    assert_eq!(h.stack.usage().connections, 2);
}

/// RFC 6191 §2-2.
/// RFC 1337 §3-2.
#[test]
fn an_old_syn_is_answered_with_an_ack() {
    let mut h = Harness::time_wait();
    h.send(Handshake::default().syn().seq(1));
    h.expect(seg().seq(2).ack(2));
    assert_eq!(h.stack.usage().time_wait, 1);
}

#[test]
fn the_first_answer_to_a_syn_is_not_limited() {
    let mut h =
        Harness::with(|config| config.reply_rate = 0).and_established(&Handshake::default());
    h.shutdown();
    h.expect(seg().fin().seq(1));
    h.send(seg().seq(1).fin().ack(2).win(WIN));
    h.expect(seg().seq(2).ack(2));
    h.send(Handshake::default().syn().seq(1));
    h.expect(seg().seq(2).ack(2));
    h.send(Handshake::default().syn().seq(1));
    h.expect_nothing();
}

/// RFC 9293 SHLD-4; RFC 6191 §2-1.
#[test]
fn timestamps_tell_a_new_syn() {
    // RFC 6191 §2: the sequence number is lower, the timestamp is higher.
    let mut h = with_timestamps();
    h.send(Handshake::default().syn().seq(0).ts(1001, 0));
    h.expect(seg().seq(2).ack(2));
    h.send(Handshake::default().syn().seq(0).ts(1002, 0));
    h.expect(seg().syn().ack(1));
}

#[test]
fn the_oldest_goes_when_there_is_no_room() {
    let mut h = Harness::with(|config| config.max_time_wait = 1);
    h.listen(4, Options::default());
    h.established_with(&Handshake::default());
    h.shutdown();
    h.send(seg().seq(1).fin().ack(2).win(WIN));
    h.close();
    h.drain();
    assert_eq!(h.stack.usage().time_wait, 1);
    // Another one, from another port.
    let at = |s: crate::testing::Seg| s.port(6000);
    h.send(at(Handshake::default().syn()));
    h.expect(at(seg().syn().ack(1)));
    h.send(at(seg().seq(1).ack(1).win(WIN)));
    let conn = h.events().iter().find_map(|event| match event {
        crate::Event::Accepted { conn, .. } => Some(*conn),
        crate::Event::Ready { .. } => None,
    });
    h.conn = conn;
    let id = h.id();
    h.execute(Command::Accept {
        conn: id,
        token: CLIENT,
    });
    h.shutdown();
    h.send(at(seg().seq(1).fin().ack(2).win(WIN)));
    h.close();
    let usage = h.stack.usage();
    assert_eq!((usage.time_wait, usage.flows, usage.connections), (1, 1, 0));
    assert_eq!(h.stack.counters().time_wait_evictions, 1);
}

/// A client whose only port is in TIME_WAIT towards the peer.
fn client(offer: &Handshake) -> Harness {
    let mut h = Harness::with(|config| config.ephemeral = (40_000, 40_000))
        .and_connected(offer, Options::default());
    h.shutdown();
    h.drain();
    let fin = seg().seq(1).fin().ack(2).win(WIN);
    h.send(if offer.ts.is_some() {
        fin.ts(1001, 0)
    } else {
        fin
    });
    h.close();
    h.drain();
    assert_eq!(h.stack.usage().time_wait, 1);
    h
}

fn connect_again(h: &mut Harness) -> Result<crate::Reply, Error> {
    let remote: SocketAddr = h.peer();
    let command = Command::Connect {
        token: CLIENT,
        local: None,
        remote,
        options: Options::default(),
    };
    h.stack.execute(h.now(), command)
}

#[test]
fn a_client_waits_for_it_without_timestamps() {
    let mut h = client(&Handshake::default());
    h.advance(5000);
    assert_eq!(connect_again(&mut h), Err(Error::AddressNotAvailable));
    h.advance(60_000);
    assert!(connect_again(&mut h).is_ok());
}

#[test]
fn a_client_with_timestamps_may_connect_again_after_a_second() {
    // RFC 6191 §3.
    let mut h = client(&Handshake {
        ts: Some(1000),
        ..Handshake::default()
    });
    let old = h.sent_syn();
    assert_eq!(connect_again(&mut h), Err(Error::AddressNotAvailable));
    h.advance(1000);
    assert!(connect_again(&mut h).is_ok());
    h.transmit();
    let syn = h.expect(seg().syn());
    assert!(syn.seq > old + 2);
    assert_eq!(h.stack.usage().time_wait, 0);
}

/// A server full of TIME_WAIT records, and a client process that starts anew: lower sequence
/// numbers, an unrelated clock.
#[test]
fn a_client_that_starts_anew_gets_in() {
    for ts in [None, Some(1000)] {
        let mut h = Harness::new().and_established(&Handshake {
            ts,
            ..Handshake::default()
        });
        h.shutdown();
        h.expect(seg().fin().seq(1));
        let fin = seg().seq(1).fin().ack(2).win(WIN);
        h.send(if ts.is_some() { fin.ts(1001, 0) } else { fin });
        h.drain();
        let anew = Handshake {
            ts: ts.map(|_| 5),
            ..Handshake::default()
        };
        let syn = || anew.syn().seq(0u32.wrapping_sub(100_000));
        h.send(syn());
        h.expect(seg().seq(2).ack(2));
        // RFC 9293 §3.10.7.3, first: in SYN_SENT this ACK is not acceptable.
        h.send(seg().rst().seq(2));
        h.expect_nothing();
        assert_eq!(h.stack.usage().time_wait, 0);
        h.send(syn());
        h.expect(seg().syn().ack(0u32.wrapping_sub(99_999)));
    }
}

#[test]
fn a_reset_elsewhere_than_our_answer_said_does_not_end_it() {
    let mut h = Harness::time_wait();
    h.send(Handshake::default().syn().seq(0));
    h.expect(seg().seq(2).ack(2));
    h.send(seg().rst().seq(1));
    h.send(seg().rst().seq(3));
    h.expect_nothing();
    assert_eq!(h.stack.usage().time_wait, 1);
    assert_eq!(h.stack.counters().resets_in, 0);
}

#[test]
fn the_last_ack_stays_due_while_the_link_is_full() {
    let mut h = Harness::fin_wait_2();
    h.sink.room = 0;
    h.send(seg().seq(1).fin().ack(2).win(WIN));
    h.send(seg().seq(1).fin().ack(2).win(WIN));
    assert_eq!(h.stack.usage().time_wait, 1);
    assert!(h.stack.has_output(crate::PortId(0)));
    h.sink.room = usize::MAX;
    h.transmit();
    h.expect(seg().seq(2).ack(2));
    h.expect_nothing();
    assert_eq!(h.stack.usage().queued, 0);
}

#[test]
fn the_last_ack_is_sent_although_there_is_no_record() {
    let mut h = Harness::with(|config| config.max_time_wait = 0);
    h.listen(4, Options::default());
    h.established_with(&Handshake::default());
    h.shutdown();
    h.expect(seg().fin().seq(1));
    h.send(seg().seq(1).fin().ack(2).win(WIN));
    h.expect(seg().seq(2).ack(2));
    assert_eq!(h.stack.usage().time_wait, 0);
}

/// RFC 6191 §3-1.
#[test]
fn timestamps_go_on_in_the_next_connection() {
    // RFC 6191 §3 needs it: the offset depends on the endpoints only.
    let mut h = client(&Handshake {
        ts: Some(1000),
        ..Handshake::default()
    });
    h.advance(1000);
    assert!(connect_again(&mut h).is_ok());
    h.transmit();
    h.expect(seg().syn().ts(1000, 0));
}

#[test]
fn a_new_syn_that_nobody_listens_for_is_refused_in_the_end() {
    let mut h = Harness::time_wait();
    let listener = h.listener();
    h.execute(Command::Unlisten(listener));
    h.drain();
    h.send(Handshake::default().syn().seq(500));
    h.expect(seg().seq(2).ack(2));
    h.send(seg().rst().seq(2));
    assert_eq!(h.stack.usage().time_wait, 0);
    h.send(Handshake::default().syn().seq(500));
    h.expect(seg().rst().any_ack());
}

#[test]
fn without_time_wait_the_last_fin_is_acknowledged_all_the_same() {
    let mut h = Harness::with(|config| config.time_wait = std::time::Duration::ZERO)
        .and_established(&Handshake::default());
    h.shutdown();
    h.expect(seg().fin().seq(1));
    h.inject(seg().seq(1).fin().ack(2).win(WIN));
    // A turn that looks at its timers first.
    h.stack.advance(h.now());
    assert_eq!(h.stack.usage().time_wait, 0);
    h.transmit();
    h.expect(seg().seq(2).ack(2));
    h.expect_nothing();
}

/// Their addresses are kept beside the records; the places of both are used again.
#[test]
fn over_ipv6_it_is_the_same() {
    let mut h = Harness::new().over_ipv6();
    for round in 0..3 {
        h.listen(4, Options::default());
        h.established_with(&Handshake::default());
        h.shutdown();
        h.expect(seg().fin().seq(1));
        h.send(seg().seq(1).fin().ack(2).win(WIN));
        h.expect(seg().seq(2).ack(2));
        h.close();
        assert_eq!(h.stack.usage().time_wait, 1, "{round}");
        h.send(seg().seq(1).fin().ack(2).win(WIN));
        h.expect(seg().seq(2).ack(2));
        let listener = h.listener();
        h.execute(Command::Unlisten(listener));
        h.advance(60_000);
        assert_eq!((h.stack.usage().time_wait, h.stack.usage().flows), (0, 0));
    }
}

/// One that owes its ACK to a link that is full makes room for another: nothing is owed for it any
/// more.
#[test]
fn what_is_evicted_owes_nothing() {
    let mut h = Harness::with(|config| config.max_time_wait = 1);
    h.listen(4, Options::default());
    let conns = [5000, 6000].map(|port| {
        let at = |s: crate::testing::Seg| s.port(port);
        h.send(at(Handshake::default().syn()));
        h.expect(at(seg().syn().ack(1)));
        h.send(at(seg().seq(1).ack(1).win(WIN)));
        h.conn = h.events().iter().find_map(|event| match event {
            crate::Event::Accepted { conn, .. } => Some(*conn),
            crate::Event::Ready { .. } => None,
        });
        let (conn, token) = (h.id(), CLIENT);
        h.execute(Command::Accept { conn, token });
        h.shutdown();
        h.drain();
        (port, conn)
    });
    h.sink.room = 0;
    for (port, conn) in conns {
        h.conn = Some(conn);
        h.send(seg().port(port).seq(1).fin().ack(2).win(WIN));
        h.close();
        let usage = h.stack.usage();
        assert_eq!((usage.time_wait, usage.queued), (1, 1), "{port}");
    }
    h.sink.room = usize::MAX;
    h.transmit();
    assert_eq!((h.drain(), h.stack.usage().queued), (1, 0));
}
