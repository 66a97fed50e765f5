//! The state of the loss part: what the columns of the control block embed, its compact form, and
//! the pools of what few connections have.

use std::io;

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::cc::{Algorithm, AtRest, Bbr, Models, Window};
use crate::config::Config;
use crate::side_pool::{MaybeIndex, SavedPool, SidePool};
use crate::tcp::loss::pacing::Pacing;
use crate::tcp::loss::prr::Prr;
use crate::tcp::loss::rates::{Rate, Rates};
use crate::tcp::loss::reordering::{Reordered, Reordering};
use crate::tcp::loss::rtt::{Bounds, MinRtt, NearRtt, Rtt};
use crate::tcp::loss::sent::SentLog;
use crate::tcp::loss::tail::TailProbe;
use crate::tcp::loss::undo::Undo;
use crate::tcp::ranges::RangeSet;

/// What every ACK and every segment sent needs: the loss part of `tcb::Hot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Hot {
    /// Retransmission or persist timer. `FAR`: off.
    pub rtx_at: Instant,
    /// Tail loss probe or reordering timer (RFC 8985 §8). `FAR`: off.
    pub early_at: Instant,
    pub window: Window,
    /// The end of the segment being timed; counts with `TIMING`.
    pub rtt_seq: SeqNumber,
    /// When the segment being timed was sent, µs, low 32 bits; counts with `TIMING`.
    pub rtt_at: u32,
    pub rtt: Rtt,
    /// Most payload of a segment that we send, bytes, fixed options already deducted
    /// (Eff.snd.MSS of RFC 9293 §3.7.1). The path part sets it.
    pub mss: u16,
    pub dup_acks: u8,
    /// How often the RTO was doubled since the last measurement (RFC 6298 §5.5).
    pub backoff: u8,
}

const _: () = assert!(size_of::<Hot>() == 48);

/// How new data left the congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Fill {
    /// Bytes in flight.
    pub flight: u32,
    /// Bytes of the window that were still free.
    pub room: u32,
}

/// What duplicate ACKs say has left the network, without SACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Departed {
    pub bytes: u32,
    /// Upper bound of `bytes` during recovery.
    pub most: u32,
}

/// What is needed less often, or only to send: the loss part of `tcb::Cold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Cold {
    /// The window when new data was last sent.
    pub fill: Fill,
    /// `recover` of RFC 6582, RecoveryPoint of RFC 6675.
    pub recover: SeqNumber,
    /// The scoreboard; not empty with `SACKED`.
    #[serde(skip)]
    pub sacked: RangeSet,
    /// Index of the log of what is in flight; counts with `SENT_LOG`.
    pub sent: u32,
    /// Without a log, everything in flight was sent then (µs, low 32 bits).
    pub flight_at: u32,
    /// When the congestion window was last reduced, µs, low 32 bits.
    pub reduced_at: u32,
    /// The tail loss probe in flight.
    pub tail: TailProbe,
    /// Reordering on the path, and how much of it is allowed for.
    pub reordering: Reordering,
    /// The reduction of the window during recovery.
    pub prr: Prr,
    /// Index of the undo state of the last reaction to loss, while that may be spurious.
    pub undo: MaybeIndex,
    /// Bytes that duplicate ACKs say have left the network, without SACK.
    pub departed: Departed,
    pub congestion: Algorithm,
    /// SND.NXT when the current round of congestion control began.
    pub round_end: SeqNumber,
    /// What was delivered, and when.
    pub rate: Rate,
    pub pacing: Pacing,
    /// Our timestamp when the retransmission timer last expired; counts with `Hot::backoff`.
    pub timeout_stamp: u32,
    pub min_rtt: MinRtt,
}

const _: () = assert!(size_of::<Cold>() <= 208);

/// The compact form of both halves, for a connection that idles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compact {
    window: Window,
    rtt: Rtt,
    min_rtt: MinRtt,
    congestion: AtRest,
    mss: u16,
    dup_acks: u8,
    reordering: Reordered,
    /// `TailProbe::measured`.
    measured: bool,
}

impl Hot {
    /// Before anything was sent. The initial sequence number is `iss`.
    #[inline(always)]
    pub fn new(iss: SeqNumber, rto: Bounds) -> Self {
        Self {
            rtx_at: Instant::FAR,
            early_at: Instant::FAR,
            window: Window {
                cwnd: 0,
                // RFC 5681 §3.1-5.
                ssthresh: u32::MAX,
            },
            rtt_seq: iss,
            rtt_at: 0,
            rtt: Rtt::new(rto),
            // Before the peer's SYN says one: for who sends the first.
            mss: 0,
            dup_acks: 0,
            backoff: 0,
        }
    }

    /// Sets what means nothing while nothing is in flight to what it is after unpacking.
    pub fn forget_flight(&mut self, una: SeqNumber) {
        let Self {
            rtx_at: _,
            early_at: _,
            window: _,
            rtt_seq,
            rtt_at,
            rtt: _,
            mss: _,
            dup_acks: _,
            backoff: _,
        } = self;
        (*rtt_seq, *rtt_at) = (una, 0);
    }

    /// The earlier of the two deadlines.
    #[inline]
    pub fn deadline(&self) -> Instant {
        self.rtx_at.min(self.early_at)
    }
}

impl Cold {
    /// Before anything was sent. At most `max_rate` bytes per second may leave.
    #[inline(always)]
    pub fn new(iss: SeqNumber, congestion: Algorithm, max_rate: Option<u64>) -> Self {
        Self {
            fill: Fill::default(),
            // RFC 6582 §3.2-1.
            recover: iss,
            sacked: RangeSet::default(),
            sent: 0,
            flight_at: 0,
            reduced_at: 0,
            tail: TailProbe::new(iss),
            reordering: Reordering::new(iss),
            prr: Prr::default(),
            undo: MaybeIndex::NONE,
            departed: Departed::default(),
            congestion,
            round_end: iss,
            rate: Rate::default(),
            pacing: Pacing::new(max_rate),
            timeout_stamp: 0,
            min_rtt: MinRtt::default(),
        }
    }

    /// `recover` stays below SND.UNA, although sequence numbers wrap around.
    #[inline(always)]
    pub(super) fn keep_recover_below(&mut self, una: SeqNumber) {
        if una > self.recover {
            self.recover = una - 1;
        }
    }

    /// Whether an ACK up to `una` begins a round. Rounds as RFC 9406 §4.2 and RFC 8257 §3.3 count
    /// them: each lasts until what was in flight when it began is acknowledged.
    #[inline(always)]
    pub(super) fn begins_round(&mut self, una: SeqNumber, nxt: SeqNumber) -> bool {
        let begins = una >= self.round_end;
        if begins {
            self.round_end = nxt;
        }
        begins
    }

    /// Sets what means nothing while nothing is in flight, or after a silence of an RTO, to what it
    /// is after unpacking.
    pub fn forget_flight(&mut self, iss: SeqNumber, una: SeqNumber) {
        let Self {
            fill,
            recover,
            sacked,
            sent,
            flight_at,
            reduced_at,
            tail,
            reordering,
            prr: _,
            undo: _,
            departed,
            congestion,
            round_end,
            rate,
            pacing: _,
            timeout_stamp,
            min_rtt: _,
        } = self;
        *fill = Fill::default();
        if una > *recover {
            *recover = una - 1;
        }
        *sacked = RangeSet::default();
        (*sent, *flight_at, *reduced_at, *timeout_stamp) = (0, 0, 0, 0);
        tail.end = iss;
        reordering.forget_round(una);
        departed.most = 0;
        congestion.pause();
        *round_end = una;
        rate.newest = None;
    }
}

impl Compact {
    /// The compact form of both halves. `None`: the algorithm has more state than it has room for.
    /// What it has no place for is what `forget_flight` sets; the owner of the record compares.
    pub fn pack(hot: &Hot, cold: &Cold) -> Option<Self> {
        let &Hot {
            rtx_at: _,
            early_at: _,
            window,
            rtt_seq: _,
            rtt_at: _,
            rtt,
            mss,
            dup_acks,
            backoff: _,
        } = hot;
        let &Cold {
            fill: _,
            recover: _,
            sacked: _,
            sent: _,
            flight_at: _,
            reduced_at: _,
            tail: TailProbe { measured, .. },
            reordering,
            prr: _,
            undo: _,
            departed: _,
            ref congestion,
            round_end: _,
            rate: _,
            pacing: _,
            timeout_stamp: _,
            min_rtt,
        } = cold;
        Some(Self {
            window,
            rtt,
            min_rtt,
            congestion: congestion.at_rest()?,
            mss,
            dup_acks,
            reordering: reordering.packed(),
            measured,
        })
    }

    /// The hot half that this was made from, with SND.UNA at `una`.
    pub fn hot(&self, una: SeqNumber) -> Hot {
        Hot {
            rtx_at: Instant::FAR,
            early_at: Instant::FAR,
            window: self.window,
            rtt_seq: una,
            rtt_at: 0,
            rtt: self.rtt,
            mss: self.mss,
            dup_acks: self.dup_acks,
            backoff: 0,
        }
    }

    /// The cold half that this was made from.
    pub fn cold(&self, iss: SeqNumber, una: SeqNumber, max_rate: Option<u64>) -> Cold {
        let fresh = Cold::new(iss, self.congestion.into(), max_rate);
        Cold {
            recover: una - 1,
            tail: TailProbe {
                measured: self.measured,
                ..fresh.tail
            },
            reordering: Reordering::unpacked(self.reordering, una),
            round_end: una,
            min_rtt: self.min_rtt,
            ..fresh
        }
    }
}

/// What only few connections have at a time, and what all of them share.
#[derive(Debug)]
pub(crate) struct Pools {
    /// Logs of what is in flight, for the connections that need one.
    pub sent: SidePool<SentLog>,
    /// Logs of delivery rates, for the connections whose algorithm models the path.
    pub rates: SidePool<Rates>,
    /// What those algorithms know of the path.
    pub models: Models,
    /// Undo states, for the connections that have reacted to loss.
    pub undos: SidePool<Undo>,
    /// How long the round trips are of nearly all connections.
    pub near_rtt: NearRtt,
    pub rto_bounds: Bounds,
    /// Segments of the initial window.
    pub initial_window: u8,
    /// Whether algorithms that have no rate of their own are paced.
    pub pacing: bool,
}

/// What few connections have at a time, on its way to another process.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct SavedPools {
    sent: SavedPool<SentLog>,
    rates: SavedPool<Rates>,
    models: SavedPool<Bbr>,
    undos: SavedPool<Undo>,
    near_rtt: NearRtt,
}

impl Pools {
    pub fn save(&self) -> SavedPools {
        SavedPools {
            sent: self.sent.save(),
            rates: self.rates.save(),
            models: self.models.save(),
            undos: self.undos.save(),
            near_rtt: self.near_rtt,
        }
    }

    /// False: it contradicts itself.
    pub fn restore(&mut self, saved: SavedPools) -> bool {
        let is_sound = saved.sent.records().iter().all(SentLog::is_sound)
            && saved.rates.records().iter().all(Rates::is_sound);
        self.near_rtt = saved.near_rtt;
        is_sound
            && self.sent.restore(saved.sent)
            && self.rates.restore(saved.rates)
            && self.models.restore(saved.models)
            && self.undos.restore(saved.undos)
    }
}

impl Pools {
    pub fn new(config: &Config) -> io::Result<Self> {
        let connections = config.max_connections;
        Ok(Self {
            sent: SidePool::new(connections)?,
            rates: SidePool::new(connections)?,
            models: SidePool::new(connections)?,
            undos: SidePool::new(connections)?,
            near_rtt: NearRtt::default(),
            rto_bounds: Bounds::new(config),
            initial_window: config.initial_window,
            pacing: config.pacing,
        })
    }
}
