//! The path part of a connection as its behaviour sees it: borrowed for one step.

use std::net::IpAddr;

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::command::Options;
use crate::config::Config;
use crate::counters::Counters;
use crate::id::PortId;
use crate::ip::PathMtus;
use crate::tcp::flags::PathFlags;
use crate::tcp::options::effective_mss;
use crate::tcp::path::state::PathSearch;

/// What the path part may read of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathView<'a> {
    pub flags: PathFlags,
    pub config: &'a Config,
    pub options: &'a Options,
    /// Where packets leave.
    pub port: PortId,
    /// The host at the other end.
    pub dst: IpAddr,
    pub snd_una: SeqNumber,
    pub snd_nxt: SeqNumber,
    /// Congestion window, bytes.
    pub cwnd: u32,
    /// MSS option of the peer, or the default.
    pub peer_mss: u16,
    /// Time-outs in a row.
    pub retries: u8,
}

/// State of the path part, and what it needs of everything else.
#[derive(Debug)]
pub(crate) struct PathPart<'a> {
    pub search: &'a mut PathSearch,
    /// The MTU in use, bytes: packets are no larger, but for probes.
    pub mtu: &'a mut u16,
    /// Eff.snd.MSS, which follows from the MTU, bytes.
    pub mss: &'a mut u16,
    /// What all connections know of the paths to hosts.
    pub paths: &'a mut PathMtus,
    pub counters: &'a mut Counters,
    pub view: PathView<'a>,
}

impl PathView<'_> {
    pub(super) fn is_ipv4(&self) -> bool {
        self.dst.is_ipv4()
    }

    /// Sequence numbers sent and not acknowledged.
    pub(super) fn flight(&self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    /// The MTU of the link, if the port has one.
    fn link_mtu(&self) -> Option<u16> {
        let interface = self.config.interfaces.get(usize::from(self.port.0))?;
        Some(interface.capabilities.mtu)
    }

    /// The payload of a segment in a packet of `mtu` bytes.
    pub(super) fn mss_for(&self, mtu: u16) -> u16 {
        effective_mss(
            self.config,
            self.peer_mss,
            mtu,
            self.is_ipv4(),
            self.flags.contains(PathFlags::TIMESTAMPS),
            self.options,
        )
    }
}

impl PathPart<'_> {
    /// Makes segments as large as path, peer and options let them be.
    /// RFC 1191 §6.4-2.
    pub fn fit_segments(&mut self) {
        *self.mss = self.view.mss_for(*self.mtu);
    }

    /// Takes what other connections have found out, if that is a smaller size. True if it is.
    pub fn adopt(&mut self, now: Instant) -> bool {
        let known = self.paths.find(now, self.view.dst);
        match known.filter(|known| known.mtu < *self.mtu) {
            Some(known) => {
                self.limit(known.mtu, known.until);
                true
            }
            None => false,
        }
    }

    /// Packets have at most `mtu` bytes from now on. A larger one is tried at `next_at`.
    pub(super) fn limit(&mut self, mtu: u16, next_at: Instant) {
        *self.search = PathSearch::until(self.link_mtu(), next_at);
        *self.mtu = mtu;
        self.fit_segments();
    }

    /// Tells other connections of the MTU in use.
    pub(super) fn learn(&mut self, now: Instant) {
        self.paths.learn(now, self.view.dst, *self.mtu);
    }

    pub(super) fn link_mtu(&self) -> u16 {
        self.view.link_mtu().unwrap_or(*self.mtu)
    }

    /// Whether a segment as large as those in use has been acknowledged.
    pub(super) fn is_size_proven(&self) -> bool {
        self.search.is_size_proven(self.view.snd_una)
    }
}
