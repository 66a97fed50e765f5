//! Statistics of a connection: what is counted and timed, most of it for TCP_INFO only.

use std::time::Duration;

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::tcp::segment::Segment;
use crate::tcp::send::{Kind, Plan};

/// Time that something is going on, in ticks of a millisecond, as Linux counts it: what is shorter
/// counts as none or as one, and is right on the average.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Watch {
    /// Low 32 bits of a count of ticks. `OFF`: it is not.
    since: u32,
    total: u32,
}

const OFF: u32 = u32::MAX;

fn ticks(now: Instant) -> u32 {
    (now.as_millis() as u32).min(OFF - 1)
}

impl Watch {
    const STOPPED: Self = Self {
        since: OFF,
        total: 0,
    };

    pub fn set(&mut self, on: bool, now: Instant) {
        if on == (self.since != OFF) {
            return;
        }
        if on {
            self.since = ticks(now);
        } else {
            self.total = self.ticks(now);
            self.since = OFF;
        }
    }

    fn ticks(&self, now: Instant) -> u32 {
        let running = ticks(now).wrapping_sub(self.since) as i32;
        let running = if self.since == OFF { 0 } else { running.max(0) };
        self.total.saturating_add(running as u32)
    }

    pub fn total(&self, now: Instant) -> Duration {
        Duration::from_millis(u64::from(self.ticks(now)))
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Statistics {
    /// We sent the first SYN.
    pub active: bool,
    /// Data came with the SYN, or ours went with it and arrived.
    pub syn_data: bool,
    pub retransmits: u32,
    pub segments_in: u32,
    pub segments_out: u32,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub data_segments_in: u32,
    pub data_segments_out: u32,
    /// Segments with data or FIN that were not sent before.
    pub new_segments_out: u32,
    pub bytes_retransmitted: u64,
    pub duplicates_reported: u32,
    pub reorderings: u32,
    pub out_of_order: u32,
    /// When data came last: low 32 bits of a millisecond count.
    pub data_at: u32,
    pub timeouts: u32,
    pub timeout_runs: u32,
    /// A run of time-outs.
    pub timeout: Watch,
    /// Something is unacknowledged.
    pub(super) busy: Watch,
    /// The peer's window holds data up.
    pub(super) window: Watch,
    /// Our send buffer does.
    pub(super) buffer: Watch,
}

impl Statistics {
    pub fn new(now: Instant) -> Self {
        Self {
            active: false,
            syn_data: false,
            retransmits: 0,
            segments_in: 0,
            segments_out: 0,
            bytes_acked: 0,
            bytes_received: 0,
            data_segments_in: 0,
            data_segments_out: 0,
            new_segments_out: 0,
            bytes_retransmitted: 0,
            duplicates_reported: 0,
            reorderings: 0,
            out_of_order: 0,
            data_at: now.as_millis() as u32,
            timeouts: 0,
            timeout_runs: 0,
            timeout: Watch::STOPPED,
            busy: Watch::STOPPED,
            window: Watch::STOPPED,
            buffer: Watch::STOPPED,
        }
    }

    /// A segment came, acceptable or not.
    pub fn on_arrival(&mut self, seg: &Segment<'_>) {
        self.segments_in = self.segments_in.saturating_add(1);
        let data = u32::from(!seg.payload.is_empty());
        self.data_segments_in = self.data_segments_in.saturating_add(data);
    }

    /// A segment is sent; SND.NXT, at `nxt`, has not moved yet.
    #[inline(always)]
    pub fn on_sent(&mut self, plan: &Plan, nxt: SeqNumber) {
        self.segments_out = self.segments_out.saturating_add(1);
        if plan.kind == Kind::Ack {
            return;
        }
        if plan.end() > nxt && plan.kind != Kind::Syn {
            self.new_segments_out = self.new_segments_out.saturating_add(1);
        }
        if plan.len == 0 {
            return;
        }
        self.data_segments_out = self.data_segments_out.saturating_add(1);
        if plan.seq < nxt {
            let again = plan.len.min(nxt - plan.seq);
            self.bytes_retransmitted += u64::from(again);
        }
    }

    /// A retransmission time-out, the first of its run or not.
    pub fn on_timeout(&mut self, now: Instant, first: bool) {
        self.timeouts = self.timeouts.saturating_add(1);
        if first {
            self.timeout_runs = self.timeout_runs.saturating_add(1);
            self.timeout.set(true, now);
        }
    }

    pub fn end_timeouts(&mut self, now: Instant) {
        self.timeout.set(false, now);
    }

    /// Data is sent with nothing in flight since `idle`.
    pub fn begin_flight(&mut self, now: Instant, idle: Instant) {
        self.stop_watches(idle);
        self.busy.set(true, now);
    }

    /// How long something was unacknowledged, held up by the window, and by the send buffer, until
    /// `end`.
    pub fn busy_times(&self, end: Instant) -> (Duration, Duration, Duration) {
        let watches = (&self.busy, &self.window, &self.buffer);
        (
            watches.0.total(end),
            watches.1.total(end),
            watches.2.total(end),
        )
    }

    /// Nothing is in flight since `idle`.
    pub fn stop_watches(&mut self, idle: Instant) {
        for watch in [&mut self.busy, &mut self.window, &mut self.buffer] {
            watch.set(false, idle);
        }
    }
}

/// The compact form of the [`Statistics`] of a connection that nothing unusual has happened to yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactStatistics {
    active: bool,
    syn_data: bool,
    bytes_acked: u32,
    bytes_received: u32,
    data_at: u32,
    segments_in: u16,
    segments_out: u16,
    data_segments_in: u16,
    data_segments_out: u16,
    new_segments_out: u16,
    /// Milliseconds that the watch has shown.
    busy: u16,
}

impl CompactStatistics {
    /// Nothing is in flight. `None`: it is too much for that.
    pub fn pack(statistics: &Statistics) -> Option<Self> {
        let few = Self {
            active: statistics.active,
            syn_data: statistics.syn_data,
            bytes_acked: statistics.bytes_acked as u32,
            bytes_received: statistics.bytes_received as u32,
            data_at: statistics.data_at,
            segments_in: statistics.segments_in as u16,
            segments_out: statistics.segments_out as u16,
            data_segments_in: statistics.data_segments_in as u16,
            data_segments_out: statistics.data_segments_out as u16,
            new_segments_out: statistics.new_segments_out as u16,
            busy: statistics.busy.total as u16,
        };
        (few.unpack() == *statistics).then_some(few)
    }

    /// What it was made from.
    pub fn unpack(&self) -> Statistics {
        Statistics {
            active: self.active,
            syn_data: self.syn_data,
            bytes_acked: self.bytes_acked.into(),
            bytes_received: self.bytes_received.into(),
            data_at: self.data_at,
            segments_in: self.segments_in.into(),
            segments_out: self.segments_out.into(),
            data_segments_in: self.data_segments_in.into(),
            data_segments_out: self.data_segments_out.into(),
            new_segments_out: self.new_segments_out.into(),
            busy: Watch {
                total: self.busy.into(),
                ..Watch::STOPPED
            },
            ..Statistics::new(Instant::ZERO)
        }
    }
}
