//! TIME_WAIT in 44 bytes. All wait equally long, so they expire in the order in which they came: a
//! list, no timers.

use std::io;
use std::time::Duration;

use wire::frame::FrameSink;
use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use wire::time::Instant;

use crate::config::Config;
use crate::drops::DropReason;
use crate::flow::{self, FlowHash, FlowKey, Kept, LongKeys};
use crate::id::PortId;
use crate::info::State;
use crate::list::{Link, List};
use crate::tcp::Tcp;
use crate::tcp::clock::near;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::half_open::Before;
use crate::tcp::segment::Segment;
use crate::tcp::step::{Step, Stop};

/// RFC 6191 §2 wants the timestamp clock to have ticked; a second is what hosts take.
const REUSE_AFTER_MS: i32 = 1000;

/// What is left of a connection, with its key or what stands for that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeWait<K = FlowKey> {
    pub key: K,
    pub snd_nxt: SeqNumber,
    pub rcv_nxt: SeqNumber,
    pub ts_recent: u32,
    /// When the 2 MSL began: milliseconds, low 32 bits.
    since: u32,
    /// Its name among those whose ACK is due, plus one.
    due: u32,
    /// Window field of the last segment that we sent.
    pub window: u16,
    pub port: PortId,
    pub facts: Facts,
}

/// What a connection leaves behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    record: TimeWait,
    /// An ACK is due that was not sent.
    owes_ack: bool,
}

bitflags::bitflags! {
    /// One-bit facts about a connection in TIME_WAIT.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    fn has(&self, fact: Facts) -> bool {
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
    pub fn new(config: &Config) -> io::Result<Self> {
        let max = config.max_time_wait;
        let (mut records, mut links) = (Vec::new(), Vec::new());
        records.try_reserve_exact(max as usize)?;
        links.try_reserve_exact(max as usize)?;
        Ok(Self {
            max,
            records,
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

    fn is_full(&self) -> bool {
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

    fn record_mut(&mut self, slot: u32) -> Option<&mut TimeWait<Kept>> {
        let record = self.records.get_mut(slot as usize);
        record.filter(|record| record.has(Facts::LIVE))
    }

    fn insert(&mut self, now: Instant, record: &TimeWait) -> Option<u32> {
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

    /// The one that expires first.
    fn oldest(&self) -> Option<u32> {
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
    fn expired(&mut self, now: Instant) -> Option<u32> {
        let is_over = self.next_deadline()? <= now;
        self.looked_at = now;
        self.oldest().filter(|_| is_over)
    }

    fn remove(&mut self, slot: u32) {
        if let Some(record) = self.record_mut(slot) {
            record.facts = Facts::empty();
            let key = record.key;
            self.keys.forget(key);
            self.order.remove(&mut self.links, slot);
            self.free.push_front(&mut self.links, slot);
        }
    }

    fn note_answer(&mut self, slot: u32, to_syn: bool) {
        if let Some(record) = self.record_mut(slot) {
            let answered = to_syn || record.has(Facts::ANSWERED_SYN);
            record.facts.set(Facts::ANSWERED_SYN, answered);
        }
    }

    /// The 2 MSL begin again.
    fn restart(&mut self, now: Instant, slot: u32) {
        self.looked_at = now;
        if let Some(record) = self.record_mut(slot) {
            record.since = since(now);
            self.order.remove(&mut self.links, slot);
            self.order.push_back(&mut self.links, slot);
        }
    }

    /// Whether we may connect between the same endpoints again: timestamps keep old segments apart
    /// (RFC 6191 §3). RFC 6191 §3-1.
    pub fn may_reuse(&self, now: Instant, slot: u32) -> bool {
        let age = |record: &TimeWait<_>| (now.as_millis() as u32).wrapping_sub(record.since) as i32;
        self.record(slot)
            .is_some_and(|record| record.has(Facts::TIMESTAMPS) && age(record) >= REUSE_AFTER_MS)
    }
}

/// Rounded up: none ends early.
fn since(now: Instant) -> u32 {
    now.as_nanos().div_ceil(1_000_000) as u32
}

impl Conn<'_> {
    /// What is left of it, if its state is TIME_WAIT.
    pub fn time_wait(&self, now: Instant) -> Option<Rest> {
        let hot = &*self.hot;
        let mut facts = Facts::LIVE;
        facts.set(Facts::TIMESTAMPS, hot.has(Flags::TIMESTAMPS));
        (hot.state == State::TimeWait).then(|| Rest {
            record: TimeWait {
                key: *self.key,
                snd_nxt: hot.snd.nxt,
                rcv_nxt: hot.rcv.nxt,
                ts_recent: hot.ts_recent,
                since: since(now),
                due: 0,
                window: u16::try_from(hot.rcv_wnd() >> hot.rcv_wscale).unwrap_or(u16::MAX),
                port: hot.port,
                facts,
            },
            owes_ack: hot.has(Flags::ACK_NOW),
        })
    }
}

impl Tcp {
    /// Replaces the connection `id` by what is left of it. False if there can be no record.
    /// RFC 9293 MUST-13.
    pub fn start_time_wait(&mut self, now: Instant, id: u32, hash: FlowHash, rest: &Rest) -> bool {
        if self.time_wait.is_full() {
            self.evict_oldest();
        }
        let Rest { record, owes_ack } = rest;
        let Some(new) = self.time_wait.insert(now, record) else {
            if *owes_ack {
                let header = self.last_ack(now, record);
                self.shared.send_bare(&record.key, &header);
            }
            return false;
        };
        if *owes_ack {
            self.owe_last_ack(new);
        }
        let new = flow::id(flow::TIME_WAIT, new);
        self.flows.replace(hash, id, new)
    }

    fn evict_oldest(&mut self) {
        if let Some(oldest) = self.time_wait.oldest() {
            self.shared.counters.time_wait_evictions += 1;
            self.end_time_wait(oldest);
        }
    }

    /// CLOSED.
    pub fn end_time_wait(&mut self, slot: u32) {
        if let Some(record) = self.time_wait.at(slot) {
            let hash = self.flows.hash(&record.key);
            self.flows.remove(hash, flow::id(flow::TIME_WAIT, slot));
            self.forget_last_ack(slot);
            self.time_wait.remove(slot);
        }
    }

    pub fn expire_time_wait(&mut self, now: Instant, budget: u32) {
        for _ in 0..budget {
            let Some(slot) = self.time_wait.expired(now) else {
                return;
            };
            self.send_due_last_ack(now, slot);
            self.end_time_wait(slot);
        }
    }

    /// A TIME_WAIT that lasts for next to nothing ends before `transmit`: the peer waits for the
    /// ACK all the same.
    fn send_due_last_ack(&mut self, now: Instant, slot: u32) {
        if self.forget_last_ack(slot)
            && let Some(record) = self.time_wait.at(slot)
        {
            let header = self.last_ack(now, &record);
            self.shared.send_bare(&record.key, &header);
        }
    }

    /// A segment for a connection in TIME_WAIT (RFC 9293 §3.10.7.4).
    /// RFC 1337 §3-2.
    pub fn on_time_wait(&mut self, now: Instant, slot: u32, seg: &Segment<'_>) -> Step {
        let Some(record) = self.time_wait.at(slot) else {
            return Err(DropReason::TcpNoConnection.into());
        };
        if seg.has(TcpFlags::RST) {
            return self.on_reset_in_time_wait(slot, &record, seg);
        }
        // As in LISTEN: nobody honest ends a connection in the segment that opens it.
        let opens = seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::ACK | TcpFlags::FIN);
        if opens
            && is_new_incarnation(&record, seg)
            && let Some(listener) = self.listeners.find(seg.key.local(), seg.origin)
        {
            return self.reopen(now, slot, listener, seg);
        }
        // Fifth: "if the ACK bit is off, drop the segment and return". First comes the sequence
        // number.
        if !seg.has(TcpFlags::ACK | TcpFlags::SYN) && starts_in_window(&record, seg) {
            return Err(DropReason::TcpState.into());
        }
        // "The only thing that can arrive in this state is a retransmission of the remote FIN.
        // Acknowledge it, and restart the 2 MSL timeout."
        if seg.has(TcpFlags::FIN) && seg.end() == record.rcv_nxt {
            self.time_wait.restart(now, slot);
            self.owe_last_ack(slot);
            return Err(Stop::Done);
        }
        // RFC 6191 §2-2.
        let acceptable = seg.len() == 0 && seg.seq == record.rcv_nxt;
        let is_syn = seg.has(TcpFlags::SYN);
        // The first answer to a SYN is not counted: a client that takes the port again would wait
        // for its time-out otherwise.
        let is_first = is_syn && !record.has(Facts::ANSWERED_SYN);
        if !acceptable && (is_first || self.shared.may_challenge(now)) {
            self.owe_last_ack(slot);
            self.time_wait.note_answer(slot, is_syn);
        }
        Err(if is_syn {
            DropReason::TcpSyn
        } else {
            DropReason::TcpState
        }
        .into())
    }

    /// RFC 1337 §3: a RST must not end TIME_WAIT early, it could be an old duplicate.
    ///
    /// One that comes after we answered a SYN, exactly where that answer said, is from somebody in
    /// SYN_SENT who was told of a connection that it does not have (RFC 9293 §3.10.7.3, first): the
    /// peer has started anew, with a clock and sequence numbers of which we cannot tell that they
    /// are newer. Its SYN would be in vain until TIME_WAIT ends. RFC 1337 §3-1.
    fn on_reset_in_time_wait(&mut self, slot: u32, record: &TimeWait, seg: &Segment<'_>) -> Step {
        if !record.has(Facts::ANSWERED_SYN) || seg.seq != record.rcv_nxt {
            return Err(DropReason::TcpReset.into());
        }
        self.shared.counters.resets_in += 1;
        self.end_time_wait(slot);
        Err(Stop::Done)
    }

    /// RFC 9293 §3.10.7.4 and RFC 6191 §2: a SYN that is certainly newer than everything before
    /// opens the next connection. RFC 9293 MAY-2.
    fn reopen(&mut self, now: Instant, slot: u32, listener: u32, seg: &Segment<'_>) -> Step {
        let has_stamps = self.shared.config.timestamps && seg.options.timestamps.is_some();
        let before = self.time_wait.at(slot).map(|record| Before {
            end: record.snd_nxt,
            timestamps: has_stamps && record.has(Facts::TIMESTAMPS),
        });
        self.admit(listener, before.as_ref())?;
        self.end_time_wait(slot);
        self.open_half(now, listener, seg, before)
            .map_err(Stop::Drop)
    }

    /// The ACK of the peer's FIN is due, until it was sent.
    fn owe_last_ack(&mut self, slot: u32) {
        if let Some(record) = self.time_wait.record_mut(slot)
            && record.due == 0
        {
            let name = self.shared.queues.push_last_ack(record.port, slot);
            record.due = name.map_or(0, |name| name + 1);
        }
    }

    /// It is not due any more: whether it was.
    fn forget_last_ack(&mut self, slot: u32) -> bool {
        let Some(record) = self.time_wait.record_mut(slot) else {
            return false;
        };
        let Some(name) = std::mem::take(&mut record.due).checked_sub(1) else {
            return false;
        };
        self.shared.queues.remove_last_ack(record.port, name);
        true
    }

    /// Sends the ACKs that are due. False when the sink is full.
    pub fn send_last_acks(
        &mut self,
        now: Instant,
        port: PortId,
        sink: &mut impl FrameSink,
    ) -> bool {
        while let Some(slot) = self.shared.queues.front_last_ack(port) {
            if let Some(record) = self.time_wait.at(slot)
                && !self.send_last_ack(now, &record, sink)
            {
                return false;
            }
            if !self.forget_last_ack(slot) {
                break;
            }
        }
        true
    }

    fn send_last_ack(
        &mut self,
        now: Instant,
        record: &TimeWait,
        sink: &mut impl FrameSink,
    ) -> bool {
        let Ok(&path) = self.shared.net.way_back(&record.key) else {
            self.shared.counters.drop(DropReason::ReplyNoRoute);
            return true;
        };
        let header = self.last_ack(now, record);
        let sent = self
            .shared
            .bare()
            .send_or_wait(now, &path, &record.key, &header, sink);
        self.shared.counters.acks_out += u64::from(sent);
        sent
    }

    fn last_ack(&self, now: Instant, record: &TimeWait) -> TcpHeader {
        let stamps = record.has(Facts::TIMESTAMPS).then(|| Timestamps {
            tsval: self.stamp_for(now, &record.key),
            tsecr: record.ts_recent,
        });
        TcpHeader {
            src_port: record.key.local().port(),
            dst_port: record.key.remote().port(),
            seq: record.snd_nxt,
            ack: record.rcv_nxt,
            flags: TcpFlags::ACK,
            window: record.window,
            options: TcpOptions {
                timestamps: stamps,
                ..TcpOptions::default()
            },
            ..TcpHeader::default()
        }
    }
}

/// Whether the segment begins where more could have come. The record has the window field alone,
/// which may have been scaled: a bound from below.
fn starts_in_window(record: &TimeWait, seg: &Segment<'_>) -> bool {
    seg.seq - record.rcv_nxt < u32::from(record.window.max(1))
}

/// RFC 6191 §2: by timestamp if both connections have them, by sequence number if not.
/// RFC 9293 SHLD-4; RFC 6191 §2-1.
fn is_new_incarnation(record: &TimeWait, seg: &Segment<'_>) -> bool {
    let newer_seq = seg.seq > record.rcv_nxt;
    match seg.options.timestamps {
        Some(stamps) if record.has(Facts::TIMESTAMPS) => {
            let distance = stamps.tsval.wrapping_sub(record.ts_recent) as i32;
            distance > 0 || (distance == 0 && newer_seq)
        }
        _ => newer_seq,
    }
}
