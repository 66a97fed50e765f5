//! Ten thousand connections of a kernel at once, each with an answer of its own, three times.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::SocketAddr;
use std::time::Instant;

use interop::crowd::{CONNECTIONS, ask_all, open_all, publish};
use interop::lab::PORT;
use interop::{Family, Gate, Kind, Lab};

fn many(kind: Kind, family: Family, mode: &str) {
    let Some(_gate) = Gate::alone() else { return };
    let lab = Lab::new(kind);
    publish(&lab.www());
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

#[test]
fn ten_thousand_over_packet() {
    many(Kind::Packet, Family::V4, "inline");
}
