//! What is left of a control block while its connection idles: a quarter of it.
//!
//! A record is made only if it gives back exactly what there was, but for what means nothing while nothing is in flight, or after a silence
//! of a retransmission time-out. So nothing that looks at a connection can tell whether it slept; one that is unusual in a way that has no
//! place here does not.

use std::net::IpAddr;

use bitflags::bitflags;
use wire::frame::MacAddr;
use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::cc::{AtRest, Window};
use crate::command::Options;
use crate::config::Config;
use crate::event::Ready;
use crate::flow::{FlowHash, FlowKey, Kept};
use crate::id::{PortId, Token};
use crate::info::State;
use crate::ip::Path;
use crate::tcp::autotune::SendLimit;
use crate::tcp::conn::near;
use crate::tcp::ecn::{Answer, EcnState, Feedback};
use crate::tcp::isn::Start;
use crate::tcp::open::{Opening, cold_with};
use crate::tcp::option_sets::SetId;
use crate::tcp::path_probe::Finding;
use crate::tcp::rack::{Reordered, Reordering};
use crate::tcp::ranges::{Range, RangeSet};
use crate::tcp::rtt::{MinRtt, Rtt};
use crate::tcp::tail::TailProbe;
use crate::tcp::tally::{Few, Tally};
use crate::tcp::tcb::{Cold, Fill, Flags, Hot};

/// With any of these, something is going on.
const ACTIVE: Flags = Flags::PERSIST
    .union(Flags::FIN_QUEUED)
    .union(Flags::RECOVERY)
    .union(Flags::LOSS)
    .union(Flags::HOLES)
    .union(Flags::SACKED)
    .union(Flags::PEER_FIN)
    .union(Flags::DETACHED)
    .union(Flags::UNANNOUNCED)
    .union(Flags::BACKLOG)
    .union(Flags::SENT_LOG)
    .union(Flags::DUPLICATE)
    .union(Flags::TIMING)
    .union(Flags::ACK_NOW)
    .union(Flags::ACK_DELAYED);

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Facts: u8 {
        const READ_SHUT = 1 << 0;
        const DSACK_SEEN = 1 << 1;
        const MEASURED = 1 << 2;
        const ECN_CAPABLE = 1 << 3;
        const ECN_SEEN = 1 << 4;
        const PROBE_FAILED = 1 << 5;
    }
}

/// How it is found, and where it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub key: Kept,
    pub hash: FlowHash,
    /// What the owner of the records calls the next hop.
    pub via: u8,
}

/// See the module. What is at SND.UNA or RCV.NXT, or as far behind as there were bytes, is not in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asleep {
    pub key: Kept,
    pub hash: FlowHash,
    snd_una: SeqNumber,
    rcv_nxt: SeqNumber,
    snd_wnd: u32,
    max_snd_wnd: u32,
    rcv_wnd: u32,
    ts_recent: u32,
    ts_offset: u32,
    window: Window,
    /// Milliseconds, low 32 bits.
    last_received: u32,
    rtt: Rtt,
    flags: Flags,
    mss: u16,
    rcv_mss: u16,
    snd_wscale: u8,
    rcv_wscale: u8,
    port: PortId,
    dup_acks: u8,
    quick_acks: u8,
    predicted: TcpFlags,
    pub counted: Counted,
    /// Milliseconds, low 32 bits.
    last_sent: u32,
    congestion: AtRest,
    pub options: SetId,
    token: Token,
    min_rtt: MinRtt,
    finding: Finding,
    mtu: u16,
    peer_mss: u16,
    local_mss: u16,
    facts: Facts,
    asks: Feedback,
    answer: Answer,
    reordering: Reordered,
    send_limit: SendLimit,
    /// As in [`Name`].
    pub via: u8,
}

const _: () = assert!(size_of::<Asleep>() <= 172);

/// What was counted, or the index of a record of it, if it is too much.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    Few(Few),
    Many(u32),
}

/// Whether nothing is in flight, held or due that the record has no place for.
pub(crate) fn is_idle(hot: &Hot) -> bool {
    hot.state == State::Established && hot.flight() == 0 && hot.backoff == 0 && !hot.has(ACTIVE)
}

impl Hot {
    /// As [`Cold::forget_flight`].
    pub fn forget_flight(&mut self) {
        // The wheel knows.
        self.wheel_at = Instant::FAR;
        // Whatever comes next is newer.
        self.snd_wl1 = self.rcv_nxt;
        self.snd_wl2 = self.snd_una;
        self.ack_at = 0;
        self.fin_seq = self.snd_una;
        self.rtt_seq = self.snd_una;
        self.rtt_at = 0;
    }
}

impl Cold {
    /// Sets what means nothing while a connection [idles](is_idle) for longer than its RTO to what it always is in one that has slept.
    pub fn forget_flight(&mut self, now: Instant, hot: &Hot) {
        let una = hot.snd_una;
        self.last_sent = Instant::from_millis(self.last_sent.as_millis());
        self.tally.stop_watches(self.una_since);
        self.una_since = self.last_sent;
        self.blocked_since = self.last_sent;
        self.probed_since = 0;
        self.fill = Fill::default();
        self.flight_at = 0;
        self.reduced_at = 0;
        self.peer_fin = SeqNumber(0);
        self.held = 0;
        self.sent = 0;
        self.duplicate = Range::default();
        self.sacked = RangeSet::default();
        self.tail.end = self.iss;
        self.small_end = self.iss;
        self.is_urgent &= self.snd_up > una;
        self.snd_up = self.iss;
        self.departed.most = 0;
        self.rate.newest = None;
        self.listener = 0;
        self.timeout_stamp = 0;
        if self.keepalive_probes == 0 {
            self.keepalive_at = Instant::FAR;
        }
        if una > self.recover {
            self.recover = una - 1;
        }
        self.round_end = una;
        self.reordering.forget_round(una);
        self.search.forget_probe(now, una);
        self.autotune
            .pause(self.last_sent, self.tally.bytes_received);
        self.challenges.forget(now);
        self.congestion.pause();
    }
}

impl Asleep {
    /// As much of both parts as there is room for.
    pub fn of(hot: &Hot, cold: &Cold, congestion: AtRest, counted: Counted, name: Name) -> Self {
        let Name { key, hash, via } = name;
        Self {
            key,
            hash,
            snd_una: hot.snd_una,
            rcv_nxt: hot.rcv_nxt,
            snd_wnd: hot.snd_wnd,
            max_snd_wnd: hot.max_snd_wnd,
            rcv_wnd: hot.rcv_wnd(),
            ts_recent: hot.ts_recent,
            ts_offset: hot.ts_offset,
            window: hot.window,
            last_received: hot.last_received,
            rtt: hot.rtt,
            flags: hot.flags,
            mss: hot.mss,
            rcv_mss: hot.rcv_mss,
            snd_wscale: hot.snd_wscale,
            rcv_wscale: hot.rcv_wscale,
            port: hot.port,
            dup_acks: hot.dup_acks,
            quick_acks: hot.quick_acks,
            predicted: hot.predicted,
            counted,
            last_sent: cold.last_sent.as_millis() as u32,
            congestion,
            options: cold.options,
            token: cold.token,
            min_rtt: cold.min_rtt,
            finding: cold.search.finding(hot.snd_una),
            mtu: cold.path.mtu,
            peer_mss: cold.peer_mss,
            local_mss: cold.local_mss,
            facts: Facts::of(cold),
            asks: cold.ecn.asks,
            answer: cold.ecn.answer,
            reordering: cold.reordering.packed(),
            send_limit: cold.autotune.packed_limit(),
            via,
        }
    }

    /// The one part that it was made from, but for what the wheel knows.
    pub fn hot(&self) -> Hot {
        let (una, nxt) = (self.snd_una, self.rcv_nxt);
        Hot {
            wheel_at: Instant::FAR,
            rtx_at: Instant::FAR,
            early_at: Instant::FAR,
            snd_una: una,
            snd_nxt: una,
            snd_wl1: nxt,
            snd_wl2: una,
            snd_wnd: self.snd_wnd,
            max_snd_wnd: self.max_snd_wnd,
            rcv_nxt: nxt,
            rcv_adv: nxt + self.rcv_wnd,
            last_ack_sent: nxt,
            ts_recent: self.ts_recent,
            ts_offset: self.ts_offset,
            ack_at: 0,
            window: self.window,
            fin_seq: una,
            rtt_seq: una,
            rtt_at: 0,
            last_received: self.last_received,
            rtt: self.rtt,
            flags: self.flags,
            mss: self.mss,
            rcv_mss: self.rcv_mss,
            state: State::Established,
            snd_wscale: self.snd_wscale,
            rcv_wscale: self.rcv_wscale,
            port: self.port,
            dup_acks: self.dup_acks,
            dup_acks_due: 0,
            backoff: 0,
            quick_acks: self.quick_acks,
            retries: 0,
            ready: Ready::empty(),
            predicted: self.predicted,
        }
    }

    /// The other part, of the connection `key` with this `hot` part and this `tally`, not long before `now`.
    pub fn cold(&self, now: Instant, rest: &Rest<'_>) -> Cold {
        let Rest {
            config,
            options,
            key,
            hot,
            next_hop,
            known,
            tally,
        } = *rest;
        let una = hot.snd_una;
        // In the ESTABLISHED state, SYN and bytes are all that there was.
        let iss = una - 1 - tally.bytes_acked as u32;
        let path = Path {
            port: hot.port,
            src: key.local().ip(),
            next_hop,
            known,
            mtu: self.mtu,
            ..Path::NOWHERE
        };
        let opening = Opening {
            key,
            path: &path,
            options: self.options,
            start: Start {
                iss,
                ts_offset: hot.ts_offset,
            },
            token: self.token,
        };
        let last_sent = near(now, self.last_sent).min(now);
        let fresh = cold_with(config, &opening, options, last_sent, self.congestion.into());
        let has = |fact| self.facts.contains(fact);
        let mut autotune = fresh.autotune;
        autotune.pause(last_sent, tally.bytes_received);
        autotune.unpack_limit(self.send_limit);
        let mut search = self.finding.search(now, una);
        search.failed = has(Facts::PROBE_FAILED);
        Cold {
            read_shut: has(Facts::READ_SHUT),
            irs: hot.rcv_nxt - 1 - tally.bytes_received as u32,
            recover: una - 1,
            tail: TailProbe {
                measured: has(Facts::MEASURED),
                ..fresh.tail
            },
            reordering: Reordering::unpacked(self.reordering, una),
            search,
            dsack_seen: has(Facts::DSACK_SEEN),
            round_end: una,
            ecn: self.ecn(),
            autotune,
            tally: *tally,
            peer_mss: self.peer_mss,
            local_mss: self.local_mss,
            min_rtt: self.min_rtt,
            ..fresh
        }
    }

    fn ecn(&self) -> EcnState {
        let mut ecn = EcnState::default();
        ecn.asks = self.asks;
        ecn.answer = self.answer;
        ecn.capable = self.facts.contains(Facts::ECN_CAPABLE);
        ecn.seen = self.facts.contains(Facts::ECN_SEEN);
        ecn
    }
}

/// What else is known of a connection that sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest<'a> {
    pub config: &'a Config,
    pub options: &'a Options,
    pub key: &'a FlowKey,
    pub hot: &'a Hot,
    pub next_hop: IpAddr,
    /// Its hardware address, if that was configured.
    pub known: Option<MacAddr>,
    pub tally: &'a Tally,
}

impl Facts {
    fn of(cold: &Cold) -> Self {
        let mut facts = Self::empty();
        facts.set(Self::READ_SHUT, cold.read_shut);
        facts.set(Self::DSACK_SEEN, cold.dsack_seen);
        facts.set(Self::MEASURED, cold.tail.measured);
        facts.set(Self::ECN_CAPABLE, cold.ecn.capable);
        facts.set(Self::ECN_SEEN, cold.ecn.seen);
        facts.set(Self::PROBE_FAILED, cold.search.failed);
        facts
    }
}
