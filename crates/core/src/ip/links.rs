//! The links: who is where on them, and what the stack itself has to send there.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;

use wire::frame::MacAddr;
use wire::time::Instant;

use crate::config::{Config, NeighbourSource};
use crate::counters::Counters;
use crate::drops::DropReason;
use crate::id::PortId;
use crate::neigh::announce::Claims;
use crate::neigh::cache::{Cache, Ended, Lookup, Solicitation, Told};

use super::address::Addresses;
use super::packets::Packets;
use super::path::Path;
use super::routing::Routing;

/// Timers that [`Links::advance`] fires at most in one call, of each kind.
const MAX_TIMERS: usize = 256;

/// What is known of the hardware address of a path's next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Send there.
    Ready(MacAddr),
    /// Being asked, in this place of the neighbour cache; [`Links::poll_resolved`] will tell.
    Pending(u32),
    /// It does not answer, and will not be asked again for a few seconds.
    Failed,
}

/// Neighbours, our claims to our addresses, and packets of the stack's own.
#[derive(Debug)]
pub struct Links {
    pub(crate) routing: Routing,
    pub(crate) neighbours: Cache,
    pub(crate) claims: Claims,
    pub(super) packets: Packets,
    pub(super) resolved: VecDeque<Ended>,
    max_resolved: usize,
    /// Neighbours that the kernel is to be asked for, if it asks.
    pub(crate) for_kernel: Option<VecDeque<(PortId, IpAddr)>>,
}

impl Links {
    /// Those of `config`.
    ///
    /// # Errors
    /// As [`Routing::new`], or out of memory.
    pub fn new(config: &Config) -> io::Result<Self> {
        let routing = Routing::new(config)?;
        let mut neighbours = Cache::new(config.max_neighbours, &config.secret)?;
        let is_kernel = config.neighbour_source == NeighbourSource::Kernel;
        if is_kernel {
            neighbours.leave_to_kernel();
        }
        let claims = match config.host_addresses {
            true => Claims::none(),
            false => Claims::new(&routing.addresses),
        };
        Ok(Self {
            neighbours,
            claims,
            for_kernel: is_kernel.then(VecDeque::new),
            packets: Packets::new(routing.addresses.ports(), config.max_neighbours)?,
            resolved: VecDeque::new(),
            max_resolved: (config.max_neighbours as usize).saturating_mul(4),
            routing,
        })
    }

    /// Ours.
    #[inline]
    pub(crate) fn addresses(&self) -> &Addresses {
        &self.routing.addresses
    }

    /// The hardware address of the path's next hop, which is asked for if it is not known. Cheap
    /// when it is.
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

    pub(super) fn lookup(
        &mut self,
        now: Instant,
        port: PortId,
        next_hop: IpAddr,
        counters: &mut Counters,
    ) -> Lookup {
        match self.routing.static_neighbour(port, next_hop) {
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
        if self.resolved.len() >= self.max_resolved || next_hop.is_unspecified() {
            // Nobody asks how resolutions ended; starting more would lose some of the answers.
            // Or no route leads anywhere.
            return Lookup::Failed;
        }
        let lookup = self.neighbours.resolve(now, port, next_hop, counters);
        self.settle(counters);
        if let Lookup::Pending { solicit: true, .. } = lookup {
            let question = Solicitation {
                port,
                target: next_hop,
                to: None,
            };
            self.solicit(now, question, counters);
        }
        lookup
    }

    /// The peer acknowledged something new: the path works (RFC 4861 §7.3.1).
    pub fn confirm(&mut self, now: Instant, path: &Path, counters: &mut Counters) {
        if path.known.is_none() {
            let (port, next_hop) = (path.port, path.next_hop);
            self.neighbours.confirm(now, port, next_hop, counters);
        }
    }

    /// The peer did not acknowledge anything in time: the path may not work any more.
    pub fn suspect(&mut self, now: Instant, path: &Path) {
        if path.known.is_none() {
            self.neighbours.suspect(now, path.port, path.next_hop);
        }
    }

    /// The kernel said something of a neighbour.
    #[cold]
    pub fn hear(
        &mut self,
        now: Instant,
        of: (PortId, IpAddr),
        told: Told,
        counters: &mut Counters,
    ) {
        self.neighbours.hear(now, of, told, counters);
        self.settle(counters);
    }

    /// A neighbour that the kernel is to be asked for.
    pub fn poll_question(&mut self) -> Option<(PortId, IpAddr)> {
        self.for_kernel.as_mut()?.pop_front()
    }

    /// A neighbour whose resolution has ended, and whether it answered. Whoever was told
    /// [`Resolution::Pending`] should ask again.
    pub fn poll_resolved(&mut self) -> Option<Ended> {
        self.resolved.pop_front()
    }

    /// Sends or drops what waited for neighbours whose resolution has ended.
    pub(crate) fn settle(&mut self, counters: &mut Counters) {
        while let Some(ended) = self.neighbours.pop_ended() {
            self.resolved.push_back(ended);
            while let Some(id) = self.packets.pop_waiting(ended.slot) {
                match ended.mac {
                    Some(mac) => self.packets.send_to(ended.port, mac, id),
                    None => {
                        counters.drop(DropReason::NeighbourFailed);
                        self.packets.free(id);
                    }
                }
            }
        }
    }

    /// Fires what is due, a bounded number of timers; [`next_deadline`](Self::next_deadline) says
    /// if more are.
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
    }

    /// When [`advance`](Self::advance) wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        let (neighbours, claims) = (self.neighbours.next_deadline(), self.claims.next_deadline());
        neighbours.into_iter().chain(claims).min()
    }
}
