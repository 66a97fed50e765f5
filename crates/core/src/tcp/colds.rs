//! Where the [`Cold`] parts of control blocks are: at hand, or packed while their connections idle.
//!
//! The ones at hand take turns to be looked at, the one that waits longest first; one whose connection has been idle for a while is packed.
//! As long as there are not many of them, nobody looks.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use ring::prefetch::prefetch;
use ring::region::{Column, PagePolicy};
use wire::time::Instant;

use crate::arena::Slots;
use crate::config::Config;
use crate::flow::FlowKey;
use crate::list::{Link, List};
use crate::side_pool::SidePool;
use crate::tcp::asleep::{Asleep, Counted, Rest, is_idle};
use crate::tcp::conn::{place, set};
use crate::tcp::open;
use crate::tcp::shared::{Shared, page_policy};
use crate::tcp::tally::{Few, Tally};
use crate::tcp::tcb::{Cold, Hot};

/// In a place: the index is that of a packed record.
const PACKED: u32 = 1 << 31;
/// The place of a connection that is no more.
const NOWHERE: u32 = PACKED - 1;
/// Looked at per call, besides one for each that is new.
const LOOKS: u32 = 8;
/// As long as there are new ones, no more looks than this are in vain: each may be at memory that is far away.
const VAIN_LOOKS: u32 = 2;
/// How long a connection idles before it is packed: longer than what comes at intervals of a round trip or two, and most timers.
const QUIET: Duration = Duration::from_millis(256);
/// When to go on packing, if nothing else is to be done.
const PAUSE: Duration = Duration::from_millis(1);
/// Most next hops, besides the peers themselves, that packed records can name.
const MOST_GATEWAYS: usize = u8::MAX as usize;

/// What a look at one of them found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Active,
    /// It will be packed when it has been idle for longer.
    Young,
    Packed,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Colds {
    /// By slot of the connection: where it is.
    places: Column<u32>,
    at_hand: Column<Cold>,
    /// What a place is filled with before its first connection.
    blank: Cold,
    slots: Slots,
    /// Whose each one at hand is.
    owners: Vec<u32>,
    /// Those at hand, the one looked at longest ago first.
    turns: List,
    links: Vec<Link>,
    packed: SidePool<Asleep>,
    /// Of packed ones, what is too much to be packed.
    tallies: SidePool<Tally>,
    gateways: Vec<IpAddr>,
    /// With no more at hand than this, nothing is packed.
    at_ease: u32,
    /// Taken since they were last looked at.
    fresh: u32,
    /// When it was last looked, and when to look again.
    looked_at: Instant,
    look_at: Option<Instant>,
}

impl Colds {
    pub fn new(config: &Config) -> io::Result<Self> {
        let max = config.max_connections;
        let pages = page_policy(config);
        let (mut owners, mut links) = (Vec::new(), Vec::new());
        owners.try_reserve_exact(max as usize)?;
        links.try_reserve_exact(max as usize)?;
        Ok(Self {
            places: Column::with_capacity(max as usize, PagePolicy::Small)?,
            at_hand: Column::with_capacity(max as usize, pages)?,
            blank: open::blank(config).1,
            slots: Slots::new(max)?,
            owners,
            turns: List::new(),
            links,
            packed: SidePool::new(max)?,
            tallies: SidePool::new(max)?,
            gateways: Vec::new(),
            at_ease: config.max_awake,
            fresh: 0,
            looked_at: Instant::ZERO,
            look_at: None,
        })
    }

    /// A place for that of a connection in `slot`, which has none. There are as many as slots.
    pub fn put(&mut self, slot: u32) -> Option<&mut Cold> {
        let index = self.slots.alloc()?;
        match self.owners.get_mut(index as usize) {
            Some(owner) => *owner = slot,
            None => {
                self.owners.push(slot);
                self.links.push(Link::NEW);
            }
        }
        self.turns.push_back(&mut self.links, index);
        self.fresh += 1;
        set(&mut self.places, slot, &index);
        place(&mut self.at_hand, index, &self.blank)
    }

    /// The connection in `slot` is no more.
    pub fn free(&mut self, slot: u32) {
        let Some(entry) = self.places.get_mut(slot as usize) else {
            return;
        };
        let place = std::mem::replace(entry, NOWHERE);
        if place & PACKED != 0 {
            if let Some(record) = self.packed.at(place ^ PACKED) {
                self.forget_tally(record.counted);
            }
            self.packed.free(place ^ PACKED);
        } else if self.slots.free(place) {
            self.turns.remove(&mut self.links, place);
        }
    }

    pub fn prefetch(&self, slot: u32) {
        if let Some(&place) = self.places.get(slot as usize)
            && let Some(cold) = self.at_hand.get(place as usize)
        {
            // Every segment is counted.
            prefetch(&cold.tally.segments_in);
        }
    }

    /// That of the connection `key` in `slot` with this `hot` part, unpacked if it is not at hand.
    pub fn at_mut(
        &mut self,
        slot: u32,
        hot: &Hot,
        key: &FlowKey,
        sh: &Shared,
    ) -> Option<&mut Cold> {
        let place = *self.places.get(slot as usize)?;
        let place = if place & PACKED == 0 {
            place
        } else {
            self.unpack(slot, hot, key, sh)?
        };
        self.at_hand.get_mut(place as usize)
    }

    #[cold]
    #[inline(never)]
    fn unpack(&mut self, slot: u32, hot: &Hot, key: &FlowKey, sh: &Shared) -> Option<u32> {
        let place = self.places.get(slot as usize)? ^ PACKED;
        let record = *self.packed.at(place)?;
        let cold = self.cold_of(self.looked_at, &record, hot, key, sh);
        self.free(slot);
        *self.put(slot)? = cold;
        self.look_at.get_or_insert(self.looked_at + QUIET);
        self.places.get(slot as usize).copied()
    }

    fn cold_of(
        &self,
        now: Instant,
        record: &Asleep,
        hot: &Hot,
        key: &FlowKey,
        sh: &Shared,
    ) -> Cold {
        let gateway = usize::from(record.via).checked_sub(1);
        let gateway = gateway.and_then(|index| self.gateways.get(index)).copied();
        let rest = Rest {
            config: &sh.config,
            options: sh.options.at(record.options),
            key,
            hot,
            next_hop: gateway.unwrap_or_else(|| key.remote().ip()),
            tally: &self.tally_of(record.counted),
        };
        record.awake(now, &rest)
    }

    fn tally_of(&self, counted: Counted) -> Tally {
        match counted {
            Counted::Few(few) => few.tally(),
            // There is a record as long as it has an index.
            Counted::Many(index) => {
                let tally = self.tallies.at(index).copied();
                tally.unwrap_or_else(|| Tally::new(Instant::ZERO))
            }
        }
    }

    fn count(&mut self, tally: &Tally) -> Option<Counted> {
        match Few::of(tally) {
            Some(few) => Some(Counted::Few(few)),
            None => self.tallies.insert(*tally).map(Counted::Many),
        }
    }

    fn forget_tally(&mut self, counted: Counted) {
        if let Counted::Many(index) = counted {
            self.tallies.free(index);
        }
    }

    /// The name of a next hop of the connection `key`.
    fn via(&mut self, key: &FlowKey, next_hop: IpAddr) -> Option<u8> {
        if next_hop == key.remote().ip() {
            return Some(0);
        }
        let known = self.gateways.iter().position(|&known| known == next_hop);
        let index = known.unwrap_or(self.gateways.len());
        if index == self.gateways.len() && index < MOST_GATEWAYS {
            self.gateways.push(next_hop);
        }
        u8::try_from(index + 1).ok()
    }

    /// Packs that of an idle connection, if nothing of it would be lost.
    fn pack(
        &mut self,
        now: Instant,
        slot: u32,
        place: u32,
        hot: &Hot,
        key: &FlowKey,
        sh: &Shared,
    ) -> Found {
        let Some(mut cold) = self.at_hand.get(place as usize).copied() else {
            return Found::Active;
        };
        cold.forget_flight(now, hot);
        let Some(counted) = self.count(&cold.tally) else {
            return Found::Active;
        };
        let via = self.via(key, cold.path.next_hop);
        let record = via.and_then(|via| Asleep::of(&cold, hot.snd_una, counted, via));
        let record = record.filter(|record| self.cold_of(now, record, hot, key, sh) == cold);
        let Some(packed) = record.and_then(|record| self.packed.insert(record)) else {
            self.forget_tally(counted);
            return Found::Active;
        };
        self.free(slot);
        set(&mut self.places, slot, &(packed | PACKED));
        Found::Packed
    }

    /// Looks at those whose turn it is; `of` knows the rest of each connection.
    pub fn rest<'a>(
        &mut self,
        now: Instant,
        sh: &Shared,
        of: impl Fn(u32) -> Option<(&'a Hot, &'a FlowKey)>,
    ) {
        self.looked_at = now;
        let fresh = std::mem::take(&mut self.fresh);
        let mut patience = if fresh > 0 { VAIN_LOOKS } else { LOOKS };
        let mut wait = (fresh > 0).then_some(QUIET);
        for _ in 0..LOOKS + fresh {
            if self.turns.len() <= self.at_ease {
                wait = None;
                break;
            }
            match self.look(now, sh, &of) {
                Found::Packed => wait = Some(PAUSE),
                Found::Young => (wait, patience) = (wait.or(Some(QUIET)), patience - 1),
                Found::Active => patience -= 1,
            }
            if patience == 0 {
                break;
            }
        }
        self.look_at = wait.map(|wait| now + wait);
    }

    /// Looks at the one whose turn it is.
    fn look<'a>(
        &mut self,
        now: Instant,
        sh: &Shared,
        of: impl Fn(u32) -> Option<(&'a Hot, &'a FlowKey)>,
    ) -> Found {
        let Some(place) = self.turns.pop_front(&mut self.links) else {
            return Found::Active;
        };
        self.turns.push_back(&mut self.links, place);
        let Some(&slot) = self.owners.get(place as usize) else {
            return Found::Active;
        };
        match of(slot) {
            Some((hot, _)) if !is_idle(hot) => Found::Active,
            Some((hot, _)) if !self.is_quiet(now, place, hot) => Found::Young,
            Some((hot, key)) => self.pack(now, slot, place, hot, key, sh),
            None => Found::Active,
        }
    }

    fn is_quiet(&self, now: Instant, place: u32, hot: &Hot) -> bool {
        let received = (now.as_millis() as u32).wrapping_sub(hot.last_received);
        let cold = self.at_hand.get(place as usize);
        let rto = hot.rtt.rto_micros().into();
        let silent =
            |cold: &Cold| now - cold.last_sent >= QUIET && now > cold.last_sent.after_micros(rto);
        cold.is_some_and(silent) && u128::from(received) >= QUIET.as_millis()
    }

    /// When [`Self::rest`] wants to be called, though nothing else is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.look_at
    }

    /// How many are at hand, and how many packed.
    pub fn counts(&self) -> (u32, u32) {
        (self.slots.len(), self.packed.len())
    }
}
