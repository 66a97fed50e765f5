//! Listeners: backlog, limits, address conflicts, and the end of a listener.

use std::net::SocketAddr;

use crate::command::{Command, Options};
use crate::config::SynCookies;
use crate::drops::DropReason;
use crate::error::Error;
use crate::event::{Event, Ready};
use crate::id::{ConnId, ListenerId, Token};
use crate::testing::{CLIENT, Handshake, Harness, LISTENER, seg};
use crate::{Reply, Status};

const WIN: u16 = 60_000;

fn open(h: &mut Harness, port: u16) {
    h.send(Handshake::default().syn().port(port));
    h.expect(seg().syn().ack(1).port(port));
    h.send(seg().seq(1).ack(1).win(WIN).port(port));
}

fn accepted(h: &mut Harness) -> Vec<ConnId> {
    let events = h.events();
    let ids = events.iter().filter_map(|event| match event {
        Event::Accepted { conn, .. } => Some(*conn),
        Event::Ready { .. } => None,
    });
    ids.collect()
}

fn listen_on(h: &mut Harness, local: &str, only_v6: bool) -> Result<Reply, Error> {
    let command = Command::Listen {
        token: Token(1),
        local: local.parse().unwrap(),
        only_v6,
        backlog: 5,
        options: Options::default(),
    };
    h.stack.execute(h.now(), command)
}

#[test]
fn a_full_backlog_keeps_the_rest_half_open() {
    let mut h = Harness::new();
    h.listen(2, Options::default());
    for port in 6000..6003 {
        h.send(Handshake::default().syn().port(port));
        h.expect(seg().syn().ack(1).port(port));
    }
    for port in 6000..6003 {
        h.send(seg().seq(1).ack(1).win(WIN).port(port));
    }
    let usage = h.stack.usage();
    assert_eq!((usage.connections, usage.half_open), (2, 1));
    assert_eq!(h.stack.counters().dropped(DropReason::TcpBacklog), 1);
    let waiting = accepted(&mut h);
    assert_eq!(waiting.len(), 2);
    let take = Command::Accept {
        conn: waiting[0],
        token: CLIENT,
    };
    h.execute(take);
    assert_eq!(h.refuse(take), Error::Invalid);
    // Room: the SYN-ACK that is sent again asks for the ACK again.
    h.advance(1000);
    h.expect(seg().syn().ack(1).port(6002));
    h.send(seg().seq(1).ack(1).win(WIN).port(6002));
    assert_eq!(accepted(&mut h).len(), 1);
}

/// As Linux documents its accept queue: while it is full, no SYN is answered.
#[test]
fn a_full_backlog_takes_no_syn() {
    let mut h = Harness::new();
    h.listen(1, Options::default());
    open(&mut h, 6000);
    h.send(Handshake::default().syn().port(6001));
    h.expect_nothing();
    assert_eq!(h.stack.counters().dropped(DropReason::TcpBacklog), 1);
    let conn = accepted(&mut h)[0];
    h.execute(Command::Accept {
        conn,
        token: CLIENT,
    });
    open(&mut h, 6001);
    assert_eq!(accepted(&mut h).len(), 1);
}

/// tcp_abort_on_overflow.
#[test]
fn a_full_backlog_resets_if_it_is_told_to() {
    let mut h = Harness::with(|config| config.abort_on_overflow = true);
    h.listen(1, Options::default());
    for port in [6000, 6001] {
        h.send(Handshake::default().syn().port(port));
        h.expect(seg().syn().ack(1).port(port));
    }
    h.send(seg().seq(1).ack(1).win(WIN).port(6000));
    h.expect_nothing();
    h.send(seg().seq(1).ack(1).win(WIN).port(6001));
    h.expect(seg().rst().seq(1).port(6001));
    assert_eq!(h.stack.usage().half_open, 0);
}

/// RFC 4987 §3.4-1.
#[test]
fn half_open_records_are_limited() {
    let mut h = Harness::with(|config| {
        config.max_half_open = 8;
        config.syn_cookies = SynCookies::Off;
    });
    h.listen(2, Options::default());
    for port in 6000..6020 {
        h.send(Handshake::default().syn().port(port));
    }
    assert_eq!(h.stack.usage().half_open, 8);
    assert_eq!(h.stack.counters().dropped(DropReason::TcpHalfOpen), 12);
    assert_eq!(h.drain(), 8);
}

#[test]
fn one_listener_does_not_take_all_half_open_records() {
    let mut h = Harness::with(|config| config.max_half_open = 1000);
    h.listen(2, Options::default());
    for port in 6000..6200 {
        h.send(Handshake::default().syn().port(port));
    }
    assert_eq!(h.stack.usage().half_open, 64);
}

#[test]
fn news_waits_for_accept() {
    let mut h = Harness::new();
    h.listen(4, Options::default());
    open(&mut h, 6000);
    h.send(seg().seq(1).ack(1).win(WIN).len(10).port(6000));
    let events = h.events();
    let [Event::Accepted { conn, listener, .. }] = events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(listener, LISTENER);
    // The streams are open already.
    assert_eq!(h.app.readable(conn.slot), 10);
    h.send(seg().seq(11).ack(1).win(WIN).fin().port(6000));
    assert_eq!(h.events(), []);
    h.execute(Command::Accept {
        conn,
        token: CLIENT,
    });
    let events = h.events();
    let [Event::Ready { token, ready, .. }] = events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(token, CLIENT);
    assert!(ready.contains(Ready::CONNECTED | Ready::READABLE | Ready::EOF));
}

#[test]
fn an_announced_connection_can_be_refused() {
    let mut h = Harness::new();
    h.listen(4, Options::default());
    open(&mut h, 6000);
    h.conn = accepted(&mut h).pop();
    h.abort();
    h.expect(seg().rst().seq(1).ack(1).port(6000));
    h.expect_gone();
}

#[test]
fn a_connection_that_dies_announced_is_told_when_accepted() {
    let mut h = Harness::new();
    h.listen(4, Options::default());
    open(&mut h, 6000);
    h.conn = accepted(&mut h).pop();
    h.send(seg().rst().seq(1).port(6000));
    let conn = h.id();
    h.execute(Command::Accept {
        conn,
        token: CLIENT,
    });
    assert_eq!(h.ready().1, Some(Error::Reset));
    assert!(h.status().contains(Status::ERROR));
    h.close();
    h.expect_gone();
}

#[test]
fn unlisten_resets_what_was_not_accepted() {
    let mut h = Harness::new();
    h.listen(8, Options::default());
    open(&mut h, 6000);
    let announced = accepted(&mut h)[0];
    open(&mut h, 6001);
    h.send(Handshake::default().syn().port(6002));
    h.drain();
    let listener = h.listener();
    h.execute(Command::Unlisten(listener));
    h.transmit();
    h.expect(seg().rst().any_ack().port(6000));
    h.expect(seg().rst().any_ack().port(6001));
    // Half-open here, but perhaps not there.
    h.expect(seg().seq(1).rst().ack(1).port(6002));
    h.expect_nothing();
    let usage = h.stack.usage();
    assert_eq!((usage.half_open, usage.listeners, usage.flows), (0, 0, 0));
    // The announced one has to be given back.
    assert_eq!(usage.connections, 1);
    h.conn = Some(announced);
    h.abort();
    h.expect_gone();
    assert_eq!(h.refuse(Command::Unlisten(listener)), Error::BadId);
    h.send(Handshake::default().syn().port(6003));
    h.expect(seg().rst().ack(1).port(6003));
}

/// RFC 9293 MUST-41.
#[test]
fn accepted_connections_outlive_their_listener() {
    let mut h = Harness::established();
    let listener = h.listener();
    h.execute(Command::Unlisten(listener));
    h.write(10);
    h.expect(seg().seq(1).len(10));
}

/// RFC 9293 MUST-41.
#[test]
fn addresses_in_use() {
    let mut h = Harness::new();
    assert!(listen_on(&mut h, "0.0.0.0:80", false).is_ok());
    assert_eq!(
        listen_on(&mut h, "0.0.0.0:80", false),
        Err(Error::AddressInUse)
    );
    assert_eq!(
        listen_on(&mut h, "10.0.0.1:80", false),
        Err(Error::AddressInUse)
    );
    assert_eq!(
        listen_on(&mut h, "[::]:80", false),
        Err(Error::AddressInUse)
    );
    assert!(listen_on(&mut h, "[::]:80", true).is_ok());
    assert_eq!(
        listen_on(&mut h, "[fd00::1]:80", true),
        Err(Error::AddressInUse)
    );
    assert_eq!(
        listen_on(&mut h, "10.0.0.9:81", false),
        Err(Error::AddressNotAvailable)
    );
    // A mapped address is an IPv4 address.
    assert!(listen_on(&mut h, "[::ffff:10.0.0.1]:82", false).is_ok());
    assert_eq!(
        listen_on(&mut h, "10.0.0.1:82", false),
        Err(Error::AddressInUse)
    );
}

#[test]
fn port_zero_picks_one() {
    let mut h = Harness::with(|config| config.ephemeral = (50_000, 50_001));
    let mut ports = Vec::new();
    for _ in 0..2 {
        let Ok(Reply::Listening(_, SocketAddr::V4(local))) = listen_on(&mut h, "10.0.0.1:0", false)
        else {
            panic!("listen");
        };
        ports.push(local.port());
    }
    assert_eq!(ports, [50_000, 50_001]);
    assert_eq!(
        listen_on(&mut h, "10.0.0.1:0", false),
        Err(Error::AddressInUse)
    );
}

#[test]
fn listeners_run_out() {
    let mut h = Harness::with(|config| config.max_listeners = 1);
    assert!(listen_on(&mut h, "10.0.0.1:80", false).is_ok());
    assert_eq!(
        listen_on(&mut h, "10.0.0.1:81", false),
        Err(Error::NoMemory)
    );
}

#[test]
fn an_ipv6_wildcard_takes_ipv4() {
    let mut h = Harness::new();
    listen_on(&mut h, "[::]:80", false).unwrap();
    open(&mut h, 6000);
    let mut h = h.over_ipv6();
    open(&mut h, 6000);
    assert_eq!(h.stack.usage().connections, 2);
}

#[test]
fn stale_ids_are_refused() {
    let mut h = Harness::new();
    let listener = ListenerId {
        slot: 3,
        generation: 0,
    };
    assert_eq!(h.refuse(Command::Unlisten(listener)), Error::BadId);
    let conn = ConnId {
        slot: 900_000,
        generation: 0,
    };
    for command in [
        Command::Accept {
            conn,
            token: CLIENT,
        },
        Command::Send(conn),
        Command::Received(conn),
        Command::Shutdown(conn),
        Command::Close(conn),
        Command::Abort(conn),
        Command::Info(conn),
    ] {
        assert_eq!(h.refuse(command), Error::BadId);
    }
}
