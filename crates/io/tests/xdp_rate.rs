//! How fast frames go in and out over a veth pair. Measures, so it is not run by default:
//! `cargo test --release -p io --test xdp_rate -- --ignored --nocapture --test-threads=1`

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are test code"
)]

#[allow(dead_code, reason = "shared by several test programs")]
mod xdp_support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use io::Port;
use io::xdp::{XdpConfig, XdpInterface, XdpPort};
use wire::ethernet::EtherType;
use wire::frame::{BURST, FrameSink, TxMeta};

use xdp_support::frames::{ethernet, udp_to_us};
use xdp_support::{PEER, Pair, is_root};

const TIME: Duration = Duration::from_secs(2);

fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

/// Sends `frame` in bursts until `stop`; returns how many.
fn flood(port: &mut XdpPort, frame: &[u8], stop: impl Fn() -> bool) -> u64 {
    let mut sent = 0;
    while !stop() {
        for _ in 0..BURST {
            let fill = |room: &mut [u8]| {
                room[..frame.len()].copy_from_slice(frame);
                TxMeta {
                    len: frame.len(),
                    ..TxMeta::default()
                }
            };
            if !port.send(fill) {
                break;
            }
            sent += 1;
        }
        port.flush().unwrap();
    }
    sent
}

fn report(what: &str, count: u64, since: Instant) -> f64 {
    let rate = count as f64 / since.elapsed().as_secs_f64();
    eprintln!("{what}: {rate:.0} frames/s");
    rate
}

/// Frames that the peer's kernel has received.
fn arrived(pair: &Pair) -> u64 {
    let table = pair
        .peer
        .run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
    let line = table
        .lines()
        .find(|line| line.trim_start().starts_with("peer0:"))
        .unwrap();
    line.split_whitespace().nth(2).unwrap().parse().unwrap()
}

#[test]
#[ignore = "measures"]
fn out() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let mut station = pair.station();
    // A type that the peer's kernel knows nothing of, so that it drops the frame at once.
    let frame = ethernet(
        station.port.mac(),
        station.peer_mac,
        EtherType(0x88b5),
        None,
        &[0; 46],
    );
    pin(0);
    let start = Instant::now();
    let before = arrived(&pair);
    let sent = flood(&mut station.port, &frame, || start.elapsed() > TIME);
    report("  sent", sent, start);
    assert!(report("out, one core, arrived", arrived(&pair) - before, start) > 1000.0);
}

/// The peer floods us from a port of its own on core 0; we receive on `cpu`.
fn receive_on(cpu: usize) -> f64 {
    let pair = Pair::new(1);
    let mut station = pair.station();
    let frame = udp_to_us(station.peer_mac, station.port.mac(), &[0; 18]);
    let config = XdpConfig::new("peer0", [PEER.into()]);
    let mut peer = pair
        .peer
        .run(|| XdpInterface::open(&config).unwrap().ports().remove(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(0);
            let start = Instant::now();
            let sent = flood(&mut peer, &frame, || stop.load(Ordering::Relaxed));
            report("  sent", sent, start);
        });
        pin(cpu);
        let start = Instant::now();
        let (mut received, mut idle) = (0, 0);
        while start.elapsed() < TIME {
            let burst = station.port.receive(|frames| {
                assert!(frames.iter().all(|it| it.bytes == frame));
            });
            received += burst as u64;
            station.port.flush().unwrap();
            idle = if burst == 0 { idle + 1 } else { 0 };
            // On a core of its own the receiver may spin for a while.
            if idle > 1000 * cpu {
                let timeout = Some(Duration::from_millis(1));
                station.port.wait(timeout, None).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        eprintln!(
            "  lost by the receiving socket: {:?}",
            station.port.losses()
        );
        report(
            &format!("in, sender on core 0, receiver on core {cpu}"),
            received,
            start,
        )
    })
}

#[test]
#[ignore = "measures"]
fn incoming() {
    if is_root() {
        assert!(receive_on(0) > 1000.0);
        assert!(receive_on(1) > 1000.0);
    }
}
