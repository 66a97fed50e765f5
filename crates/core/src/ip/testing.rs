//! Configurations for tests of this crate.

use wire::frame::{Capabilities, MacAddr};
use wire::ip::Cidr;

use crate::config::{Address, Config, Interface};

/// The hardware address of our port `index`.
pub fn our_mac(index: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, index])
}

/// A port with addresses written as `address/length`.
pub fn interface(index: u8, addresses: &[&str]) -> Interface {
    let address = |text: &&str| {
        let (addr, len) = text.split_once('/').expect("address/length");
        Address {
            addr: addr.parse().expect("address"),
            prefix_len: len.parse().expect("length"),
        }
    };
    Interface {
        mac: our_mac(index),
        capabilities: Capabilities {
            mtu: 1500,
            queues: 1,
            tx_checksum: false,
            tx_gso: 0,
            loops: false,
        },
        addresses: addresses.iter().map(address).collect(),
    }
}

/// A small configuration.
pub fn config(interfaces: Vec<Interface>) -> Config {
    Config {
        interfaces,
        secret: [9; 32],
        max_neighbours: 16,
        ..Config::default()
    }
}

/// `address/length`.
pub fn cidr(text: &str) -> Cidr {
    text.parse().expect("address/length")
}
