//! Half-open connections of listeners: SYN_RECEIVED in 64 bytes. A control block is taken when the
//! handshake is complete.

use std::io;

use ring::prefetch::prefetch;
use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use wire::time::Instant;

use crate::arena::Slots;
use crate::config::{Config, SynCookies};
use crate::drops::DropReason;
use crate::flow::{self, FlowHash, FlowKey};
use crate::id::PortId;
use crate::ip::Path;
use crate::tcp::Tcp;
use crate::tcp::buffers::initial_receive_window;
use crate::tcp::ecn::{Answer, Feedback};
use crate::tcp::isn;
use crate::tcp::loss::Rtt;
use crate::tcp::options::{Agreed, window_scale_for};
use crate::tcp::segment::Segment;
use crate::tcp::step::{Step, Stop};

/// What has to be remembered between SYN and ACK.
#[derive(Clone, Copy, Debug)]
// The key first: copies of it are from one half of a copied record.
#[repr(C, align(64))]
pub(crate) struct HalfOpen {
    pub key: FlowKey,
    pub iss: SeqNumber,
    pub irs: SeqNumber,
    pub ts_recent: u32,
    /// When the last SYN-ACK was sent: µs, low 32 bits; counts with `SENT`. Until then, for the
    /// first: where the sequence numbers of the flow start ([`crate::flow::Digest`]).
    pub sent_at: u32,
    pub listener: u16,
    pub peer_mss: u16,
    /// Window of the SYN, not scaled.
    pub window: u16,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub port: PortId,
    /// SYN-ACKs sent again by the timer.
    pub retries: u8,
    pub agreed: Options,
    /// The ECN bits of the SYN-ACK.
    pub ecn: Answer,
}

bitflags::bitflags! {
    /// Options that both sides offered, and more facts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Options: u8 {
        const TIMESTAMPS = 1;
        const SACK = 2;
        const SCALING = 4;
        /// Not an option: a SYN-ACK was sent ...
        const SENT = 8;
        /// ... and another.
        const SENT_AGAIN = 16;
        /// The SYN-ACK gives the peer a Fast Open cookie.
        const FAST_OPEN = 32;
        /// A SYN came that did not ask for ECN, although another did.
        const UNASKED = 64;
        /// The SYN-ACK was acknowledged; the listener wants data, too.
        const ACKED = 128;
    }
}

impl Options {
    fn new(agreed: &Agreed) -> Self {
        let mut options = Self::empty();
        options.set(Self::TIMESTAMPS, agreed.timestamps);
        options.set(Self::SACK, agreed.sack);
        options.set(Self::SCALING, agreed.scaling);
        options
    }
}

/// RFC 4987 §3.4-1.
const _: () = assert!(size_of::<HalfOpen>() == 64);

impl HalfOpen {
    pub fn rcv_nxt(&self) -> SeqNumber {
        self.irs + 1
    }

    pub fn has(&self, option: Options) -> bool {
        self.agreed.contains(option)
    }

    /// The peer repeats its SYN.
    fn note_repeated(&mut self, syn: &Segment<'_>) {
        // RFC 7323 §4.3: the echo is of the copy that came last, so that the peer can time it.
        if let Some(stamps) = syn.options.timestamps
            && stamps.tsval.wrapping_sub(self.ts_recent) as i32 > 0
        {
            self.ts_recent = stamps.tsval;
        }
        if Feedback::asked_by(syn.flags) == Feedback::None {
            self.agreed.insert(Options::UNASKED);
        }
    }

    /// After a second time-out the SYN-ACK has no ECN bits: they may be why it does not get
    /// through. What was agreed on stays. RFC 9768 §3.2.3.2.2-2.
    pub fn hides_ecn(&self) -> bool {
        self.retries >= 2 && self.ecn.feedback() == Feedback::Accurate
    }

    /// What the two SYNs agreed on.
    pub fn agreed(&self) -> Agreed {
        Agreed {
            peer_mss: self.peer_mss,
            snd_wscale: self.snd_wscale,
            rcv_wscale: self.rcv_wscale,
            scaling: self.has(Options::SCALING),
            timestamps: self.has(Options::TIMESTAMPS),
            sack: self.has(Options::SACK),
        }
    }
}

/// A connection in TIME_WAIT, of whose endpoints another is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Before {
    /// Where our sequence numbers ended.
    pub end: SeqNumber,
    /// It had timestamps, and the SYN has some.
    pub timestamps: bool,
}

/// How a SYN is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// With a record of it.
    Record,
    /// With a SYN cookie.
    Cookie,
}

/// All half-open records.
#[derive(Debug)]
pub(crate) struct HalfOpens {
    pub slots: Slots,
    records: Vec<HalfOpen>,
}

impl HalfOpens {
    pub fn new(config: &Config) -> io::Result<Self> {
        let mut records = Vec::new();
        records.try_reserve_exact(config.max_half_open as usize)?;
        Ok(Self {
            slots: Slots::new(config.max_half_open)?,
            records,
        })
    }

    pub fn at(&self, slot: u32) -> Option<&HalfOpen> {
        self.records.get(slot as usize)
    }

    /// Hints the processor to load a record early.
    pub fn prefetch(&self, slot: u32) {
        if let Some(record) = self.at(slot) {
            prefetch(record);
        }
    }

    /// A SYN-ACK was sent, `again` if not the first.
    pub fn note_sent(&mut self, slot: u32, now: Instant, again: bool) {
        if let Some(record) = self.records.get_mut(slot as usize) {
            record.sent_at = now.as_micros() as u32;
            record.agreed.set(Options::SENT_AGAIN, again);
            record.agreed.insert(Options::SENT);
        }
    }

    fn insert(&mut self, record: HalfOpen) -> Option<u32> {
        let slot = self.slots.alloc()?;
        match self.records.get_mut(slot as usize) {
            Some(entry) => *entry = record,
            None => self.records.push(record),
        }
        Some(slot)
    }
}

impl Tcp {
    /// A SYN for a listener. `before`: what had the same endpoints, if that is in TIME_WAIT. Data
    /// and FIN in the SYN come again.
    pub fn open_half(
        &mut self,
        now: Instant,
        listener: u32,
        seg: &Segment<'_>,
        before: Option<Before>,
    ) -> Result<(), DropReason> {
        let admission = self.admit(listener, before.as_ref())?;
        // Replies leave where the route says, which need not be where the SYN came in.
        let path = self.shared.net.way_back(seg.key);
        let &Path { port, mtu, .. } = path.map_err(|_| DropReason::ReplyNoRoute)?;
        let iss = isn::start(now, seg.origin).iss;
        let iss = beyond(iss, before.map(|before| before.end));
        let mut record = self.half_open_record(listener, seg, iss, port);
        if self.open_fast(now, &record, seg) {
            return Ok(());
        }
        match admission {
            Admission::Record => {
                // A cookie cannot promise to lie beyond what was sent before. It need not, where
                // timestamps tell that apart (RFC 6191 §3).
                if before.is_none_or(|before| before.timestamps) {
                    self.bequeath(now, &mut record);
                }
                let slot = self.remember(now, record, seg.hash)?;
                self.shared.queues.push_syn_ack(record.port, slot);
            }
            Admission::Cookie => self.answer_with_cookie(now, record, mtu),
        }
        Ok(())
    }

    /// Keeps a record of a SYN: in which slot.
    pub fn remember(
        &mut self,
        now: Instant,
        record: HalfOpen,
        hash: FlowHash,
    ) -> Result<u32, DropReason> {
        let listener = record.listener;
        let slot = self
            .half_open
            .insert(record)
            .ok_or(DropReason::TcpHalfOpen)?;
        if let Some(entry) = self.listeners.at_mut(u32::from(listener)) {
            entry.half_open += 1;
        }
        self.flows.insert(hash, flow::id(flow::HALF_OPEN, slot));
        self.shared.queues.grow_half_open(slot);
        self.schedule_half_open(now, slot, 0);
        Ok(slot)
    }

    /// How a SYN is answered, if it is. As long as connections wait to be accepted and there is no
    /// room for another, it is not: the peer will ask again. `before`: what had the same endpoints,
    /// if that is in TIME_WAIT.
    ///
    /// A cookie cannot promise to lie beyond the sequence numbers of a connection in TIME_WAIT. It
    /// need not where timestamps tell the two apart (RFC 6191 §3). Where they do not, the
    /// listener's limit does not count, as on Linux: who floods it has no connection in TIME_WAIT,
    /// and who has one must not be locked out by the flood.
    pub fn admit(&self, listener: u32, before: Option<&Before>) -> Result<Admission, DropReason> {
        let entry = self
            .listeners
            .at(listener)
            .ok_or(DropReason::TcpNoConnection)?;
        if !entry.has_room() {
            return Err(DropReason::TcpBacklog);
        }
        let cookies = self.shared.config.syn_cookies;
        let is_safe = before.is_none_or(|before| before.timestamps);
        let has_slot = self.half_open.slots.len() < self.half_open.slots.capacity();
        let has_room = has_slot && (entry.may_take_syn() || !is_safe);
        match cookies {
            SynCookies::Always if is_safe => Ok(Admission::Cookie),
            _ if has_room => Ok(Admission::Record),
            SynCookies::Auto if is_safe => Ok(Admission::Cookie),
            _ => Err(DropReason::TcpHalfOpen),
        }
    }

    pub fn half_open_record(
        &self,
        listener: u32,
        seg: &Segment<'_>,
        iss: SeqNumber,
        port: PortId,
    ) -> HalfOpen {
        let config = &self.shared.config;
        let key = *seg.key;
        let wscale = window_scale_for(config.max_buffer);
        let agreed = Agreed::new(config, wscale, seg.options, key.is_ipv4());
        let mut facts = Options::new(&agreed);
        let listens = self.listeners.at(listener);
        let gives = listens.is_some_and(|listener| listener.options.fast_open.is_some());
        facts.set(Options::FAST_OPEN, gives && seg.options.fast_open.is_some());
        HalfOpen {
            key,
            iss,
            irs: seg.seq,
            ts_recent: seg.options.timestamps.map_or(0, |stamps| stamps.tsval),
            sent_at: seg.origin,
            listener: listener as u16,
            peer_mss: agreed.peer_mss,
            window: seg.window,
            snd_wscale: agreed.snd_wscale,
            rcv_wscale: agreed.rcv_wscale,
            port,
            retries: 0,
            agreed: facts,
            ecn: Answer::to(config, seg),
        }
    }

    fn schedule_half_open(&mut self, now: Instant, slot: u32, retries: u8) {
        let bounds = self.shared.loss.rto_bounds;
        let rto = Rtt::new(bounds).backed_off_micros(retries, bounds.max);
        let id = flow::id(flow::HALF_OPEN, slot);
        self.shared.wheel.schedule(id, now.after_micros(rto));
    }

    /// The SYN-ACK was not answered.
    pub fn on_half_open_timer(&mut self, now: Instant, slot: u32) {
        let limit = self.shared.config.syn_ack_retries;
        let Some(record) = self.half_open.at(slot) else {
            return;
        };
        let waits = self.is_waiting_for_data(record);
        let Some(record) = self.half_open.records.get_mut(slot as usize) else {
            return;
        };
        if record.retries >= limit && !waits {
            self.drop_half_open(slot);
            return;
        }
        record.retries += 1;
        let (port, retries) = (record.port, record.retries);
        if !waits {
            self.shared.counters.timeouts += 1;
            self.shared.queues.push_syn_ack(port, slot);
        }
        self.schedule_half_open(now, slot, retries);
    }

    /// Says that it will not be a connection. The peer may hold it for one already, and nobody may
    /// be left here to answer what it sends (RFC 9293 §3.10.5, SYN-RECEIVED STATE). As few as other
    /// answers to strangers: their addresses may be made up.
    pub fn reset_half_open(&mut self, now: Instant, record: &HalfOpen) {
        if !self.shared.resets.allow(now) {
            return self.shared.counters.drop(DropReason::ReplyLimited);
        }
        let header = TcpHeader {
            seq: record.iss + 1,
            ack: record.rcv_nxt(),
            flags: TcpFlags::RST | TcpFlags::ACK,
            options: TcpOptions {
                timestamps: self.half_open_stamps(now, record),
                ..TcpOptions::default()
            },
            ..TcpHeader::default()
        };
        self.shared.counters.resets_out += 1;
        self.shared.send_bare(&record.key, &header);
    }

    /// Back to LISTEN.
    pub fn drop_half_open(&mut self, slot: u32) {
        if let Some(&HalfOpen { key, .. }) = self.half_open.at(slot) {
            let hash = self.flows.hash(&key);
            self.flows.remove(hash, flow::id(flow::HALF_OPEN, slot));
        }
        self.free_half_open(slot);
    }

    /// Frees the record; the flow table does not name it any more.
    pub fn free_half_open(&mut self, slot: u32) {
        let Some(&HalfOpen { listener, port, .. }) = self.half_open.at(slot) else {
            return;
        };
        if !self.half_open.slots.free(slot) {
            return;
        }
        self.shared.queues.remove_syn_ack(port, slot);
        self.shared.wheel.cancel(flow::id(flow::HALF_OPEN, slot));
        if let Some(entry) = self.listeners.at_mut(u32::from(listener)) {
            entry.half_open = entry.half_open.saturating_sub(1);
        }
    }

    /// SYN_RECEIVED of a passive open (RFC 9293 §3.10.7.4).
    /// RFC 9293 MUST-11.
    pub fn on_half_open(&mut self, now: Instant, slot: u32, seg: &Segment<'_>) -> Step {
        let Some(&record) = self.half_open.at(slot) else {
            return Err(DropReason::TcpNoConnection.into());
        };
        self.check_repeated_syn(now, slot, &record, seg)?;
        self.check_half_open_sequence(now, &record, seg)?;
        self.check_half_open_rst(now, slot, &record, seg)?;
        // Fourth, check the SYN bit: "if the connection was initiated with a passive OPEN, then
        // return this connection to the LISTEN state and return".
        if seg.has(TcpFlags::SYN) {
            self.drop_half_open(slot);
            return Err(DropReason::TcpSyn.into());
        }
        // Fifth, check the ACK field.
        if !seg.has(TcpFlags::ACK) {
            return Err(DropReason::TcpState.into());
        }
        if seg.ack != record.iss + 1 {
            return Err(Stop::UnknownFlow(DropReason::TcpAck));
        }
        if self.is_deferred(&record, seg) {
            if let Some(record) = self.half_open.records.get_mut(slot as usize) {
                record.agreed.insert(Options::ACKED);
            }
            return Err(Stop::Done);
        }
        self.promote(now, slot, &record, seg)
    }

    /// The peer did not get our SYN-ACK: again.
    /// RFC 9768 §3.1.5-4.
    fn check_repeated_syn(
        &mut self,
        now: Instant,
        slot: u32,
        record: &HalfOpen,
        seg: &Segment<'_>,
    ) -> Step {
        let is_syn = seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::ACK | TcpFlags::RST);
        if !(is_syn && seg.seq == record.irs) {
            return Ok(());
        }
        // RFC 9768 §3.1.5: neither end could know what the other has agreed to.
        let Some(answer) = record.ecn.again(seg) else {
            self.shared.answer_with_reset(now, seg);
            self.drop_half_open(slot);
            return Err(DropReason::TcpSyn.into());
        };
        self.shared.queues.push_syn_ack(record.port, slot);
        if let Some(record) = self.half_open.records.get_mut(slot as usize) {
            record.ecn = answer;
            record.note_repeated(seg);
        }
        Err(Stop::Done)
    }

    /// First, check the sequence number, and the timestamp.
    fn check_half_open_sequence(
        &mut self,
        now: Instant,
        record: &HalfOpen,
        seg: &Segment<'_>,
    ) -> Step {
        let window = u32::from(self.half_open_window(record)).max(1);
        let first = record.rcv_nxt();
        let in_window = |seq: SeqNumber| seq >= first && seq < first + window;
        let acceptable = in_window(seg.seq) || (seg.len() > 0 && in_window(seg.end() - 1));
        let stamps = seg
            .options
            .timestamps
            .filter(|_| record.has(Options::TIMESTAMPS) && !seg.has(TcpFlags::RST));
        let is_old =
            stamps.is_some_and(|stamps| (stamps.tsval.wrapping_sub(record.ts_recent) as i32) < 0);
        if acceptable && !is_old {
            return Ok(());
        }
        if !seg.has(TcpFlags::RST) {
            self.challenge_half_open(now, record);
        }
        Err(if is_old {
            DropReason::TcpPaws
        } else {
            DropReason::TcpWindow
        }
        .into())
    }

    /// Second, check the RST bit (RFC 5961 §3).
    fn check_half_open_rst(
        &mut self,
        now: Instant,
        slot: u32,
        record: &HalfOpen,
        seg: &Segment<'_>,
    ) -> Step {
        if !seg.has(TcpFlags::RST) {
            return Ok(());
        }
        if seg.seq != record.rcv_nxt() {
            self.challenge_half_open(now, record);
            return Err(DropReason::TcpReset.into());
        }
        self.shared.counters.resets_in += 1;
        self.drop_half_open(slot);
        Err(Stop::Done)
    }

    fn challenge_half_open(&mut self, now: Instant, record: &HalfOpen) {
        if !self.shared.may_challenge(now) {
            self.shared.counters.drop(DropReason::ReplyLimited);
            return;
        }
        self.shared.counters.challenge_acks += 1;
        let header = TcpHeader {
            seq: record.iss + 1,
            ack: record.rcv_nxt(),
            flags: TcpFlags::ACK,
            window: self.half_open_window(record) >> record.rcv_wscale,
            options: TcpOptions {
                timestamps: self.half_open_stamps(now, record),
                ..TcpOptions::default()
            },
            ..TcpHeader::default()
        };
        self.shared.send_bare(&record.key, &header);
    }

    fn half_open_window(&self, record: &HalfOpen) -> u16 {
        let listener = self.listeners.at(u32::from(record.listener));
        listener.map_or(0, |listener| {
            initial_receive_window(&self.shared.config, &listener.options)
        })
    }
}

/// An ISS that is beyond everything sent before between the same endpoints (RFC 9293 §3.4.3,
/// RFC 6191 §2).
pub(crate) fn beyond(fresh: SeqNumber, after: Option<SeqNumber>) -> SeqNumber {
    match after {
        Some(last) => fresh.max(last + (1 << 17)),
        None => fresh,
    }
}
