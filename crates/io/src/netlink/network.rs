//! Links, addresses, routes and rules as the kernel has them at one moment.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteNextHopFlags,
    RouteType, RouteVia,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use wire::ip::Cidr;

use super::link::{self, Link};
use super::request::Asker;
use super::tables::{self, Address};

/// A router, or the link itself, that takes what a route is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The router, of either family; none: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Index of the interface.
    pub interface: u32,
    /// Its share among the hops of the route.
    pub weight: u16,
}

/// A route of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its table.
    pub table: u32,
    /// First address of the destination network.
    pub network: IpAddr,
    /// Length of its prefix, in bits; 0: the default route.
    pub prefix_len: u8,
    /// Metric: the lowest wins among routes to the same prefix.
    pub metric: u32,
    /// Preferred source address.
    pub source: Option<IpAddr>,
    /// Largest packet, in bytes, if it says.
    pub mtu: Option<u32>,
    /// Where packets go; none: nowhere (`unreachable`, `blackhole`, `prohibit`, all hops dead).
    pub hops: Vec<Hop>,
    /// Look in the next table (`throw`).
    pub throws: bool,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// All interfaces.
    pub links: Vec<Link>,
    /// All addresses that are in use.
    pub addresses: Vec<Address>,
    /// All routes to hosts elsewhere of the tables below.
    pub ways: Vec<Way>,
    /// Tables in the order in which they are looked at for packets of this host, of IPv4 ...
    pub tables_v4: Vec<u32>,
    /// ... and of IPv6.
    pub tables_v6: Vec<u32>,
    /// Rules that hold for some packets only, by source, mark or the like; they are in none of the
    /// lists.
    pub special_rules: usize,
}

impl Network {
    pub(super) fn read(asker: &mut Asker) -> io::Result<Self> {
        let mut network = Self::default();
        let mut links = LinkMessage::default();
        links.attributes = vec![link::skip_statistics()];
        let links = asker.dump(RouteNetlinkMessage::GetLink(links))?;
        network.links = links.into_iter().filter_map(link::from_answer).collect();
        let addresses = AddressMessage::default();
        let addresses = asker.dump(RouteNetlinkMessage::GetAddress(addresses))?;
        network.addresses = addresses
            .into_iter()
            .filter(tables::is_in_use)
            .filter_map(tables::address)
            .collect();
        network.tables_v4 = network.rules(asker, AddressFamily::Inet)?;
        network.tables_v6 = network.rules(asker, AddressFamily::Inet6)?;
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut question = RouteMessage::default();
            question.header.address_family = family;
            for answer in asker.dump(RouteNetlinkMessage::GetRoute(question))? {
                if let RouteNetlinkMessage::NewRoute(message) = answer {
                    network.ways.extend(way(&message));
                }
            }
        }
        Ok(network)
    }

    fn rules(&mut self, asker: &mut Asker, family: AddressFamily) -> io::Result<Vec<u32>> {
        let mut question = RuleMessage::default();
        question.header.family = family;
        let mut rules = Vec::new();
        for answer in asker.dump(RouteNetlinkMessage::GetRule(question))? {
            let RouteNetlinkMessage::NewRule(rule) = answer else {
                continue;
            };
            match table_for_all(&rule) {
                Some(rule) => rules.push(rule),
                None => self.special_rules += 1,
            }
        }
        // Stable: rules of one priority hold in the order of their making.
        rules.sort_by_key(|(priority, _)| *priority);
        // That of the addresses of this host tells nothing of others.
        let local = u32::from(libc::RT_TABLE_LOCAL);
        let tables = rules.into_iter().map(|(_, table)| table);
        Ok(tables.filter(|table| *table != local).collect())
    }

    /// The interface called `name`.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The addresses of the interface of this index.
    pub fn addresses_of(&self, interface: u32) -> impl Iterator<Item = &Address> {
        let here = move |address: &&Address| address.interface == interface;
        self.addresses.iter().filter(here)
    }

    /// The ways to networks elsewhere. The first whose network has a destination is the one that
    /// the kernel takes: by length of the prefix, then by metric. Of a later table none is there
    /// where an earlier table leads anywhere.
    pub fn ways_in_order(&self) -> Vec<&Way> {
        let mut all: Vec<&Way> = Vec::new();
        for (tables, is_ipv4) in [(&self.tables_v4, true), (&self.tables_v6, false)] {
            let mut earlier: Vec<&Way> = Vec::new();
            for table in tables {
                let here = |way: &&Way| way.table == *table && way.network.is_ipv4() == is_ipv4;
                let ways = self.ways.iter().filter(here);
                let new: Vec<&Way> = ways.filter(|way| !is_shadowed(way, &earlier)).collect();
                earlier.extend(new);
            }
            all.extend(earlier.into_iter().filter(|way| !way.throws));
        }
        // Stable: among equals the first that was added.
        all.sort_by_key(|way| (std::cmp::Reverse(way.prefix_len), way.metric));
        all
    }
}

/// Whether an earlier table leads all that `way` is for: the longest prefix that it has around the
/// network of `way` is no `throw`.
fn is_shadowed(way: &Way, earlier: &[&Way]) -> bool {
    let covering = earlier.iter().filter(|other| {
        let prefix = Cidr::new(other.network, other.prefix_len);
        other.table != way.table
            && other.prefix_len <= way.prefix_len
            && prefix.is_some_and(|prefix| prefix.contains(way.network))
    });
    covering
        .max_by_key(|other| other.prefix_len)
        .is_some_and(|other| !other.throws)
}

/// Priority and table of a rule for all packets.
fn table_for_all(rule: &RuleMessage) -> Option<(u32, u32)> {
    let header = &rule.header;
    let is_for_all = header.action == RuleAction::ToTable
        && (header.dst_len, header.src_len, header.tos) == (0, 0, 0);
    let (mut priority, mut table) = (0, u32::from(header.table));
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::Protocol(_) => {}
            // Set to all ones where it suppresses nothing.
            RuleAttribute::SuppressPrefixLen(u32::MAX) => {}
            _ => return None,
        }
    }
    is_for_all.then_some((priority, table))
}

/// A route to hosts elsewhere.
fn way(message: &RouteMessage) -> Option<Way> {
    let header = &message.header;
    let is_nowhere = matches!(
        header.kind,
        RouteType::BlackHole | RouteType::Unreachable | RouteType::Prohibit
    );
    let throws = header.kind == RouteType::Throw;
    let is_unicast = header.kind == RouteType::Unicast;
    let is_cached = header.flags.contains(RouteFlags::Cloned);
    if is_cached || !(is_unicast || is_nowhere || throws) || header.source_prefix_length > 0 {
        return None;
    }
    let mut way = Way {
        table: u32::from(header.table),
        network: match header.address_family {
            AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        },
        prefix_len: header.destination_prefix_length,
        metric: 0,
        source: None,
        mtu: None,
        hops: Vec::new(),
        throws,
    };
    let mut only = Hop {
        gateway: None,
        interface: 0,
        weight: 1,
    };
    for attribute in &message.attributes {
        apply(&mut way, attribute);
        lead(&mut only, attribute);
    }
    let is_dead = header
        .flags
        .intersects(RouteFlags::Dead | RouteFlags::Unresolved);
    if is_unicast && way.hops.is_empty() && !is_dead && only.interface != 0 {
        way.hops.push(only);
    }
    if is_nowhere {
        way.hops.clear();
    }
    Some(way)
}

fn apply(way: &mut Way, attribute: &RouteAttribute) {
    match attribute {
        RouteAttribute::Table(table) => way.table = *table,
        RouteAttribute::Destination(address) => way.network = ip(address).unwrap_or(way.network),
        RouteAttribute::Priority(metric) => way.metric = *metric,
        RouteAttribute::PrefSource(address) => way.source = ip(address),
        RouteAttribute::Metrics(metrics) => {
            way.mtu = metrics.iter().find_map(|metric| match metric {
                RouteMetric::Mtu(mtu) if *mtu > 0 => Some(*mtu),
                _ => None,
            });
        }
        RouteAttribute::MultiPath(hops) => {
            let dead = RouteNextHopFlags::Dead | RouteNextHopFlags::Unresolved;
            for hop in hops.iter().filter(|hop| !hop.flags.intersects(dead)) {
                let mut next = Hop {
                    gateway: None,
                    interface: hop.interface_index,
                    weight: u16::from(hop.hops) + 1,
                };
                hop.attributes
                    .iter()
                    .for_each(|attribute| lead(&mut next, attribute));
                way.hops.push(next);
            }
        }
        _ => {}
    }
}

fn lead(hop: &mut Hop, attribute: &RouteAttribute) {
    match attribute {
        RouteAttribute::Gateway(address) => hop.gateway = ip(address),
        RouteAttribute::Via(RouteVia::Inet(v4)) => hop.gateway = Some((*v4).into()),
        RouteAttribute::Via(RouteVia::Inet6(v6)) => hop.gateway = Some((*v6).into()),
        RouteAttribute::Oif(index) => hop.interface = *index,
        _ => {}
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}
