//! What is left of a control block while its connection idles: a quarter of it.
//!
//! A record is made only if it gives back exactly what there was, but for what means nothing while
//! nothing is in flight, or after a silence of a retransmission time-out. So nothing that looks at
//! a connection can tell whether it slept; one that is unusual in a way that has no place here does
//! not.

use std::net::IpAddr;

use bitflags::bitflags;
use wire::frame::MacAddr;
use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::command::Options;
use crate::config::Config;
use crate::event::Ready;
use crate::flow::{FlowHash, FlowKey, Kept};
use crate::id::{PortId, Token};
use crate::info::State;
use crate::ip::Path;
use crate::tcp::clock::near;
use crate::tcp::ecn::{self, EcnState};
use crate::tcp::flags::Flags;
use crate::tcp::loss;
use crate::tcp::open::{Opening, cold_with};
use crate::tcp::option_sets::SetId;
use crate::tcp::path::Finding;
use crate::tcp::receive;
use crate::tcp::send::{self, Limit};
use crate::tcp::setup::isn::Start;
use crate::tcp::statistics::{CompactStatistics, Statistics};
use crate::tcp::tcb::{Cold, Hot};

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
        const PROBE_FAILED = 1 << 1;
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

/// See the module. What is at SND.UNA or RCV.NXT, or as far behind as there were bytes, is not in
/// it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactTcb {
    pub key: Kept,
    pub hash: FlowHash,
    snd: send::Compact,
    rcv_nxt: SeqNumber,
    rcv_wnd: u32,
    ts_recent: u32,
    ts_offset: u32,
    /// Milliseconds, low 32 bits.
    last_received: u32,
    flags: Flags,
    rcv_mss: u16,
    snd_wscale: u8,
    rcv_wscale: u8,
    port: PortId,
    quick_acks: u8,
    predicted: TcpFlags,
    pub counted: Counted,
    loss: loss::Compact,
    pub options: SetId,
    token: Token,
    finding: Finding,
    mtu: u16,
    peer_mss: u16,
    local_mss: u16,
    facts: Facts,
    ecn: ecn::Compact,
    send_limit: Limit,
    /// As in [`Name`].
    pub via: u8,
}

const _: () = assert!(size_of::<CompactTcb>() <= 172);

/// What was counted, or the index of a record of it, if it is too much.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    Few(CompactStatistics),
    Many(u32),
}

/// Whether nothing is in flight, held or due that the record has no place for.
pub(crate) fn is_idle(hot: &Hot) -> bool {
    hot.state == State::Established
        && hot.flight() == 0
        && hot.loss.backoff == 0
        && !hot.has(ACTIVE)
}

impl Hot {
    /// As [`Cold::forget_flight`].
    pub fn forget_flight(&mut self) {
        // The wheel knows.
        self.wheel_at = Instant::FAR;
        // Whatever comes next is newer.
        self.snd.forget_flight(self.rcv.nxt);
        self.rcv.ack_at = 0;
        self.loss.forget_flight(self.snd.una);
    }
}

impl Cold {
    /// Sets what means nothing while a connection [idles](is_idle) for longer than its RTO to what
    /// it always is in one that has slept.
    pub fn forget_flight(&mut self, now: Instant, hot: &Hot) {
        let una = hot.snd.una;
        self.statistics.stop_watches(self.snd.una_since);
        self.snd.forget_flight(self.iss, una);
        self.listener = 0;
        if self.keepalive_probes == 0 {
            self.keepalive_at = Instant::FAR;
        }
        self.search.forget_probe(now, una);
        self.rcv
            .forget_idle(self.snd.last_sent, self.statistics.bytes_received);
        self.challenges.forget(now);
        self.loss.forget_flight(self.iss, una);
    }
}

impl CompactTcb {
    /// As much of both parts as there is room for.
    pub fn of(hot: &Hot, cold: &Cold, loss: loss::Compact, counted: Counted, name: Name) -> Self {
        let Name { key, hash, via } = name;
        Self {
            key,
            hash,
            snd: send::Compact::pack(&hot.snd, &cold.snd),
            rcv_nxt: hot.rcv.nxt,
            rcv_wnd: hot.rcv_wnd(),
            ts_recent: hot.ts_recent,
            ts_offset: hot.ts_offset,
            last_received: hot.last_received,
            flags: hot.flags,
            rcv_mss: hot.rcv.mss,
            snd_wscale: hot.snd_wscale,
            rcv_wscale: hot.rcv_wscale,
            port: hot.port,
            quick_acks: hot.rcv.quick_acks,
            predicted: hot.predicted,
            counted,
            loss,
            options: cold.options,
            token: cold.token,
            finding: cold.search.finding(hot.snd.una),
            mtu: cold.path.mtu,
            peer_mss: cold.peer_mss,
            local_mss: cold.local_mss,
            facts: Facts::of(cold),
            ecn: cold.ecn.packed(),
            send_limit: Limit::of(cold.snd.limit),
            via,
        }
    }

    /// The one part that it was made from, but for what the wheel knows.
    pub fn hot(&self) -> Hot {
        let (una, nxt) = (self.snd.una, self.rcv_nxt);
        Hot {
            wheel_at: Instant::FAR,
            loss: self.loss.hot(una),
            snd: self.snd.hot(nxt),
            rcv: receive::Hot::resting(nxt, self.rcv_wnd, self.rcv_mss, self.quick_acks),
            ts_recent: self.ts_recent,
            ts_offset: self.ts_offset,
            last_received: self.last_received,
            flags: self.flags,
            state: State::Established,
            snd_wscale: self.snd_wscale,
            rcv_wscale: self.rcv_wscale,
            port: self.port,
            retries: 0,
            ready: Ready::empty(),
            predicted: self.predicted,
        }
    }

    /// The other part, of the connection `key` with this `hot` part and these `statistics`, not
    /// long before `now`.
    pub fn cold(&self, now: Instant, rest: &Rest<'_>) -> Cold {
        let Rest {
            config,
            options,
            key,
            hot,
            next_hop,
            known,
            statistics,
        } = *rest;
        let una = hot.snd.una;
        // In the ESTABLISHED state, SYN and bytes are all that there was.
        let iss = una - 1 - statistics.bytes_acked as u32;
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
        let last_sent = near(now, self.snd.last_sent).min(now);
        let loss = self.loss.cold(iss, una, options.max_pacing_rate);
        let fresh = cold_with(config, &opening, options, last_sent, loss);
        let has = |fact| self.facts.contains(fact);
        let failed = has(Facts::PROBE_FAILED);
        let mut rcv = fresh.rcv;
        rcv.tuning.pause(last_sent, statistics.bytes_received);
        Cold {
            snd: send::Cold {
                limit: self.send_limit.unpacked(fresh.snd.limit),
                ..fresh.snd
            },
            rcv,
            read_shut: has(Facts::READ_SHUT),
            irs: hot.rcv.nxt - 1 - statistics.bytes_received as u32,
            search: self.finding.search(now, una, failed),
            ecn: EcnState::unpacked(self.ecn),
            statistics: *statistics,
            peer_mss: self.peer_mss,
            local_mss: self.local_mss,
            ..fresh
        }
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
    pub statistics: &'a Statistics,
}

impl Facts {
    fn of(cold: &Cold) -> Self {
        let mut facts = Self::empty();
        facts.set(Self::READ_SHUT, cold.read_shut);
        facts.set(Self::PROBE_FAILED, cold.search.has_failed());
        facts
    }
}
