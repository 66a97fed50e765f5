//! Ten thousand connections between two stacks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{Pair, ms};
use sim::{Ending, Expect, HostConfig, Plan, Record};

const CONNECTIONS: u64 = 10_000;

fn large(config: &mut HostConfig) {
    let stack = &mut config.stack;
    stack.max_connections = 12_000;
    stack.max_half_open = 12_000;
    stack.max_time_wait = 12_000;
    stack.recv_pool = 256 << 20;
    stack.send_pool = 256 << 20;
    stack.recv_buffer = 32 << 10;
    stack.send_buffer = 32 << 10;
}

fn check(pair: &Pair) {
    for host in pair.net.hosts() {
        let records = host.apps().records();
        assert_eq!(records.len() as u64, CONNECTIONS);
        let bad = records.iter().find(|record| !record.is_clean());
        assert_eq!(bad, None);
    }
    assert_eq!(pair.net.check_pairs().unwrap() as u64, CONNECTIONS);
}

/// Short connections over a link that loses and reorders, 500 at a time: request, response, end.
#[test]
fn five_hundred_at_a_time() {
    let mut pair = Pair::with(1, ms(2), large);
    pair.change(|pipe| {
        pipe.impairments = "loss=1%,reorder=1%,dup=1%,corrupt=1%,jitter=200us"
            .parse()
            .unwrap()
    });
    let client = Plan {
        tries: 20,
        ..Plan::default().ends(Ending::AfterEof)
    };
    let client = Plan {
        send: (1, 2_000),
        ..client
    };
    let server = Plan {
        send: (1, 8_000),
        ..Plan::default()
    };
    pair.load(CONNECTIONS, 500, client, server);
    pair.finish();
    check(&pair);
}

/// All at once: while they are idle they own no buffer; then each echoes, and all of them end.
#[test]
fn all_at_once() {
    let mut pair = Pair::with(2, ms(2), large);
    let client = Plan {
        expect: Expect::Echo,
        ..Plan::default()
            .sends(300)
            .ends(Ending::Hold(Duration::from_secs(30)))
    };
    pair.load(CONNECTIONS, CONNECTIONS, client, Plan::echo());
    pair.net.run_for(Duration::from_secs(20)).unwrap();
    for host in pair.net.hosts() {
        let usage = host.stack().usage();
        assert_eq!(
            (u64::from(usage.connections), usage.half_open),
            (CONNECTIONS, 0)
        );
        assert_eq!(
            (usage.recv_bytes, usage.range_sets, usage.queued),
            (0, 0, 0),
            "idle connections hold something"
        );
        assert_eq!(
            host.streams().send_bytes_in_use(),
            0,
            "idle connections hold send buffers"
        );
    }
    pair.finish();
    check(&pair);
    let echoed: u64 = pair
        .net
        .host(pair.a)
        .unwrap()
        .apps()
        .records()
        .iter()
        .map(|record: &Record| record.received)
        .sum();
    assert_eq!(echoed, 300 * CONNECTIONS);
}
