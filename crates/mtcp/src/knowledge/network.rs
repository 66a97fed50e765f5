//! From the kernel's network to that of a stack.

use std::collections::HashSet;

use ::io::netlink::{self, Hop, Link, Way};
use mtcp_core::PortId;
use mtcp_core::config::{self as stack, Interface};

use crate::config::with_loop;

/// The port of the interface.
const PORT: PortId = PortId(0);
/// RFC 791 §3.2: what every host takes. RFC 8200 §5: what every link of IPv6 carries.
const LEAST_MTU: u32 = 576;
const LEAST_MTU_V6: u16 = 1280;

/// What a stack was made with.
#[derive(Debug)]
pub(super) struct Origin {
    /// The name of the interface.
    pub(super) name: String,
    /// [`stack::Config::interfaces`].
    pub(super) interfaces: Vec<Interface>,
    /// The addresses are the kernel's, too.
    pub(super) of_host: bool,
}

impl Origin {
    /// The network of the stack, as the kernel's is now; `None`: the interface is not there, or no
    /// packet of a host fits through it. Addresses of one's own stay.
    pub(super) fn network(&self, kernel: &netlink::Network) -> Option<stack::Network> {
        let link = kernel
            .link(&self.name)
            .filter(|link| link.mtu >= LEAST_MTU)?;
        let way = |way: &Way| self.way(way, link);
        Some(stack::Network {
            interfaces: self.interfaces(kernel, link)?,
            ways: kernel.ways_in_order().into_iter().map(way).collect(),
        })
    }

    fn interfaces(&self, kernel: &netlink::Network, link: &Link) -> Option<Vec<Interface>> {
        let mut first = self.interfaces.first()?.clone();
        // Frames are no longer than those at the start.
        let mtu = u16::try_from(link.mtu).unwrap_or(u16::MAX);
        first.capabilities.mtu = first.capabilities.mtu.min(mtu);
        if !self.of_host {
            let rest = self.interfaces.iter().skip(1).cloned();
            return Some(std::iter::once(first).chain(rest).collect());
        }
        first.addresses = addresses(kernel, link);
        if first.capabilities.mtu < LEAST_MTU_V6 {
            first.addresses.retain(|address| address.addr.is_ipv4());
        }
        let all = with_loop(first);
        Some(all.into_iter().take(self.interfaces.len()).collect())
    }

    fn way(&self, way: &Way, link: &Link) -> stack::Way {
        let hop = |hop: &Hop| stack::Hop {
            gateway: hop.gateway,
            port: match hop.interface == link.index {
                true => PORT,
                false => PortId::ELSEWHERE,
            },
            weight: hop.weight,
        };
        stack::Way {
            network: way.network,
            prefix_len: way.prefix_len,
            source: way.source.filter(|_| self.of_host),
            mtu: way.mtu.map(|mtu| u16::try_from(mtu).unwrap_or(u16::MAX)),
            hops: way.hops.iter().map(hop).collect(),
        }
    }
}

/// The addresses of the interface, each once: several may differ in their prefix.
fn addresses(kernel: &netlink::Network, link: &Link) -> Vec<stack::Address> {
    let mut seen = HashSet::new();
    let of_link = kernel.addresses_of(link.index);
    let new = of_link.filter(|held| !held.address.is_loopback() && seen.insert(held.address));
    new.map(|held| stack::Address {
        addr: held.address,
        prefix_len: held.prefix,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use ::io::netlink::{Address, Network, OperState, XdpAttachment};
    use wire::frame::{Capabilities, MacAddr};

    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn link(index: u32, mtu: u32) -> Link {
        Link {
            index,
            name: format!("eth{index}"),
            mac: MAC,
            mtu,
            admin_up: true,
            state: OperState::Up,
            loopback: false,
            ethernet: true,
            kind: None,
            rx_queues: 1,
            tx_queues: 1,
            xdp: XdpAttachment::None,
        }
    }

    fn origin(of_host: bool) -> Origin {
        let interface = Interface {
            mac: MAC,
            capabilities: Capabilities {
                mtu: 1500,
                queues: 1,
                tx_checksum: false,
                tx_gso: 0,
                loops: false,
            },
            addresses: vec![stack::Address {
                addr: [10, 0, 0, 1].into(),
                prefix_len: 24,
            }],
        };
        Origin {
            name: "eth1".into(),
            interfaces: with_loop(interface),
            of_host,
        }
    }

    fn kernel(mtu: u32) -> Network {
        let address = |interface, address: &str, prefix| Address {
            interface,
            address: address.parse().unwrap(),
            prefix,
        };
        let hop = |gateway: &str, interface| Hop {
            gateway: Some(gateway.parse().unwrap()),
            interface,
            weight: 1,
        };
        let way = |hops| Way {
            table: 254,
            network: [0, 0, 0, 0].into(),
            prefix_len: 0,
            metric: 0,
            source: Some([10, 0, 0, 7].into()),
            mtu: None,
            hops,
            throws: false,
        };
        Network {
            links: vec![link(1, mtu), link(2, 1500)],
            addresses: vec![
                address(1, "10.0.0.7", 24),
                address(1, "10.0.0.7", 32),
                address(1, "fd00::7", 64),
                address(2, "10.0.1.7", 24),
            ],
            ways: vec![
                way(vec![hop("10.0.0.254", 1), hop("10.0.1.254", 2)]),
                way(vec![]),
            ],
            tables_v4: vec![254],
            tables_v6: vec![254],
            special_rules: 0,
        }
    }

    fn own(network: &stack::Network) -> Vec<String> {
        let addresses = network.interfaces[0].addresses.iter();
        addresses
            .map(|address| format!("{}/{}", address.addr, address.prefix_len))
            .collect()
    }

    #[test]
    fn addresses_of_ones_own_stay_and_those_of_the_host_are_followed() {
        let network = origin(false).network(&kernel(1500)).unwrap();
        assert_eq!(own(&network), ["10.0.0.1/24"]);
        assert_eq!(network.ways[0].source, None, "it is the kernel's");
        let network = origin(true).network(&kernel(1500)).unwrap();
        assert_eq!(own(&network), ["10.0.0.7/24", "fd00::7/64"]);
        assert_eq!(network.interfaces[1].addresses.len(), 2, "they come back");
        assert!(network.ways[0].source.is_some());
    }

    #[test]
    fn what_leaves_by_another_interface_leaves_elsewhere() {
        let network = origin(true).network(&kernel(1500)).unwrap();
        let ports = network.ways[0].hops.iter().map(|hop| hop.port);
        assert_eq!(ports.collect::<Vec<_>>(), [PORT, PortId::ELSEWHERE]);
        assert!(network.ways[1].hops.is_empty(), "nowhere");
    }

    #[test]
    fn an_mtu_is_never_larger_than_at_the_start() {
        let mtu = |mtu| {
            let network = origin(true).network(&kernel(mtu))?;
            let first = network.interfaces.first()?;
            Some((first.capabilities.mtu, first.addresses.len()))
        };
        assert_eq!(mtu(9000), Some((1500, 2)));
        assert_eq!(mtu(1280), Some((1280, 2)));
        assert_eq!(mtu(1279), Some((1279, 1)), "too small for IPv6");
        assert_eq!(mtu(575), None);
    }

    #[test]
    fn an_interface_that_is_gone_has_no_network() {
        let mut kernel = kernel(1500);
        kernel.links.remove(0);
        assert_eq!(origin(true).network(&kernel), None);
    }
}
