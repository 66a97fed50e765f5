//! Everything below TCP: links, neighbours, IPv4, IPv6, ICMP and fragments, in one [`Net`].

mod address;
mod envelope;
mod fast;
mod input;
mod links;
mod output;
pub(crate) mod packet;
mod packets;
mod path;
mod pmtu;
pub(crate) mod reassemble;
mod route;
mod routing;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
mod ways;

use std::borrow::Cow;
use std::io;
use std::net::IpAddr;

use wire::frame::RxChecksum;
use wire::ip::Ecn;
use wire::quoted::QuotedTcp;
use wire::time::Instant;

use crate::config::Config;
use crate::counters::Counters;
use crate::error::Error;
use crate::flow::FlowKey;
use crate::icmp::{Errors, Refusals};

pub use address::{Addresses, is_host_address, link_local};
pub(crate) use envelope::headers_len;
pub use envelope::{Envelope, HOP_LIMIT, To};
pub use links::{Links, Resolution};
pub use packets::Class;
pub use path::Path;
pub use pmtu::LIFETIME;
pub(crate) use pmtu::PathMtus;

use reassemble::Reassembler;

/// Datagrams that [`Net::advance`] gives up at most in one call.
const MAX_TIMERS: usize = 256;

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

/// An ICMP error about a TCP segment whose source address is ours. Anybody can have sent it: TCP
/// must check that the quoted sequence number is outstanding (RFC 5927 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportError {
    /// The segment.
    pub quoted: QuotedTcp,
    /// What is wrong.
    pub kind: ErrorKind,
    /// With `TooBig`: the largest IP packet that passes, in bytes, as the router says, at least 68;
    /// guessed by the table of RFC 1191 §7.1 if it does not say. Never more than the packet that
    /// was too big.
    pub mtu: Option<u16>,
}

/// The network below TCP.
#[derive(Debug)]
pub struct Net {
    pub(crate) links: Links,
    pub(crate) paths: PathMtus,
    reassembler: Reassembler,
    errors: Errors,
}

impl Net {
    /// The interfaces, routes and static neighbours of `config`.
    ///
    /// # Errors
    /// One of them makes no sense (the text says which and why), or out of memory.
    pub fn new(config: &Config) -> io::Result<Self> {
        Ok(Self {
            links: Links::new(config)?,
            paths: PathMtus::new(&config.secret),
            reassembler: Reassembler::new(config.reassembly_bytes, config.reassembly_timeout),
            errors: Errors::new(config.reply_rate),
        })
    }

    /// Ours.
    #[inline]
    fn addresses(&self) -> &Addresses {
        self.links.addresses()
    }

    /// Whether `addr` is ours.
    pub fn is_local(&self, addr: IpAddr) -> bool {
        self.links.routing.is_local(addr)
    }

    /// See [`routing::Routing::path`].
    ///
    /// # Errors
    /// As there.
    pub fn path(&self, dst: IpAddr, src: Option<IpAddr>) -> Result<Path, Error> {
        self.links.routing.path(dst, src)
    }

    /// See [`routing::Routing::way_out`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn way_out(&mut self, dst: IpAddr, src: Option<IpAddr>) -> Result<&Path, Error> {
        self.links.routing.way_out(dst, src)
    }

    /// See [`routing::Routing::way_back`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn way_back(&mut self, key: &FlowKey) -> Result<&Path, Error> {
        self.links.routing.way_back(key)
    }

    /// See [`Links::resolve`].
    #[inline]
    pub fn resolve(&mut self, now: Instant, path: &Path, counters: &mut Counters) -> Resolution {
        self.links.resolve(now, path, counters)
    }

    /// What sends ICMP errors.
    pub(crate) fn errors<'a>(
        &'a mut self,
        now: Instant,
        counters: &'a mut Counters,
    ) -> Refusals<'a> {
        self.errors.about(&mut self.links, now, counters)
    }

    /// Fires what is due, a bounded number of timers; [`next_deadline`](Self::next_deadline) says
    /// if more are.
    pub fn advance(&mut self, now: Instant, counters: &mut Counters) {
        self.links.advance(now, counters);
        for _ in 0..MAX_TIMERS {
            let Some(expired) = self.reassembler.pop_expired(now, counters) else {
                break;
            };
            if let Some(first) = expired {
                self.errors(now, counters).time_exceeded(&first);
            }
        }
    }

    /// When [`advance`](Self::advance) wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        let (links, fragments) = (self.links.next_deadline(), self.reassembler.next_deadline());
        links.into_iter().chain(fragments).min()
    }
}
