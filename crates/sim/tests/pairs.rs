//! Two stacks at their most symmetric: simultaneous open and close, crossing FINs and RSTs; and the
//! other classics between two ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{Pair, ms};
use mtcp_core::Error;
use mtcp_core::command::{Command, Options, Reply};
use mtcp_core::info::State;
use sim::{Ending, Expect, HostId, ListenPlan, Plan, Record};

fn record(pair: &Pair, host: HostId) -> Record {
    let records = pair.net.host(host).unwrap().apps().records();
    assert_eq!(records.len(), 1, "{records:?}");
    records[0]
}

/// RFC 9293 §3.5, figure 7: both ends connect to each other's port at the same time; one connection
/// results.
#[test]
fn simultaneous_open() {
    for latency in [0, 30] {
        let mut pair = Pair::new(1, ms(10));
        let (first, second) = (pair.a, pair.b);
        let open = |pair: &mut Pair, from: HostId, to: HostId| {
            let command = Command::Connect {
                token: mtcp_core::Token(9),
                local: Some(pair.addr(from, 5000)),
                remote: pair.addr(to, 5000),
                options: Options::default(),
            };
            let reply = pair.net.execute(from, command);
            let Ok(Reply::Connecting(conn, _)) = reply else {
                panic!("{reply:?}");
            };
            conn
        };
        let a = open(&mut pair, first, second);
        // The SYNs must cross: the link takes 10 ms.
        pair.net
            .run_for(Duration::from_micros(latency * 100))
            .unwrap();
        let b = open(&mut pair, second, first);
        pair.net.run_for(ms(200)).unwrap();
        for (host, conn) in [(pair.a, a), (pair.b, b)] {
            let info = pair.net.execute(host, Command::Info(conn));
            let Ok(Reply::Info(info)) = info else {
                panic!("{info:?}");
            };
            assert_eq!(info.state, State::Established);
        }
        // Simultaneous close as well, since both do it now.
        for (host, conn) in [(pair.a, a), (pair.b, b)] {
            pair.net.release(host, conn.slot);
            pair.net.execute(host, Command::Close(conn)).unwrap();
        }
        pair.finish();
    }
}

/// Both ends write, shut down and read at once, so that the FINs cross (RFC 9293 §3.6, figure 13),
/// with and without data before them.
#[test]
fn crossing_fins() {
    for bytes in [0, 1, 100_000] {
        let mut pair = Pair::new(2, ms(20));
        // The server is connected half a round trip after the client.
        let client = Plan::default().sends(bytes).ends(Ending::Hold(ms(20)));
        pair.talk(client, Plan::default().sends(bytes));
        pair.finish();
        for host in [pair.a, pair.b] {
            let record = record(&pair, host);
            assert!(record.is_clean(), "{record:?}");
            assert_eq!((record.sent, record.received), (bytes, bytes));
        }
        assert_eq!(pair.net.check_pairs().unwrap(), 1);
    }
}

/// Without loss, a crossed close leaves TIME_WAIT at both ends (RFC 9293 §3.6); an ordinary one
/// only at the end that closed first.
#[test]
fn who_waits() {
    for (server, waiting) in [(Ending::HalfClose, [1, 1]), (Ending::AfterEof, [1, 0])] {
        let mut pair = Pair::new(3, ms(20));
        // The server is connected half a round trip after the client: the FINs cross.
        let client = Plan::default().ends(Ending::Hold(ms(20)));
        pair.talk(client, Plan::default().ends(server));
        pair.net.run_for(Duration::from_secs(5)).unwrap();
        let is: Vec<_> = pair
            .net
            .hosts()
            .iter()
            .map(|host| host.stack().usage().time_wait)
            .collect();
        assert_eq!(is, waiting, "{server:?}");
        pair.finish();
    }
}

#[test]
fn both_abort() {
    let mut pair = Pair::new(4, ms(20));
    let plan = Plan::default().sends(1 << 20).ends(Ending::Abort(50_000));
    pair.talk(plan, plan);
    pair.finish();
    for host in [pair.a, pair.b] {
        let record = record(&pair, host);
        // RSTs that cross find the other end gone; whoever was slower saw the RST.
        assert!(
            record.aborted || record.error == Some(Error::Reset),
            "{record:?}"
        );
    }
}

#[test]
fn an_abort_is_a_reset_to_the_other() {
    let mut pair = Pair::new(5, ms(5));
    let client = Plan::default().sends(1 << 20).ends(Ending::Abort(200_000));
    pair.talk(client, Plan::default());
    pair.finish();
    assert!(record(&pair, pair.a).aborted);
    assert_eq!(record(&pair, pair.b).error, Some(Error::Reset));
}

/// CLOSE with unread data is an abort (RFC 9293 §3.10.4, RFC 2525 §2.17).
#[test]
fn closing_on_unread_data_resets() {
    let mut pair = Pair::new(6, ms(5));
    let client = Plan {
        first_read: Duration::from_secs(3600),
        ..Plan::default().sends(10).ends(Ending::AfterBytes(0))
    };
    let server = Plan {
        write_pause: ms(50),
        ..Plan::default().sends(100_000)
    };
    // It closes when connected and all is written; what the server sends later is met by a RST.
    pair.talk(client, server);
    pair.finish();
    assert_eq!(record(&pair, pair.b).error, Some(Error::Reset));
}

#[test]
fn nobody_listens() {
    let mut pair = Pair::new(7, ms(5));
    let remote = pair.addr(pair.b, 80);
    pair.net
        .connect(pair.a, Duration::ZERO, remote, Plan::default())
        .unwrap();
    pair.finish();
    assert_eq!(record(&pair, pair.a).error, Some(Error::Refused));
}

#[test]
fn nobody_is_there() {
    let mut pair = Pair::new(8, ms(5));
    let mut remote = pair.addr(pair.b, 80);
    remote.set_ip("10.0.77.77".parse().unwrap());
    pair.net
        .connect(pair.a, Duration::ZERO, remote, Plan::default())
        .unwrap();
    pair.finish();
    assert_eq!(record(&pair, pair.a).error, Some(Error::HostUnreachable));
}

/// A path that dies: the sender gives up after `data_retries`, a receiver with keepalive after its
/// probes.
#[test]
fn a_dead_path_is_noticed_by_both_ends() {
    let mut pair = Pair::new(9, ms(5));
    let keepalive = mtcp_core::command::Keepalive {
        idle: Duration::from_secs(10),
        interval: Duration::from_secs(5),
        count: 4,
    };
    let options = Options {
        keepalive: Some(keepalive),
        ..Options::default()
    };
    let sender = Plan {
        write_pause: ms(1),
        write_size: (1000, 1000),
        ..Plan::default().sends(1 << 30)
    };
    let receiver = Plan {
        options,
        ..Plan::default().ends(Ending::AfterEof)
    };
    pair.talk(sender, receiver);
    pair.net.run_for(ms(2000)).unwrap();
    pair.set_down(true);
    pair.finish();
    for host in [pair.a, pair.b] {
        // Or what is known of the neighbour by then.
        let error = record(&pair, host).error;
        assert!(
            matches!(error, Some(Error::TimedOut | Error::HostUnreachable)),
            "{error:?}"
        );
    }
    let receiver = record(&pair, pair.b);
    let took = receiver.closed_at.since(receiver.opened_at);
    assert!(
        (Duration::from_secs(30)..Duration::from_secs(40)).contains(&took),
        "{took:?}"
    );
}

/// Idle connections with keepalive outlive hours of silence, and do not outlive their peer.
#[test]
fn keepalive_keeps_alive() {
    let mut pair = Pair::new(10, ms(5));
    let keepalive = mtcp_core::command::Keepalive {
        idle: Duration::from_secs(60),
        interval: Duration::from_secs(10),
        count: 3,
    };
    let options = Options {
        keepalive: Some(keepalive),
        ..Options::default()
    };
    let hold = Plan {
        options,
        ..Plan::default()
            .sends(10)
            .ends(Ending::Hold(Duration::from_secs(7200)))
    };
    pair.talk(hold, hold);
    pair.finish();
    for host in [pair.a, pair.b] {
        assert!(record(&pair, host).is_clean());
        let probes = pair
            .net
            .host(host)
            .unwrap()
            .stack()
            .counters()
            .keepalive_probes;
        assert!((50..130).contains(&probes), "{probes}");
    }
}

#[test]
fn an_echo_through_tiny_buffers_and_a_slow_reader() {
    let mut pair = Pair::new(11, ms(1));
    let options = Options {
        recv_buffer: Some(2048),
        send_buffer: Some(2048),
        ..Options::default()
    };
    let client = Plan {
        expect: Expect::Echo,
        read_pause: ms(20),
        read_size: (1, 3000),
        options,
        ..Plan::default().sends(200_000)
    };
    let server = Plan {
        options,
        ..Plan::echo()
    };
    pair.talk(client, server);
    pair.finish();
    assert_eq!(record(&pair, pair.a).received, 200_000);
    assert!(record(&pair, pair.a).is_clean() && record(&pair, pair.b).is_clean());
}

/// A reader that does not read for a minute: the window closes, probes keep the connection alive,
/// nothing is lost when it opens.
#[test]
fn a_window_that_closes_for_a_minute() {
    let mut pair = Pair::new(12, ms(5));
    let sleepy = Plan {
        first_read: Duration::from_secs(60),
        ..Plan::default().ends(Ending::AfterEof)
    };
    pair.talk(Plan::default().sends(2 << 20), sleepy);
    pair.finish();
    assert_eq!(record(&pair, pair.b).received, 2 << 20);
    assert!(
        pair.net
            .host(pair.a)
            .unwrap()
            .stack()
            .counters()
            .window_probes
            > 3
    );
}

/// Without loss nothing is retransmitted, however much reordering the network lacks: the
/// retransmission machinery stays quiet.
#[test]
fn a_clean_link_needs_no_retransmission() {
    for v6 in [false, true] {
        let mut pair = Pair::new(13, ms(5));
        pair.v6 = v6;
        pair.talk(
            Plan::default().sends(4 << 20),
            Plan::default().sends(1 << 20),
        );
        pair.finish();
        for host in pair.net.hosts() {
            let counters = host.stack().counters();
            assert_eq!((counters.retransmits, counters.timeouts), (0, 0));
        }
    }
}

/// An accept queue that overflows: the clients that do not fit wait in their handshake and are
/// served in the end.
#[test]
fn a_full_backlog_delays_but_serves() {
    let mut pair = Pair::new(14, ms(5));
    let server = ListenPlan {
        backlog: 2,
        accept_delay: ms(500),
        ..ListenPlan::new(pair.addr(pair.b, 80), Plan::echo())
    };
    pair.net.listen(pair.b, server).unwrap();
    for _ in 0..20 {
        let client = Plan {
            expect: Expect::Echo,
            ..Plan::default().sends(1000)
        };
        let remote = pair.addr(pair.b, 80);
        pair.net
            .connect(pair.a, Duration::ZERO, remote, client)
            .unwrap();
    }
    pair.finish();
    let records = pair.net.host(pair.a).unwrap().apps().records();
    assert_eq!(records.len(), 20);
    assert!(records.iter().all(Record::is_clean), "{records:?}");
    let dropped = pair
        .net
        .host(pair.b)
        .unwrap()
        .stack()
        .counters()
        .dropped(mtcp_core::DropReason::TcpBacklog);
    assert!(dropped > 0);
}

/// Connections that are refused by the application after the handshake, and a listener that ends
/// with some waiting.
#[test]
fn refused_and_forgotten_connections_are_reset() {
    let mut pair = Pair::new(15, ms(5));
    let plan = ListenPlan {
        accept_delay: Duration::from_secs(5),
        refuse_percent: 50,
        ..ListenPlan::new(pair.addr(pair.b, 80), Plan::echo())
    };
    pair.net.listen(pair.b, plan).unwrap();
    let remote = pair.addr(pair.b, 80);
    for _ in 0..40 {
        let client = Plan {
            expect: Expect::Echo,
            ..Plan::default().sends(100)
        };
        pair.net
            .connect(pair.a, Duration::ZERO, remote, client)
            .unwrap();
    }
    pair.net.run_for(Duration::from_secs(2)).unwrap();
    pair.net.unlisten(pair.b).unwrap();
    pair.finish();
    let records = pair.net.host(pair.a).unwrap().apps().records();
    let clean = records.iter().filter(|record| record.is_clean()).count();
    let reset = records
        .iter()
        .filter(|record| record.error == Some(Error::Reset))
        .count();
    assert_eq!((clean + reset, records.len()), (40, 40), "{records:?}");
    assert!(clean > 0 && reset > 10, "{clean} clean, {reset} reset");
}

/// The pool is a tenth of what the buffers may be: everything still gets through.
#[test]
fn a_pool_smaller_than_the_buffers() {
    let mut pair = Pair::with(16, ms(5), |config| {
        config.stack.recv_pool = 1 << 20;
        config.stack.send_pool = 1 << 20;
    });
    let plan = Plan {
        read_pause: ms(3),
        ..Plan::default().sends(300_000)
    };
    pair.net
        .listen(pair.b, ListenPlan::new(pair.addr(pair.b, 80), plan))
        .unwrap();
    let remote = pair.addr(pair.b, 80);
    for _ in 0..20 {
        pair.net
            .connect(pair.a, Duration::ZERO, remote, plan)
            .unwrap();
    }
    pair.finish();
    let records = pair.net.host(pair.a).unwrap().apps().records();
    assert!(
        records.len() == 20 && records.iter().all(Record::is_clean),
        "{records:?}"
    );
    assert_eq!(pair.net.check_pairs().unwrap(), 20);
}
