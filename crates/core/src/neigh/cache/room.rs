//! Room in the cache and questions to the link: both are bounded, whoever makes us want to send.
//!
//! A flood from invented neighbours has us ask for each of them. It gets a share of the cache and
//! so many questions a second; it delays nobody who is known, and asks nobody more often than once
//! a second.

use std::net::IpAddr;
use std::time::Duration;

use wire::frame::MacAddr;
use wire::time::Instant;

use crate::counters::Counters;
use crate::id::PortId;
use crate::list::Link;

use super::state::{Class, UNPROVEN, UNUSED};
use super::{Cache, Entry, Lookup, RETRANS, State, hash};

/// How long silent connections keep their neighbour.
const SILENCE: Duration = Duration::from_secs(600);

impl Cache {
    /// Takes a question about a neighbour, if one may be asked now.
    /// RFC 1122 §2.3.2-1; RFC 4861 §7.2.2-2.
    pub(super) fn may_ask(&mut self, now: Instant, slot: u32) -> bool {
        let entry = &mut self.entries[slot as usize];
        let limit = match (entry.state, entry.is_known()) {
            // One host hears it, which we know.
            (State::Probe, _) => None,
            (_, true) => Some(&mut self.questions.known),
            (_, false) => Some(&mut self.questions.unknown),
        };
        let allowed = limit.is_none_or(|limit| limit.allow(now));
        if allowed {
            entry.probes += 1;
            entry.asked = Some(now);
        }
        allowed
    }

    /// Begins to ask for a neighbour, as far as that many may be asked for.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        port: PortId,
        addr: IpAddr,
        counters: &mut Counters,
    ) -> Lookup {
        let Some(slot) = self.create_unknown(now, port, addr, counters) else {
            self.guests.expect(now);
            return Lookup::Failed;
        };
        let solicit = self.may_ask(now, slot);
        if !solicit {
            self.guests.expect(now);
        }
        Lookup::Pending { slot, solicit }
    }

    /// Whether frames that come are to be noted.
    #[inline(always)]
    pub fn notes_guests(&self) -> bool {
        self.guests.are_noted()
    }

    /// A frame from `mac` brought a packet of `addr`.
    #[cold]
    pub fn note_guest(&mut self, now: Instant, port: PortId, addr: IpAddr, mac: MacAddr) {
        let hash = hash(&self.hasher, port, addr);
        self.guests.note(now, hash, port, addr, mac);
    }

    /// Where a neighbour is that nobody was asked about, who is in `slot`, if anywhere.
    #[cold]
    pub(super) fn find_guest(
        &self,
        now: Instant,
        port: PortId,
        addr: IpAddr,
        slot: Option<u32>,
    ) -> Option<MacAddr> {
        let is_stranger = slot.is_none_or(|slot| {
            let entry = &self.entries[slot as usize];
            entry.state == State::Incomplete && entry.asked.is_none()
        });
        let hash = hash(&self.hasher, port, addr);
        let place = || self.guests.find(now, hash, port, addr);
        is_stranger.then(place).flatten()
    }

    /// A peer acknowledged what was sent to where its frames come from: it is there. Its entry, if
    /// there is room for one.
    #[cold]
    pub(super) fn confirm_guest(
        &mut self,
        now: Instant,
        port: PortId,
        addr: IpAddr,
        slot: Option<u32>,
        counters: &mut Counters,
    ) -> Option<u32> {
        let Some(mac) = self.find_guest(now, port, addr, slot) else {
            return slot;
        };
        let slot = slot.or_else(|| self.create(now, port, addr, &UNUSED, counters))?;
        self.learn(now, slot, mac, true);
        Some(slot)
    }

    /// A connection got on with a neighbour: others cannot take its place.
    #[cold]
    pub(super) fn prove(&mut self, slot: u32) {
        let old = self.entries[slot as usize].class();
        self.entries[slot as usize].proven = true;
        self.reclass(slot, old);
    }

    /// Moves an entry from the list of class `old` to that of its own.
    pub(super) fn reclass(&mut self, slot: u32, old: Class) {
        let class = self.entries[slot as usize].class();
        self.classes[old as usize].remove(&mut self.links, slot);
        self.classes[class as usize].push_back(&mut self.links, slot);
        match (old == Class::Incomplete, class == Class::Incomplete) {
            (false, true) => self.incomplete += 1,
            (true, false) => self.incomplete -= 1,
            _ => {}
        }
    }

    /// An entry for a neighbour to be asked; `None`: there is no room for more such.
    pub(super) fn create_unknown(
        &mut self,
        now: Instant,
        port: PortId,
        addr: IpAddr,
        counters: &mut Counters,
    ) -> Option<u32> {
        if self.incomplete >= self.questions.places {
            return None;
        }
        self.create(now, port, addr, &UNPROVEN, counters)
    }

    /// An entry that is [`State::Incomplete`] and was not asked yet, if need be in the place of one
    /// of `victims`.
    pub(super) fn create(
        &mut self,
        now: Instant,
        port: PortId,
        addr: IpAddr,
        victims: &[Class],
        counters: &mut Counters,
    ) -> Option<u32> {
        let slot = match self.slots.alloc() {
            Some(slot) => slot,
            None => {
                self.evict(now, victims, counters)?;
                self.slots.alloc()?
            }
        };
        let entry = Entry {
            addr,
            port,
            state: State::Incomplete,
            probes: 0,
            mac: MacAddr::default(),
            confirmed: now,
            asked: None,
            proven: false,
        };
        match self.entries.get_mut(slot as usize) {
            Some(old) => *old = entry,
            None => {
                self.entries.push(entry);
                self.links.push(Link::NEW);
            }
        }
        let Self {
            index,
            entries,
            hasher,
            ..
        } = self;
        let rehash = |&slot: &u32| {
            entries
                .get(slot as usize)
                .map_or(0, |entry| hash(hasher, entry.port, entry.addr))
        };
        index.insert_unique(hash(hasher, port, addr), slot, rehash);
        self.classes[Class::Incomplete as usize].push_back(&mut self.links, slot);
        self.incomplete += 1;
        self.wheel.schedule(slot, now + RETRANS);
        Some(slot)
    }

    /// Makes room, if anybody may go.
    fn evict(&mut self, now: Instant, victims: &[Class], counters: &mut Counters) -> Option<()> {
        let slot = victims
            .iter()
            .find_map(|&class| self.longest_in(class, now))?;
        self.remove(slot);
        counters.neighbour_evictions += 1;
        Some(())
    }

    /// Who has been in `class` longest, if it may go: not within a second of a question about it,
    /// which could be asked again.
    fn longest_in(&self, class: Class, now: Instant) -> Option<u32> {
        let slot = self.classes[class as usize].front()?;
        let entry = &self.entries[slot as usize];
        let settled = entry.asked.is_none_or(|asked| now.since(asked) >= RETRANS);
        let silent = class != Class::Idle || now.since(entry.confirmed) >= SILENCE;
        (settled && silent).then_some(slot)
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let entry = self.entries[slot as usize];
        self.forget_known();
        self.wheel.cancel(slot);
        self.classes[entry.class() as usize].remove(&mut self.links, slot);
        self.incomplete -= u32::from(entry.class() == Class::Incomplete);
        let hash = hash(&self.hasher, entry.port, entry.addr);
        if let Ok(found) = self.index.find_entry(hash, |&other| other == slot) {
            found.remove();
        }
        self.slots.free(slot);
    }
}
