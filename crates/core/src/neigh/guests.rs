//! Where frames of strangers came from, while more neighbours want to be known than may be asked
//! for.
//!
//! A flood from invented neighbours of ours uses up the questions (`cache`), and whoever is new and
//! real would wait with the invented ones. What such a neighbour sent says where it is: an answer
//! goes back to the hardware address that its packet came from, which costs the link no more than
//! the packet did, and asks nobody. Only in that time, and only to who was not asked for: ARP and
//! Neighbor Discovery are how addresses are resolved (RFC 1122 §2.3.2, RFC 4861 §7.2). A peer that
//! acknowledges what it was sent that way has proven that it is there (RFC 4861 §7.3.1), and is a
//! neighbour like others from then on.

use std::net::IpAddr;
use std::time::Duration;

use wire::frame::MacAddr;
use wire::time::Instant;

use crate::id::PortId;

/// Strangers that are remembered; a newer one takes the place of one before.
const PLACES: usize = 4_096;
/// How long what a frame said counts.
const FRESH: Duration = Duration::from_secs(3);
/// How long questions are taken to be short after one could not be asked.
const SHORT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
struct Guest {
    port: PortId,
    addr: IpAddr,
    mac: MacAddr,
    came: Instant,
}

/// Strangers, and whether anybody notes them.
#[derive(Debug, Default)]
pub(super) struct Guests {
    /// None until they are needed for the first time.
    places: Vec<Option<Guest>>,
    open: bool,
    until: Instant,
}

impl Guests {
    /// Whether they are noted.
    #[inline(always)]
    pub fn are_noted(&self) -> bool {
        self.open
    }

    /// A question could not be asked.
    #[cold]
    pub fn expect(&mut self, now: Instant) {
        if self.places.is_empty() && self.places.try_reserve_exact(PLACES).is_ok() {
            self.places.resize(PLACES, None);
        }
        self.open = !self.places.is_empty();
        self.until = now + SHORT;
    }

    /// A frame came from `mac`, with a packet of `addr`. `hash` is that of both ends' places.
    #[cold]
    pub fn note(&mut self, now: Instant, hash: u64, port: PortId, addr: IpAddr, mac: MacAddr) {
        self.open = now < self.until;
        let guest = Guest {
            port,
            addr,
            mac,
            came: now,
        };
        if let Some(place) = self.places.get_mut(hash as usize % PLACES) {
            *place = Some(guest);
        }
    }

    /// Where `addr` is, if it said so lately.
    #[cold]
    pub fn find(&self, now: Instant, hash: u64, port: PortId, addr: IpAddr) -> Option<MacAddr> {
        let guest = self.places.get(hash as usize % PLACES)?.as_ref()?;
        let is_it = guest.addr == addr && guest.port == port && now.since(guest.came) < FRESH;
        is_it.then_some(guest.mac)
    }
}
