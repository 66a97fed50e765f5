//! What a seed stands for.

use std::net::SocketAddr;
use std::time::Duration;

use mtcp_core::command::{Keepalive, Options};
use mtcp_core::config::CongestionControl;
use wire::impair::{Impairments, Rng};
use wire::time::Instant;

use super::{Scenario, Talk, host_config, v4, v6};
use crate::app::{Ending, Expect, Plan};
use crate::host::{HostConfig, Style};
use crate::network::LinkConfig;
use crate::pipe::{BurstLoss, Outages, PipeConfig};
use crate::random::{magnitude, percent, pick};

/// Both hosts listen from this port on.
const FIRST_PORT: u16 = 1000;

impl Scenario {
    /// Draws a scenario.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let is_v6 = percent(rng, 50);
        let start = start(rng);
        let link = LinkConfig {
            there: pipe(rng, start, is_v6),
            back: pipe(rng, start, is_v6),
        };
        let hosts = [host(rng, 1, is_v6), host(rng, 2, is_v6)];
        let connections = connections(rng);
        let budget = bytes_for(rng, &link) / connections.div_ceil(4);
        let talks = (0..connections as u16)
            .map(|index| talk(rng, index, is_v6, budget))
            .collect();
        let mut scenario = Self {
            seed,
            start,
            hosts,
            link,
            outage: percent(rng, 20).then(|| {
                let at = Duration::from_millis(rng.between(1, 5_000));
                (at, Duration::from_millis(rng.between(10, 20_000)))
            }),
            talks,
        };
        if percent(rng, 30) {
            scenario.fix_neighbours();
        }
        let corrupts = [&link.there, &link.back]
            .iter()
            .any(|pipe| pipe.impairments.corrupt_ppm > 0);
        for host in &mut scenario.hosts {
            host.style.trust_checksums = !corrupts && percent(rng, 50);
        }
        scenario.draw_crowds();
        scenario
    }
}

/// Usually a few, sometimes a crowd that competes for the link.
fn connections(rng: &mut Rng) -> u64 {
    let most = if percent(rng, 4) { 40 } else { 4 };
    rng.between(1, most)
}

/// A time at which clocks of fewer bits are about to wrap, or not.
fn start(rng: &mut Rng) -> Instant {
    let before = Duration::from_millis(rng.between(0, 30_000));
    let wrap = pick(rng, &[0, 1, 1_000_000, u64::from(u32::MAX), 1 << 33]).unwrap_or(0);
    let nanos = Duration::from_millis(wrap)
        .saturating_sub(before)
        .as_nanos();
    let micros_wrap = percent(rng, 20)
        .then(|| Instant::from_micros((1u64 << 32).saturating_sub(before.as_micros() as u64)));
    micros_wrap.unwrap_or(Instant::from_nanos(nanos as u64))
}

/// One number below `most`, or 0, half of the time each.
fn up_to(rng: &mut Rng, most: u64) -> u32 {
    if percent(rng, 50) {
        rng.below(most) as u32
    } else {
        0
    }
}

fn pipe(rng: &mut Rng, start: Instant, is_v6: bool) -> PipeConfig {
    let bits_per_second = percent(rng, 50).then(|| magnitude(rng, 1_000_000, 1_000_000_000));
    let queue_bytes = magnitude(rng, 20_000, 1_000_000);
    PipeConfig {
        impairments: impairments(rng),
        bursts: if percent(rng, 20) {
            bursts(rng)
        } else {
            BurstLoss::default()
        },
        bits_per_second,
        queue_bytes,
        queue_frames: if percent(rng, 30) {
            magnitude(rng, 4, 200) as u32
        } else {
            0
        },
        mark_bytes: if percent(rng, 50) {
            magnitude(rng, 1, queue_bytes)
        } else {
            0
        },
        delay: Duration::from_micros(magnitude(rng, 1, 200_000)),
        in_order: percent(rng, 30),
        mtu: if percent(rng, 20) {
            path_mtu(rng, is_v6)
        } else {
            0
        },
        tells_too_big: true,
        down: false,
        outages: if percent(rng, 10) {
            outages(rng, start)
        } else {
            Outages::default()
        },
    }
}

fn impairments(rng: &mut Rng) -> Impairments {
    let loss = pick(rng, &[0, 0, 10_000, 50_000, 100_000, 200_000]).unwrap_or(0);
    Impairments {
        loss_ppm: loss,
        duplicate_ppm: up_to(rng, 100_000),
        reorder_ppm: up_to(rng, 200_000),
        corrupt_ppm: up_to(rng, 50_000),
        delay: Duration::ZERO,
        jitter: Duration::from_micros(u64::from(up_to(rng, 20_000))),
        seed: rng.next_u64(),
    }
}

/// Bursts of two to ten frames.
fn bursts(rng: &mut Rng) -> BurstLoss {
    BurstLoss {
        enter_ppm: magnitude(rng, 100, 30_000) as u32,
        leave_ppm: rng.between(100_000, 500_000) as u32,
        loss_ppm: rng.between(300_000, 1_000_000) as u32,
    }
}

/// Black holes that come back a few times.
fn outages(rng: &mut Rng, start: Instant) -> Outages {
    let every = Duration::from_micros(magnitude(rng, 100_000, 10_000_000));
    Outages {
        first: start + Duration::from_micros(rng.below(2_000_000)),
        every,
        lasts: every / rng.between(2, 20) as u32,
        times: rng.between(1, 20) as u32,
    }
}

/// From what every link must carry up to what hosts expect: RFC 8200 §5; for IPv4, what hosts
/// believe.
fn path_mtu(rng: &mut Rng, is_v6: bool) -> u16 {
    rng.between(if is_v6 { 1280 } else { 576 }, 1500) as u16
}

/// Bytes that one end of a connection may send over a good link.
const EASY: u64 = 4 << 20;

/// How much one end of a connection may send, so that a bad link does not take for ever. Mostly
/// little: what goes wrong goes wrong at beginnings and ends.
fn bytes_for(rng: &mut Rng, link: &LinkConfig) -> u64 {
    let bad = |pipe: &PipeConfig| {
        let bursts = u32::from(pipe.bursts != BurstLoss::default()) * 30_000;
        pipe.impairments.loss_ppm + pipe.impairments.corrupt_ppm + bursts
    };
    let most = match bad(&link.there).max(bad(&link.back)) {
        0..=20_000 => EASY,
        20_001..=80_000 => 1 << 20,
        _ => 256 << 10,
    };
    match rng.below(100) {
        0..=69 => most.min(48 << 10),
        70..=94 => most.min(256 << 10),
        _ => most,
    }
}

fn host(rng: &mut Rng, index: u8, is_v6: bool) -> HostConfig {
    let mut config = host_config(index);
    let stack = &mut config.stack;
    let least = if is_v6 { 1280 } else { 576 };
    let mtus = [
        least,
        1500,
        1500,
        9000,
        rng.between(least.into(), 9000) as u16,
    ];
    for interface in &mut stack.interfaces {
        interface.capabilities.mtu = pick(rng, &mtus).unwrap_or(1500);
        interface.capabilities.tx_checksum = percent(rng, 50);
        interface
            .addresses
            .retain(|address| address.addr.is_ipv6() == is_v6);
    }
    stack.timestamps = percent(rng, 70);
    stack.window_scaling = percent(rng, 70);
    stack.secret = std::array::from_fn(|_| rng.next_u32() as u8);
    stack.recv_buffer = magnitude(rng, 2048, 1 << 20) as u32;
    stack.send_buffer = magnitude(rng, 2048, 1 << 20) as u32;
    // A connection must survive what the worst link does: dozens of losses in a row happen.
    stack.data_retries = u8::MAX;
    stack.orphan_retries = 200;
    stack.syn_retries = 30;
    stack.syn_ack_retries = 30;
    stack.delayed_ack = Duration::from_millis(rng.between(1, 400));
    stack.initial_window = rng.between(1, 10) as u8;
    if percent(rng, 20) {
        stack.recv_pool = 2 << 20;
        stack.send_pool = 2 << 20;
    }
    config.style = style(rng);
    config
}

fn style(rng: &mut Rng) -> Style {
    let latency = if percent(rng, 60) { rng.below(200) } else { 0 };
    Style {
        eager: percent(rng, 50),
        latency: Duration::from_micros(latency),
        ahead: Duration::from_millis(1),
        tx_slots: pick(rng, &[(1, 1), (1, 8), (64, 64), (1024, 1024)]).unwrap_or((1, 1)),
        trust_checksums: false,
        replaced: Duration::ZERO,
    }
}

pub(super) fn talk(rng: &mut Rng, index: u16, is_v6: bool, budget: u64) -> Talk {
    let opener = rng.below(2) as usize;
    let other = if opener == 0 { 2 } else { 1 };
    let addr = if is_v6 { v6(other) } else { v4(other) };
    let (mut client, mut server) = (plan(rng, budget), plan(rng, budget));
    client.tries = 1000;
    endings(rng, &mut client, &mut server);
    client.linger = percent(rng, 40);
    server.linger = percent(rng, 40);
    let may_fail = percent(rng, 15);
    if may_fail {
        fail(rng, &mut client, &mut server);
    }
    Talk {
        opener,
        after: Duration::from_micros(magnitude(rng, 1, 3_000_000)),
        times: 1,
        at_once: 1,
        remote: SocketAddr::new(addr, FIRST_PORT + index),
        client,
        server,
        may_fail,
    }
}

/// One end or both give up sometime, in whatever state they are then. Keepalive tells an end whose
/// peer is gone.
fn fail(rng: &mut Rng, client: &mut Plan, server: &mut Plan) {
    let which = rng.between(1, 3);
    for (bit, plan) in [(1, client), (2, server)] {
        plan.tries = 3;
        plan.options.keepalive = Some(keepalive(20));
        if which & bit == 0 {
            continue;
        }
        if percent(rng, 80) {
            plan.abort_after = Some(Duration::from_micros(magnitude(rng, 1, 5_000_000)));
        } else {
            plan.options.user_timeout = Some(Duration::from_millis(magnitude(rng, 1, 60_000)));
        }
    }
}

fn keepalive(count: u8) -> Keepalive {
    Keepalive {
        idle: Duration::from_secs(5),
        interval: Duration::from_secs(5),
        count,
    }
}

fn plan(rng: &mut Rng, budget: u64) -> Plan {
    let size = |rng: &mut Rng| {
        let most = magnitude(rng, 1, 64 << 10) as u32;
        (rng.between(1, most.into()) as u32, most)
    };
    let (write_size, read_size) = (size(rng), size(rng));
    let sends = if percent(rng, 10) {
        0
    } else {
        magnitude(rng, 1, budget)
    };
    // Pauses are per operation; tiny operations with long pauses would take hours.
    let pause = |rng: &mut Rng, most: u32| {
        let operations = (budget / u64::from(most.max(1))).max(1);
        let longest = (60_000_000 / operations).min(100_000);
        let used = percent(rng, 30) && longest > 10;
        Duration::from_micros(if used { rng.between(1, longest) } else { 0 })
    };
    Plan {
        write_size,
        urgent: write_size.0 % 4 == 1,
        read_size,
        write_pause: pause(rng, write_size.1),
        read_pause: pause(rng, read_size.1),
        first_read: Duration::from_millis(if percent(rng, 15) {
            rng.between(1, 20_000)
        } else {
            0
        }),
        options: options(rng),
        ..Plan::default().sends(sends)
    }
}

fn options(rng: &mut Rng) -> Options {
    Options {
        nodelay: percent(rng, 50),
        keepalive: percent(rng, 10).then(|| keepalive(100)),
        recv_buffer: percent(rng, 20).then(|| magnitude(rng, 2048, 1 << 20) as u32),
        send_buffer: percent(rng, 20).then(|| magnitude(rng, 2048, 1 << 20) as u32),
        congestion: percent(rng, 70)
            .then(|| pick(rng, CongestionControl::NAMES))
            .flatten()
            .map(|(_, kind)| kind),
        max_segment: percent(rng, 10).then(|| rng.between(88, 9000) as u16),
        ..Options::default()
    }
}

/// Who ends first, and how; without anyone waiting for the other for ever.
fn endings(rng: &mut Rng, client: &mut Plan, server: &mut Plan) {
    let hold = Ending::Hold(Duration::from_millis(rng.between(1, 120_000)));
    let all = Ending::AfterBytes;
    let pairs = [
        (Ending::HalfClose, Ending::HalfClose),
        (Ending::HalfClose, Ending::AfterEof),
        (Ending::AfterEof, Ending::HalfClose),
        (Ending::AfterEof, hold),
        (all(server.send.0), all(client.send.0)),
        (all(server.send.0), Ending::AfterEof),
    ];
    let index = rng.below(pairs.len() as u64 + 1) as usize;
    match pairs.get(index) {
        Some(&(first, second)) => {
            client.ending = first;
            server.ending = second;
        }
        None => {
            client.expect = Expect::Echo;
            *server = Plan {
                linger: server.linger,
                write_size: server.write_size,
                read_size: server.read_size,
                options: server.options,
                ..Plan::echo()
            };
        }
    }
}
