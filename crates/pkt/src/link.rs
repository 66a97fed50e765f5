//! The link of a script.

use std::net::IpAddr;

use mtcp_core::config::{Address, Interface, Route, StaticNeighbour};
use mtcp_core::{Config, PortId};
use wire::frame::{Capabilities, MacAddr};

/// The stack's hardware address.
pub const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The hardware address of the peer, and of the gateway before it.
pub const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// One interface, and the peer behind a gateway whose hardware address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The address of the stack.
    pub local: IpAddr,
    /// How long its network's prefix is, bits.
    pub prefix_len: u8,
    /// The way to everybody else.
    pub gateway: IpAddr,
    /// The peer.
    pub remote: IpAddr,
    /// The longest packet, bytes.
    pub mtu: u16,
}

impl Link {
    /// Makes it the only link of a configuration.
    pub fn attach(&self, config: &mut Config) {
        let (network, all): (IpAddr, u8) = if self.local.is_ipv4() {
            ([0; 4].into(), 32)
        } else {
            ([0u16; 8].into(), 128)
        };
        let port = PortId(0);
        config.interfaces = vec![Interface {
            mac: OUR_MAC,
            capabilities: Capabilities {
                mtu: self.mtu,
                queues: 1,
                tx_checksum: false,
                tx_gso: 0,
                loops: false,
            },
            addresses: vec![Address {
                addr: self.local,
                prefix_len: self.prefix_len,
            }],
        }];
        config.routes = vec![Route {
            network,
            prefix_len: 0,
            gateway: Some(self.gateway),
            port,
        }];
        let neighbour = |addr| StaticNeighbour {
            addr,
            prefix_len: all,
            mac: PEER_MAC,
            port,
        };
        config.neighbours = vec![neighbour(self.gateway), neighbour(self.remote)];
    }
}
