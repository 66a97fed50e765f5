//! Half-open connections of listeners: SYN_RECEIVED in 64 bytes. A control block is taken when the
//! handshake is complete.

use std::io;

use ring::prefetch::prefetch;
use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::arena::{SavedSlots, Slots};
use crate::config::Config;
use crate::flow::FlowKey;
use crate::id::PortId;
use crate::tcp::ecn::{Answer, Feedback};
use crate::tcp::options::Agreed;
use crate::tcp::segment::Segment;

/// What has to be remembered between SYN and ACK.
#[derive(Clone, Copy, Debug)]
// The key first: copies of it are from one half of a copied record.
#[repr(C, align(64))]
#[derive(serde::Serialize, serde::Deserialize)]
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
    #[derive(serde::Serialize, serde::Deserialize)]
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
    pub fn new(agreed: &Agreed) -> Self {
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
    pub fn note_repeated(&mut self, syn: &Segment<'_>) {
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

/// All half-open records.
#[derive(Debug)]
pub(crate) struct HalfOpens {
    pub slots: Slots,
    records: Vec<HalfOpen>,
}

/// All of them on their way to another process.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct SavedHalfOpens {
    slots: SavedSlots,
    records: Vec<HalfOpen>,
}

impl HalfOpens {
    pub fn save(&self) -> SavedHalfOpens {
        SavedHalfOpens {
            slots: self.slots.save(),
            records: self.records.clone(),
        }
    }

    /// Takes over what another had, where there is nothing yet. False: it contradicts itself, or it
    /// is too much.
    pub fn restore(&mut self, saved: SavedHalfOpens) -> bool {
        let is_sound = saved.records.len() == saved.slots.len();
        self.records = saved.records;
        is_sound && self.slots.restore(&saved.slots)
    }

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

    pub fn at_mut(&mut self, slot: u32) -> Option<&mut HalfOpen> {
        self.records.get_mut(slot as usize)
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

    /// In which slot. `None`: there is none left.
    pub fn insert(&mut self, record: &HalfOpen) -> Option<u32> {
        let slot = self.slots.alloc()?;
        match self.records.get_mut(slot as usize) {
            Some(entry) => *entry = *record,
            None => self.records.push(*record),
        }
        Some(slot)
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
