//! What it takes to undo a reaction to loss that turns out to have been spurious.

use crate::cc::Saved;
use crate::tcp::ranges::Range;

/// New segments of step 2b of F-RTO.
pub(crate) const FRTO_SEGMENTS: u8 = 2;

/// The steps of RFC 5682 §2.1 and §3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Frto {
    /// Conventional recovery.
    #[default]
    Off,
    /// Step 2: the first segment was sent again, and nothing else. Its ACK is awaited.
    First,
    /// Step 3: so many segments of new data may go, and the next ACK decides.
    Second(u8),
}

/// The undo state of a reaction to loss. All times are µs, low 32 bits.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Undo {
    /// The congestion state before the reaction. `None`: there is nothing to undo.
    pub saved: Option<Saved>,
    /// SND.UNA and SND.NXT when the reaction began.
    pub range: Range,
    pub frto: Frto,
    /// An ACK has decided what timestamps can decide.
    echo_seen: bool,
    /// Segments were sent again.
    resent: bool,
    /// The timestamp of the first segment that was sent again (RetransmitTS of RFC 3522).
    stamp: u32,
    /// When the last segment was sent again.
    resent_at: u32,
    /// Bytes that were sent again and that no D-SACK has reported.
    unreported: u32,
    /// When the first segment in flight had been sent, if it had been sent once.
    pub sent_at: Option<u32>,
    /// How long the ACK of that segment took, µs.
    pub took: Option<u32>,
}

impl Undo {
    /// A reaction begins with `range` in flight, the first byte of which had been sent at
    /// `sent_at`.
    pub fn new(saved: Saved, range: Range, frto: Frto, sent_at: Option<u32>) -> Self {
        Self {
            saved: Some(saved),
            range,
            frto,
            sent_at,
            ..Self::default()
        }
    }

    /// A segment of `len` sequence numbers is sent again at `now`, with the timestamp `stamp`.
    pub fn on_resent(&mut self, now: u32, stamp: u32, len: u32) {
        self.resent_at = now;
        if !self.resent {
            self.resent = true;
            self.stamp = stamp;
        }
        self.unreported = self.unreported.saturating_add(len);
    }

    /// The timestamp of the first retransmission, for the first ACK that advances after it.
    pub fn take_stamp(&mut self) -> Option<u32> {
        if self.echo_seen || !self.resent {
            return None;
        }
        self.echo_seen = true;
        Some(self.stamp)
    }

    /// The ACK of the first retransmission after a time-out came at `now`.
    pub fn on_first_ack(&mut self, now: u32) {
        self.took = self.sent_at.map(|at| now.wrapping_sub(at));
        self.frto = Frto::Second(FRTO_SEGMENTS);
    }

    /// New data goes out, which F-RTO counts.
    pub fn on_new_data(&mut self) {
        if let Frto::Second(left) = &mut self.frto {
            *left = left.saturating_sub(1);
        }
    }

    /// How long the ACK of the first segment in flight took, µs, if it came by `now`.
    pub fn first_took(&self, now: u32) -> Option<u32> {
        let since_sent = || self.sent_at.map(|at| now.wrapping_sub(at));
        self.took.or_else(since_sent)
    }

    /// A D-SACK reports `report`. Whether everything that was sent again is now reported (RFC
    /// 3708).
    pub fn take_report(&mut self, now: u32, report: Range, rto: u64) -> bool {
        // Later, sequence numbers may have wrapped around.
        let is_recent = u64::from(now.wrapping_sub(self.resent_at)) <= 2 * rto;
        let is_ours = report.start >= self.range.start && report.end <= self.range.end;
        if !self.resent || !is_recent || !is_ours {
            return false;
        }
        self.unreported = self.unreported.saturating_sub(report.len());
        self.unreported == 0
    }
}
