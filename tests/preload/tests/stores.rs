//! Key-value stores on mTCP: their own benchmarks, and values compared.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::SocketAddr;
use std::thread;

use applications::resp::Store;
use applications::site::succeed;
use applications::{Family, Site, note};
use interop::Process;

fn redis(site: &Site) -> Process {
    let words = "redis-server --port 6379 --bind * -::* --protected-mode no --appendonly no --maxclients 4000";
    let mut command = site.ours(words);
    command.args(["--save", ""]);
    site.start_ours(command, 6379)
}

/// Every line of the report is a figure, none an error.
fn benchmark(site: &Site, words: &str) {
    let host = Family::V4.ours();
    let command = site.peer(&format!("redis-benchmark -h {host} --csv {words}"));
    let report = succeed(command).stdout;
    let rows: Vec<_> = report
        .lines()
        .filter(|line| line.starts_with('"'))
        .collect();
    assert!(rows.len() >= 2, "{report}");
    assert!(!report.contains("rror"), "{report}");
    for row in rows {
        let words: Vec<_> = row.split(',').collect();
        note(&format!("redis {words:.2?}"));
    }
}

/// Clients of one store at once, each with keys of its own.
fn together(site: &Site, port: u16, clients: u64, round: impl Fn(&mut Store, u64) + Sync) {
    let at = SocketAddr::new(Family::V4.ours(), port);
    site.lab().peer().enter(|| {
        thread::scope(|scope| {
            for client in 0..clients {
                let round = &round;
                scope.spawn(move || round(&mut Store::open(at), client));
            }
        });
    });
}

#[test]
fn redis_keeps_what_it_is_told() {
    let Some(site) = Site::new(&["redis-server", "redis-benchmark"]) else {
        return;
    };
    let _server = redis(&site);
    together(&site, 6379, 8, |store, client| {
        store.redis_round(client, 500, 100);
        store.redis_round(client, 20, 100_000);
    });
    let six = SocketAddr::new(Family::V6.ours(), 6379);
    site.lab().peer().enter(|| {
        Store::open(six).redis_round(99, 2, 20_000_000);
    });
}

#[test]
fn redis_benchmark_in_full() {
    let Some(site) = Site::new(&["redis-server", "redis-benchmark"]) else {
        return;
    };
    let _server = redis(&site);
    benchmark(&site, "-n 3000 -c 50");
    benchmark(&site, "-n 50000 -c 50 -P 16 -t set,get");
    benchmark(&site, "-n 10000 -c 1000 -t set,get");
}

#[test]
fn memcached_with_four_threads() {
    let Some(site) = Site::new(&["memcached"]) else {
        return;
    };
    let words = "memcached -u root -t 4 -p 11211 -l 0.0.0.0 -l :: -m 256 -c 4096";
    let _server = site.start_ours(site.ours(words), 11211);
    together(&site, 11211, 16, |store, client| {
        store.memcached_round(client, 200, 100);
        store.memcached_round(client, 10, 500_000);
    });
}
