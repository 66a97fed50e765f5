//! Addresses, routes and neighbours.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use wire::frame::MacAddr;

use super::request;

/// An address that the kernel owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Index of its interface.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
    /// Length of its on-link prefix, in bits.
    pub prefix: u8,
}

/// A way out of this host: a unicast route of the kernel's main table. A route with several next
/// hops is listed once for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// First address of the destination network.
    pub destination: IpAddr,
    /// Length of the destination prefix, in bits; 0: the default route.
    pub prefix: u8,
    /// Router to send to; none: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Index of the interface; 0 when the route names none.
    pub interface: u32,
    /// Preferred source address.
    pub source: Option<IpAddr>,
    /// Metric: the lowest wins among routes to the same prefix.
    pub metric: u32,
}

/// A neighbour whose hardware address the kernel has learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the interface.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: MacAddr,
    /// Set by the administrator: does not age.
    pub permanent: bool,
    /// It answered lately.
    pub reachable: bool,
}

/// All addresses of all interfaces.
///
/// # Errors
/// As the kernel says.
pub fn addresses() -> io::Result<Vec<Address>> {
    let answers = request::dump(
        request::ROUTE,
        RouteNetlinkMessage::GetAddress(AddressMessage::default()),
    )?;
    Ok(answers.into_iter().filter_map(address).collect())
}

/// The unicast routes of the main table, IPv4 and IPv6.
///
/// # Errors
/// As the kernel says.
pub fn routes() -> io::Result<Vec<Route>> {
    let mut all = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut question = RouteMessage::default();
        question.header.address_family = family;
        for answer in request::dump(request::ROUTE, RouteNetlinkMessage::GetRoute(question))? {
            if let RouteNetlinkMessage::NewRoute(message) = answer {
                push_routes(&message, &mut all);
            }
        }
    }
    Ok(all)
}

/// The route of the kernel that leads to `destination`, whatever its table; `None`: none does, or
/// it is an address of this machine.
///
/// # Errors
/// As the kernel says.
pub fn route_to(destination: IpAddr) -> io::Result<Option<Route>> {
    let mut question = RouteMessage::default();
    let header = &mut question.header;
    let address = match destination {
        IpAddr::V4(address) => {
            header.address_family = AddressFamily::Inet;
            header.destination_prefix_length = 32;
            RouteAddress::Inet(address)
        }
        IpAddr::V6(address) => {
            header.address_family = AddressFamily::Inet6;
            header.destination_prefix_length = 128;
            RouteAddress::Inet6(address)
        }
    };
    // The entry of the table, not what was made of it for this destination (Linux 4.13).
    header.flags = RouteFlags::FibMatch;
    question
        .attributes
        .push(RouteAttribute::Destination(address));
    match request::one(RouteNetlinkMessage::GetRoute(question)) {
        Ok(RouteNetlinkMessage::NewRoute(message)) if message.header.kind == RouteType::Unicast => {
            let mut routes = Vec::with_capacity(1);
            push_hops(&message, &mut routes);
            Ok(routes.pop())
        }
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NetworkUnreachable => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::HostUnreachable => Ok(None),
        Err(error) => Err(error),
    }
}

/// The neighbours with a known hardware address.
///
/// # Errors
/// As the kernel says.
pub fn neighbours() -> io::Result<Vec<Neighbour>> {
    let answers = request::dump(
        request::ROUTE,
        RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()),
    )?;
    Ok(answers.into_iter().filter_map(neighbour).collect())
}

/// Whether the address of a message is one that the kernel uses (RFC 4862 §5.4).
pub(super) fn is_in_use(answer: &RouteNetlinkMessage) -> bool {
    let RouteNetlinkMessage::NewAddress(message) = answer else {
        return false;
    };
    let doubtful = AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed;
    let is_optimistic = message
        .header
        .flags
        .contains(AddressHeaderFlags::Optimistic);
    is_optimistic || !message.header.flags.intersects(doubtful)
}

pub(super) fn address(answer: RouteNetlinkMessage) -> Option<Address> {
    let RouteNetlinkMessage::NewAddress(message) = answer else {
        return None;
    };
    let (mut local, mut other) = (None, None);
    for attribute in message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(address),
            AddressAttribute::Address(address) => other = Some(address),
            _ => {}
        }
    }
    Some(Address {
        interface: message.header.index,
        // On a point-to-point interface `Address` is the peer's.
        address: local.or(other)?,
        prefix: message.header.prefix_len,
    })
}

fn push_routes(message: &RouteMessage, into: &mut Vec<Route>) {
    if message.header.kind != RouteType::Unicast
        || table(message) != u32::from(RouteHeader::RT_TABLE_MAIN)
    {
        return;
    }
    push_hops(message, into);
}

/// Of a unicast route, once for each next hop.
fn push_hops(message: &RouteMessage, into: &mut Vec<Route>) {
    let mut route = Route {
        destination: unspecified(message.header.address_family),
        prefix: message.header.destination_prefix_length,
        gateway: None,
        interface: 0,
        source: None,
        metric: 0,
    };
    message
        .attributes
        .iter()
        .for_each(|attribute| apply(&mut route, attribute));
    let hops = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::MultiPath(hops) => Some(hops),
            _ => None,
        });
    let Some(hops) = hops else {
        into.push(route);
        return;
    };
    for hop in hops {
        let mut route = Route {
            interface: hop.interface_index,
            ..route
        };
        hop.attributes
            .iter()
            .for_each(|attribute| apply(&mut route, attribute));
        into.push(route);
    }
}

fn table(message: &RouteMessage) -> u32 {
    let wide = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Table(table) => Some(*table),
            _ => None,
        });
    wide.unwrap_or(u32::from(message.header.table))
}

fn unspecified(family: AddressFamily) -> IpAddr {
    match family {
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    }
}

fn apply(route: &mut Route, attribute: &RouteAttribute) {
    match attribute {
        RouteAttribute::Destination(address) => {
            route.destination = ip(address).unwrap_or(route.destination)
        }
        RouteAttribute::Gateway(address) => route.gateway = ip(address),
        RouteAttribute::PrefSource(address) => route.source = ip(address),
        RouteAttribute::Oif(index) => route.interface = *index,
        RouteAttribute::Priority(metric) => route.metric = *metric,
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

pub(super) fn neighbour(answer: RouteNetlinkMessage) -> Option<Neighbour> {
    let RouteNetlinkMessage::NewNeighbour(message) = answer else {
        return None;
    };
    if matches!(
        message.header.state,
        NeighbourState::Failed | NeighbourState::Incomplete | NeighbourState::Noarp
    ) {
        return None;
    }
    let (mut address, mut mac) = (None, None);
    for attribute in message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                address = Some(v4.into())
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                address = Some(v6.into())
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.try_into().ok().map(MacAddr),
            _ => {}
        }
    }
    Some(Neighbour {
        interface: message.header.ifindex,
        address: address?,
        mac: mac?,
        permanent: message.header.state == NeighbourState::Permanent,
        reachable: message.header.state == NeighbourState::Reachable,
    })
}
