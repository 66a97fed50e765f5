//! Everything below TCP: links, neighbours, IPv4, IPv6, ICMP and fragments, in one [`Net`].

mod address;
mod fast;
pub(crate) mod input;
mod output;
mod packets;
mod pmtu;
pub(crate) mod reassemble;
mod route;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
mod ways;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::frame::{MacAddr, RxChecksum};
use wire::ip::{Cidr, Ecn};
use wire::quoted::QuotedTcp;
use wire::time::Instant;

use crate::config::Config;
use crate::counters::Counters;
use crate::drops::Drop;
use crate::error::Error;
use crate::flow::FlowKey;
use crate::icmp::MAX_QUOTE_V6;
use crate::id::PortId;
use crate::limit::RateLimiter;
use crate::neigh::announce::Claims;
use crate::neigh::cache::{Cache, Ended, Lookup};

pub use address::{Addresses, is_host_address, link_local};
pub(crate) use output::headers_len;
pub use output::{Envelope, HOP_LIMIT, To};
pub use packets::{Class, Packets};
pub use pmtu::LIFETIME;
pub(crate) use pmtu::PathMtus;

use reassemble::Reassembler;
use route::Routes;
use ways::Ways;

/// Timers that [`Net::advance`] fires at most in one call.
const MAX_TIMERS: usize = 256;
/// ICMP errors that may go out at once, before the rate counts.
const ERROR_BURST: u32 = 50;

/// How packets to a destination travel. Neither neighbour states nor what [`PathMtus`] knows are in it: it stays true while the stack
/// exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Where they leave.
    pub port: PortId,
    /// Our address.
    pub src: IpAddr,
    /// The neighbour that takes them.
    pub next_hop: IpAddr,
    /// Its hardware address, if that was configured: it has not to be asked for, nor confirmed.
    pub known: Option<MacAddr>,
    /// Largest IP packet of the link, in bytes.
    pub mtu: u16,
    /// TOS or traffic class, without the bits of ECN.
    pub class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
}

impl Path {
    /// The way to no one.
    pub const NOWHERE: Self = Self {
        port: PortId(0),
        src: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        next_hop: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        known: None,
        mtu: 0,
        class: 0,
        hop_limit: 0,
    };
}

/// What is known of the hardware address of a path's next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Send there.
    Ready(MacAddr),
    /// Being asked, in this place of the neighbour cache; [`Net::poll_resolved`] will tell.
    Pending(u32),
    /// It does not answer, and will not be asked again for a few seconds.
    Failed,
}

/// What a frame turned out to be.
#[derive(Debug)]
pub enum Input<'a> {
    /// A TCP segment for us.
    Tcp(Datagram<'a>),
    /// An ICMP error about a TCP segment of ours.
    Error(TransportError),
    /// Dealt with, or dropped and counted.
    Consumed,
}

/// A transport datagram: for an address of ours, from one host to one host.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// The other end.
    pub src: IpAddr,
    /// Our address.
    pub dst: IpAddr,
    /// From the transport header on: a slice of the frame, or owned if it came in fragments.
    pub payload: Cow<'a, [u8]>,
    /// State of the transport checksum.
    pub checksum: RxChecksum,
    /// ECN field of the IP header.
    pub ecn: Ecn,
}

/// What an ICMP error says, in the words of RFC 1122 §4.2.3.9 and RFC 5461.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// May pass: routing changes.
    Soft(Error),
    /// Will not pass.
    Hard(Error),
    /// The packet was too big; `mtu` of the error says for what.
    TooBig,
}

/// An ICMP error about a TCP segment whose source address is ours. Anybody can have sent it: TCP must check that the quoted sequence
/// number is outstanding (RFC 5927 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportError {
    /// The segment.
    pub quoted: QuotedTcp,
    /// What is wrong.
    pub kind: ErrorKind,
    /// With `TooBig`: the largest IP packet that passes, in bytes, as the router says, at least 68; guessed by the table of RFC 1191 §7.1
    /// if it does not say. Never more than the packet that was too big.
    pub mtu: Option<u16>,
}

/// The network below TCP.
#[derive(Debug)]
pub struct Net {
    pub(crate) addresses: Addresses,
    routes: Routes,
    /// To answer.
    ways: Ways,
    /// To begin, from any address of ours or from one.
    ways_out: Ways,
    /// Longest prefix first.
    statics: Vec<StaticEntry>,
    pub(crate) neighbours: Cache,
    pub(crate) claims: Claims,
    packets: Packets,
    pub(crate) paths: PathMtus,
    reassembler: Reassembler,
    /// ICMP errors (RFC 1812 §4.3.2.8, RFC 4443 §2.4(f)).
    errors: RateLimiter,
    /// Room for what they quote.
    pub(crate) quoted: Vec<u8>,
    resolved: VecDeque<Ended>,
    max_resolved: usize,
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

impl Net {
    /// The interfaces, routes and static neighbours of `config`.
    ///
    /// # Errors
    /// One of them makes no sense (the text says which and why), or out of memory.
    pub fn new(config: &Config) -> io::Result<Self> {
        let addresses = Addresses::new(config)?;
        Ok(Self {
            routes: Routes::new(config, &addresses)?,
            ways: Ways::new(),
            ways_out: Ways::new(),
            statics: statics(config, &addresses)?,
            neighbours: Cache::new(config.max_neighbours, &config.secret)?,
            claims: Claims::new(&addresses),
            packets: Packets::new(addresses.ports(), config.max_neighbours)?,
            paths: PathMtus::new(&config.secret),
            reassembler: Reassembler::new(config.reassembly_bytes, config.reassembly_timeout),
            errors: RateLimiter::new(config.reply_rate, ERROR_BURST.min(config.reply_rate)),
            quoted: Vec::with_capacity(MAX_QUOTE_V6),
            resolved: VecDeque::new(),
            max_resolved: (config.max_neighbours as usize).saturating_mul(4),
            addresses,
        })
    }

    /// Whether `addr` is ours.
    pub fn is_local(&self, addr: IpAddr) -> bool {
        self.addresses.is_local(addr)
    }

    /// How to send to `dst` (from `src`, if given).
    ///
    /// Our own addresses are reachable on a link that loops only: packets do not turn around inside the stack.
    ///
    /// # Errors
    /// `NetworkUnreachable`: no route, or `dst` is no host's address, or ours. `AddressNotAvailable`: `src` is not ours, is of the other
    /// family or scope, or we have no address for this destination.
    /// RFC 1122 §3.2.1.3-3.
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

    /// [`path`](Self::path), which is found once for all who ask for the same one after the other. Neither is an IPv4
    /// address in IPv6 clothes; that `src` is unspecified says nothing.
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
        let (port, next_hop) = self
            .routes
            .lookup(dst, has_source)
            .ok_or(Error::NetworkUnreachable)?;
        let link = self.addresses.link(port).ok_or(Error::NetworkUnreachable)?;
        let src = src
            .or_else(|| self.addresses.source_for(port, dst))
            .ok_or(Error::AddressNotAvailable)?;
        Ok(Path {
            port,
            src,
            next_hop,
            known: self.static_neighbour(port, next_hop),
            mtu: link.capabilities.mtu,
            class: 0,
            hop_limit: HOP_LIMIT,
        })
    }

    /// The hardware address of the path's next hop, which is asked for if it is not known. Cheap when it is.
    #[inline]
    pub fn resolve(&mut self, now: Instant, path: &Path, counters: &mut Counters) -> Resolution {
        let known = path.known;
        let known = known.or_else(|| self.neighbours.known(path.port, path.next_hop));
        match known {
            Some(mac) => Resolution::Ready(mac),
            None => self.resolve_anew(now, path, counters),
        }
    }

    #[inline(never)]
    fn resolve_anew(&mut self, now: Instant, path: &Path, counters: &mut Counters) -> Resolution {
        match self.ask(now, path.port, path.next_hop, counters) {
            Lookup::Ready(mac) => Resolution::Ready(mac),
            Lookup::Pending { slot, .. } => Resolution::Pending(slot),
            Lookup::Failed => Resolution::Failed,
        }
    }

    fn lookup(
        &mut self,
        now: Instant,
        port: PortId,
        next_hop: IpAddr,
        counters: &mut Counters,
    ) -> Lookup {
        match self.static_neighbour(port, next_hop) {
            Some(mac) => Lookup::Ready(mac),
            None => self.ask(now, port, next_hop, counters),
        }
    }

    /// The hardware address of a next hop for which none was configured.
    fn ask(
        &mut self,
        now: Instant,
        port: PortId,
        next_hop: IpAddr,
        counters: &mut Counters,
    ) -> Lookup {
        if self.resolved.len() >= self.max_resolved {
            // Nobody asks how resolutions ended; starting more would lose some of the answers.
            return Lookup::Failed;
        }
        let lookup = self.neighbours.resolve(now, port, next_hop, counters);
        self.settle(counters);
        if let Lookup::Pending { solicit: true, .. } = lookup {
            let question = crate::neigh::cache::Solicitation {
                port,
                target: next_hop,
                to: None,
            };
            self.solicit(now, question, counters);
        }
        lookup
    }

    /// Takes a token for an ICMP error.
    pub(crate) fn may_send_error(&mut self, now: Instant) -> bool {
        self.errors.allow(now)
    }

    /// The hardware address that was configured for `addr`.
    pub fn static_neighbour(&self, port: PortId, addr: IpAddr) -> Option<MacAddr> {
        self.statics
            .iter()
            .find(|entry| entry.port == port && entry.prefix.contains(addr))
            .map(|entry| entry.mac)
    }

    /// The peer acknowledged something new: the path works (RFC 4861 §7.3.1).
    pub fn confirm(&mut self, now: Instant, path: &Path, counters: &mut Counters) {
        if path.known.is_none() {
            let (port, next_hop) = (path.port, path.next_hop);
            self.neighbours.confirm(now, port, next_hop, counters);
        }
    }

    /// The peer did not acknowledge anything in time: the path may not work any more.
    pub fn doubt(&mut self, now: Instant, path: &Path) {
        if path.known.is_none() {
            self.neighbours.doubt(now, path.port, path.next_hop);
        }
    }

    /// A neighbour whose resolution has ended, and whether it answered. Whoever was told [`Resolution::Pending`] should ask again.
    pub fn poll_resolved(&mut self) -> Option<Ended> {
        self.resolved.pop_front()
    }

    /// Sends or drops what waited for neighbours whose resolution has ended.
    pub(crate) fn settle(&mut self, counters: &mut Counters) {
        while let Some(ended) = self.neighbours.pop_ended() {
            self.resolved.push_back(ended);
            while let Some(id) = self.packets.pop_waiting(ended.slot) {
                match ended.mac {
                    Some(mac) => {
                        output::address_frame(self.packets.bytes_mut(id), mac);
                        self.packets.send(ended.port, id);
                    }
                    None => {
                        counters.drop(Drop::NeighbourFailed);
                        self.packets.free(id);
                    }
                }
            }
        }
    }

    /// Fires what is due, a bounded number of timers; [`next_deadline`](Self::next_deadline) says if more are.
    pub fn advance(&mut self, now: Instant, counters: &mut Counters) {
        for _ in 0..MAX_TIMERS {
            let Some(due) = self.neighbours.pop_due(now, counters) else {
                break;
            };
            if let Some(question) = due {
                self.solicit(now, question, counters);
            }
            self.settle(counters);
        }
        for _ in 0..MAX_TIMERS {
            let Some(message) = self.claims.pop_due(now) else {
                break;
            };
            self.announce(now, message, counters);
        }
        for _ in 0..MAX_TIMERS {
            let Some(expired) = self.reassembler.pop_expired(now, counters) else {
                break;
            };
            if let Some(first) = expired {
                self.send_time_exceeded(now, &first, counters);
            }
        }
    }

    /// When [`advance`](Self::advance) wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadlines = [
            self.neighbours.next_deadline(),
            self.claims.next_deadline(),
            self.reassembler.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }
}
