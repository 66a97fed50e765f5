//! TIME_WAIT in 44 bytes. All wait equally long, so they expire in the order in which they came: a
//! list, no timers.

use std::io;
use std::time::Duration;

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::config::Config;
use crate::flow::{self, FlowKey, Kept, LongKeys};
use crate::id::PortId;
use crate::list::{Link, List};
use crate::tcp::clock::near;

/// RFC 6191 §2 wants the timestamp clock to have ticked; a second is what hosts take.
const REUSE_AFTER_MS: i32 = 1000;

/// What is left of a connection, with its key or what stands for that.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct TimeWait<K = FlowKey> {
    pub key: K,
    pub snd_nxt: SeqNumber,
    pub rcv_nxt: SeqNumber,
    pub ts_recent: u32,
    /// When the 2 MSL began: milliseconds, low 32 bits.
    pub since: u32,
    /// Its name among those whose ACK is due, plus one.
    pub due: u32,
    /// Window field of the last segment that we sent.
    pub window: u16,
    pub port: PortId,
    pub facts: Facts,
}

/// What a connection leaves behind.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Rest {
    pub record: TimeWait,
    /// An ACK is due that was not sent.
    pub owes_ack: bool,
    /// Whose the connection was.
    pub owner: u32,
}

bitflags::bitflags! {
    /// One-bit facts about a connection in TIME_WAIT.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[derive(serde::Serialize, serde::Deserialize)]
    pub(crate) struct Facts: u8 {
        /// It is one.
        const LIVE = 4;
        const TIMESTAMPS = 1;
        /// A SYN was answered with an ACK.
        const ANSWERED_SYN = 2;
    }
}

const _: () = assert!(size_of::<TimeWait<Kept>>() == 36);

impl<K> TimeWait<K> {
    pub fn has(&self, fact: Facts) -> bool {
        self.facts.contains(fact)
    }

    fn named<L>(self, key: L) -> TimeWait<L> {
        let Self {
            key: _,
            snd_nxt,
            rcv_nxt,
            ts_recent,
            since,
            due,
            window,
            port,
            facts,
        } = self;
        TimeWait {
            key,
            snd_nxt,
            rcv_nxt,
            ts_recent,
            since,
            due,
            window,
            port,
            facts,
        }
    }
}

/// All TIME_WAIT records.
#[derive(Debug)]
pub(crate) struct TimeWaits {
    max: u32,
    records: Vec<TimeWait<Kept>>,
    /// Whose the connections were, as far as that is not 0.
    owners: Vec<u32>,
    keys: LongKeys,
    /// For `order` and `free`: each record is on one of them.
    links: Vec<Link>,
    /// The one that expires first is the first.
    order: List,
    free: List,
    /// 2 MSL.
    lasts: Duration,
    /// Not long before now.
    looked_at: Instant,
}

impl TimeWaits {
    /// All of them, the one that ends first in front.
    pub fn save(&self) -> Vec<Rest> {
        let rest = |slot| {
            let record = self.at(slot)?;
            Some(Rest {
                owes_ack: record.due != 0,
                record: TimeWait { due: 0, ..record },
                owner: self.owner(slot),
            })
        };
        self.order.iter(&self.links).filter_map(rest).collect()
    }

    pub fn new(config: &Config) -> io::Result<Self> {
        let max = config.max_time_wait;
        let (mut records, mut links) = (Vec::new(), Vec::new());
        records.try_reserve_exact(max as usize)?;
        links.try_reserve_exact(max as usize)?;
        Ok(Self {
            max,
            records,
            owners: Vec::new(),
            keys: LongKeys::new(max)?,
            links,
            order: List::new(),
            free: List::new(),
            lasts: config.time_wait,
            looked_at: Instant::ZERO,
        })
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.order.len()
    }

    pub fn is_full(&self) -> bool {
        self.len() >= self.max
    }

    pub fn at(&self, slot: u32) -> Option<TimeWait> {
        let record = self.record(slot)?;
        Some(record.named(self.keys.key(record.key)))
    }

    fn record(&self, slot: u32) -> Option<&TimeWait<Kept>> {
        let record = self.records.get(slot as usize);
        record.filter(|record| record.has(Facts::LIVE))
    }

    pub fn record_mut(&mut self, slot: u32) -> Option<&mut TimeWait<Kept>> {
        let record = self.records.get_mut(slot as usize);
        record.filter(|record| record.has(Facts::LIVE))
    }

    pub fn insert(&mut self, now: Instant, record: &TimeWait) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        self.looked_at = now;
        let record = record.named(self.keys.keep(&record.key)?);
        let slot = match self.free.pop_front(&mut self.links) {
            Some(slot) => slot,
            None => {
                self.records.push(record);
                self.links.push(Link::NEW);
                self.records.len() as u32 - 1
            }
        };
        *self.records.get_mut(slot as usize)? = record;
        self.order.push_back(&mut self.links, slot);
        Some(slot)
    }

    /// The connection of a record was this owner's. Where no owner is another than 0, this takes no
    /// memory.
    #[inline]
    pub fn set_owner(&mut self, slot: u32, owner: u32) {
        let at = slot as usize;
        if owner != 0 && at >= self.owners.len() {
            self.owners.resize((at + 1).next_power_of_two(), 0);
        }
        if let Some(entry) = self.owners.get_mut(at) {
            *entry = owner;
        }
    }

    /// Whose the connection of a record was.
    pub fn owner(&self, slot: u32) -> u32 {
        self.owners.get(slot as usize).copied().unwrap_or(0)
    }

    /// Slots from here on were never used.
    pub fn used(&self) -> u32 {
        self.records.len() as u32
    }

    /// The one that expires first.
    pub fn oldest(&self) -> Option<u32> {
        self.order.front()
    }

    /// When the one that expires first does.
    pub fn next_deadline(&self) -> Option<Instant> {
        let record = self.record(self.oldest()?)?;
        if self.lasts.is_zero() {
            return Some(self.looked_at);
        }
        Some(near(self.looked_at, record.since) + self.lasts)
    }

    /// The one that expires first, if its time has come.
    pub fn expired(&mut self, now: Instant) -> Option<u32> {
        let is_over = self.next_deadline()? <= now;
        self.looked_at = now;
        self.oldest().filter(|_| is_over)
    }

    pub fn remove(&mut self, slot: u32) {
        if let Some(record) = self.record_mut(slot) {
            record.facts = Facts::empty();
            let key = record.key;
            self.keys.forget(key);
            self.order.remove(&mut self.links, slot);
            self.free.push_front(&mut self.links, slot);
        }
    }

    pub fn note_answer(&mut self, slot: u32, to_syn: bool) {
        if let Some(record) = self.record_mut(slot) {
            let answered = to_syn || record.has(Facts::ANSWERED_SYN);
            record.facts.set(Facts::ANSWERED_SYN, answered);
        }
    }

    /// The 2 MSL begin again.
    pub fn restart(&mut self, now: Instant, slot: u32) {
        self.looked_at = now;
        if let Some(record) = self.record_mut(slot) {
            record.since = since(now);
            self.order.remove(&mut self.links, slot);
            self.order.push_back(&mut self.links, slot);
        }
    }

    /// Whether `id`, in the flow table, is one that may be cut short, so that we connect between
    /// the same endpoints again: timestamps keep old segments apart (RFC 6191 §3).
    /// RFC 6191 §3-1.
    pub fn may_reuse(&self, now: Instant, id: u32) -> bool {
        let age = |record: &TimeWait<_>| (now.as_millis() as u32).wrapping_sub(record.since) as i32;
        flow::tag(id) == flow::TIME_WAIT as usize
            && self.record(flow::index(id) as u32).is_some_and(|record| {
                record.has(Facts::TIMESTAMPS) && age(record) >= REUSE_AFTER_MS
            })
    }
}

/// The time `now` in a record. Rounded up: none ends early.
pub(crate) fn since(now: Instant) -> u32 {
    now.as_nanos().div_ceil(1_000_000) as u32
}
