//! Key-value stores on mTCP: their own benchmarks, and values compared.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use applications::resp::Store;
use applications::site::succeed;
use applications::{Family, Site, note};
use interop::process::wait_until;
use interop::{Lab, Process, baseline, programs};

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

/// Connections that the kernel at our end has taken.
fn taken_by_the_kernel(lab: &Lab) -> u64 {
    let path = "/proc/thread-self/net/snmp";
    let text = lab.ours().enter(|| std::fs::read_to_string(path)).unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    let (_, value) = both.find(|(name, _)| *name == "PassiveOpens").unwrap();
    value.parse().unwrap()
}

/// As README has it: the stack serves the peer, and the kernel the host itself.
#[test]
fn redis_at_the_hosts_address() {
    let Some(site) = Site::new(&["redis-server"]).filter(|_| !baseline()) else {
        return;
    };
    let lab = site.lab();
    let mut command = lab.ours().command(programs::mtcp());
    let words = "run --io afxdp:ours0 -- redis-server --protected-mode no";
    command.args(words.split(' ')).args(["--save", ""]);
    let mut server = Process::start(command);
    let soon = Duration::from_secs(20);
    server.wait_for("Ready to accept connections", soon);
    // Until the stack has started, the kernel serves all.
    wait_until("the stack serves the peer", soon, || {
        let before = taken_by_the_kernel(lab);
        let at = SocketAddr::new(Family::V4.kernel(), 6379);
        lab.peer().enter(|| drop(Store::open(at)));
        taken_by_the_kernel(lab) == before
    });
    for (client, family) in [(1, Family::V4), (2, Family::V6)] {
        let at = SocketAddr::new(family.kernel(), 6379);
        let before = taken_by_the_kernel(lab);
        let round = || Store::open(at).redis_round(client, 100, 10_000);
        lab.peer().enter(round);
        assert_eq!(taken_by_the_kernel(lab), before, "{family:?}");
        lab.ours().enter(round);
        assert_eq!(taken_by_the_kernel(lab), before + 1, "{family:?}");
        assert!(lab.peer_pings(family.kernel()), "{family:?}");
    }
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
