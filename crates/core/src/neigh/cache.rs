//! The neighbour cache: states and timers of Neighbor Unreachability Detection (RFC 4861 §7.3), for
//! ARP too.
//!
//! Entries come into being only because we want to send to a neighbour. What others say, asked or
//! not, changes entries that exist and never makes one: a host that answers questions nobody asked
//! cannot fill or poison the cache with addresses that we do not use.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use wire::frame::MacAddr;
use wire::time::Instant;

use crate::arena::Slots;
use crate::counters::Counters;
use crate::id::PortId;
use crate::list::{Link, List};
use crate::neigh::guests::Guests;
use crate::wheel::Wheel;

mod kernel;
mod questions;
mod room;
mod state;

pub use kernel::{MAX_QUESTIONS, Told};
use questions::Questions;
pub use state::State;
use state::{CLASSES, Class, UNUSED};

/// REACHABLE_TIME (RFC 4861 §10); drawn anew from half to one and a half of it (§6.3.2).
const REACHABLE: Duration = Duration::from_secs(30);
/// RETRANS_TIMER (RFC 4861 §10). RFC 1122 §2.3.2.1: at most one ARP request per second and
/// destination. RFC 1122 §2.3.2-1; RFC 4861 §7.2.2-2.
const RETRANS: Duration = Duration::from_secs(1);
/// MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT (RFC 4861 §10).
/// RFC 4861 §7.2.2-3.
const MAX_SOLICIT: u8 = 3;
/// DELAY_FIRST_PROBE_TIME (RFC 4861 §10).
const DELAY_FIRST_PROBE: Duration = Duration::from_secs(5);
/// How long a neighbour that did not answer is not asked again.
const HOLD_DOWN: Duration = Duration::from_secs(3);
/// Places of the direct-mapped table in front of the hash table.
const RECENT: usize = 64;
/// The same of those that can be sent to.
const KNOWN: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Entry {
    addr: IpAddr,
    port: PortId,
    state: State,
    /// Solicitations sent in this state.
    probes: u8,
    mac: MacAddr,
    /// Last proof that it is reachable.
    confirmed: Instant,
    /// The last question about it.
    asked: Option<Instant>,
    /// A connection got on with it.
    proven: bool,
}

impl Entry {
    fn class(&self) -> Class {
        self.state.class(self.proven)
    }

    /// Whether we ever knew where it is.
    fn is_known(&self) -> bool {
        self.mac != MacAddr::default()
    }
}

/// The state of a neighbour for somebody who wants to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Its hardware address.
    Ready(MacAddr),
    /// It is being asked; the slot names it until then. If `solicit`, the first question is due
    /// now; else it was asked, or waits until that many questions may be asked.
    Pending {
        /// In the cache.
        slot: u32,
        /// Ask now.
        solicit: bool,
    },
    /// It does not answer, or there is no room to ask.
    Failed,
}

/// What a neighbour says about an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// The hardware address, if given.
    pub mac: Option<MacAddr>,
    /// It claims to answer a question of ours.
    pub solicited: bool,
    /// It replaces a hardware address known before.
    pub override_flag: bool,
}

/// A question to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// On this port.
    pub port: PortId,
    /// About this address.
    pub target: IpAddr,
    /// The hardware address to be confirmed; `None`: ask everybody.
    pub to: Option<MacAddr>,
}

/// Resolution of a neighbour has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whose place in the cache was, or is, `slot`.
    pub slot: u32,
    /// Its port.
    pub port: PortId,
    /// Its address.
    pub addr: IpAddr,
    /// Its hardware address; `None` if it did not answer.
    pub mac: Option<MacAddr>,
}

/// A neighbour that was asked for lately, and can be sent to without more ado.
#[derive(Clone, Copy, Debug)]
struct Known {
    port: PortId,
    addr: IpAddr,
    mac: MacAddr,
    slot: u32,
}

/// All neighbours that we have to do with.
pub struct Cache {
    slots: Slots,
    entries: Vec<Entry>,
    index: HashTable<u32>,
    hasher: SipHasher13,
    links: Vec<Link>,
    classes: [List; CLASSES],
    wheel: Wheel,
    recent: [u32; RECENT],
    /// Those asked for last: most segments go to few neighbours. Forgotten when anything about any
    /// neighbour changes but when it was confirmed.
    known: [Option<Known>; KNOWN],
    ended: VecDeque<Ended>,
    questions: Questions,
    guests: Guests,
    /// The kernel asks (`kernel`).
    kernel: bool,
    /// Those being asked.
    incomplete: u32,
    /// State of the generator of reachable times.
    jitter: u64,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = || {
            self.slots
                .iter()
                .filter_map(|slot| self.entries.get(slot as usize))
        };
        f.debug_list().entries(live()).finish()
    }
}

impl Cache {
    /// For at most `max` neighbours.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(max: u32, secret: &[u8; 32]) -> io::Result<Self> {
        let mut key = [0; 16];
        key.copy_from_slice(&secret[..16]);
        let hasher = SipHasher13::new_with_key(&key);
        let jitter = hasher.hash(b"neighbours") | 1;
        Ok(Self {
            slots: Slots::new(max)?,
            entries: Vec::new(),
            index: HashTable::new(),
            hasher,
            links: Vec::new(),
            classes: [List::new(); CLASSES],
            wheel: Wheel::new([max, 0, 0, 0])?,
            recent: [u32::MAX; RECENT],
            known: [None; KNOWN],
            ended: VecDeque::new(),
            questions: Questions::new(max),
            guests: Guests::default(),
            kernel: false,
            incomplete: 0,
            jitter,
        })
    }

    /// The hardware address of a neighbour that was asked for lately, if sending to it changes
    /// nothing here.
    #[inline]
    pub fn known(&self, port: PortId, addr: IpAddr) -> Option<MacAddr> {
        self.find_known(port, addr).map(|known| known.mac)
    }

    #[inline]
    fn find_known(&self, port: PortId, addr: IpAddr) -> Option<&Known> {
        let known = self.known[Self::hint(addr) % KNOWN].as_ref();
        known.filter(|known| known.addr == addr && known.port == port)
    }

    fn forget_known(&mut self) {
        self.known = [None; KNOWN];
    }

    /// The hardware address of a neighbour that we want to send to; starts asking for it if it is
    /// unknown.
    pub fn resolve(
        &mut self,
        now: Instant,
        port: PortId,
        addr: IpAddr,
        counters: &mut Counters,
    ) -> Lookup {
        let found = self.find(port, addr);
        if self.guests.are_noted()
            && let Some(mac) = self.find_guest(now, port, addr, found)
        {
            return Lookup::Ready(mac);
        }
        let Some(slot) = found else {
            return self.begin(now, port, addr, counters);
        };
        let entry = &self.entries[slot as usize];
        match entry.state {
            State::Reachable | State::Delay | State::Probe => {
                let mac = entry.mac;
                self.known[Self::hint(addr) % KNOWN] = Some(Known {
                    port,
                    addr,
                    mac,
                    slot,
                });
                Lookup::Ready(mac)
            }
            State::Stale => {
                let mac = entry.mac;
                // RFC 4861 §7.3.3: the first packet after a pause starts the wait for a sign of
                // life.
                self.set_state(slot, State::Delay);
                let wait = if self.kernel {
                    Duration::ZERO
                } else {
                    DELAY_FIRST_PROBE
                };
                self.wheel.schedule(slot, now + wait);
                Lookup::Ready(mac)
            }
            State::Incomplete => Lookup::Pending {
                slot,
                solicit: false,
            },
            State::Failed => Lookup::Failed,
        }
    }

    /// Whether this is the hardware address that the neighbour has, as far as we know.
    pub fn has(&mut self, port: PortId, addr: IpAddr, mac: MacAddr) -> bool {
        self.find(port, addr)
            .is_some_and(|slot| self.entries[slot as usize].mac == mac)
    }

    /// Something from the neighbour proves that our packets reach it (RFC 4861 §7.3.1).
    /// RFC 4861 §7.3.3-1.
    pub fn confirm(&mut self, now: Instant, port: PortId, addr: IpAddr, counters: &mut Counters) {
        let known = self.find_known(port, addr).map(|known| known.slot);
        let mut slot = known.or_else(|| self.find(port, addr));
        if self.guests.are_noted() {
            slot = self.confirm_guest(now, port, addr, slot, counters);
        }
        let Some(slot) = slot else {
            return;
        };
        let entry = &mut self.entries[slot as usize];
        if !entry.proven && entry.is_known() {
            self.prove(slot);
        }
        let entry = &mut self.entries[slot as usize];
        match entry.state {
            // The timer looks at this when it fires.
            State::Reachable => entry.confirmed = now,
            State::Stale | State::Delay | State::Probe => self.set_reachable(now, slot),
            State::Incomplete | State::Failed => {}
        }
    }

    /// A connection over the neighbour had a time-out: it may have moved. It is asked at once,
    /// unless something came through it within the last second (RFC 4861 §7.3.1: what the layers
    /// above know).
    pub fn suspect(&mut self, now: Instant, port: PortId, addr: IpAddr) {
        let Some(slot) = self.find(port, addr) else {
            return;
        };
        let entry = &self.entries[slot as usize];
        let in_use = matches!(entry.state, State::Reachable | State::Stale | State::Delay);
        let alive = entry.state == State::Reachable && now.since(entry.confirmed) < RETRANS;
        if !in_use || alive {
            return;
        }
        let next = entry.asked.map_or(now, |asked| now.max(asked + RETRANS));
        self.set_state(slot, State::Probe);
        self.entries[slot as usize].probes = 0;
        self.wheel.schedule(slot, next);
    }

    /// A neighbour said something about its own address: RFC 4861 §7.2.5, step by step; RFC 826 in
    /// its terms. False if the address means nothing to us.
    ///
    /// Stricter in one point: an answer counts as solicited only while a question is open, so that
    /// an invented one cannot make a changed hardware address reachable without a probe.
    /// RFC 4861 §7.2.5-1.
    pub fn advertise(
        &mut self,
        now: Instant,
        port: PortId,
        addr: IpAddr,
        what: Advertisement,
    ) -> bool {
        let Some(slot) = self.find(port, addr) else {
            return false;
        };
        self.forget_known();
        let entry = &mut self.entries[slot as usize];
        let changed = what.mac.is_some_and(|mac| mac != entry.mac);
        match entry.state {
            State::Failed | State::Incomplete => {
                let Some(mac) = what.mac else { return false };
                self.learn(now, slot, mac, what.solicited);
            }
            // Step I: not to be replaced; doubt what was known.
            State::Reachable if changed && !what.override_flag => {
                self.set_stale(slot);
            }
            _ if changed && !what.override_flag => {}
            // Step II.
            state => {
                if let Some(mac) = what.mac {
                    entry.mac = mac;
                }
                if what.solicited && (!changed || state == State::Probe) {
                    self.set_reachable(now, slot);
                } else if changed {
                    self.set_stale(slot);
                }
            }
        }
        true
    }

    /// A neighbour asked us, and said its hardware address with it (RFC 4861 §7.2.3; RFC 826
    /// likewise): whoever asks is about to send, so an entry is made if there is none. It starts as
    /// stale, and only takes the place of entries that are not in use, so that invented neighbours
    /// cannot push out real ones.
    pub fn on_solicitation(
        &mut self,
        now: Instant,
        port: PortId,
        addr: IpAddr,
        mac: MacAddr,
        counters: &mut Counters,
    ) {
        let advertisement = Advertisement {
            mac: Some(mac),
            solicited: false,
            override_flag: true,
        };
        if self.advertise(now, port, addr, advertisement) {
            return;
        }
        if let Some(slot) = self.create(now, port, addr, &UNUSED, counters) {
            self.entries[slot as usize].mac = mac;
            self.set_stale(slot);
        }
    }

    /// The next question that is due, at most one per call. `Some(None)`: a timer fired without
    /// one.
    pub fn pop_due(
        &mut self,
        now: Instant,
        counters: &mut Counters,
    ) -> Option<Option<Solicitation>> {
        let slot = self.wheel.pop_due(now)?;
        let Some(&entry) = self.entries.get(slot as usize) else {
            return Some(None);
        };
        Some(match entry.state {
            State::Delay | State::Probe if self.kernel => Some(self.remind(now, slot)),
            State::Incomplete | State::Probe if entry.probes < MAX_SOLICIT => {
                self.solicit(now, slot, entry.state)
            }
            State::Incomplete => {
                self.fail(now, slot, counters);
                None
            }
            State::Delay => self.solicit(now, slot, State::Probe),
            // Before giving up, ask everybody: another host or another interface may have the
            // address now.
            State::Probe => self.solicit(now, slot, State::Incomplete),
            State::Reachable => self.check_reachable(now, slot),
            State::Failed => {
                self.remove(slot);
                None
            }
            State::Stale => None,
        })
    }

    /// Resolutions that have ended since the last call.
    pub fn pop_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// When [`pop_due`](Self::pop_due) wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    /// The state of a neighbour.
    #[cfg(test)]
    pub fn state(&self, port: PortId, addr: IpAddr) -> Option<(State, MacAddr)> {
        let slot = self.slots.iter().find(|&slot| self.is(slot, port, addr))?;
        self.entries
            .get(slot as usize)
            .map(|entry| (entry.state, entry.mac))
    }

    /// Neighbours in the cache.
    #[cfg(test)]
    pub fn len(&self) -> u32 {
        self.slots.len()
    }

    // Everything below takes slots that `find` or `create` returned, or that a timer was set for:
    // they are live.

    fn solicit(&mut self, now: Instant, slot: u32, state: State) -> Option<Solicitation> {
        if self.entries[slot as usize].state != state {
            self.set_state(slot, state);
            self.entries[slot as usize].probes = 0;
        }
        self.wheel.schedule(slot, now + RETRANS);
        if !self.may_ask(now, slot) {
            return None;
        }
        let entry = &self.entries[slot as usize];
        let to = (state == State::Probe).then_some(entry.mac);
        Some(Solicitation {
            port: entry.port,
            target: entry.addr,
            to,
        })
    }

    /// RFC 1122 §2.3.2-2.
    fn check_reachable(&mut self, now: Instant, slot: u32) -> Option<Solicitation> {
        // Confirmations do not move the timer: it is corrected when it fires.
        let until = self.entries[slot as usize].confirmed + self.reachable_time();
        if until <= now {
            self.set_stale(slot);
            return None;
        }
        let reminder = self.kernel.then(|| self.remind(now, slot));
        self.wheel.schedule(slot, until);
        reminder
    }

    fn learn(&mut self, now: Instant, slot: u32, mac: MacAddr, solicited: bool) {
        let entry = &mut self.entries[slot as usize];
        let was_asked = entry.state == State::Incomplete;
        entry.mac = mac;
        let (port, addr) = (entry.port, entry.addr);
        if was_asked {
            self.ended.push_back(Ended {
                slot,
                port,
                addr,
                mac: Some(mac),
            });
        }
        if was_asked && solicited {
            self.set_reachable(now, slot);
        } else {
            self.set_stale(slot);
        }
    }

    fn fail(&mut self, now: Instant, slot: u32, counters: &mut Counters) {
        counters.neighbour_failures += 1;
        let Entry { port, addr, .. } = self.entries[slot as usize];
        self.ended.push_back(Ended {
            slot,
            port,
            addr,
            mac: None,
        });
        self.set_state(slot, State::Failed);
        let until = now + self.hold_down();
        self.wheel.schedule(slot, until);
    }

    fn set_reachable(&mut self, now: Instant, slot: u32) {
        self.set_state(slot, State::Reachable);
        self.entries[slot as usize].confirmed = now;
        let until = now + self.reachable_time();
        self.wheel.schedule(slot, until);
    }

    fn set_stale(&mut self, slot: u32) {
        self.set_state(slot, State::Stale);
        self.wheel.cancel(slot);
    }

    fn set_state(&mut self, slot: u32, state: State) {
        self.forget_known();
        let old = self.entries[slot as usize].class();
        self.entries[slot as usize].state = state;
        self.reclass(slot, old);
    }

    /// RFC 4861 §6.3.2.
    fn reachable_time(&mut self) -> Duration {
        // xorshift64: only to keep neighbours from being probed all at once.
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        let millis = REACHABLE.as_millis() as u64;
        Duration::from_millis(millis / 2 + self.jitter % millis)
    }

    /// The place in `recent`: cheap, and no harm if many share one.
    fn hint(addr: IpAddr) -> usize {
        let low = match addr {
            IpAddr::V4(v4) => v4.octets()[3],
            IpAddr::V6(v6) => v6.octets()[15],
        };
        usize::from(low) % RECENT
    }

    fn is(&self, slot: u32, port: PortId, addr: IpAddr) -> bool {
        self.entries
            .get(slot as usize)
            .is_some_and(|entry| entry.addr == addr && entry.port == port)
    }

    fn find(&mut self, port: PortId, addr: IpAddr) -> Option<u32> {
        let hint = Self::hint(addr);
        let recent = self.recent[hint];
        if self.is(recent, port, addr) && self.slots.is_live(recent, self.slots.generation(recent))
        {
            return Some(recent);
        }
        let slot = *self.index.find(hash(&self.hasher, port, addr), |&slot| {
            self.is(slot, port, addr)
        })?;
        self.recent[hint] = slot;
        Some(slot)
    }
}

fn hash(hasher: &SipHasher13, port: PortId, addr: IpAddr) -> u64 {
    let mut input = [0; 17];
    input[0] = port.0;
    match addr {
        IpAddr::V4(v4) => input[1..].copy_from_slice(&v4.to_ipv6_mapped().octets()),
        IpAddr::V6(v6) => input[1..].copy_from_slice(&v6.octets()),
    }
    hasher.hash(&input)
}

#[cfg(test)]
mod tests;
