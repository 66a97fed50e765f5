//! The state of the send part: what the columns of the control block embed, and its compact form.

use wire::seq::SeqNumber;
use wire::time::Instant;

/// The farthest that SND.UP is from SND.UNA, bytes: more than any send buffer has.
pub(super) const FARTHEST_MARK: u32 = 1 << 30;

/// What every segment that is received or sent needs: the send part of `tcb::Hot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Hot {
    /// SND.UNA.
    pub una: SeqNumber,
    /// SND.NXT.
    pub nxt: SeqNumber,
    /// SND.WL1.
    pub wl1: SeqNumber,
    /// SND.WL2.
    pub wl2: SeqNumber,
    /// SND.WND, scaled, bytes.
    /// RFC 9293 REC-1.
    pub wnd: u32,
    /// MAX.SND.WND: the largest window the peer ever offered, bytes.
    /// RFC 5961 §5.2-2.
    pub max_wnd: u32,
    /// Sequence number of our FIN; counts with `FIN_QUEUED`.
    pub fin_seq: SeqNumber,
}

const _: () = assert!(size_of::<Hot>() == 28);

/// What is needed less often, or only to send: the send part of `tcb::Cold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Cold {
    /// When something other than an ACK was last sent.
    pub last_sent: Instant,
    /// When SND.UNA last advanced, or data was sent with nothing in flight: where the user time-out
    /// counts from.
    pub una_since: Instant,
    /// When the peer's window closed on what there is to send; counts with `PERSIST`.
    pub blocked_since: Instant,
    /// Until when segments that are not full are held back. `FAR`: none is; `ZERO`: they may go,
    /// they were held long enough.
    pub held_until: Instant,
    /// When the first probe went that the peer has not answered: low 32 bits of a millisecond
    /// count; counts with `PERSIST` and the number of unanswered probes.
    pub probed_since: u32,
    /// Behind the last segment that was sent and was not full: SND.SML of Minshall's variant of
    /// Nagle's algorithm.
    pub small_end: SeqNumber,
    /// SND.UP; counts with `is_urgent`.
    pub up: SeqNumber,
    /// Up to where the send buffer was raised, bytes; `FIXED` if it is not to grow.
    pub limit: u32,
    /// Urgent data may be unacknowledged.
    pub is_urgent: bool,
    /// The last write said that more follows.
    pub more_follows: bool,
}

const _: () = assert!(size_of::<Cold>() <= 56);

/// The compact form of both halves, for a connection that idles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compact {
    pub una: SeqNumber,
    wnd: u32,
    max_wnd: u32,
    /// Milliseconds, low 32 bits.
    pub last_sent: u32,
}

impl Hot {
    /// Before the SYN with the sequence number `iss`.
    #[inline(always)]
    pub fn new(iss: SeqNumber) -> Self {
        Self {
            una: iss,
            nxt: iss,
            wl1: SeqNumber(0),
            wl2: SeqNumber(0),
            wnd: 0,
            max_wnd: 0,
            fin_seq: iss,
        }
    }

    /// Sequence numbers sent and not acknowledged, SYN and FIN included.
    #[inline(always)]
    pub fn flight(&self) -> u32 {
        self.nxt - self.una
    }

    /// Sets what means nothing while nothing is in flight to what it is after unpacking, with
    /// RCV.NXT at `rcv_nxt`: whatever comes next is newer.
    pub fn forget_flight(&mut self, rcv_nxt: SeqNumber) {
        let Self {
            una,
            nxt: _,
            wl1,
            wl2,
            wnd: _,
            max_wnd: _,
            fin_seq,
        } = self;
        (*wl1, *wl2, *fin_seq) = (rcv_nxt, *una, *una);
    }
}

impl Cold {
    /// Before the SYN with the sequence number `iss`.
    #[inline(always)]
    pub fn new(now: Instant, iss: SeqNumber, limit: u32) -> Self {
        Self {
            last_sent: now,
            una_since: now,
            blocked_since: now,
            held_until: Instant::FAR,
            probed_since: 0,
            small_end: iss,
            up: iss,
            limit,
            is_urgent: false,
            more_follows: false,
        }
    }

    /// Sets what means nothing while nothing is in flight, or after a silence of an RTO, to what it
    /// is after unpacking.
    pub fn forget_flight(&mut self, iss: SeqNumber, una: SeqNumber) {
        let Self {
            last_sent,
            una_since,
            blocked_since,
            held_until: _,
            probed_since,
            small_end,
            up,
            limit: _,
            is_urgent,
            more_follows: _,
        } = self;
        *last_sent = Instant::from_millis(last_sent.as_millis());
        (*una_since, *blocked_since, *probed_since) = (*last_sent, *last_sent, 0);
        *is_urgent &= *up > una;
        (*small_end, *up) = (iss, iss);
    }
}

impl Compact {
    /// The compact form of both halves. What it has no place for is what `forget_flight` sets; the
    /// owner of the record compares. The limit is beside it, where there is room for a byte.
    pub fn pack(hot: &Hot, cold: &Cold) -> Self {
        let &Hot {
            una,
            nxt: _,
            wl1: _,
            wl2: _,
            wnd,
            max_wnd,
            fin_seq: _,
        } = hot;
        Self {
            una,
            wnd,
            max_wnd,
            last_sent: cold.last_sent.as_millis() as u32,
        }
    }

    /// The hot half that this was made from, with RCV.NXT at `rcv_nxt`.
    pub fn hot(&self, rcv_nxt: SeqNumber) -> Hot {
        Hot {
            una: self.una,
            nxt: self.una,
            wl1: rcv_nxt,
            wl2: self.una,
            wnd: self.wnd,
            max_wnd: self.max_wnd,
            fin_seq: self.una,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_idles_is_packed_and_comes_back() {
        let mut hot = Hot::new(SeqNumber(7));
        (hot.una, hot.nxt) = (SeqNumber(9000), SeqNumber(9000));
        (hot.wnd, hot.max_wnd) = (500, 60_000);
        (hot.wl1, hot.wl2) = (SeqNumber(3), SeqNumber(8000));
        let mut cold = Cold::new(Instant::from_millis(1234), SeqNumber(7), 4096);
        (cold.small_end, cold.up, cold.is_urgent) = (SeqNumber(8999), SeqNumber(8999), true);
        hot.forget_flight(SeqNumber(70));
        cold.forget_flight(SeqNumber(7), hot.una);
        let compact = Compact::pack(&hot, &cold);
        assert_eq!(compact.hot(SeqNumber(70)), hot);
        assert_eq!(compact.last_sent, 1234);
        assert_eq!(
            cold,
            Cold::new(Instant::from_millis(1234), SeqNumber(7), 4096)
        );
    }
}
