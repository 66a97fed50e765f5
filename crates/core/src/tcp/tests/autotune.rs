//! Buffers that grow: a connection with default settings must be able to fill a long path.

use std::time::Duration;

use super::transfer::transfer;
use crate::command::{Command, Options};
use crate::config::Config;
use crate::testing::{Fate, Handshake, Harness, PEER_ISS, Pair, seg};

const MB: usize = 1 << 20;

fn roomy(config: &mut Config) {
    config.recv_pool = 256 * MB;
    config.send_pool = 256 * MB;
    config.max_buffer = 16 << 20;
}

/// How long a transfer takes over a path of 100 ms that has any rate.
fn over_a_long_path(bytes: usize, change: impl Fn(&mut Config)) -> Duration {
    let mut pair = Pair::new(Duration::from_millis(50), |config| {
        roomy(config);
        change(config);
    });
    transfer(&mut pair, bytes, |_, _| Fate::Pass)
}

#[test]
fn a_long_path_is_filled_from_small_buffers() {
    // With the 64 KiB that both begin with it would take 15 s. What takes time here is slow start,
    // which grows by eight segments an ACK, and a path of any rate delivers a window at once, for
    // one ACK.
    let time = over_a_long_path(10_000_000, |_| {});
    assert!(time < Duration::from_secs(5), "{time:?}");
}

#[test]
fn buffers_that_may_not_grow_do_not() {
    let time = over_a_long_path(2_000_000, |config| config.autotune = false);
    assert!(time > Duration::from_secs(2), "{time:?}");
}

/// The window that the stack offers when a peer with a round-trip time of 100 ms has used all of it
/// eight times, and the application took everything.
fn window_after_eight_rounds(options: Options, change: impl FnOnce(&mut Config)) -> u32 {
    let mut h = Harness::with(|config| {
        roomy(config);
        change(config);
    });
    let offer = Handshake {
        wscale: Some(9),
        ..Handshake::default()
    };
    h.listen(4, options);
    h.send(offer.syn());
    h.expect(seg().syn().ack(1));
    h.advance(100);
    h.send(h.handshake_ack(&offer));
    h.take_accepted();
    let mut seq = 1;
    for _ in 0..8 {
        let end = seq + h.info().rcv_wnd.min(1 << 20);
        while seq < end {
            let len = (end - seq).min(1000);
            h.inject(seg().seq(seq).ack(1).win(100).len(len as usize));
            seq += len;
        }
        h.advance(100);
        h.read();
        h.drain();
    }
    h.info().rcv_wnd
}

#[test]
fn the_window_grows_with_what_is_taken() {
    assert!(window_after_eight_rounds(Options::default(), |_| {}) >= 2 << 20);
}

#[test]
fn a_buffer_that_the_application_chose_stays() {
    let chosen = Options {
        recv_buffer: Some(64 << 10),
        ..Options::default()
    };
    assert!(window_after_eight_rounds(chosen, |_| {}) <= 64 << 10);
}

#[test]
fn no_connection_grows_over_its_share_of_the_memory() {
    let window = window_after_eight_rounds(Options::default(), |config| config.recv_pool = MB);
    assert!((64 << 10..=128 << 10).contains(&window), "{window}");
}

#[test]
fn other_options_leave_grown_buffers_alone() {
    let mut h = Harness::with(roomy).and_established(&Handshake::default());
    h.write(64 << 10);
    for acked in (1000..=50_000).step_by(1000) {
        h.send(seg().seq(1).ack(1 + acked).win(60_000));
    }
    h.drain();
    let room = h.app.writable(h.slot());
    assert!(room > 64 << 10, "{room}");
    let options = Options {
        nodelay: true,
        ..Options::default()
    };
    let conn = h.id();
    h.execute(Command::SetOptions { conn, options });
    assert_eq!(h.app.writable(h.slot()), room);
}

/// How much the application may have written after eight rounds of 20 ms, with a peer whose
/// handshake took `shortest` ms.
fn send_buffer_after_eight_rounds(shortest: u64) -> u32 {
    let mut h = Harness::with(roomy);
    let offer = Handshake {
        wscale: Some(9),
        ..Handshake::default()
    };
    h.listen(4, Options::default());
    h.send(offer.syn());
    h.expect(seg().syn().ack(1));
    h.advance(shortest);
    h.send(h.handshake_ack(&offer));
    h.take_accepted();
    let (mut written, mut sent) = (0, 0);
    for _ in 0..8 {
        let room = h.app.writable(h.slot());
        h.write(room as usize);
        written += room;
        while let Some((_, _, header, payload)) = h.pop() {
            sent = header.seq - h.sent_syn() + payload.len() as u32 - 1;
        }
        h.advance(20);
        h.send(seg().seq(1).ack(1 + sent).win(60_000));
    }
    h.app.writable(h.slot()) + written - sent
}

#[test]
fn the_send_buffer_of_a_short_path_does_not_grow_for_its_own_queue() {
    assert_eq!(send_buffer_after_eight_rounds(0), 512 << 10);
    assert!(send_buffer_after_eight_rounds(2) >= 2 << 20);
}

#[test]
fn what_was_acknowledged_is_there_however_short_memory_gets() {
    let mut h = Harness::with(|config| {
        roomy(config);
        config.recv_pool = MB;
        config.recv_buffer = 1 << 20;
    });
    h = h.and_established(&Handshake {
        wscale: Some(9),
        ..Handshake::default()
    });
    let mut acked = 1;
    let mut taken = 0;
    for round in 0..4000 {
        h.send(seg().seq(acked).ack(1).win(100).len(1000));
        while let Some((_, _, header, _)) = h.pop() {
            acked = header.ack - PEER_ISS;
        }
        h.advance(50);
        if round > 2000 {
            taken += h.read().len() as u32;
        }
    }
    taken += h.read().len() as u32;
    while let Some((_, _, header, _)) = h.pop() {
        acked = header.ack - PEER_ISS;
    }
    assert_eq!(taken, acked - 1);
    assert!(taken > 1_000_000, "{taken}");
}
