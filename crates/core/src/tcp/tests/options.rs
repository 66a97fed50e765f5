//! What the socket options of Linux's tcp(7) and ip(7) make of a connection.

use std::time::Duration;

use crate::command::{Command, Keepalive, Marking, Options};
use crate::config::CongestionControl;
use crate::error::Error;
use crate::info::State;
use crate::testing::{Handshake, Harness, seg};

const WIN: u16 = 60_000;

fn listening(options: Options) -> Harness {
    let mut h = Harness::new();
    h.listen(4, options);
    h
}

fn with(options: Options) -> Harness {
    listening(options).and_established(&Handshake::default())
}

fn set(h: &mut Harness, options: Options) {
    let conn = h.id();
    h.execute(Command::SetOptions { conn, options });
    h.transmit();
}

fn corked() -> Harness {
    with(Options {
        cork: true,
        ..Options::default()
    })
}

#[test]
fn a_cork_lets_only_full_segments_out() {
    let mut h = corked();
    h.write(400);
    h.expect_nothing();
    h.write(1700);
    h.expect(seg().seq(1).len(1000));
    h.expect(seg().seq(1001).len(1000));
    h.send(seg().seq(1).ack(2001).win(WIN));
    h.expect_nothing();
    set(&mut h, Options::default());
    h.expect(seg().seq(2001).len(100).psh());
}

#[test]
fn a_cork_holds_for_200_ms_at_most() {
    let mut h = corked();
    h.write(10);
    h.expect_silence(199);
    h.advance(1);
    h.expect(seg().seq(1).len(10));
    h.send(seg().seq(1).ack(11).win(WIN));
    // And again for what is written then.
    h.write(20);
    h.expect_silence(199);
    h.advance(1);
    h.expect(seg().seq(11).len(20));
}

#[test]
fn a_fin_pulls_the_cork() {
    let mut h = corked();
    h.write(10);
    h.shutdown();
    h.expect(seg().seq(1).len(10).fin());
}

#[test]
fn switching_nagle_off_pulls_the_cork() {
    let mut h = corked();
    h.write(10);
    h.expect_nothing();
    set(
        &mut h,
        Options {
            cork: true,
            nodelay: true,
            ..Options::default()
        },
    );
    h.expect(seg().seq(1).len(10));
    h.send(seg().seq(1).ack(11).win(WIN));
    h.write(10);
    h.expect_nothing();
}

/// As on Linux: setting TCP_NODELAY pushes, also where it was set.
#[test]
fn a_push_lets_go_what_is_held_back() {
    let nodelay = Options {
        nodelay: true,
        ..Options::default()
    };
    for cork in [false, true] {
        let mut h = with(Options { cork, ..nodelay });
        let conn = h.id();
        h.write_without_transmit(10);
        h.execute(Command::SendMore(conn));
        h.transmit();
        h.expect_nothing();
        h.execute(Command::Push(conn));
        h.transmit();
        h.expect(seg().seq(1).len(10).psh());
        // Also before any of it was tried to be sent, and only what was there.
        h.write_without_transmit(10);
        h.execute(Command::SendMore(conn));
        h.execute(Command::Push(conn));
        h.transmit();
        h.expect(seg().seq(11).len(10).psh());
        h.write_without_transmit(10);
        h.execute(Command::SendMore(conn));
        h.transmit();
        h.expect_nothing();
    }
}

#[test]
fn acks_do_not_wait_for_corked_data() {
    let mut h = corked();
    h.write_without_transmit(10);
    h.send(seg().seq(1).ack(1).win(WIN).len(100));
    h.expect(seg().seq(1).ack(101));
    h.expect_nothing();
}

#[test]
fn corked_data_behind_a_closed_window_is_probed_for() {
    let mut h = listening(Options {
        cork: true,
        ..Options::default()
    })
    .and_established(&Handshake {
        window: 0,
        ..Handshake::default()
    });
    h.write(10);
    h.expect_silence(199);
    // The cork is out; the persist timer takes over.
    h.advance(2_000);
    h.expect(seg().seq(1).len(1));
}

#[test]
fn more_to_come_is_waited_for() {
    let mut h = Harness::established();
    let id = h.id();
    let part = [7; 30];
    h.app.write(h.slot(), &part);
    h.execute(Command::SendMore(id));
    h.transmit();
    h.expect_silence(199);
    h.app.write(h.slot(), &part);
    h.execute(Command::Send(id));
    h.transmit();
    h.expect(seg().seq(1).len(60).psh());
}

#[test]
fn more_that_does_not_come_is_not_waited_for_longer() {
    let mut h = Harness::established();
    let id = h.id();
    let part = [7; 30];
    h.app.write(h.slot(), &part);
    h.execute(Command::SendMore(id));
    h.advance(200);
    h.expect(seg().seq(1).len(30));
}

#[test]
fn quick_acks_are_a_matter_of_choice() {
    let mut h = with(Options {
        delay_acks: true,
        ..Options::default()
    });
    h.send(seg().seq(1).ack(1).win(WIN).len(10));
    h.expect_silence(39);
    let id = h.id();
    h.execute(Command::QuickAck(id));
    h.transmit();
    h.expect(seg().ack(11));
    // The choice stays until it is changed ...
    h.send(seg().seq(11).ack(1).win(WIN).len(10));
    h.expect_nothing();
    h.advance(40);
    h.expect(seg().ack(21));
    // ... and so does the other.
    set(&mut h, Options::default());
    h.execute(Command::QuickAck(id));
    h.send(seg().seq(21).ack(1).win(WIN).len(10));
    h.expect(seg().ack(31));
}

#[test]
fn deferred_accept_waits_for_data() {
    let mut h = listening(Options {
        defer_accept: 2,
        ..Options::default()
    });
    h.syn_received(&Handshake::default());
    h.send(h.handshake_ack(&Handshake::default()));
    h.expect_nothing();
    assert_eq!(h.events(), []);
    h.send(seg().seq(1).ack(1).win(WIN).len(5));
    h.take_accepted();
    assert_eq!(h.read().len(), 5);
}

#[test]
fn deferred_accept_ends_with_one_more_question() {
    // As Linux: the SYN-ACK is not repeated while data is waited for, once at the end, and its ACK
    // is accepted with or without data.
    let mut h = listening(Options {
        defer_accept: 3,
        ..Options::default()
    });
    h.syn_received(&Handshake::default());
    h.send(h.handshake_ack(&Handshake::default()));
    h.expect_silence(1000 + 2000 + 3999);
    h.advance(1);
    h.expect(seg().syn().ack(1).seq(0));
    h.send(h.handshake_ack(&Handshake::default()));
    h.take_accepted();
}

#[test]
fn a_syn_that_comes_again_does_not_defer_the_syn_ack() {
    // Who repeats its SYN has not got the SYN-ACK.
    let mut h = listening(Options {
        defer_accept: 3,
        ..Options::default()
    });
    let offer = Handshake::default();
    h.syn_received(&offer);
    h.send(offer.syn());
    h.expect(seg().syn().ack(1).seq(0));
    h.expect_silence(999);
    h.advance(1);
    h.expect(seg().syn().ack(1).seq(0));
}

#[test]
fn a_syn_is_repeated_as_often_as_asked() {
    let mut h = Harness::new();
    h.connect(Options {
        syn_retries: Some(2),
        ..Options::default()
    });
    h.advance(3_000);
    assert_eq!(h.drain(), 2);
    h.expect_silence(3_999);
    h.expect_state(State::SynSent);
    h.advance(1);
    assert_eq!(h.ready().1, Some(Error::TimedOut));
}

#[test]
fn a_user_timeout_ends_attempts_to_connect() {
    let mut h = Harness::new();
    h.connect(Options {
        user_timeout: Some(Duration::from_millis(2500)),
        ..Options::default()
    });
    h.advance(2_400);
    h.expect_state(State::SynSent);
    h.advance(100);
    assert_eq!(h.ready().1, Some(Error::TimedOut));
}

#[test]
fn a_user_timeout_replaces_the_number_of_keepalive_probes() {
    // RFC 5482 §4.2.
    let mut h = with(Options {
        keepalive: Some(Keepalive {
            idle: Duration::from_secs(10),
            interval: Duration::from_secs(1),
            count: 2,
        }),
        user_timeout: Some(Duration::from_secs(15)),
        ..Options::default()
    });
    h.advance(14_900);
    assert_eq!(h.drain(), 5);
    h.expect_state(State::Established);
    h.advance(200);
    assert_eq!(h.ready().1, Some(Error::TimedOut));
}

fn closed_first(time: Duration) -> Harness {
    let mut h = with(Options {
        fin_wait_2: Some(time),
        ..Options::default()
    });
    h.close();
    h.expect(seg().seq(1).fin());
    h.send(seg().seq(1).ack(2).win(WIN));
    h
}

#[test]
fn fin_wait_2_lasts_as_long_as_asked() {
    let mut h = closed_first(Duration::from_secs(5));
    h.advance(4_999);
    h.expect_state(State::FinWait2);
    h.advance(1);
    h.expect_gone();
}

/// Linux tcp(7): TCP_LINGER2. The peer hears that nobody is there any more, whichever came first,
/// the close or the ACK of the FIN.
#[test]
fn fin_wait_2_of_no_time_ends_with_a_reset() {
    let mut h = closed_first(Duration::ZERO);
    h.expect(seg().seq(2).rst().ack(1));
    h.expect_gone();
    let mut h = with(Options {
        fin_wait_2: Some(Duration::ZERO),
        ..Options::default()
    });
    h.shutdown();
    h.expect(seg().seq(1).fin().ack(1));
    h.send(seg().seq(1).ack(2).win(WIN));
    h.expect_nothing();
    h.close();
    h.expect(seg().seq(2).rst().ack(1));
    h.expect_gone();
}

#[test]
fn no_more_window_is_offered_than_the_clamp() {
    let mut h = listening(Options {
        window_clamp: Some(3000),
        ..Options::default()
    });
    let syn_ack = h.syn_received(&Handshake::default());
    assert_eq!(syn_ack.window, 3000);
    h.send(h.handshake_ack(&Handshake::default()));
    h.take_accepted();
    h.send(seg().seq(1).ack(1).win(WIN).len(1000));
    h.read();
    let ack = h.expect(seg().ack(1001));
    assert!(ack.window <= 3000, "{}", ack.window);
}

#[test]
fn unsent_bytes_are_bounded_by_their_low_water_mark() {
    let mut h = Harness::with(|config| {
        config.send_buffer = 1 << 20;
        config.max_buffer = 1 << 20;
        config.send_pool = 4 << 20;
    });
    let options = Options {
        unsent_low_water: Some(100_000),
        ..Options::default()
    };
    h.listen(4, options);
    let mut h = h.and_established(&Handshake {
        window: 20_000,
        ..Handshake::default()
    });
    let slot = h.slot();
    let bytes = vec![7; 200_000];
    assert_eq!(h.app.write(slot, &bytes), 100_000);
    assert_eq!((h.app.write(slot, b"x"), h.app.writable(slot)), (0, 0));
    let id = h.id();
    h.execute(Command::Send(id));
    h.transmit();
    // 10,000 have left: there is room for as many, but no reason to wake anybody.
    assert_eq!(h.drain(), 10);
    assert_eq!(h.app.write(slot, &bytes), 10_000);
    assert_eq!(h.app.writable(slot), 0);
    h.events();
    let mut acked = 1;
    while h.info().not_sent >= 50_000 {
        acked += 1000;
        assert_eq!(h.ready().0, crate::event::Ready::empty());
        h.send(seg().seq(1).ack(acked).win(20_000));
        h.drain();
    }
    assert!(h.ready().0.contains(crate::event::Ready::WRITABLE));
    assert!(h.app.writable(slot) > 0);
}

/// TOS and TTL of the next frame.
fn marks(h: &mut Harness) -> (u8, u8) {
    let frame = h.sink.frames.pop_front().expect("a frame");
    (frame[15], frame[22])
}

/// RFC 9293 MUST-48, MUST-49, SHLD-21, SHLD-22; RFC 1122 §3.2.1.6-1, §3.2.1.7-3.
#[test]
fn packets_are_marked_as_asked() {
    let marking = Marking {
        class: 0xb8,
        hop_limit: Some(7),
    };
    let mut h = listening(Options {
        v4: marking,
        v6: Marking {
            class: 0x20,
            hop_limit: Some(9),
        },
        ..Options::default()
    });
    h.send(Handshake::default().syn());
    let (tos, ttl) = marks(&mut h);
    assert_eq!((tos & 0xfc, ttl), (0xb8, 7), "SYN-ACK");
    let mut h = with(Options {
        v4: marking,
        ..Options::default()
    });
    h.write(10);
    let (tos, ttl) = marks(&mut h);
    assert_eq!((tos & 0xfc, ttl), (0xb8, 7));
    set(&mut h, Options::default());
    h.send(seg().seq(1).ack(11).win(WIN).len(10));
    let (tos, ttl) = marks(&mut h);
    assert_eq!((tos & 0xfc, ttl), (0, 64));
}

/// Linux tcp(7): TCP_CONGESTION. RFC 5681 §3.1 (4), RFC 9438 §4.6: what a loss makes of the window
/// says which algorithm there is.
#[test]
fn another_algorithm_takes_over_with_the_window_there_is() {
    for (kind, ssthresh) in [
        (CongestionControl::NewReno, 5_000),
        (CongestionControl::Cubic, 7_000),
    ] {
        let mut h = with(Options {
            congestion: Some(CongestionControl::Bbr),
            ..Options::default()
        });
        let cwnd = h.info().cwnd;
        h.write(20_000);
        h.drain();
        set(
            &mut h,
            Options {
                congestion: Some(kind),
                ..Options::default()
            },
        );
        h.drain();
        assert_eq!(h.info().cwnd, cwnd);
        for _ in 0..3 {
            h.send(seg().seq(1).ack(1).win(WIN));
        }
        h.drain();
        assert_eq!(h.info().ssthresh, ssthresh, "{kind:?}");
    }
}

/// What was sent before a model of the path says nothing to it, and does no harm.
#[test]
fn algorithms_may_change_at_every_ack() {
    let mut h = with(Options::default());
    h.write(60_000);
    for round in 0..60_u32 {
        let congestion = CongestionControl::NAMES
            .get(round as usize % CongestionControl::NAMES.len())
            .map(|(_, kind)| *kind);
        set(
            &mut h,
            Options {
                congestion,
                ..Options::default()
            },
        );
        h.advance(50);
        h.drain();
        h.send(seg().seq(1).ack(1 + 1000 * (round + 1)).win(WIN));
        h.drain();
    }
    h.expect_state(State::Established);
    assert_eq!(h.info().unacked, 0);
}
