//! Where control blocks are: at hand, or packed while their connections idle.
//!
//! The ones at hand take turns to be looked at, the one that waits longest first; one whose
//! connection has been idle for a while is packed. As long as there are not many of them, nobody
//! looks. Memory of places that were not needed for a while goes back to the kernel.

pub(crate) mod saved;

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use ring::prefetch::prefetch_all;
use ring::region::{Column, PagePolicy, Plot};
use wire::time::Instant;

use crate::config::Config;
use crate::flow::{self, FlowHash, FlowKey, LongKeys};
use crate::list::{Link, List};
use crate::lowest::Lowest;
use crate::side_pool::SidePool;
use crate::tcp::compact::{self, CompactTcb, Counted, Rest, is_idle};
use crate::tcp::conn::Conn;
use crate::tcp::loss;
use crate::tcp::open;
use crate::tcp::queues::Queues;
use crate::tcp::reroute::take_path;
use crate::tcp::shared::{Shared, page_policy};
use crate::tcp::statistics::{CompactStatistics, Statistics};
use crate::tcp::tcb::{Cold, Hot};

/// In a place: the index is that of a packed record.
const PACKED: u32 = 1 << 31;
/// The place of a connection that is no more.
const NOWHERE: u32 = PACKED - 1;
/// Looked at per call, besides one for each that is new.
const LOOKS: u32 = 8;
/// As long as there are new ones, no more looks than this are in vain: each may be at memory that
/// is far away.
const VAIN_LOOKS: u32 = 2;
/// How long a connection idles before it is packed: longer than what comes at intervals of a round
/// trip or two, and most timers.
const QUIET: Duration = Duration::from_millis(256);
/// When to go on packing, if nothing else is to be done.
const PAUSE: Duration = Duration::from_millis(1);
/// How often is looked whether fewer places will do.
const TRIM_EVERY: Duration = Duration::from_secs(1);
/// Places that may be unused, besides half as many as are used.
const SPARE: u32 = 512;
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

/// How segments name a connection.
#[derive(Clone, Copy, Debug)]
struct Name {
    key: FlowKey,
    /// Of the key, in the flow table.
    hash: FlowHash,
    /// What everyone else calls it.
    slot: u32,
    /// Its slot in the byte streams.
    stream: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// By slot of the connection: where it is.
    places: Column<u32>,
    /// By slot: that of its streams, where it is another; else 0.
    streams: Column<u32>,
    // By place, of those at hand.
    hot: Column<Hot>,
    cold: Column<Cold>,
    names: Column<Name>,
    /// What a place is filled with before its first connection.
    blank: (Hot, Cold),
    taken: Lowest,
    /// Most taken at a time since `trim_at` was set.
    most: u32,
    trim_at: Instant,
    /// So many places are to be left.
    goal: Option<u32>,
    /// Those at hand, the one looked at longest ago first.
    turns: List,
    links: Column<Link>,
    packed: SidePool<CompactTcb>,
    /// Of packed ones, what is too much to be packed.
    keys: LongKeys,
    statistics: SidePool<Statistics>,
    gateways: Vec<IpAddr>,
    /// With no more at hand than this, nothing is packed.
    at_ease: u32,
    /// So many places have memory from the start, and keep it.
    prefault: u32,
    /// Taken since they were last looked at.
    fresh: u32,
    /// When it was last looked, and when to look again.
    looked_at: Instant,
    look_at: Option<Instant>,
}

impl Blocks {
    /// What `estate` looks for is in `plot`, if there is one.
    pub fn new(config: &Config, mut plot: Option<&mut Plot>) -> io::Result<Self> {
        let max = config.max_connections;
        let pages = page_policy(config);
        let mut blocks = Self {
            places: Column::on(plot.as_deref_mut(), max as usize, PagePolicy::Small)?,
            streams: Column::new(max as usize, PagePolicy::Small)?,
            hot: Column::on(plot, max as usize, pages)?,
            cold: Column::with_capacity(max as usize, pages)?,
            names: Column::with_capacity(max as usize, pages)?,
            blank: open::blank(config),
            taken: Lowest::new(max)?,
            most: 0,
            trim_at: Instant::ZERO,
            goal: None,
            turns: List::new(),
            links: Column::with_capacity(max as usize, PagePolicy::Small)?,
            packed: SidePool::new(max)?,
            keys: LongKeys::new(max)?,
            statistics: SidePool::new(max)?,
            gateways: Vec::new(),
            at_ease: config.max_resident,
            prefault: config.prefault.min(max),
            fresh: 0,
            looked_at: Instant::ZERO,
            look_at: None,
        };
        let prefault = blocks.prefault as usize;
        blocks.hot.prefault(prefault);
        blocks.cold.prefault(prefault);
        blocks.names.prefault(prefault);
        Ok(blocks)
    }

    /// A place for that of a connection in `slot`, which has none. There are as many as slots.
    pub fn put(
        &mut self,
        slot: u32,
        key: &FlowKey,
        hash: FlowHash,
        queues: &mut Queues,
    ) -> Option<(&mut Hot, &mut Cold)> {
        let place = self.taken.alloc()?;
        self.most = self.most.max(self.taken.len());
        let index = place as usize;
        if index >= self.hot.len() {
            self.grow(hash, queues);
        }
        self.turns.push_back(&mut self.links, place);
        self.fresh += 1;
        set(&mut self.places, slot, &place);
        // Field by field: what is written in parts and read as a whole waits until the parts have
        // reached the cache.
        let name = self.names.get_mut(index)?;
        name.key = *key;
        name.hash = hash;
        name.slot = slot;
        name.stream = slot;
        Some((self.hot.get_mut(index)?, self.cold.get_mut(index)?))
    }

    /// Makes one more place.
    #[cold]
    fn grow(&mut self, hash: FlowHash, queues: &mut Queues) {
        let len = self.hot.len() + 1;
        self.hot.resize(len, self.blank.0);
        self.cold.resize(len, self.blank.1);
        let name = Name {
            key: FlowKey::NONE,
            hash,
            slot: 0,
            stream: 0,
        };
        self.names.resize(len, name);
        self.links.resize(len, Link::NEW);
        queues.grow_connections(len as u32 - 1);
    }

    /// The connection in `slot` is no more.
    pub fn free(&mut self, slot: u32) {
        let Some(entry) = self.places.get_mut(slot as usize) else {
            return;
        };
        let place = std::mem::replace(entry, NOWHERE);
        if place & PACKED != 0 {
            if let Some(record) = self.packed.at(place ^ PACKED) {
                self.keys.forget(record.key);
                forget_statistics(&mut self.statistics, record.counted);
            }
            self.packed.free(place ^ PACKED);
        } else if self.taken.free(place) {
            self.turns.remove(&mut self.links, place);
        }
    }

    /// What says whether a segment is for the connection, and what every one needs.
    pub fn prefetch(&self, slot: u32) {
        let Some(&place) = self.places.get(slot as usize) else {
            return;
        };
        if self.names.get(place as usize).is_some() {
            self.hot.prefetch(place as usize);
            self.names.prefetch(place as usize);
        } else if let Some(record) = self.packed.at(place ^ PACKED) {
            prefetch_all(record);
        }
    }

    /// The rest: many lines, too many for those of a burst to be asked for at once.
    pub fn prefetch_rest(&self, slot: u32) {
        let place = self.places.get(slot as usize).copied().unwrap_or(NOWHERE);
        self.cold.prefetch(place as usize);
    }

    /// Whether the connection in `slot` has this key.
    #[inline]
    pub fn has_key(&self, slot: u32, key: &FlowKey) -> bool {
        let place = self.places.get(slot as usize).copied().unwrap_or(NOWHERE);
        match self.names.get(place as usize) {
            Some(name) => name.key == *key,
            None => self.key(slot) == *key,
        }
    }

    /// The key of the connection in `slot`.
    pub fn key(&self, slot: u32) -> FlowKey {
        let place = self.places.get(slot as usize).copied().unwrap_or(NOWHERE);
        if let Some(name) = self.names.get(place as usize) {
            return name.key;
        }
        let record = self.packed.at(place ^ PACKED);
        record.map_or(FlowKey::NONE, |record| self.keys.key(record.key))
    }

    /// The connection in `slot`, unpacked if it is not at hand.
    #[inline]
    pub fn view<'a>(&'a mut self, slot: u32, sh: &'a mut Shared) -> Option<Conn<'a>> {
        let place = *self.places.get(slot as usize)?;
        let place = if place & PACKED == 0 {
            place
        } else {
            self.unpack(slot, sh)?
        };
        self.at(place, sh)
    }

    /// The slot of the connection whose control block is at `place`.
    #[inline(always)]
    pub fn slot_at(&self, place: u32) -> Option<u32> {
        self.names.get(place as usize).map(|name| name.slot)
    }

    /// The connection whose control block is at `place`.
    #[inline]
    pub fn at<'a>(&'a mut self, place: u32, sh: &'a mut Shared) -> Option<Conn<'a>> {
        let name = self.names.get(place as usize)?;
        Some(Conn {
            stream: name.stream,
            place,
            hot: self.hot.get_mut(place as usize)?,
            cold: self.cold.get_mut(place as usize)?,
            key: &name.key,
            hash: name.hash,
            sh,
        })
    }

    /// The slot in the byte streams of the connection in `slot`.
    pub fn stream(&self, slot: u32) -> u32 {
        match self.streams.get(slot as usize) {
            Some(&stream) if stream != 0 => stream,
            _ => slot,
        }
    }

    /// It is this, as long as the connection is there.
    pub fn set_stream(&mut self, slot: u32, stream: u32) {
        if let Some(entry) = self.streams.get_mut(slot as usize) {
            *entry = if stream == slot { 0 } else { stream };
        }
        self.name_stream(slot);
    }

    fn name_stream(&mut self, slot: u32) {
        let stream = self.stream(slot);
        let place = self.places.get(slot as usize).copied().unwrap_or(NOWHERE);
        if let Some(name) = self.names.get_mut(place as usize) {
            name.stream = stream;
        }
    }

    #[cold]
    #[inline(never)]
    fn unpack(&mut self, slot: u32, sh: &mut Shared) -> Option<u32> {
        let record = *self.packed.at(self.places.get(slot as usize)? ^ PACKED)?;
        let key = self.keys.key(record.key);
        let mut hot = record.hot();
        hot.wheel_at = wheel_at(sh, slot);
        let cold = self.cold_of(self.looked_at, &record, &hot, &key, sh);
        self.free(slot);
        let (hot_entry, cold_entry) = self.put(slot, &key, record.hash, &mut sh.queues)?;
        (*hot_entry, *cold_entry) = (hot, cold);
        self.name_stream(slot);
        self.look_at.get_or_insert(self.looked_at + QUIET);
        let place = self.places.get(slot as usize).copied()?;
        if sh.net.links.routing.has_changed() {
            let now = self.looked_at;
            take_path(&mut self.at(place, sh)?, now);
        }
        Some(place)
    }

    fn cold_of(
        &self,
        now: Instant,
        record: &CompactTcb,
        hot: &Hot,
        key: &FlowKey,
        sh: &Shared,
    ) -> Cold {
        let gateway = usize::from(record.via).checked_sub(1);
        let gateway = gateway.and_then(|index| self.gateways.get(index)).copied();
        let next_hop = gateway.unwrap_or_else(|| key.remote().ip());
        let rest = Rest {
            config: &sh.config,
            options: sh.options.at(record.options),
            key,
            hot,
            next_hop,
            known: sh.net.links.routing.static_neighbour(hot.port, next_hop),
            statistics: &self.statistics_of(record.counted),
        };
        record.cold(now, &rest)
    }

    fn statistics_of(&self, counted: Counted) -> Statistics {
        match counted {
            Counted::Few(few) => few.unpack(),
            // There is a record as long as it has an index.
            Counted::Many(index) => {
                let kept = self.statistics.at(index).copied();
                kept.unwrap_or_else(|| Statistics::new(Instant::ZERO))
            }
        }
    }

    fn count(&mut self, statistics: &Statistics) -> Option<Counted> {
        match CompactStatistics::pack(statistics) {
            Some(few) => Some(Counted::Few(few)),
            None => self.statistics.insert(*statistics).map(Counted::Many),
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
    fn pack(&mut self, now: Instant, place: u32, sh: &Shared) -> Found {
        match self.packed_of(now, place, sh) {
            Some((slot, packed)) => {
                self.free(slot);
                set(&mut self.places, slot, &(packed | PACKED));
                Found::Packed
            }
            None => Found::Active,
        }
    }

    /// A record of the one at `place`: the slot, and the name of the record.
    fn packed_of(&mut self, now: Instant, place: u32, sh: &Shared) -> Option<(u32, u32)> {
        let mut hot = *self.hot.get(place as usize)?;
        let mut cold = *self.cold.get(place as usize)?;
        let Name {
            key, hash, slot, ..
        } = *self.names.get(place as usize)?;
        hot.forget_flight();
        cold.forget_flight(now, &hot);
        let loss = loss::Compact::pack(&hot.loss, &cold.loss)?;
        let via = self.via(&key, cold.path.next_hop)?;
        let counted = self.count(&cold.statistics)?;
        let kept = self.keys.keep(&key);
        let record = kept.map(|key| {
            let name = compact::Name { key, hash, via };
            CompactTcb::of(&hot, &cold, loss, counted, name)
        });
        let is_same = |record: &CompactTcb| {
            let back = record.hot();
            back == hot && self.cold_of(now, record, &back, &key, sh) == cold
        };
        let packed = record.filter(is_same);
        let packed = packed.and_then(|record| self.packed.insert(record));
        if packed.is_none() {
            forget_statistics(&mut self.statistics, counted);
            if let Some(kept) = kept {
                self.keys.forget(kept);
            }
        }
        Some((slot, packed?))
    }

    /// Looks at those whose turn it is.
    pub fn rest(&mut self, now: Instant, sh: &mut Shared) {
        self.looked_at = now;
        self.trim(now, &mut sh.queues);
        let fresh = std::mem::take(&mut self.fresh);
        let mut looks_left = if fresh > 0 { VAIN_LOOKS } else { LOOKS };
        let mut wait = (fresh > 0).then_some(QUIET);
        for _ in 0..LOOKS + fresh {
            if self.turns.len() <= self.at_ease {
                wait = None;
                break;
            }
            match self.look(now, sh) {
                Found::Packed => wait = Some(PAUSE),
                Found::Young => (wait, looks_left) = (wait.or(Some(QUIET)), looks_left - 1),
                Found::Active => looks_left -= 1,
            }
            if looks_left == 0 {
                break;
            }
        }
        self.look_at = wait.map(|wait| now + wait);
    }

    /// Looks at the one whose turn it is.
    fn look(&mut self, now: Instant, sh: &Shared) -> Found {
        let Some(place) = self.turns.pop_front(&mut self.links) else {
            return Found::Active;
        };
        self.turns.push_back(&mut self.links, place);
        match self.hot.get(place as usize) {
            Some(hot) if !is_idle(hot) || sh.queues.has(place) => Found::Active,
            Some(hot) if !self.is_quiet(now, place, hot) => Found::Young,
            Some(_) => self.pack(now, place, sh),
            None => Found::Active,
        }
    }

    fn is_quiet(&self, now: Instant, place: u32, hot: &Hot) -> bool {
        let received = (now.as_millis() as u32).wrapping_sub(hot.last_received);
        let cold = self.cold.get(place as usize);
        let rto = hot.loss.rtt.rto_micros().into();
        let silent = |cold: &Cold| {
            now - cold.snd.last_sent >= QUIET && now > cold.snd.last_sent.after_micros(rto)
        };
        cold.is_some_and(silent) && u128::from(received) >= QUIET.as_millis()
    }

    /// When [`Self::rest`] wants to be called, though nothing else is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        let trims = match self.goal {
            Some(_) => Some(self.looked_at + PAUSE),
            None => self.has_too_many(self.taken.len()).then_some(self.trim_at),
        };
        self.look_at.into_iter().chain(trims).min()
    }

    /// Places that are enough where `most` are taken at a time.
    fn enough_for(&self, most: u32) -> u32 {
        let enough = most.saturating_add(most / 2).saturating_add(SPARE);
        enough.max(self.prefault)
    }

    /// Whether there are more places than `most` at a time need.
    fn has_too_many(&self, most: u32) -> bool {
        self.hot.len() as u32 > self.enough_for(most) + SPARE
    }

    /// Once in a while, sees to it that there are not many more places than were taken at a time
    /// meanwhile: those behind are left, a few at a time, and then given back.
    fn trim(&mut self, now: Instant, queues: &mut Queues) {
        if self.goal.is_none() && now >= self.trim_at {
            self.trim_at = now + TRIM_EVERY;
            let most = std::mem::replace(&mut self.most, self.taken.len());
            self.goal = self.has_too_many(most).then_some(self.enough_for(most));
        }
        let Some(goal) = self.goal else { return };
        for _ in 0..LOOKS {
            match self.taken.highest() {
                // What cannot be moved may be later.
                Some(place) if place >= goal => {
                    if !self.move_down(place, queues) {
                        self.goal = None;
                        return;
                    }
                }
                _ => {
                    self.goal = None;
                    return self.shrink(goal as usize, queues);
                }
            }
        }
    }

    /// Moves the one at `place` to the lowest that is free. False if it is on a list, or none is
    /// lower.
    fn move_down(&mut self, place: u32, queues: &Queues) -> bool {
        let Some(&name) = self.names.get(place as usize) else {
            return false;
        };
        let lowest = self.taken.alloc().unwrap_or(u32::MAX);
        if queues.has(place) || lowest > place {
            self.taken.free(lowest);
            return false;
        }
        let (from, to) = (place as usize, lowest as usize);
        self.hot.copy_within(from..=from, to);
        self.cold.copy_within(from..=from, to);
        set(&mut self.names, lowest, &name);
        set(&mut self.places, name.slot, &lowest);
        self.turns.remove(&mut self.links, place);
        self.turns.push_back(&mut self.links, lowest);
        self.taken.free(place)
    }

    fn shrink(&mut self, len: usize, queues: &mut Queues) {
        self.hot.shrink(len);
        self.cold.shrink(len);
        self.names.shrink(len);
        self.links.shrink(len);
        queues.shrink_connections(len);
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.hot.len()
    }

    /// What is at `place`, to be read.
    pub fn hot(&self, place: u32) -> Option<&Hot> {
        self.hot.get(place as usize)
    }

    /// What is in `slot`, to be read; `None`: it is packed.
    pub fn hot_of(&self, slot: u32) -> Option<&Hot> {
        let place = *self.places.get(slot as usize)?;
        (place & PACKED == 0).then(|| self.hot(place)).flatten()
    }

    /// Those at hand, with their slots. A packed one has nothing in flight.
    pub fn at_hand(&self) -> impl Iterator<Item = (u32, &Hot)> {
        let follow = |place: &u32| self.turns.next(&self.links, *place);
        std::iter::successors(self.turns.front(), follow).filter_map(|place| {
            let slot = self.names.get(place as usize)?.slot;
            Some((slot, self.hot.get(place as usize)?))
        })
    }

    /// How many are at hand, and how many packed.
    pub fn counts(&self) -> (u32, u32) {
        (self.taken.len(), self.packed.len())
    }
}

fn forget_statistics(pool: &mut SidePool<Statistics>, counted: Counted) {
    if let Counted::Many(index) = counted {
        pool.free(index);
    }
}

/// When the wheel fires for the connection in `slot`.
fn wheel_at(sh: &Shared, slot: u32) -> Instant {
    let id = flow::id(flow::CONNECTION, slot);
    sh.wheel.deadline(id).unwrap_or(Instant::FAR)
}

fn set<T: Copy>(column: &mut Column<T>, index: u32, value: &T) {
    match column.get_mut(index as usize) {
        Some(entry) => *entry = *value,
        // Slots are given out in ascending order before they are used again, up to the capacity of
        // the column.
        None => {
            let _ = column.push(*value);
        }
    }
}
