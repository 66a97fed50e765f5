//! Time-outs that an application asks for: user time-out (RFC 5482) and idle time-out.

use std::time::Duration;

use crate::command::{Command, Options};
use crate::error::Error;
use crate::event::Ready;
use crate::info::State;
use crate::testing::{Handshake, Harness, seg};

const WIN: u16 = 60_000;

fn with(options: Options) -> Harness {
    let mut h = Harness::new();
    h.listen(4, options);
    h.and_established(&Handshake::default())
}

/// RFC 9293 MUST-21.
/// RFC 5482 §3.1-1.
#[test]
fn user_timeout_ends_a_connection_with_unacknowledged_data() {
    let mut h = with(Options {
        user_timeout: Some(Duration::from_millis(1500)),
        ..Options::default()
    });
    h.advance(100_000);
    h.expect_state(State::Established);
    h.write(10);
    h.advance(1400);
    h.expect_state(State::Established);
    h.advance(200);
    assert_eq!(
        h.ready(),
        (Ready::ERROR | Ready::CLOSED, Some(Error::TimedOut))
    );
}

#[test]
fn progress_restarts_the_user_timeout() {
    let mut h = with(Options {
        user_timeout: Some(Duration::from_millis(1500)),
        ..Options::default()
    });
    h.write(2000);
    h.advance(1000);
    h.send(seg().seq(1).ack(1001).win(WIN));
    h.advance(1400);
    h.expect_state(State::Established);
    h.advance(200);
    h.expect_state(State::Closed);
}

#[test]
fn idle_timeout_resets_a_silent_connection() {
    let mut h = with(Options {
        idle_timeout: Some(Duration::from_secs(30)),
        ..Options::default()
    });
    h.advance(20_000);
    h.send(seg().seq(1).ack(1).win(WIN).len(10));
    h.expect(seg().ack(11));
    h.advance(29_000);
    h.expect_nothing();
    h.advance(1_100);
    h.expect(seg().rst().any_ack());
    assert_eq!(h.ready().1, Some(Error::TimedOut));
}

#[test]
fn options_take_effect_at_once() {
    let mut h = Harness::established();
    let id = h.id();
    h.advance(50_000);
    h.execute(Command::SetOptions {
        conn: id,
        options: Options {
            idle_timeout: Some(Duration::from_secs(60)),
            max_segment: Some(400),
            ..Options::default()
        },
    });
    assert_eq!(h.info().snd_mss, 400);
    h.advance(9_000);
    h.expect_state(State::Established);
    h.advance(1_100);
    h.expect_state(State::Closed);
}

#[test]
fn listener_options_are_inherited() {
    let mut h = Harness::new();
    h.listen(4, Options::default());
    let listener = h.listener();
    h.execute(Command::SetListenerOptions {
        listener,
        options: Options {
            max_segment: Some(700),
            recv_buffer: Some(3000),
            ..Options::default()
        },
    });
    let syn_ack = h.syn_received(&Handshake::default());
    assert_eq!((syn_ack.options.mss, syn_ack.window), (Some(700), 3000));
    h.send(h.handshake_ack(&Handshake::default()));
    h.take_accepted();
    assert_eq!(h.info().snd_mss, 700);
}

#[test]
fn a_writer_that_found_no_room_is_told_when_there_is_some() {
    let mut h = with(Options {
        send_buffer: Some(10_000),
        ..Options::default()
    });
    h.events();
    let slot = h.slot();
    let written = h.app.write(slot, &[0; 50_000]);
    assert!((10_000..50_000).contains(&written));
    let id = h.id();
    h.execute(Command::Send(id));
    h.transmit();
    assert!(!h.ready().0.contains(Ready::WRITABLE));
    h.send(seg().seq(1).ack(9001).win(WIN));
    assert!(h.ready().0.contains(Ready::WRITABLE));
}

#[test]
fn info_tells_what_tcp_knows() {
    let mut h = Harness::established();
    h.write(1010);
    h.write(1490);
    h.advance(30);
    h.send(seg().seq(1).ack(1001).win(40_000).len(100));
    h.advance(10);
    let info = h.info();
    assert_eq!(info.state, State::Established);
    assert_eq!((info.flight, info.unacked, info.unread), (1010, 1500, 100));
    assert_eq!((info.bytes_acked, info.bytes_received), (1000, 100));
    assert_eq!((info.snd_wnd, info.pmtu), (40_000, 1500));
    assert_eq!(info.last_received.as_millis(), 10);
    assert!(info.segments_in >= 1 && info.segments_out >= 3);
}
