//! Ten thousand connections of a kernel at once, each with an answer of its own, twice.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use interop::files::Noise;
use interop::lab::PORT;
use interop::{Family, Gate, Kind, Lab, client};

const CONNECTIONS: usize = 10_000;
/// Connections begun before any of them is waited for.
const TOGETHER: usize = 500;
const FILES: usize = 97;

/// Files of different lengths, from nothing to more than a few segments.
fn content(file: usize) -> Vec<u8> {
    Noise::bytes(file as u64 + 1, file * 83)
}

fn open_all(to: SocketAddr) -> Vec<TcpStream> {
    let mut streams = Vec::with_capacity(CONNECTIONS);
    while streams.len() < CONNECTIONS {
        let wanted = TOGETHER.min(CONNECTIONS - streams.len());
        streams.extend(client::open_together(to, wanted));
    }
    streams
}

/// Asks on all before it reads from any; every connection asks for something else each time.
fn ask_all(streams: &mut [TcpStream], round: usize) {
    for (index, stream) in streams.iter_mut().enumerate() {
        client::ask(stream, &format!("/{}", (index + round) % FILES)).unwrap();
    }
    for (index, stream) in streams.iter_mut().enumerate() {
        let answer = client::answer(stream)
            .unwrap_or_else(|error| panic!("round {round}, connection {index}: {error}"));
        assert!(
            answer.head.starts_with("HTTP/1.1 200 "),
            "connection {index}: {}",
            answer.head
        );
        let expected = content((index + round) % FILES);
        assert!(
            answer.body == expected,
            "round {round}, connection {index}: a body of {} bytes, not the right {}",
            answer.body.len(),
            expected.len()
        );
    }
}

fn many(kind: Kind, family: Family, mode: &str) {
    let Some(_gate) = Gate::alone() else { return };
    let lab = Lab::new(kind);
    for file in 0..FILES {
        std::fs::write(lab.www().join(file.to_string()), content(file)).unwrap();
    }
    let words = "--header-timeout 300 --idle-timeout 300 --mode";
    let mut words: Vec<_> = words.split(' ').collect();
    words.push(mode);
    let server = lab.serve(&words);
    lab.peer().set("net/ipv4/ip_local_port_range", "2000 65000");
    lab.peer().enter(|| {
        let start = Instant::now();
        let mut streams = open_all(SocketAddr::new(family.ours(), PORT));
        let opened = start.elapsed();
        for round in 0..3 {
            ask_all(&mut streams, round);
        }
        println!("{CONNECTIONS} connections open after {opened:?}, 3 requests on each answered after {:?}", start.elapsed());
    });
    server.stop();
}

#[test]
fn ten_thousand_over_afxdp() {
    many(Kind::Afxdp, Family::V4, "inline");
}

#[test]
fn ten_thousand_over_afxdp_and_ipv6_paired() {
    many(Kind::Afxdp, Family::V6, "paired");
}

#[test]
fn ten_thousand_over_tap() {
    many(Kind::Tap, Family::V4, "inline");
}
