//! An interface that is removed and made again while it is in use. Needs root; says so and passes
//! without.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are test code"
)]

#[allow(dead_code, reason = "shared by several test programs")]
mod xdp_support;

use std::time::{Duration, Instant};

use io::Port;
use io::xdp::{AttachMode, XdpConfig};
use wire::frame::{FrameSink, TxMeta};
use wire::ip::Protocol;

use xdp_support::frames::carries;
use xdp_support::{DEADLINE, OURS, PEER, Pair, Station, config, is_root, peer_socket};

/// Runs turns, half a second apart for the port, until it is so.
fn turn_until(pair: &Pair, station: &mut Station, what: &str, is_so: impl Fn(&Station) -> bool) {
    let (end, mut now) = (Instant::now() + DEADLINE, wire::time::Instant::ZERO);
    while !is_so(station) {
        assert!(Instant::now() < end, "not {what}");
        now += Duration::from_millis(500);
        pair.ours.run(|| station.port.begin(now));
        let slept = pair
            .ours
            .run(|| station.port.wait(Some(Duration::from_millis(10)), None));
        slept.unwrap();
    }
}

/// A datagram each way.
fn exchange(pair: &Pair, station: &mut Station) {
    station.peer_mac = pair.peer_mac();
    let socket = peer_socket(pair, PEER);
    socket.send_to(b"there", (OURS, 2000)).unwrap();
    // Answers what it asked, too: the hardware address is what it was.
    station.answer_arp();
    station.expect("datagram", |frame| carries(frame, Protocol::UDP, b"there"));
}

#[test]
fn an_interface_that_is_made_again_is_taken_again() {
    if !is_root() {
        return;
    }
    for mode in [AttachMode::Auto, AttachMode::Native, AttachMode::Generic] {
        let pair = Pair::new(1);
        let mut station = pair.station_with(&XdpConfig {
            mode,
            retakes: true,
            ..config()
        });
        let (mac, can) = (station.port.mac(), station.port.capabilities());
        exchange(&pair, &mut station);
        for _ in 0..2 {
            pair.peer.ip("link delete peer0");
            turn_until(&pair, &mut station, "gone", |station| {
                station.port.is_away()
            });
            // What is sent meanwhile is lost, and counted.
            let lost = station.port.losses().1;
            assert!(station.port.send(|_| TxMeta {
                len: 60,
                ..TxMeta::default()
            }));
            assert_eq!(station.port.losses().1, lost + 1);
            assert_eq!(station.poll(), 0);
            station.port.flush().unwrap();
            // It is down at first.
            pair.make(1);
            turn_until(&pair, &mut station, "back", |station| {
                !station.port.is_away()
            });
            assert_eq!(
                (station.port.mac(), station.port.capabilities()),
                (mac, can)
            );
            exchange(&pair, &mut station);
        }
    }
}

#[test]
fn one_that_carries_less_is_not_taken() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let mut station = pair.station_with(&XdpConfig {
        retakes: true,
        ..config()
    });
    pair.peer.ip("link delete peer0");
    turn_until(&pair, &mut station, "gone", |station| {
        station.port.is_away()
    });
    pair.make(1);
    pair.ours.ip("link set xdp0 mtu 1000");
    let later = wire::time::Instant::ZERO + Duration::from_secs(1000);
    pair.ours.run(|| station.port.begin(later));
    assert!(station.port.is_away());
    pair.ours.ip("link set xdp0 mtu 1500");
    pair.ours
        .run(|| station.port.begin(later + Duration::from_secs(1)));
    assert!(!station.port.is_away());
}
