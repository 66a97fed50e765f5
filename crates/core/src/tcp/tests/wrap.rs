//! Sequence numbers wrap around, and what is remembered of them grows old.

use std::time::Duration;

use ring::region::PagePolicy;
use wire::seq::SeqNumber;
use wire::time::Instant;

use super::transfer::{Dice, transfer};
use crate::command::Command;
use crate::flow::{FlowKey, FlowTable};
use crate::tcp::setup::isn;
use crate::testing::{Fate, Handshake, Harness, Pair, seg, v4};

/// How far the ISS of an end is from the wrap at time 0, in units of the clock.
fn distance(secret: &[u8; 32], local: (u8, u16), remote: (u8, u16)) -> u32 {
    let key = FlowKey::new(
        (v4(local.0), local.1).into(),
        (v4(remote.0), remote.1).into(),
    );
    let table = FlowTable::new(1, secret, PagePolicy::Small).unwrap();
    SeqNumber(0) - isn::start(Instant::ZERO, table.digest(&key).origin).iss
}

#[test]
fn both_ends_begin_just_before_the_wrap() {
    let client = [1; 32];
    let until_wrap = distance(&client, (1, 40_000), (2, 80));
    // A secret with which the other end's sequence numbers wrap at the same time, give or take a
    // second.
    let server = (0..u64::MAX)
        .map(|n| {
            let mut secret = [2; 32];
            secret[..8].copy_from_slice(&n.to_be_bytes());
            secret
        })
        .find(|secret| distance(secret, (2, 80), (1, 40_000)).abs_diff(until_wrap) < 50_000)
        .unwrap();
    let mut pair = Pair::new(Duration::from_millis(1), |config| {
        config.ephemeral = (40_000, 40_000);
        config.secret = if config.secret == client {
            client
        } else {
            server
        };
    });
    let start = Instant::from_micros(u64::from(until_wrap - 200_000) * 4);
    pair.run(start - pair.now, |_, _| Fate::Pass);
    let mut dice = Dice(7);
    transfer(&mut pair, 2_000_000, |_, _| {
        if dice.roll(2) { Fate::Lose } else { Fate::Pass }
    });
}

/// Sends `total` bytes in segments of 60 kB to a peer that acknowledges everything.
fn send_much(h: &mut Harness, total: u64) -> u32 {
    let chunk = vec![0; 960_000];
    let mut sent = 0u64;
    while sent < total {
        let id = h.id();
        assert_eq!(h.app.write(id.slot, &chunk), chunk.len());
        h.execute(Command::Send(id));
        sent += chunk.len() as u64;
        while h.info().bytes_acked < sent {
            h.transmit();
            h.sink.frames.clear();
            let info = h.info();
            let acked = (info.bytes_acked + u64::from(info.flight)) as u32;
            h.inject(seg().seq(1).ack(acked + 1).win(60_000));
        }
    }
    sent as u32 + 1
}

/// RFC 6582 §3.2-1.
#[test]
fn fast_retransmit_works_after_two_gigabytes() {
    // `recover` begins at the ISS (RFC 6582 §3.2 step 1), which is "later" than everything once
    // 2^31 bytes have been sent.
    let mut h = Harness::with(|config| {
        config.interfaces[0].capabilities.mtu = 61_000;
        config.send_buffer = 1 << 20;
    })
    .and_established(&Handshake {
        mss: Some(60_000),
        wscale: Some(8),
        ..Handshake::default()
    });
    let next = send_much(&mut h, 1 << 31);
    h.write_without_transmit(600_000);
    h.transmit();
    h.sink.frames.clear();
    for _ in 0..3 {
        h.send(seg().seq(1).ack(next).win(60_000));
    }
    assert_eq!(h.stack.counters().fast_retransmits, 1);
}
