//! What finding a connection and keeping time for it costs:
//! `cargo bench -p mtcp-core --features testing`. One thread.
#![allow(missing_docs, clippy::expect_used)]

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Duration;

use divan::Bencher;
use mtcp_core::testing::{FlowKey, FlowTable, Wheel, v4};
use ring::region::PagePolicy;
use wire::time::Instant;

/// Operations per measured call, so that its own cost does not count.
const BATCH: usize = 64;
/// Connections whose entries and keys no cache holds.
const MANY: u32 = 1_000_000;

fn main() {
    divan::main();
}

/// A table of `count` connections, and their keys by id, as the stack keeps them.
fn table(count: u32) -> (FlowTable, Vec<FlowKey>) {
    let mut table =
        FlowTable::new(count as usize, &[7; 32], PagePolicy::Transparent).expect("memory");
    let local = SocketAddr::new(v4(1), 80);
    let keys: Vec<FlowKey> = (0..count)
        .map(|id| {
            let host = (id >> 16) as u8;
            FlowKey::new(local, SocketAddr::new(v4(host), id as u16))
        })
        .collect();
    for (id, key) in (0..).zip(&keys) {
        table.insert(table.hash(key), id);
    }
    (table, keys)
}

fn look_up(table: &FlowTable, keys: &[FlowKey], wanted: &FlowKey) -> Option<u32> {
    table.find(table.hash(wanted), |id| {
        keys.get(id as usize) == Some(wanted)
    })
}

/// The same few connections again and again.
#[divan::bench(counters = [BATCH])]
fn flow_lookup_hot(bencher: Bencher<'_, '_>) {
    let (table, keys) = table(BATCH as u32);
    bencher.bench_local(|| {
        for wanted in &keys {
            black_box(look_up(&table, &keys, black_box(wanted)));
        }
    });
}

/// Another one of a million each time; each look-up depends on the one before, so none hides behind
/// another.
#[divan::bench(counters = [BATCH])]
fn flow_lookup_cold(bencher: Bencher<'_, '_>) {
    let (table, keys) = table(MANY);
    let local = SocketAddr::new(v4(1), 80);
    let mut next = 1u32;
    bencher.bench_local(|| {
        for _ in 0..BATCH {
            let remote = SocketAddr::new(v4((next >> 16) as u8), next as u16);
            let found = look_up(&table, &keys, &FlowKey::new(local, remote));
            next = found.unwrap_or(0).wrapping_mul(747_796_405).wrapping_add(1) % MANY;
        }
    });
}

#[divan::bench(counters = [BATCH])]
fn wheel_schedule_cancel(bencher: Bencher<'_, '_>) {
    let mut wheel = Wheel::new([BATCH as u32, 0, 0, 0]).expect("memory");
    bencher.bench_local(|| {
        for id in 0..BATCH as u32 {
            let at = Instant::from_millis(200 + u64::from(black_box(id)) * 37);
            wheel.schedule(id, at);
        }
        for id in 0..BATCH as u32 {
            wheel.cancel(black_box(id));
        }
    });
}

/// A timer set, and fired when it is due.
#[divan::bench(counters = [BATCH])]
fn wheel_schedule_fire(bencher: Bencher<'_, '_>) {
    let mut wheel = Wheel::new([BATCH as u32, 0, 0, 0]).expect("memory");
    let mut now = Instant::from_millis(1);
    bencher.bench_local(|| {
        for id in 0..BATCH as u32 {
            wheel.schedule(id, now + Duration::from_millis(u64::from(id) * 37));
        }
        now += Duration::from_millis(BATCH as u64 * 37);
        while let Some(id) = wheel.pop_due(now) {
            black_box(id);
        }
    });
}
