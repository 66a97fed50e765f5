//! Our addresses, and the ways from them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::frame::MacAddr;
use wire::ip::Cidr;

use crate::config::Config;
use crate::error::Error;
use crate::flow::FlowKey;
use crate::id::PortId;

use super::address::{Addresses, is_host_address};
use super::envelope::HOP_LIMIT;
use super::path::Path;
use super::route::{Found, Routes};
use super::ways::Ways;

/// Addresses, routes and configured neighbours, and what was found with them of late.
#[derive(Debug)]
pub struct Routing {
    pub(crate) addresses: Addresses,
    routes: Routes,
    /// To answer.
    ways: Ways,
    /// To begin, from any address of ours or from one.
    ways_out: Ways,
    /// Longest prefix first.
    statics: Vec<StaticEntry>,
    /// Others held when the stack was made: connections may have a path that is not true any more.
    has_changed: bool,
}

#[derive(Clone, Copy, Debug)]
struct StaticEntry {
    prefix: Cidr,
    port: PortId,
    mac: MacAddr,
}

fn statics(config: &Config, addresses: &Addresses) -> io::Result<Vec<StaticEntry>> {
    let mut entries = Vec::with_capacity(config.neighbours.len());
    for neighbour in &config.neighbours {
        let invalid = |text: &str| {
            let text = format!(
                "neighbour {}/{}: {text}",
                neighbour.addr, neighbour.prefix_len
            );
            io::Error::new(io::ErrorKind::InvalidInput, text)
        };
        let prefix = Cidr::new(neighbour.addr, neighbour.prefix_len)
            .ok_or_else(|| invalid("the prefix is longer than the address"))?;
        if addresses.link(neighbour.port).is_none() {
            return Err(invalid(&format!(
                "there is no interface {}",
                neighbour.port.0
            )));
        }
        if neighbour.mac.is_multicast() {
            return Err(invalid(&format!(
                "{} is a group address, not one of a host",
                neighbour.mac
            )));
        }
        entries.push(StaticEntry {
            prefix,
            port: neighbour.port,
            mac: neighbour.mac,
        });
    }
    entries.extend(ourselves(addresses));
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.prefix.prefix_len));
    Ok(entries)
}

/// The prefix of one address.
fn host(addr: IpAddr) -> Option<Cidr> {
    Cidr::new(addr, if addr.is_ipv4() { 32 } else { 128 })
}

/// Our own addresses as neighbours, on links that loop.
fn ourselves(addresses: &Addresses) -> impl Iterator<Item = StaticEntry> {
    let links = (0..)
        .map(PortId)
        .map_while(|port| Some((port, addresses.link(port)?)));
    links
        .filter(|(_, link)| link.capabilities.loops)
        .flat_map(|(port, link)| {
            let mac = link.mac;
            let hosts = link.addresses.iter().filter_map(|cidr| host(cidr.addr));
            hosts.map(move |prefix| StaticEntry { prefix, port, mac })
        })
}

impl Routing {
    /// The interfaces, routes and static neighbours of `config`.
    ///
    /// # Errors
    /// One of them makes no sense; the text says which and why.
    pub fn new(config: &Config) -> io::Result<Self> {
        let addresses = Addresses::new(config)?;
        Ok(Self {
            routes: Routes::new(config, &addresses)?,
            ways: Ways::new(),
            ways_out: Ways::new(),
            statics: statics(config, &addresses)?,
            addresses,
            has_changed: false,
        })
    }

    /// Takes the place of what was there before.
    ///
    /// # Errors
    /// As [`Routing::new`]; nothing has changed.
    pub fn replace(&mut self, config: &Config) -> io::Result<()> {
        let new = Self::new(config)?;
        if new.addresses.ports() != self.addresses.ports() {
            let text = "interfaces cannot be added, nor taken away, while a stack runs";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        *self = Self {
            has_changed: true,
            ..new
        };
        Ok(())
    }

    /// Whether others held before.
    #[inline]
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Whether `addr` is ours.
    pub fn is_local(&self, addr: IpAddr) -> bool {
        self.addresses.is_local(addr)
    }

    /// How to send to `dst` (from `src`, if given).
    ///
    /// Our own addresses are reachable on a link that loops only: packets do not turn around inside
    /// the stack.
    ///
    /// # Errors
    /// `NetworkUnreachable`: no route, or `dst` is no host's address, or ours.
    /// `AddressNotAvailable`: `src` is not ours, is of the other family or scope, or we have no
    /// address for this destination. RFC 1122 §3.2.1.3-3.
    pub fn path(&self, dst: IpAddr, src: Option<IpAddr>) -> Result<Path, Error> {
        let is_broadcast = matches!(dst, IpAddr::V4(v4) if self.addresses.is_broadcast(v4));
        let is_reachable = if self.is_local(dst) {
            self.addresses.comes_back(dst)
        } else {
            is_host_address(dst) && !is_broadcast
        };
        if !is_reachable {
            return Err(Error::NetworkUnreachable);
        }
        if src.is_some_and(|src| !self.is_local(src) || src.is_ipv4() != dst.is_ipv4()) {
            return Err(Error::AddressNotAvailable);
        }
        self.route(dst, src)
    }

    /// [`path`](Self::path), which is found once for all who ask for the same one after the other.
    /// Neither is an IPv4 address in IPv6 clothes; that `src` is unspecified says nothing.
    ///
    /// # Errors
    /// As [`path`](Self::path).
    #[inline]
    pub fn way_out(&mut self, dst: IpAddr, src: Option<IpAddr>) -> Result<&Path, Error> {
        debug_assert_eq!(dst, dst.to_canonical());
        let any = match dst {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let key = FlowKey::between(src.unwrap_or(any), 0, dst, 0);
        if !self.ways_out.has(&key) {
            let path = self.path(dst, src.filter(|src| !src.is_unspecified()))?;
            self.ways_out.put(&key, &path);
        }
        Ok(self.ways_out.at(&key))
    }

    /// How to answer what came to the local end of `key`.
    ///
    /// # Errors
    /// As [`path`](Self::path).
    #[inline]
    pub fn way_back(&mut self, key: &FlowKey) -> Result<&Path, Error> {
        if !self.ways.has(key) {
            self.find_way_back(key)?;
        }
        Ok(self.ways.at(key))
    }

    #[inline(never)]
    fn find_way_back(&mut self, key: &FlowKey) -> Result<(), Error> {
        let (local, remote) = (key.local().ip(), key.remote().ip());
        let path = if key.is_ipv4() {
            // Input took it because both ends are what they have to be.
            self.route(remote, Some(local))
        } else {
            // It may have been sent to a group.
            self.path(remote, Some(local))
        }?;
        self.ways.put(key, &path);
        Ok(())
    }

    /// Where packets for `dst` leave.
    fn route(&self, dst: IpAddr, src: Option<IpAddr>) -> Result<Path, Error> {
        // With one port there is no choice.
        let is_only = self.addresses.ports() == 1;
        let has_source = |port: PortId| match (src, self.addresses.link(port)) {
            _ if is_only => true,
            (Some(src), Some(link)) => link.has(src),
            _ => false,
        };
        let mut found = self
            .routes
            .lookup(dst, src, has_source)
            .ok_or(Error::NetworkUnreachable)?;
        let link = self
            .addresses
            .link(found.port)
            .ok_or(Error::NetworkUnreachable)?;
        let src = match src {
            Some(src) => src,
            None => self.source(&found, dst).ok_or(Error::AddressNotAvailable)?,
        };
        if found.is_shared {
            // All packets of a flow go by one hop, also the first, whose source was just chosen.
            found = self
                .routes
                .lookup(dst, Some(src), has_source)
                .ok_or(Error::NetworkUnreachable)?;
        }
        let Found {
            port,
            next_hop,
            mtu,
            ..
        } = found;
        let of_link = link.capabilities.mtu;
        Ok(Path {
            port,
            src,
            next_hop,
            known: self.static_neighbour(port, next_hop),
            mtu: mtu.map_or(of_link, |mtu| mtu.min(of_link)),
            class: 0,
            hop_limit: HOP_LIMIT,
        })
    }

    /// Which address of ours packets to `dst` are from: what the route says, or else one of the
    /// network of the next hop, as the kernel has it (RFC 6724 §5 for IPv6).
    fn source(&self, found: &Found, dst: IpAddr) -> Option<IpAddr> {
        let preferred = found
            .source
            .filter(|source| self.is_local(*source) && source.is_ipv4() == dst.is_ipv4());
        let near = match found.next_hop {
            IpAddr::V4(_) if dst.is_ipv4() => found.next_hop,
            _ => dst,
        };
        preferred.or_else(|| self.addresses.source_for(found.port, near))
    }

    /// The hardware address that was configured for `addr`.
    pub fn static_neighbour(&self, port: PortId, addr: IpAddr) -> Option<MacAddr> {
        self.statics
            .iter()
            .find(|entry| entry.port == port && entry.prefix.contains(addr))
            .map(|entry| entry.mac)
    }
}
