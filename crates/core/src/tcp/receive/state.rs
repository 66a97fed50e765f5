//! The state of the receive part: what the columns of the control block embed.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::tcp::ranges::Range;
use crate::tcp::receive::tuning::Tuning;
use crate::tcp::segment::Segment;

/// This counts as full-sized until something larger has arrived, bytes.
const MIN_RCV_MSS: u16 = 536;

/// What every segment that is received or sent needs: the receive part of `tcb::Hot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Hot {
    /// RCV.NXT.
    pub nxt: SeqNumber,
    /// Right edge of the window that we offered: RCV.NXT + RCV.WND. It never moves left.
    pub adv: SeqNumber,
    /// Last.ACK.sent of RFC 7323 §4.3.
    pub last_ack_sent: SeqNumber,
    /// Delayed ACK timer: low 32 bits of a millisecond count; counts with `ACK_DELAYED`.
    pub ack_at: u32,
    /// Largest payload received so far: the size of a full-sized segment of the peer, bytes.
    pub mss: u16,
    /// Pure ACKs that are due besides the one that acknowledges something: one per out-of-order
    /// segment.
    pub dup_acks_due: u8,
    /// ACKs left to send without delay.
    pub quick_acks: u8,
}

const _: () = assert!(size_of::<Hot>() == 20);

/// What is needed less often: the receive part of `tcb::Cold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Cold {
    /// What the receive limit is measured by.
    pub tuning: Tuning,
    /// Sequence number of the peer's FIN; counts with `PEER_FIN`.
    pub peer_fin: SeqNumber,
    /// Index of the set of ranges held out of order; counts with `HOLES`.
    pub held: u32,
    /// What the peer sent although it had arrived; counts with `DUPLICATE`.
    pub duplicate: Range,
}

const _: () = assert!(size_of::<Cold>() == 40);

impl Hot {
    /// Before the peer's SYN, with `window` bytes on offer.
    #[inline(always)]
    pub fn new(window: u16, quick_acks: u8) -> Self {
        Self {
            nxt: SeqNumber(0),
            adv: SeqNumber(0) + u32::from(window),
            last_ack_sent: SeqNumber(0),
            ack_at: 0,
            mss: MIN_RCV_MSS,
            dup_acks_due: 0,
            quick_acks,
        }
    }

    /// With everything up to `nxt` acknowledged, and `window` bytes on offer.
    pub fn resting(nxt: SeqNumber, window: u32, mss: u16, quick_acks: u8) -> Self {
        Self {
            nxt,
            adv: nxt + window,
            last_ack_sent: nxt,
            ack_at: 0,
            mss,
            dup_acks_due: 0,
            quick_acks,
        }
    }

    /// The peer's SYN has the sequence number `irs`. None of its sequence space is acknowledged
    /// yet; the window stays.
    pub fn synchronize(&mut self, irs: SeqNumber) {
        let window = self.wnd();
        self.nxt = irs + 1;
        self.adv = self.nxt + window;
        self.last_ack_sent = irs;
    }

    /// RCV.WND: what is left of the window that we offered.
    #[inline(always)]
    pub fn wnd(&self) -> u32 {
        self.adv - self.nxt
    }

    /// RFC 9293 §3.10.7.4, the table of four cases.
    #[inline]
    pub fn is_acceptable(&self, seg: &Segment<'_>) -> bool {
        let in_window = |seq| seq >= self.nxt && seq < self.adv;
        match (seg.len(), self.wnd()) {
            (0, 0) => seg.seq == self.nxt,
            (0, _) => in_window(seg.seq),
            // "Special allowance should be made to accept valid ACKs, URGs, and RSTs": the text is
            // cut off later.
            (_, 0) => seg.seq == self.nxt,
            (len, _) => in_window(seg.seq) || in_window(seg.seq + (len - 1)),
        }
    }

    /// Whether an ACK now would acknowledge something for the first time.
    #[inline(always)]
    pub fn has_unacknowledged(&self) -> bool {
        self.last_ack_sent != self.nxt
    }

    /// The ACK that was due was sent, alone if `is_pure`, or on something else.
    /// RFC 5681 §4.2-5.
    #[inline(always)]
    pub fn on_ack_sent(&mut self, is_pure: bool) {
        let repeats = !self.has_unacknowledged();
        if is_pure && repeats {
            self.dup_acks_due = self.dup_acks_due.saturating_sub(1);
        } else if !repeats {
            self.quick_acks = self.quick_acks.saturating_sub(1);
        }
        self.last_ack_sent = self.nxt;
    }
}

impl Cold {
    /// Before anything was received.
    #[inline(always)]
    pub fn new(now: Instant) -> Self {
        Self {
            tuning: Tuning::new(now),
            peer_fin: SeqNumber(0),
            held: 0,
            duplicate: Range::default(),
        }
    }

    /// Sets what means nothing while a connection idles, since `since` and with `received` bytes
    /// received, to what it is after unpacking.
    pub fn forget_idle(&mut self, since: Instant, received: u64) {
        let Self {
            tuning,
            peer_fin,
            held,
            duplicate,
        } = self;
        tuning.pause(since, received);
        *peer_fin = SeqNumber(0);
        *held = 0;
        *duplicate = Range::default();
    }
}
