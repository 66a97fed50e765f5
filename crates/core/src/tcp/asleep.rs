//! What is left of [`Cold`] while a connection idles: a third of it.
//!
//! A record is made only if it gives back exactly what there was, but for what means nothing while nothing is in flight. So nothing that
//! looks at a connection can tell whether it slept; one that is unusual in a way that has no place here does not.

use std::net::IpAddr;

use bitflags::bitflags;
use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::cc::AtRest;
use crate::command::Options;
use crate::config::Config;
use crate::flow::FlowKey;
use crate::id::Token;
use crate::info::State;
use crate::ip::Path;
use crate::tcp::autotune::Autotune;
use crate::tcp::challenge::Challenges;
use crate::tcp::ecn::{Answer, EcnState, Feedback};
use crate::tcp::isn::Start;
use crate::tcp::open::{Opening, cold_with};
use crate::tcp::option_sets::SetId;
use crate::tcp::path_probe::PathSearch;
use crate::tcp::rack::Reordering;
use crate::tcp::ranges::{Range, RangeSet};
use crate::tcp::rtt::MinRtt;
use crate::tcp::tail::TailProbe;
use crate::tcp::tally::{Tally, Watch};
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
    .union(Flags::DUPLICATE);

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Facts: u16 {
        const READ_SHUT = 1 << 0;
        const DSACK_SEEN = 1 << 1;
        const MEASURED = 1 << 2;
        const ACTIVE_OPEN = 1 << 3;
        const SYN_DATA = 1 << 4;
        const ECN_CAPABLE = 1 << 5;
        const ECN_SEEN = 1 << 6;
        const PROBE_FAILED = 1 << 7;
        const SENT_FULL = 1 << 8;
    }
}

/// See the module. Counts that have not much room here are seldom large: of connections where they are, see there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asleep {
    last_sent: Instant,
    una_since: Instant,
    tuned_at: Instant,
    probe_at: Instant,
    tuned_taken: u32,
    tuned_last: u32,
    send_limit: u32,
    iss: SeqNumber,
    irs: SeqNumber,
    recover: SeqNumber,
    round_end: SeqNumber,
    full_end: SeqNumber,
    proven_to: SeqNumber,
    reduced_at: u32,
    reordering: Reordering,
    congestion: AtRest,
    challenges: Challenges,
    pub options: SetId,
    token: Token,
    min_rtt: MinRtt,
    tally: Counted,
    mtu: u16,
    highest_mtu: u16,
    peer_mss: u16,
    local_mss: u16,
    facts: Facts,
    asks: Feedback,
    answer: Answer,
    /// What the owner of the records calls the next hop.
    pub via: u8,
}

const _: () = assert!(size_of::<Asleep>() <= 208);

/// What is left of a [`Tally`].
#[derive(Clone, Copy, Debug)]
struct Counted {
    busy: Watch,
    bytes_acked: u32,
    bytes_received: u32,
    segments_in: u32,
    segments_out: u32,
    data_segments_in: u32,
    data_segments_out: u32,
    new_segments_out: u32,
    data_at: u32,
    bytes_retransmitted: u16,
    timeout_ticks: u16,
    window_ticks: u16,
    buffer_ticks: u16,
    retransmits: u8,
    duplicates_reported: u8,
    reorderings: u8,
    out_of_order: u8,
    timeouts: u8,
    timeout_runs: u8,
}

/// Whether nothing is in flight, held or due that the record has no place for.
pub(crate) fn is_idle(hot: &Hot) -> bool {
    hot.state == State::Established && hot.flight() == 0 && hot.backoff == 0 && !hot.has(ACTIVE)
}

impl Cold {
    /// Sets what means nothing while a connection [idles](is_idle) to what it always is in one that has slept.
    pub fn forget_flight(&mut self) {
        self.fill = Fill::default();
        self.flight_at = 0;
        self.blocked_since = self.una_since;
        self.peer_fin = SeqNumber(0);
        self.held = 0;
        self.sent = 0;
        self.duplicate = Range::default();
        self.sacked = RangeSet::default();
        self.tail.end = self.iss;
        self.departed.most = 0;
        self.rate.newest = None;
        self.listener = 0;
        self.timeout_stamp = 0;
        if self.keepalive_probes == 0 {
            self.keepalive_at = Instant::FAR;
        }
        self.search.forget_probe();
    }
}

impl Asleep {
    /// As much of `cold` as there is room for. `None`: there is none for its congestion control.
    pub fn of(cold: &Cold, via: u8) -> Option<Self> {
        Some(Self {
            last_sent: cold.last_sent,
            una_since: cold.una_since,
            tuned_at: cold.autotune.since,
            probe_at: cold.search.next_at,
            tuned_taken: cold.autotune.taken as u32,
            tuned_last: cold.autotune.last as u32,
            send_limit: cold.autotune.send_limit,
            iss: cold.iss,
            irs: cold.irs,
            recover: cold.recover,
            round_end: cold.round_end,
            full_end: cold.search.full_end,
            proven_to: cold.search.proven_to,
            reduced_at: cold.reduced_at,
            reordering: cold.reordering,
            congestion: cold.congestion.at_rest()?,
            challenges: cold.challenges,
            options: cold.options,
            token: cold.token,
            min_rtt: cold.min_rtt,
            tally: Counted::of(&cold.tally),
            mtu: cold.path.mtu,
            highest_mtu: cold.search.high,
            peer_mss: cold.peer_mss,
            local_mss: cold.local_mss,
            facts: Facts::of(cold),
            asks: cold.ecn.asks,
            answer: cold.ecn.answer,
            via,
        })
    }

    /// What it was made from, of the connection `key` with this `hot` part.
    pub fn awake(
        &self,
        config: &Config,
        options: &Options,
        key: &FlowKey,
        hot: &Hot,
        next_hop: IpAddr,
    ) -> Cold {
        let opening = Opening {
            key: *key,
            path: Path {
                port: hot.port,
                src: key.local().ip(),
                next_hop,
                mtu: self.mtu,
                class: 0,
                hop_limit: 0,
            },
            options: self.options,
            start: Start {
                iss: self.iss,
                ts_offset: hot.ts_offset,
            },
            token: self.token,
        };
        let congestion = self.congestion.into();
        let fresh = cold_with(config, &opening, options, self.una_since, congestion);
        Cold {
            last_sent: self.last_sent,
            read_shut: self.facts.contains(Facts::READ_SHUT),
            irs: self.irs,
            recover: self.recover,
            reduced_at: self.reduced_at,
            tail: TailProbe {
                measured: self.facts.contains(Facts::MEASURED),
                ..fresh.tail
            },
            reordering: self.reordering,
            search: self.search(),
            dsack_seen: self.facts.contains(Facts::DSACK_SEEN),
            round_end: self.round_end,
            ecn: self.ecn(),
            autotune: Autotune {
                since: self.tuned_at,
                taken: u64::from(self.tuned_taken),
                last: u64::from(self.tuned_last),
                send_limit: self.send_limit,
            },
            tally: self.tally(),
            peer_mss: self.peer_mss,
            local_mss: self.local_mss,
            challenges: self.challenges,
            min_rtt: self.min_rtt,
            ..fresh
        }
    }

    fn search(&self) -> PathSearch {
        let mut search = PathSearch::new(self.highest_mtu);
        search.failed = self.facts.contains(Facts::PROBE_FAILED);
        search.next_at = self.probe_at;
        search.sent_full = self.facts.contains(Facts::SENT_FULL);
        search.full_end = self.full_end;
        search.proven_to = self.proven_to;
        search
    }

    fn ecn(&self) -> EcnState {
        let mut ecn = EcnState::default();
        ecn.asks = self.asks;
        ecn.answer = self.answer;
        ecn.capable = self.facts.contains(Facts::ECN_CAPABLE);
        ecn.seen = self.facts.contains(Facts::ECN_SEEN);
        ecn
    }

    fn tally(&self) -> Tally {
        let counted = &self.tally;
        let stopped = |ticks: u16| Watch {
            total: u32::from(ticks),
            ..Watch::STOPPED
        };
        Tally {
            active: self.facts.contains(Facts::ACTIVE_OPEN),
            syn_data: self.facts.contains(Facts::SYN_DATA),
            retransmits: counted.retransmits.into(),
            segments_in: counted.segments_in,
            segments_out: counted.segments_out,
            bytes_acked: counted.bytes_acked.into(),
            bytes_received: counted.bytes_received.into(),
            data_segments_in: counted.data_segments_in,
            data_segments_out: counted.data_segments_out,
            new_segments_out: counted.new_segments_out,
            bytes_retransmitted: counted.bytes_retransmitted.into(),
            duplicates_reported: counted.duplicates_reported.into(),
            reorderings: counted.reorderings.into(),
            out_of_order: counted.out_of_order.into(),
            data_at: counted.data_at,
            timeouts: counted.timeouts.into(),
            timeout_runs: counted.timeout_runs.into(),
            timeout: stopped(counted.timeout_ticks),
            busy: counted.busy,
            window: stopped(counted.window_ticks),
            buffer: stopped(counted.buffer_ticks),
        }
    }
}

impl Counted {
    fn of(tally: &Tally) -> Self {
        Self {
            busy: tally.busy,
            bytes_acked: tally.bytes_acked as u32,
            bytes_received: tally.bytes_received as u32,
            segments_in: tally.segments_in,
            segments_out: tally.segments_out,
            data_segments_in: tally.data_segments_in,
            data_segments_out: tally.data_segments_out,
            new_segments_out: tally.new_segments_out,
            data_at: tally.data_at,
            bytes_retransmitted: tally.bytes_retransmitted as u16,
            timeout_ticks: tally.timeout.total as u16,
            window_ticks: tally.window.total as u16,
            buffer_ticks: tally.buffer.total as u16,
            retransmits: tally.retransmits as u8,
            duplicates_reported: tally.duplicates_reported as u8,
            reorderings: tally.reorderings as u8,
            out_of_order: tally.out_of_order as u8,
            timeouts: tally.timeouts as u8,
            timeout_runs: tally.timeout_runs as u8,
        }
    }
}

impl Facts {
    fn of(cold: &Cold) -> Self {
        let mut facts = Self::empty();
        facts.set(Self::READ_SHUT, cold.read_shut);
        facts.set(Self::DSACK_SEEN, cold.dsack_seen);
        facts.set(Self::MEASURED, cold.tail.measured);
        facts.set(Self::ACTIVE_OPEN, cold.tally.active);
        facts.set(Self::SYN_DATA, cold.tally.syn_data);
        facts.set(Self::ECN_CAPABLE, cold.ecn.capable);
        facts.set(Self::ECN_SEEN, cold.ecn.seen);
        facts.set(Self::PROBE_FAILED, cold.search.failed);
        facts.set(Self::SENT_FULL, cold.search.sent_full);
        facts
    }
}
