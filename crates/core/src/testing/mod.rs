//! For tests of this crate and of those above it: a scripted peer in virtual time, and two stacks
//! back to back.
//!
//! Everything here panics when an expectation does not hold.
#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::missing_panics_doc
)]

mod application;
mod frames;
mod harness;
mod homes;
mod pair;
#[cfg(test)]
mod replace;
mod seen;
mod seg;
mod sink;
mod states;

pub use frames::compose;
pub use harness::{CLIENT, Handshake, Harness, LISTENER};
pub use homes::{IN_HOMES, add_home};
pub use pair::{End, Fate, Pair};
#[cfg(test)]
pub(crate) use replace::{in_a_home, replace, restore, restore_changed};
pub use seen::{PEER_ISS, Seen};
pub use seg::{Seg, seg};
pub use sink::Sink;

/// For benchmarks of the tables themselves.
pub use crate::flow::{FlowKey, FlowTable};
/// As above.
pub use crate::wheel::Wheel;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::frame::{Capabilities, MacAddr};

use crate::config::{Address, Config, CongestionControl, Interface, StaticNeighbour};
use crate::id::PortId;

/// The hardware address of end `index`.
pub const fn mac(index: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, index])
}

/// The IPv4 address of end `index`.
pub const fn v4(index: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, index))
}

/// The IPv6 address of end `index`.
pub const fn v6(index: u8) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, index as u16))
}

/// A small configuration of end `index`, with one port and a neighbour `peer` whose hardware
/// address is known. Congestion control is the plain one of RFC 5681, whose windows a test can
/// foretell.
pub fn config(index: u8, peer: u8) -> Config {
    let neighbour = |addr, prefix_len| StaticNeighbour {
        addr,
        prefix_len,
        mac: mac(peer),
        port: PortId(0),
    };
    Config {
        interfaces: vec![Interface {
            mac: mac(index),
            capabilities: Capabilities {
                mtu: 1500,
                queues: 1,
                tx_checksum: false,
                tx_gso: 0,
                loops: false,
            },
            addresses: vec![
                Address {
                    addr: v4(index),
                    prefix_len: 24,
                },
                Address {
                    addr: v6(index),
                    prefix_len: 64,
                },
            ],
        }],
        neighbours: vec![neighbour(v4(peer), 24), neighbour(v6(peer), 64)],
        secret: [index; 32],
        max_connections: 256,
        max_resident: 0,
        max_half_open: 64,
        max_time_wait: 64,
        max_listeners: 16,
        recv_pool: 16 << 20,
        send_pool: 16 << 20,
        recv_buffer: 64 << 10,
        send_buffer: 64 << 10,
        max_buffer: 1 << 20,
        congestion: CongestionControl::NewReno,
        huge_pages: false,
        ..Config::default()
    }
}
