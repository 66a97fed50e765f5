//! SYN cookies (RFC 4987 §3.6): a listener whose half-open records are used up goes on.

use crate::command::{Command, Options};
use crate::config::SynCookies;
use crate::drops::DropReason;
use crate::event::Event;
use crate::info::State;
use crate::testing::{CLIENT, Handshake, Harness, Seg, seg};

const WIN: u16 = 60_000;
/// Half-open records in these tests.
const ROOM: u16 = 8;

/// A listener, and as many half-open records as there can be.
fn flooded(backlog: u32) -> Harness {
    let mut h = Harness::with(|config| config.max_half_open = u32::from(ROOM));
    h.listen(backlog, Options::default());
    for port in 7000..7000 + ROOM {
        h.send(Handshake::default().syn().port(port));
    }
    assert_eq!(h.drain(), usize::from(ROOM));
    h
}

/// The same, and the peer's SYN is answered with a cookie.
fn offered(handshake: &Handshake) -> (Harness, Seg) {
    let mut h = flooded(16);
    h.syn_received(handshake);
    let ack = h.handshake_ack(handshake);
    assert_eq!(h.stack.usage().half_open, u32::from(ROOM));
    assert_eq!(h.stack.counters().syn_cookies_sent, 1);
    (h, ack)
}

/// RFC 4987 §3.6-1.
#[test]
fn a_flooded_listener_still_accepts() {
    let (mut h, ack) = offered(&Handshake::default());
    h.send(ack);
    h.expect_nothing();
    h.take_accepted();
    h.expect_state(State::Established);
    assert_eq!(h.stack.counters().syn_cookies_accepted, 1);
    h.write(10);
    h.expect(seg().seq(1).ack(1).len(10));
    h.send(seg().seq(1).ack(11).win(WIN).len(20));
    h.expect(seg().seq(11).ack(21));
    h.expect_read(1, 20);
    // It is a connection like any other to its end.
    h.shutdown();
    h.expect(seg().fin().seq(11).ack(21));
    h.send(seg().seq(21).fin().ack(12).win(WIN));
    h.expect(seg().seq(12).ack(22));
}

#[test]
fn over_ipv6_too() {
    let mut h = Harness::with(|config| config.syn_cookies = SynCookies::Always).over_ipv6();
    h.established_with(&Handshake::default());
    assert_eq!(h.stack.counters().syn_cookies_accepted, 1);
}

#[test]
fn the_ack_may_carry_data_or_be_lost() {
    let (mut h, _) = offered(&Handshake::default());
    // The ACK is lost; the request that follows has the same number.
    h.send(seg().seq(1).ack(1).win(WIN).len(100));
    h.expect(seg().seq(1).ack(101));
    h.take_accepted();
    h.expect_read(1, 100);
}

#[test]
fn timestamps_carry_what_does_not_fit() {
    let handshake = Handshake {
        mss: Some(1460),
        wscale: Some(9),
        sack: true,
        ts: Some(500),
        window: 1000,
    };
    let (mut h, ack) = offered(&handshake);
    h.send(ack);
    h.take_accepted();
    let info = h.info();
    assert!(info.sack && info.timestamps);
    assert_eq!((info.snd_wscale, info.snd_mss), (9, 1448));
    assert_eq!(info.snd_wnd, 1000 << 9);
    assert_eq!(info.rcv_wscale, 5, "the largest buffer is 1 MiB");
}

#[test]
fn every_scale_survives() {
    for wscale in (0..=14).map(Some).chain([None]) {
        for sack in [false, true] {
            let handshake = Handshake {
                wscale,
                sack,
                ts: Some(1),
                ..Handshake::default()
            };
            let mut h = Harness::with(|config| config.syn_cookies = SynCookies::Always);
            let reply = h.syn_received(&handshake).options;
            assert_eq!(reply.window_scale.is_some(), wscale.is_some());
            assert_eq!(reply.sack_permitted, sack);
            let ack = h.handshake_ack(&handshake);
            h.send(ack);
            h.take_accepted();
            let info = h.info();
            assert_eq!((info.snd_wscale, info.sack), (wscale.unwrap_or(0), sack));
        }
    }
}

#[test]
fn without_timestamps_only_the_mss_is_kept() {
    let mut h = flooded(16);
    let handshake = Handshake {
        mss: Some(1460),
        wscale: Some(9),
        sack: true,
        ..Handshake::default()
    };
    let reply = h.syn_received(&handshake).options;
    assert_eq!(reply.mss, Some(1460));
    assert!(reply.window_scale.is_none() && !reply.sack_permitted && reply.timestamps.is_none());
    let ack = h.handshake_ack(&handshake);
    h.send(ack);
    h.take_accepted();
    let info = h.info();
    assert_eq!((info.snd_wscale, info.sack, info.snd_mss), (0, false, 1460));
    assert_eq!(info.snd_wnd, u32::from(WIN));
}

#[test]
fn the_mss_is_never_more_than_the_peer_takes() {
    for (offered, kept) in [
        (None, 536),
        (Some(0), 64),
        (Some(100), 64),
        (Some(536), 536),
        (Some(1000), 536),
        (Some(1220), 1220),
        (Some(1400), 1380),
        (Some(1459), 1440),
        (Some(1460), 1460),
        (Some(65_535), 1460),
    ] {
        let handshake = Handshake {
            mss: offered,
            ..Handshake::default()
        };
        let mut h = Harness::with(|config| config.syn_cookies = SynCookies::Always);
        h.established_with(&handshake);
        assert_eq!(h.info().snd_mss, kept, "offered {offered:?}");
    }
}

/// The timestamp that holds the options is not ahead of those that follow, or the peer would drop
/// them (PAWS).
#[test]
fn clocks_do_not_run_backwards() {
    for ms in 0..70 {
        let mut h = Harness::with(|config| config.syn_cookies = SynCookies::Always);
        h.advance(ms);
        let handshake = Handshake {
            wscale: Some(14),
            sack: true,
            ts: Some(1),
            ..Handshake::default()
        };
        h.established_with(&handshake);
        h.write(1);
        let sent = h.expect(seg().seq(1).len(1)).options.timestamps.unwrap();
        let (_, _, first, _) = {
            let mut again = Harness::with(|config| config.syn_cookies = SynCookies::Always);
            again.advance(ms);
            again.listen(1, Options::default());
            again.send(handshake.syn());
            again.pop().unwrap()
        };
        let first = first.options.timestamps.unwrap();
        let age = sent.tsval.wrapping_sub(first.tsval);
        assert!(age < 64, "{ms} ms: {age}");
    }
}

/// RFC 4987 §3.6-2.
#[test]
fn a_cookie_is_good_for_a_minute_and_not_for_more_than_two() {
    for (age, good) in [
        (0, true),
        (63_999, true),
        (129_000, false),
        (3_600_000, false),
    ] {
        let (mut h, ack) = offered(&Handshake::default());
        h.advance(age);
        h.drain();
        h.send(ack);
        if good {
            h.expect_nothing();
        } else {
            h.expect(seg().rst().seq(1));
        }
        assert_eq!(
            h.stack.usage().connections,
            u32::from(good),
            "after {age} ms"
        );
    }
}

/// Whoever did not see the cookie cannot complete a handshake: the source address of a connection
/// is real. RFC 4987 §3.6-2.
#[test]
fn forged_acks_are_refused() {
    let (mut h, _) = offered(&Handshake::default());
    let forgeries = (2..500)
        .map(|ack| seg().seq(1).ack(ack))
        .chain(
            (0..32)
                .map(|bit| seg().seq(1).ack(1 ^ (1 << bit)).len(5))
                .skip(1),
        )
        .chain([
            seg().seq(2).ack(1),
            seg().seq(0).ack(1),
            seg().seq(1).ack(1).syn(),
        ]);
    let mut tried = 0;
    for forged in forgeries {
        h.send(forged.win(WIN));
        h.expect(seg().with_flags(wire::tcp::TcpFlags::RST));
        tried += 1;
    }
    assert_eq!(h.stack.usage().connections, 0);
    // A SYN is not looked at.
    assert_eq!(h.stack.counters().syn_cookies_failed, tried - 1);
    // Another port, the same numbers.
    let cookie = h.sent_syn();
    let other = Handshake::default().syn().port(5001);
    h.send(other);
    let theirs = h.expect(seg().syn().ack(1).port(5001)).seq;
    h.send(seg().seq(1).ack(cookie - theirs + 1).port(5001));
    h.expect(seg().rst().port(5001));
    assert_eq!(h.stack.usage().connections, 0);
}

#[test]
fn no_cookie_is_looked_for_where_none_was_sent() {
    let mut h = Harness::new();
    h.listen(16, Options::default());
    h.send(seg().seq(1).ack(1));
    h.expect(seg().rst());
    assert_eq!(h.stack.counters().syn_cookies_failed, 0);
}

#[test]
fn a_flood_costs_no_memory() {
    let mut h = flooded(16);
    let before = h.stack.usage();
    for port in 10_000..60_000 {
        h.send(Handshake::default().syn().port(port));
        h.sink.frames.clear();
    }
    assert_eq!(h.stack.usage(), before);
    assert_eq!(h.stack.counters().syn_cookies_sent, 50_000);
}

#[test]
fn always_and_never() {
    let mut h = Harness::with(|config| config.syn_cookies = SynCookies::Always);
    h.established_with(&Handshake::default());
    assert_eq!(h.stack.usage().half_open, 0);
    assert_eq!(h.stack.counters().syn_cookies_accepted, 1);

    let mut h = Harness::with(|config| {
        config.max_half_open = 0;
        config.syn_cookies = SynCookies::Off;
    });
    h.listen(16, Options::default());
    h.send(Handshake::default().syn());
    h.expect_nothing();
    assert_eq!(h.stack.counters().dropped(DropReason::TcpHalfOpen), 1);
}

/// While the backlog is full the ACK is dropped, not answered; the data behind it tries again.
#[test]
fn a_full_backlog_lets_the_peer_try_again() {
    let mut h = flooded(1);
    let handshake = Handshake::default();
    h.syn_received(&handshake);
    h.send(handshake.syn().port(5001));
    h.expect(seg().syn().ack(1).port(5001));
    h.send(seg().seq(1).ack(1).win(WIN).port(5001));
    let ack = h.handshake_ack(&handshake);
    h.send(ack);
    h.expect_nothing();
    assert_eq!(h.stack.counters().dropped(DropReason::TcpBacklog), 1);
    let [Event::Accepted { conn, .. }] = h.events()[..] else {
        panic!("not accepted");
    };
    h.execute(Command::Accept {
        conn,
        token: CLIENT,
    });
    h.events();
    h.advance(1000);
    h.drain();
    h.send(seg().seq(1).ack(1).win(WIN).len(10));
    h.expect(seg().seq(1).ack(11));
    h.take_accepted();
    h.expect_read(1, 10);
}

/// A connection in TIME_WAIT, and then a flood: of SYNs that take all half-open records of the
/// listener (`of_listener`), or all there are. With the first timestamp that was seen.
fn flooded_in_time_wait(handshake: &Handshake, of_listener: bool) -> (Harness, u32) {
    let room = if of_listener { 64 } else { ROOM };
    let mut h = Harness::with(|config| {
        config.max_half_open = if of_listener { 1000 } else { u32::from(ROOM) };
    });
    h.listen(16, Options::default());
    let stamps = h.syn_received(handshake).options.timestamps;
    let ack = h.handshake_ack(handshake);
    h.send(ack);
    h.take_accepted();
    h.shutdown();
    h.expect(seg().fin().seq(1));
    let fin = seg().seq(1).fin().ack(2).win(WIN);
    h.send(match handshake.ts {
        Some(ts) => fin.ts(ts + 1, 0),
        None => fin,
    });
    h.drain();
    assert_eq!(h.stack.usage().time_wait, 1);
    for port in 7000..7000 + room {
        h.send(Handshake::default().syn().port(port));
    }
    assert_eq!(h.drain(), usize::from(room));
    h.send(Handshake::default().syn().port(6999));
    h.expect(seg().syn().ack(1).port(6999));
    assert_eq!(h.stack.counters().syn_cookies_sent, 1);
    (h, stamps.map_or(0, |stamps| stamps.tsval))
}

/// Who takes a port again that is in TIME_WAIT is not locked out by a flood: timestamps tell the
/// new connection from the old one, which the cookie cannot. RFC 6191 §3-1.
#[test]
fn a_flood_does_not_lock_out_who_takes_a_port_again() {
    let handshake = Handshake {
        ts: Some(1000),
        ..Handshake::default()
    };
    for of_listener in [false, true] {
        let (mut h, first) = flooded_in_time_wait(&handshake, of_listener);
        h.close();
        h.send(handshake.syn().seq(500).ts(2000, 0));
        let syn_ack = h.expect(seg().syn().ack(501));
        assert_eq!(h.stack.usage().time_wait, 0);
        assert_eq!(h.stack.counters().syn_cookies_sent, 2);
        let stamps = syn_ack.options.timestamps.unwrap();
        assert_eq!(stamps.tsecr, 2000);
        let ack = h.handshake_ack(&handshake);
        h.send(ack.seq(501).ts(2001, stamps.tsval.wrapping_sub(first)));
        h.take_accepted();
        h.expect_state(State::Established);
        assert_eq!(h.stack.counters().syn_cookies_accepted, 1);
    }
}

/// Without timestamps only a record can promise a sequence number beyond the old ones. There is one
/// as long as there is any.
#[test]
fn without_timestamps_the_flood_of_one_listener_does_not_lock_out_either() {
    let handshake = Handshake::default();
    let (mut h, _) = flooded_in_time_wait(&handshake, true);
    let old = h.sent_syn();
    let records = h.stack.usage().half_open;
    h.send(handshake.syn().seq(500));
    let syn_ack = h.expect(seg().syn().ack(501));
    assert!(syn_ack.seq > old);
    let usage = h.stack.usage();
    assert_eq!((usage.time_wait, usage.half_open), (0, records + 1));

    let (mut h, _) = flooded_in_time_wait(&handshake, false);
    h.send(handshake.syn().seq(500));
    h.expect_nothing();
    assert_eq!(h.stack.usage().time_wait, 1);
    assert_eq!(h.stack.counters().dropped(DropReason::TcpHalfOpen), 1);
}
