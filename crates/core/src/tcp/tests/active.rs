//! Active open: SYN_SENT (RFC 9293 §3.10.7.3) and simultaneous open (§3.5, figure 8).

use std::net::SocketAddr;
use std::time::Duration;

use crate::arrivals::Arrivals;
use crate::command::{Command, Options};
use crate::drops::DropReason;
use crate::error::Error;
use crate::event::Ready;
use crate::flow::FlowKey;
use crate::id::Token;
use crate::info::State;
use crate::testing::{CLIENT, Handshake, Harness, seg, v4, v6};
use crate::{Reply, Status};

fn syn_sent() -> Harness {
    let mut h = Harness::new();
    h.connect(Options::default());
    h
}

/// RFC 9293 MUST-14, SHLD-5, MUST-67; RFC 7323 §3.2-2.
#[test]
fn the_syn_offers_everything() {
    let mut h = Harness::new();
    let syn = h.connect(Options::default());
    assert_eq!(syn.options.mss, Some(1460));
    assert_eq!(syn.options.window_scale, Some(5));
    assert!(syn.options.sack_permitted);
    assert_eq!(syn.options.timestamps.map(|stamps| stamps.tsecr), Some(0));
    assert_eq!(syn.window, u16::MAX);
    assert_eq!(syn.ack.0, 0);
    h.expect_state(State::SynSent);
}

#[test]
fn a_small_buffer_is_a_small_window() {
    let mut h = Harness::new();
    let options = Options {
        recv_buffer: Some(5000),
        max_segment: Some(500),
        ..Options::default()
    };
    let syn = h.connect(options);
    assert_eq!((syn.window, syn.options.mss), (5000, Some(500)));
}

#[test]
fn syn_ack_establishes() {
    let mut h = syn_sent();
    h.advance(50);
    h.send(Handshake::default().syn().ack(1));
    h.expect(seg().seq(1).ack(1));
    h.expect_state(State::Established);
    let info = h.info();
    assert!(!info.timestamps && !info.sack);
    assert_eq!((info.snd_wscale, info.rcv_wscale), (0, 0));
    assert_eq!(info.srtt.as_millis(), 50);
    assert_eq!(h.ready(), (Ready::CONNECTED | Ready::WRITABLE, None));
    assert!(h.status().contains(Status::CONNECTED));
}

/// RFC 7323 §2.2-4, §2.3-1.
#[test]
fn the_window_of_a_syn_is_not_scaled() {
    let mut h = syn_sent();
    let offer = Handshake {
        wscale: Some(7),
        window: 1000,
        ..Handshake::default()
    };
    h.send(offer.syn().ack(1));
    assert_eq!(h.info().snd_wnd, 1000);
    h.send(seg().seq(1).ack(1).win(1000).len(1));
    assert_eq!(h.info().snd_wnd, 1000 << 7);
}

#[test]
fn what_was_written_rides_on_the_handshake_ack() {
    let mut h = syn_sent();
    h.write(100);
    h.expect_nothing();
    h.send(Handshake::default().syn().ack(1));
    h.expect(seg().seq(1).ack(1).len(100).psh());
    h.expect_nothing();
}

#[test]
fn data_in_the_syn_ack_is_taken() {
    let mut h = syn_sent();
    h.send(Handshake::default().syn().ack(1).len(20));
    h.expect(seg().seq(1).ack(21));
    assert_eq!(h.app.readable(h.slot()), 20);
}

#[test]
fn refused() {
    let mut h = syn_sent();
    h.send(seg().rst().seq(0).ack(1));
    h.expect_nothing();
    assert_eq!(
        h.ready(),
        (Ready::ERROR | Ready::CLOSED, Some(Error::Refused))
    );
    assert_eq!(i32::from(h.status().errno()), Error::Refused.errno());
    h.close();
    h.expect_gone();
}

/// RFC 5961 §3.2-5.
#[test]
fn a_reset_without_our_ack_is_ignored() {
    let mut h = syn_sent();
    h.send(seg().rst().seq(0));
    h.send(seg().rst().seq(0).ack(5));
    h.send(seg().rst().seq(0).ack(0));
    h.expect_nothing();
    h.expect_state(State::SynSent);
}

#[test]
fn an_unacceptable_ack_is_reset() {
    // RFC 9293 §3.10.7.3: "If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset
    // <SEQ=SEG.ACK><CTL=RST>".
    let mut h = syn_sent();
    h.send(seg().seq(77).ack(5));
    h.expect(seg().rst().seq(5));
    // The RST has ended what the peer still had: our SYN again, once and at once.
    let again = h.expect(seg().syn().seq(0));
    assert_eq!(again.seq, h.sent_syn());
    for ack in [0, 2, 1000] {
        h.send(seg().seq(77).ack(ack));
        h.expect(seg().rst().seq(ack));
        h.send(seg().syn().ack(ack));
        h.expect(seg().rst().seq(ack));
    }
    h.expect_nothing();
    h.expect_state(State::SynSent);
    assert_eq!(h.stack.counters().timeouts, 0);
}

/// Thousands of clients in a second may meet what is in TIME_WAIT at a server: none waits for a
/// time-out because others were answered.
#[test]
fn the_first_reset_of_an_old_connection_is_not_limited() {
    let mut h = Harness::with(|config| config.reset_rate = 0);
    h.connect(Options::default());
    h.send(seg().seq(77).ack(5));
    h.expect(seg().rst().seq(5));
    let again = h.expect(seg().syn());
    assert_eq!(again.seq, h.sent_syn());
    h.send(seg().seq(77).ack(5));
    h.expect_nothing();
    assert_eq!(h.stack.counters().dropped(DropReason::ReplyLimited), 1);
    h.send(Handshake::default().syn().ack(1));
    h.expect(seg().seq(1).ack(1));
}

#[test]
fn a_reset_with_a_wrong_ack_repeats_nothing() {
    let mut h = syn_sent();
    h.send(seg().rst().seq(77).ack(5));
    h.expect_nothing();
}

#[test]
fn a_repeated_syn_is_not_timed_and_is_no_loss() {
    let mut h = syn_sent();
    h.advance(50);
    h.send(seg().seq(77).ack(5));
    h.expect(seg().rst());
    h.expect(seg().syn());
    h.advance(10);
    h.send(Handshake::default().syn().ack(1));
    h.expect(seg().seq(1).ack(1));
    let info = h.info();
    assert_eq!((info.srtt, info.cwnd), (Duration::ZERO, 10_000));
}

#[test]
fn neither_syn_nor_rst_is_dropped() {
    let mut h = syn_sent();
    h.send(seg().seq(0).ack(1).len(10));
    h.send(seg().fin().seq(0).ack(1));
    h.expect_nothing();
    h.expect_state(State::SynSent);
    assert_eq!(h.stack.counters().dropped(DropReason::TcpState), 2);
}

/// RFC 9293 MUST-22.
#[test]
fn the_syn_is_sent_again_until_it_times_out() {
    let mut h = Harness::with(|config| config.syn_retries = 3);
    h.connect(Options::default());
    let mut at = Vec::new();
    for _ in 0..160 {
        h.advance(100);
        if h.pop().is_some() {
            at.push(h.elapsed());
        }
    }
    assert_eq!(at, [1000, 3000, 7000]);
    assert_eq!(
        h.ready(),
        (Ready::ERROR | Ready::CLOSED, Some(Error::TimedOut))
    );
    h.close();
    h.expect_gone();
}

/// RFC 6298 §5-8; RFC 5681 §3.1-3.
#[test]
fn a_lost_syn_costs_the_initial_window() {
    let mut h = syn_sent();
    h.advance(1000);
    h.expect(seg().syn().seq(0));
    h.send(Handshake::default().syn().ack(1));
    h.expect(seg().seq(1).ack(1));
    let info = h.info();
    assert_eq!((info.cwnd, info.rto.as_secs()), (1000, 3));
}

#[test]
fn timestamps_measure_even_a_syn_sent_twice() {
    let mut h = syn_sent();
    h.advance(1000);
    h.expect(seg().syn().seq(0).ts(1000, 0));
    h.advance(30);
    let offer = Handshake::default();
    // The echo says that the second SYN was answered.
    h.send(offer.syn().ack(1).ts(5, 1000));
    h.expect(seg().seq(1).ack(1));
    assert_eq!(h.info().srtt.as_millis(), 30);
}

/// RFC 9293 MUST-10.
#[test]
fn simultaneous_open() {
    // RFC 9293 figure 8.
    let mut h = syn_sent();
    h.send(Handshake::default().syn());
    h.expect(seg().syn().seq(0).ack(1));
    h.expect_state(State::SynReceived);
    h.send(Handshake::default().syn().ack(1));
    h.expect(seg().seq(1).ack(1));
    h.expect_state(State::Established);
    assert!(h.ready().0.contains(Ready::CONNECTED));
    h.write(10);
    h.expect(seg().seq(1).ack(1).len(10));
}

#[test]
fn simultaneous_open_with_a_plain_ack() {
    let mut h = syn_sent();
    h.send(Handshake::default().syn());
    h.expect(seg().syn().seq(0).ack(1));
    h.send(seg().seq(1).ack(1).win(500));
    h.expect_nothing();
    h.expect_state(State::Established);
    assert_eq!(h.info().snd_wnd, 500);
}

/// RFC 9293 MUST-11.
#[test]
fn reset_in_a_simultaneous_open() {
    let mut h = syn_sent();
    h.send(Handshake::default().syn());
    h.expect(seg().syn().ack(1));
    h.send(seg().rst().seq(1));
    assert_eq!(h.ready().1, Some(Error::Refused));
}

#[test]
fn the_syn_ack_of_a_simultaneous_open_is_sent_again() {
    let mut h = syn_sent();
    h.send(Handshake::default().syn());
    h.expect(seg().syn().seq(0).ack(1));
    h.advance(1000);
    h.expect(seg().syn().seq(0).ack(1));
    // The peer's SYN again: it has not seen our SYN-ACK. It is left of the window, and its ACK
    // tells.
    h.send(Handshake::default().syn());
    h.expect(seg().seq(1).ack(1));
}

#[test]
fn close_in_syn_sent_is_silent() {
    let mut h = syn_sent();
    h.close();
    h.expect_silence(10_000);
    h.expect_gone();
}

#[test]
fn shutdown_in_syn_sent_sends_data_and_fin_later() {
    let mut h = syn_sent();
    h.write(10);
    h.shutdown();
    h.expect_nothing();
    h.send(Handshake::default().syn().ack(1));
    h.expect(seg().seq(1).ack(1).len(10).fin());
    h.expect_state(State::FinWait1);
}

fn connect(h: &mut Harness, local: Option<SocketAddr>, remote: SocketAddr) -> Result<Reply, Error> {
    let command = Command::Connect {
        token: CLIENT,
        local,
        remote,
        options: Options::default(),
    };
    h.stack.execute(h.now(), command)
}

/// RFC 9293 MUST-43, MUST-46.
#[test]
fn impossible_destinations_are_refused() {
    let mut h = Harness::new();
    let remote = |text: &str| text.parse().unwrap();
    for bad in [
        "10.0.0.2:0",
        "224.0.0.1:80",
        "255.255.255.255:80",
        "0.0.0.0:80",
        "[ff02::1]:80",
    ] {
        assert_eq!(
            connect(&mut h, None, remote(bad)),
            Err(Error::Invalid),
            "{bad}"
        );
    }
    let mixed = connect(
        &mut h,
        Some(SocketAddr::new(v6(1), 0)),
        remote("10.0.0.2:80"),
    );
    assert_eq!(mixed, Err(Error::Invalid));
    assert_eq!(
        connect(&mut h, None, remote("192.0.2.1:80")),
        Err(Error::NetworkUnreachable)
    );
    let foreign = connect(&mut h, Some(remote("10.0.0.9:0")), remote("10.0.0.2:80"));
    assert_eq!(foreign, Err(Error::AddressNotAvailable));
    assert_eq!(h.stack.usage().connections, 0);
}

#[test]
fn the_same_endpoints_are_in_use() {
    let mut h = Harness::new();
    let (local, remote) = (SocketAddr::new(v4(1), 4000), SocketAddr::new(v4(2), 80));
    assert!(connect(&mut h, Some(local), remote).is_ok());
    assert_eq!(
        connect(&mut h, Some(local), remote),
        Err(Error::AddressNotAvailable)
    );
    assert!(connect(&mut h, Some(local), SocketAddr::new(v4(2), 81)).is_ok());
}

#[test]
fn every_port_can_be_used_and_no_more() {
    let mut h = Harness::with(|config| config.ephemeral = (40_000, 40_019));
    let remote = SocketAddr::new(v4(2), 80);
    h.stack
        .execute(
            h.now(),
            Command::Listen {
                token: Token(1),
                local: SocketAddr::new(v4(1), 40_007),
                only_v6: false,
                backlog: 1,
                options: Options::default(),
            },
        )
        .unwrap();
    let mut ports = std::collections::BTreeSet::new();
    for _ in 0..19 {
        match connect(&mut h, None, remote) {
            Ok(Reply::Connecting(_, local)) => assert!(ports.insert(local.port())),
            other => panic!("{other:?}"),
        }
    }
    assert!(!ports.contains(&40_007), "a listener's port");
    assert_eq!(
        connect(&mut h, None, remote),
        Err(Error::AddressNotAvailable)
    );
    // Another destination has the ports for itself.
    assert!(connect(&mut h, None, SocketAddr::new(v4(2), 81)).is_ok());
}

#[test]
fn connections_run_out() {
    let mut h = Harness::with(|config| config.max_connections = 2);
    let remote = SocketAddr::new(v4(2), 80);
    assert!(connect(&mut h, None, remote).is_ok());
    assert!(connect(&mut h, None, remote).is_ok());
    assert_eq!(connect(&mut h, None, remote), Err(Error::NoMemory));
    assert_eq!(h.stack.usage().flows, 2);
}

#[test]
fn an_unreachable_neighbour_ends_the_attempt() {
    let mut h = Harness::with(|config| config.neighbours.clear());
    let remote = SocketAddr::new(v4(77), 80);
    let Ok(Reply::Connecting(conn, _)) = connect(&mut h, None, remote) else {
        panic!("connect");
    };
    h.conn = Some(conn);
    h.advance(10_000);
    assert_eq!(h.ready().1, Some(Error::HostUnreachable));
    assert_eq!(h.drain(), 0, "nothing but ARP was sent");
}

/// Of each connection that is opened, whether its answers come to a stack for which every fourth
/// entry is.
fn comes_here(ports: (u16, u16), count: usize) -> Vec<bool> {
    let here = vec![true, false, false, false];
    let key: Vec<u8> = (0..40_u32)
        .map(|at| (at * at * 29 + at * 7 + 90) as u8)
        .collect();
    let arrivals = Arrivals::new(&key, here).unwrap();
    let mut h = Harness::with(|config| {
        config.arrivals = Some(arrivals.clone());
        config.ephemeral = ports;
    });
    let remote = SocketAddr::new(v4(2), 80);
    let connect = Command::Connect {
        token: CLIENT,
        local: None,
        remote,
        options: Options::default(),
    };
    let opened = (0..count).map(|_| match h.execute(connect) {
        Reply::Connecting(_, local) => arrivals.has(&FlowKey::new(local, remote)),
        reply => panic!("{reply:?}"),
    });
    opened.collect()
}

#[test]
fn ports_are_chosen_so_that_answers_come_here() {
    assert_eq!(comes_here((32_768, 60_999), 50), [true; 50]);
}

/// Where there are none, all the same.
#[test]
fn when_those_are_used_up_others_do() {
    let opened = comes_here((40_000, 40_199), 200);
    let here = opened.iter().filter(|here| **here).count();
    assert!((20..100).contains(&here), "{here}");
    assert!(opened[..here].iter().all(|here| *here));
}
