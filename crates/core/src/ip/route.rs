//! Routes: the longest prefix wins.

use std::io;
use std::net::IpAddr;

use wire::ip::Cidr;

use crate::config::Config;
use crate::id::PortId;
use crate::ip::address::{Addresses, is_host_address};

#[derive(Clone, Copy, Debug)]
struct Entry {
    network: Cidr,
    bits: Bits,
    gateway: Option<IpAddr>,
    port: PortId,
}

/// A prefix as numbers, which are quickly compared.
#[derive(Clone, Copy, Debug)]
struct Bits {
    is_ipv4: bool,
    network: u128,
    mask: u128,
}

impl Bits {
    fn of(network: Cidr) -> Self {
        let is_ipv4 = network.addr.is_ipv4();
        let behind = if is_ipv4 { 32 } else { 128 } - u32::from(network.prefix_len);
        Self {
            is_ipv4,
            network: number(network.addr),
            mask: u128::MAX.checked_shl(behind).unwrap_or(0),
        }
    }

    #[inline]
    fn hold(&self, is_ipv4: bool, number: u128) -> bool {
        self.is_ipv4 == is_ipv4 && (self.network ^ number) & self.mask == 0
    }
}

#[inline]
fn number(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn can_be_gateway(gateway: IpAddr, network: Cidr, addresses: &Addresses) -> bool {
    let same_family = gateway.is_ipv4() == network.addr.is_ipv4();
    same_family && is_host_address(gateway) && !addresses.is_local(gateway)
}

/// Both families in one table: a handful of entries, looked at once per connection, longest prefix
/// first.
#[derive(Debug)]
pub struct Routes {
    entries: Vec<Entry>,
}

impl Routes {
    /// The on-link prefixes of our addresses and the routes of `config`.
    ///
    /// # Errors
    /// A route makes no sense; the text says which and why.
    pub fn new(config: &Config, addresses: &Addresses) -> io::Result<Self> {
        let mut entries: Vec<Entry> = addresses
            .iter()
            .map(|(port, network)| Entry {
                network,
                bits: Bits::of(network),
                gateway: None,
                port,
            })
            .collect();
        for route in &config.routes {
            let invalid = |text: &str| {
                let text = format!("route {}/{}: {text}", route.network, route.prefix_len);
                io::Error::new(io::ErrorKind::InvalidInput, text)
            };
            let network = Cidr::new(route.network, route.prefix_len)
                .ok_or_else(|| invalid("the prefix is longer than the address"))?;
            if addresses.link(route.port).is_none() {
                return Err(invalid(&format!("there is no interface {}", route.port.0)));
            }
            if let Some(gateway) = route.gateway
                && !can_be_gateway(gateway, network, addresses)
            {
                return Err(invalid(&format!("{gateway} cannot be its gateway")));
            }
            entries.push(Entry {
                network,
                bits: Bits::of(network),
                gateway: route.gateway,
                port: route.port,
            });
        }
        // Stable: among equals, on-link prefixes come first, then the order of the configuration.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.network.prefix_len));
        Ok(Self { entries })
    }

    /// Where packets to `dst` leave, and their next hop: by the longest prefix; among equal ones by
    /// a port that is `preferred`, if any, else the first.
    pub fn lookup(
        &self,
        dst: IpAddr,
        mut preferred: impl FnMut(PortId) -> bool,
    ) -> Option<(PortId, IpAddr)> {
        let (is_ipv4, number) = (dst.is_ipv4(), number(dst));
        let mut matching = self
            .entries
            .iter()
            .filter(|entry| entry.bits.hold(is_ipv4, number));
        let first = matching.next()?;
        let len = first.network.prefix_len;
        let entry = if preferred(first.port) {
            first
        } else {
            matching
                .take_while(|entry| entry.network.prefix_len == len)
                .find(|entry| preferred(entry.port))
                .unwrap_or(first)
        };
        Some((entry.port, entry.gateway.unwrap_or(dst)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Route;
    use crate::ip::testing::{config, interface};
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn route(text: &str, gateway: Option<&str>, port: u8) -> Route {
        let cidr: Cidr = text.parse().unwrap();
        Route {
            network: cidr.addr,
            prefix_len: cidr.prefix_len,
            gateway: gateway.map(ip),
            port: PortId(port),
        }
    }

    fn routes(routes: Vec<Route>) -> io::Result<Routes> {
        let interfaces = vec![
            interface(0, &["10.0.0.1/24", "2001:db8::1/64"]),
            interface(1, &["10.0.1.1/24", "2001:db8:1::1/64"]),
        ];
        let config = Config {
            routes,
            ..config(interfaces)
        };
        Routes::new(&config, &Addresses::new(&config).unwrap())
    }

    #[test]
    fn the_longest_prefix_wins_in_each_family() {
        let table = routes(vec![
            route("0.0.0.0/0", Some("10.0.0.254"), 0),
            route("10.0.0.128/25", Some("10.0.1.254"), 1),
            route("::/0", Some("fe80::1"), 1),
        ])
        .unwrap();
        let to = |dst: &str| {
            table
                .lookup(ip(dst), |_| false)
                .map(|(port, hop)| (port.0, hop))
        };
        assert_eq!(to("10.0.0.2"), Some((0, ip("10.0.0.2"))));
        assert_eq!(to("10.0.0.200"), Some((1, ip("10.0.1.254"))));
        assert_eq!(to("192.0.2.9"), Some((0, ip("10.0.0.254"))));
        assert_eq!(to("2001:db8::5"), Some((0, ip("2001:db8::5"))));
        assert_eq!(to("2001:db8:ffff::5"), Some((1, ip("fe80::1"))));
    }

    #[test]
    fn among_equals_the_preferred_port_wins() {
        let table = routes(vec![]).unwrap();
        assert_eq!(
            table.lookup(ip("fe80::5"), |_| false),
            Some((PortId(0), ip("fe80::5")))
        );
        assert_eq!(
            table.lookup(ip("fe80::5"), |port| port == PortId(1)),
            Some((PortId(1), ip("fe80::5")))
        );
        assert_eq!(
            table.lookup(ip("10.0.0.5"), |port| port == PortId(1)),
            Some((PortId(0), ip("10.0.0.5")))
        );
        assert_eq!(table.lookup(ip("192.0.2.1"), |_| true), None);
    }

    #[test]
    fn senseless_routes_are_refused() {
        let mut long = route("10.0.0.0/8", None, 0);
        long.prefix_len = 33;
        for bad in [
            long,
            route("10.0.0.0/8", None, 2),
            route("10.0.0.0/8", Some("2001:db8::9"), 0),
            route("10.0.0.0/8", Some("10.0.0.1"), 0),
            route("10.0.0.0/8", Some("224.0.0.1"), 0),
        ] {
            assert!(
                routes(vec![bad])
                    .unwrap_err()
                    .to_string()
                    .starts_with("route 10.0.0.0/")
            );
        }
    }

    /// Few distinct bits, so that prefixes nest.
    fn address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            (0u32..16, 0u32..4)
                .prop_map(|(high, low)| IpAddr::V4(Ipv4Addr::from_bits(high << 28 | low))),
            (0u128..16, 0u128..4)
                .prop_map(|(high, low)| IpAddr::V6(Ipv6Addr::from_bits(high << 124 | low))),
        ]
    }

    fn bits(addr: IpAddr) -> String {
        match addr {
            IpAddr::V4(v4) => format!("4{:032b}", v4.to_bits()),
            IpAddr::V6(v6) => format!("6{:0128b}", v6.to_bits()),
        }
    }

    proptest! {
        #[test]
        fn behaves_like_a_comparison_of_bit_strings(
            nets in prop::collection::vec((address(), 0u8..=32, 0u8..2), 0..20),
            dst in address(),
        ) {
            let config = Config {
                routes: nets.iter().map(|&(network, prefix_len, port)| Route { network, prefix_len, gateway: None, port: PortId(port) }).collect(),
                ..config(vec![interface(0, &[]), interface(1, &[])])
            };
            let table = Routes::new(&config, &Addresses::new(&config).unwrap()).unwrap();
            // Of several with the longest prefix the first: max_by_key would take the last.
            let best = nets.iter().rev()
                .filter(|(net, len, _)| bits(*net)[..=usize::from(*len)] == bits(dst)[..=usize::from(*len)])
                .max_by_key(|(_, len, _)| *len);
            prop_assert_eq!(table.lookup(dst, |_| false).map(|(port, _)| port.0), best.map(|(_, _, port)| *port));
        }
    }
}
