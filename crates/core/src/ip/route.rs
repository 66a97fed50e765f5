//! Routes: the longest prefix wins.

use std::cmp::Reverse;
use std::io;
use std::net::IpAddr;
use std::ops::Range;

use wire::ip::Cidr;

use crate::config::{Config, Hop, Way};
use crate::id::PortId;
use crate::ip::address::{Addresses, is_host_address};

#[derive(Clone, Copy, Debug)]
struct Entry {
    network: Cidr,
    bits: Bits,
    gateway: Option<IpAddr>,
    port: PortId,
    /// Place of the route among those of the kernel, counted from 1; 0: it is not one of them.
    rank: u32,
    weight: u16,
    source: Option<IpAddr>,
    mtu: Option<u16>,
}

impl Entry {
    /// The longest prefix comes first.
    fn kind(&self) -> (Reverse<u8>, bool) {
        (Reverse(self.network.prefix_len), self.bits.is_ipv4)
    }

    fn own(network: Cidr, gateway: Option<IpAddr>, port: PortId) -> Self {
        Self {
            network,
            bits: Bits::of(network),
            gateway,
            port,
            rank: 0,
            weight: 1,
            source: None,
            mtu: None,
        }
    }
}

/// What a route says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where packets leave.
    pub port: PortId,
    /// The neighbour that takes them.
    pub next_hop: IpAddr,
    /// Which address they are from, if it says.
    pub source: Option<IpAddr>,
    /// Their largest size, in bytes, if it says.
    pub mtu: Option<u16>,
    /// Other flows may go by another hop.
    pub is_shared: bool,
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
            network: number(network.network()),
            mask: u128::MAX.checked_shl(behind).unwrap_or(0),
        }
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

/// The entries of one prefix length and family.
#[derive(Debug)]
struct Group {
    is_ipv4: bool,
    mask: u128,
    /// Where they are, by network.
    entries: Range<usize>,
}

/// Both families in one table, which is looked at once per connection: by length of the prefix, the
/// longest first, and then by network.
#[derive(Debug)]
pub struct Routes {
    entries: Vec<Entry>,
    groups: Vec<Group>,
}

impl Routes {
    /// The on-link prefixes of our addresses and the routes of `config`.
    ///
    /// # Errors
    /// A route makes no sense; the text says which and why.
    pub fn new(config: &Config, addresses: &Addresses) -> io::Result<Self> {
        let on_link = addresses
            .iter()
            .map(|(port, network)| Entry::own(network, None, port));
        let mut entries: Vec<Entry> = match config.host_addresses {
            // The kernel's routes say what is on the link, but not what comes back to us.
            true => on_link
                .filter(|entry| addresses.loops(entry.port))
                .collect(),
            false => on_link.collect(),
        };
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
            entries.push(Entry::own(network, route.gateway, route.port));
        }
        for (rank, way) in (1..).zip(&config.ways) {
            entries.extend(of_kernel(rank, way));
        }
        // Stable: among equals, on-link prefixes come first, then the order of the configuration.
        entries.sort_by_key(|entry| (entry.kind(), entry.bits.network));
        let mut groups = Vec::new();
        let mut start = 0;
        for group in entries.chunk_by(|a, b| a.kind() == b.kind()) {
            let end = start + group.len();
            groups.extend(group.first().map(|first| Group {
                is_ipv4: first.bits.is_ipv4,
                mask: first.bits.mask,
                entries: start..end,
            }));
            start = end;
        }
        Ok(Self { entries, groups })
    }

    /// The entries of the longest prefix that holds this destination.
    fn best(&self, is_ipv4: bool, number: u128) -> Option<&[Entry]> {
        let groups = self.groups.iter().filter(|group| group.is_ipv4 == is_ipv4);
        groups
            .filter_map(|group| {
                let network = number & group.mask;
                let all = self.entries.get(group.entries.clone())?;
                let start = all.partition_point(|entry| entry.bits.network < network);
                let mut runs = all
                    .get(start..)?
                    .split(|entry| entry.bits.network != network);
                runs.next()
            })
            .find(|same| !same.is_empty())
    }

    /// Where packets to `dst` leave, and their next hop: by the longest prefix. Among equal ones
    /// by a port that is `preferred`, if any, else the first. Among those of the kernel by the
    /// first, and by that of its hops which the flow from `src` has.
    pub fn lookup(
        &self,
        dst: IpAddr,
        src: Option<IpAddr>,
        mut preferred: impl FnMut(PortId) -> bool,
    ) -> Option<Found> {
        let (first, others) = self.best(dst.is_ipv4(), number(dst))?.split_first()?;
        let mut others = others.iter().take_while(|entry| entry.rank == first.rank);
        let mut is_shared = false;
        let entry = if first.rank > 0 {
            let all = std::iter::once(first).chain(others);
            is_shared = all.clone().nth(1).is_some();
            hop_of_flow(all, dst, src).unwrap_or(first)
        } else if preferred(first.port) {
            first
        } else {
            others.find(|entry| preferred(entry.port)).unwrap_or(first)
        };
        Some(Found {
            port: entry.port,
            next_hop: entry.gateway.unwrap_or(dst),
            source: entry.source,
            mtu: entry.mtu,
            is_shared,
        })
    }
}

/// The hops of a route of the kernel; one to nowhere, if it has none.
fn of_kernel(rank: u32, way: &Way) -> Vec<Entry> {
    let Some(network) = Cidr::new(way.network, way.prefix_len) else {
        return Vec::new();
    };
    let nowhere = Hop {
        gateway: None,
        port: PortId::ELSEWHERE,
        weight: 1,
    };
    let hops = match way.hops.is_empty() {
        true => std::slice::from_ref(&nowhere),
        false => &way.hops,
    };
    let entry = |hop: &Hop| Entry {
        rank,
        weight: hop.weight.max(1),
        source: way.source,
        mtu: way.mtu,
        ..Entry::own(network, hop.gateway, hop.port)
    };
    hops.iter().map(entry).collect()
}

/// The hop for packets to `dst` from `src`, the same each time: by their hash, as many flows as the
/// weights say (RFC 2992).
fn hop_of_flow<'a>(
    mut all: impl Iterator<Item = &'a Entry> + Clone,
    dst: IpAddr,
    src: Option<IpAddr>,
) -> Option<&'a Entry> {
    let total: u64 = all.clone().map(|entry| u64::from(entry.weight)).sum();
    let src = src.map_or(0, number);
    let mut point = mixed(number(dst) ^ src.rotate_left(64)) % total.max(1);
    all.find(|entry| match point.checked_sub(entry.weight.into()) {
        Some(rest) => {
            point = rest;
            false
        }
        None => true,
    })
}

/// Spreads neighbouring numbers: the finalizer of MurmurHash3.
fn mixed(number: u128) -> u64 {
    let mut hash = (number >> 64) as u64 ^ number as u64;
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ hash >> 33).wrapping_mul(factor);
    }
    hash ^ hash >> 33
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

    fn ends(found: Found) -> (PortId, IpAddr) {
        (found.port, found.next_hop)
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
                .lookup(ip(dst), None, |_| false)
                .map(ends)
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
            table.lookup(ip("fe80::5"), None, |_| false).map(ends),
            Some((PortId(0), ip("fe80::5")))
        );
        assert_eq!(
            table
                .lookup(ip("fe80::5"), None, |port| port == PortId(1))
                .map(ends),
            Some((PortId(1), ip("fe80::5")))
        );
        assert_eq!(
            table
                .lookup(ip("10.0.0.5"), None, |port| port == PortId(1))
                .map(ends),
            Some((PortId(0), ip("10.0.0.5")))
        );
        assert_eq!(table.lookup(ip("192.0.2.1"), None, |_| true), None);
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

    fn of_kernel(network: &str, hops: &[(&str, u16)]) -> Way {
        let cidr: Cidr = network.parse().unwrap();
        let hop = |&(gateway, weight): &(&str, u16)| Hop {
            gateway: Some(ip(gateway)),
            port: PortId(0),
            weight,
        };
        Way {
            network: cidr.addr,
            prefix_len: cidr.prefix_len,
            source: None,
            mtu: None,
            hops: hops.iter().map(hop).collect(),
        }
    }

    fn table(ways: Vec<Way>) -> Routes {
        let config = Config {
            ways,
            ..config(vec![interface(0, &["10.0.0.1/24"])])
        };
        Routes::new(&config, &Addresses::new(&config).unwrap()).unwrap()
    }

    /// Of two to one network the kernel takes the one with the lower metric, which comes first.
    #[test]
    fn the_first_of_the_kernels_routes_holds() {
        let table = table(vec![
            of_kernel("0.0.0.0/0", &[("10.0.0.8", 1)]),
            of_kernel("0.0.0.0/0", &[("10.0.0.9", 1)]),
            of_kernel("192.0.2.0/24", &[]),
        ]);
        let hop = |dst| table.lookup(ip(dst), None, |_| false);
        assert_eq!(hop("8.8.8.8").unwrap().next_hop, ip("10.0.0.8"));
        assert_eq!(hop("10.0.0.5").unwrap().next_hop, ip("10.0.0.5"));
        assert_eq!(hop("192.0.2.1").unwrap().port, PortId::ELSEWHERE, "nowhere");
    }

    /// RFC 2992.
    #[test]
    fn flows_share_the_hops_of_a_route_by_their_weights() {
        let table = table(vec![of_kernel(
            "0.0.0.0/0",
            &[("10.0.0.8", 3), ("10.0.0.9", 1)],
        )]);
        let mut first = 0;
        for number in 0..4_000_u32 {
            let dst = IpAddr::from((0x0808_0000 + number).to_be_bytes());
            let src = Some(ip("10.0.0.1"));
            let hop = table.lookup(dst, src, |_| false).unwrap();
            assert!(hop.is_shared);
            assert_eq!(table.lookup(dst, src, |_| true), Some(hop), "each time");
            first += u32::from(hop.next_hop == ip("10.0.0.8"));
        }
        assert!((2_800..3_200).contains(&first), "{first} of 4000");
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
            prop_assert_eq!(table.lookup(dst, None, |_| false).map(|found| found.port.0), best.map(|(_, _, port)| *port));
        }
    }
}
