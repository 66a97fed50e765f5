//! A day in virtual time: waves of short connections, connections that are idle but for their
//! keepalive, a link whose quality changes by the hour and that fails now and then. In the end
//! everything is as it was in the beginning.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{Pair, ms};
use mtcp_core::command::{Keepalive, Options};
use mtcp_core::{Counters, Usage};
use sim::{Direction, Ending, Expect, HostConfig, ListenPlan, LoadPlan, Plan, Rng};

const HOUR: Duration = Duration::from_secs(3600);
const WAVES_PER_HOUR: u32 = 2;
const CONNECTIONS_PER_WAVE: u64 = 300;
const IDLE: u64 = 20;

/// What the link is like in an hour, in turns.
const WEATHER: [&str; 6] = [
    "none",
    "loss=1%",
    "loss=5%,reorder=2%,jitter=2ms",
    "none",
    "loss=2%,dup=2%,corrupt=2%",
    "loss=10%,jitter=10ms",
];

fn keepalive() -> Options {
    Options {
        keepalive: Some(Keepalive {
            idle: Duration::from_secs(120),
            interval: Duration::from_secs(30),
            count: 10,
        }),
        ..Options::default()
    }
}

fn host(config: &mut HostConfig) {
    config.stack.max_connections = 2000;
    config.stack.max_time_wait = 1000;
    config.stack.recv_buffer = 64 << 10;
    config.stack.send_buffer = 64 << 10;
}

fn listen(pair: &mut Pair) {
    for (port, plan) in [
        (
            80,
            Plan {
                send: (1, 20_000),
                ..Plan::default()
            },
        ),
        (7, Plan::echo()),
    ] {
        let plan = Plan {
            options: keepalive(),
            ..plan
        };
        pair.net
            .listen(pair.b, ListenPlan::new(pair.addr(pair.b, port), plan))
            .unwrap();
    }
}

/// Connections that echo a little in the morning and then say nothing until the evening.
fn start_idle(pair: &mut Pair) {
    let plan = Plan {
        expect: Expect::Echo,
        tries: 100,
        options: keepalive(),
        ..Plan::default()
            .sends(5000)
            .ends(Ending::Hold(24 * HOUR - Duration::from_secs(60)))
    };
    for _ in 0..IDLE {
        let remote = pair.addr(pair.b, 7);
        pair.net.connect(pair.a, ms(10), remote, plan).unwrap();
    }
}

fn start_wave(pair: &mut Pair, rng: &mut Rng) {
    let ending = match rng.below(4) {
        0 => Ending::AfterEof,
        1 => Ending::Abort(1000),
        _ => Ending::HalfClose,
    };
    let plan = Plan {
        send: (1, 3000),
        tries: 100,
        options: keepalive(),
        ..Plan::default().ends(ending)
    };
    let load = LoadPlan {
        remote: pair.addr(pair.b, 80),
        total: CONNECTIONS_PER_WAVE,
        concurrent: 10 + rng.below(40),
        gap: ms(500),
        plan,
    };
    pair.net.load(pair.a, load).unwrap();
}

/// Bytes of the process in memory.
fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: i64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// What the applications received and the stacks counted, frames the links carried and the stacks
/// saw: all of it adds up.
fn check_counters(pair: &mut Pair, received: [u64; 2]) {
    let counters: Vec<Counters> = pair
        .net
        .hosts()
        .iter()
        .map(|host| host.stack().counters().clone())
        .collect();
    for (from, to, direction) in [(0, 1, Direction::There), (1, 0, Direction::Back)] {
        let stats = pair.net.pipe_mut(pair.link, direction).unwrap().stats();
        assert_eq!(counters[from].frames_out, stats.frames);
        assert_eq!(counters[from].bytes_out, stats.bytes);
        assert_eq!(
            counters[to].frames_in,
            stats.frames - stats.lost - stats.tail_dropped + stats.duplicated
        );
        assert!(
            stats.lost > 1000 && stats.corrupted > 100 && stats.duplicated > 100,
            "{stats:?}"
        );
        assert_eq!(counters[to].tcp_bytes_in, received[to]);
    }
    assert!(counters[0].connects >= counters[1].accepts, "{counters:?}");
    assert!(counters[0].keepalive_probes > 10_000 / 2, "{counters:?}");
}

/// What the applications have seen so far.
#[derive(Debug, Default)]
struct Seen {
    /// Bytes received by each host's.
    received: [u64; 2],
    ended: usize,
    clean: usize,
}

impl Seen {
    /// Takes the records of both hosts; returns how many ended well.
    fn collect(&mut self, pair: &mut Pair) -> usize {
        let before = self.clean;
        for (host, received) in pair.net.hosts().iter().zip(&mut self.received) {
            let records = host.apps().records();
            *received += records.iter().map(|record| record.received).sum::<u64>();
            self.ended += records.len();
            self.clean += records.iter().filter(|record| record.is_clean()).count();
        }
        pair.net.clear_records();
        self.clean - before
    }
}

#[track_caller]
fn run(pair: &mut Pair, time: Duration) {
    let ran = pair.net.run_for(time);
    ran.unwrap_or_else(|failure| panic!("{failure}"));
}

fn pass_hour(pair: &mut Pair, hour: usize, rng: &mut Rng) {
    let weather = WEATHER[hour % WEATHER.len()].parse().unwrap();
    pair.change(|pipe| pipe.impairments = weather);
    for _ in 0..WAVES_PER_HOUR {
        start_wave(pair, rng);
        run(pair, Duration::from_secs(20));
        pair.set_down(true);
        run(pair, Duration::from_secs(rng.below(30)));
        pair.set_down(false);
        run(pair, HOUR / WAVES_PER_HOUR - Duration::from_secs(40));
    }
    pair.net
        .check()
        .unwrap_or_else(|failure| panic!("{failure}"));
}

fn usages(pair: &Pair) -> Vec<Usage> {
    let hosts = pair.net.hosts().iter();
    hosts.map(|host| host.stack().usage()).collect()
}

#[test]
fn a_day_leaves_nothing_behind() {
    let mut pair = Pair::with(2024, ms(3), host);
    let mut rng = Rng::new(24);
    listen(&mut pair);
    let before = usages(&pair);
    start_idle(&mut pair);
    let mut seen = Seen::default();
    let mut early = 0;
    for hour in 0..24 {
        pass_hour(&mut pair, hour, &mut rng);
        seen.collect(&mut pair);
        if hour == 5 {
            early = resident();
        }
    }
    let grown = resident() - early;
    assert!(grown < 16 << 20, "memory grew by {grown} bytes");
    let left: Vec<u32> = usages(&pair)
        .iter()
        .map(|usage| usage.connections)
        .collect();
    assert_eq!(left, [IDLE as u32; 2], "{}", pair.net.describe());
    pair.finish();
    assert_eq!(seen.collect(&mut pair) as u64, 2 * IDLE);
    assert_eq!(before, usages(&pair));
    check_counters(&mut pair, seen.received);
    assert!(
        seen.ended > 24_000 && seen.clean * 2 > seen.ended,
        "{seen:?}"
    );
}
