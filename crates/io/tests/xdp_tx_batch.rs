//! Frames that an AF_XDP port on a veth pair sends many at a time. Needs root; says so and passes
//! without.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code")]

#[allow(dead_code, reason = "shared by several test programs")]
mod xdp_support;

use std::net::UdpSocket;

use aya::util::KernelVersion;
use io::{Port, netlink};
use rustix::net::RecvFlags;

use xdp_support::{PEER, Pair, Raw, Station, is_root, peer_socket};

/// What datagram `number` holds: as many bytes as `len` says, or enough for the number.
fn data(number: usize, len: usize) -> Vec<u8> {
    let mut data = vec![number as u8; len.max(2)];
    data[..2].copy_from_slice(&(number as u16).to_be_bytes());
    data
}

/// Sends datagrams of these lengths in one go and expects all of them at `socket`, in order.
fn exchange(station: &mut Station, socket: &UdpSocket, lens: &[usize]) {
    let port = socket.local_addr().unwrap().port();
    for (number, len) in lens.iter().enumerate() {
        station.put_datagram(port, &data(number, *len), true);
    }
    station.port.flush().unwrap();
    let mut buffer = [0; 2048];
    for (number, len) in lens.iter().enumerate() {
        let (received, _) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..received], data(number, *len));
    }
}

/// How many frames a packet socket has seen.
fn seen(tap: &Raw) -> usize {
    let mut buffer = [0; 2048];
    std::iter::from_fn(|| rustix::net::recv(tap, &mut buffer, RecvFlags::DONTWAIT).ok()).count()
}

/// What AF_XDP itself sends, the packet sockets of its end do not see.
#[test]
fn frames_go_out_many_at_a_time_in_order() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let Some(mut station) = pair.offloading_station() else {
        return;
    };
    let socket = peer_socket(&pair, PEER);
    let mixed: Vec<usize> = (0..50).map(|at| at * 601 % 1400).collect();
    pair.ours.run(|| {
        let tap = Raw::listening("xdp0");
        exchange(&mut station, &socket, &[64; 100]);
        exchange(&mut station, &socket, &mixed);
        exchange(&mut station, &socket, &[1]);
        let sent = 151;
        if KernelVersion::current().is_ok_and(|is| is >= KernelVersion::new(6, 15, 0)) {
            assert!(seen(&tap) >= sent);
        }
    });
    assert_eq!(station.port.losses(), (0, 0));
}

/// The number of an interface is another one's in another namespace.
#[test]
fn a_thread_in_another_namespace_sends_on_the_same_interface() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let index = |name| netlink::link(name).unwrap().index;
    let (ours, theirs) = (
        pair.ours.run(|| index("xdp0")),
        pair.peer.run(|| index("peer0")),
    );
    assert_eq!(ours, theirs, "the test needs the same number at both ends");
    let Some(mut station) = pair.offloading_station() else {
        return;
    };
    let socket = peer_socket(&pair, PEER);
    pair.peer.run(|| {
        let tap = Raw::listening("peer0");
        exchange(&mut station, &socket, &[64; 20]);
        exchange(&mut station, &socket, &[64; 20]);
        // What came, and nothing else.
        assert!(seen(&tap) <= 40 + 4);
    });
}

/// A port whose interface goes away says so, whichever way frames went out.
#[test]
fn an_interface_that_goes_away_is_an_error() {
    if !is_root() {
        return;
    }
    let pair = Pair::new(1);
    let mut station = pair.station();
    pair.ours.run(|| {
        station.put_datagram(9, &[1; 64], true);
        station.port.flush().unwrap();
    });
    pair.ours.ip("link del xdp0");
    pair.ours.run(|| {
        let mut sent = || {
            station.put_datagram(9, &[1; 64], true);
            station.port.flush()
        };
        // The first may only find out.
        let result = sent().and_then(|()| sent()).and_then(|()| sent());
        assert!(result.unwrap_err().to_string().contains("removed"));
    });
}
