//! What the receive part says when it is asked: nothing here changes anything.

use wire::seq::SeqNumber;
use wire::tcp::SackBlocks;

use crate::config::Config;
use crate::side_pool::SidePool;
use crate::tcp::flags::ReceiveFlags;
use crate::tcp::ranges::{Range, RangePool, Ranges};
use crate::tcp::receive::held::{Held, with_duplicate};
use crate::tcp::receive::state::{Cold, Hot};

/// The receive part of a connection, to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveView<'a> {
    pub hot: &'a Hot,
    pub cold: &'a Cold,
    pub flags: ReceiveFlags,
    pub held: &'a SidePool<Held>,
    pub ranges: &'a RangePool,
    pub config: &'a Config,
}

impl<'a> ReceiveView<'a> {
    #[inline(always)]
    fn has(self, flags: ReceiveFlags) -> bool {
        self.flags.intersects(flags)
    }

    /// The ranges that are held out of order, if any are.
    #[inline(always)]
    fn held(self) -> Option<&'a Held> {
        if self.has(ReceiveFlags::HOLES) {
            self.held.at(self.cold.held)
        } else {
            None
        }
    }

    #[inline(always)]
    fn held_ranges(self) -> Option<Ranges<'a>> {
        Some(self.ranges.view(&self.held()?.set))
    }

    /// The first part of `[from, end)` that is not held.
    pub(super) fn gap(self, from: SeqNumber, end: SeqNumber) -> Option<Range> {
        match self.held_ranges() {
            Some(held) => held.first_gap(from, end),
            None => Some(Range::new(from, end)).filter(|range| range.start < range.end),
        }
    }

    /// The first part of `[from, to)` that is held.
    pub(super) fn first_held(self, from: SeqNumber, to: SeqNumber) -> Option<Range> {
        self.held_ranges()?.first_overlap(from, to)
    }

    /// The edge beyond which no byte is taken: the window, or the peer's FIN.
    /// RFC 7323 §2.4-1.
    #[inline(always)]
    pub fn limit(self) -> SeqNumber {
        if self.has(ReceiveFlags::PEER_FIN) {
            self.hot.adv.min(self.cold.peer_fin)
        } else {
            self.hot.adv
        }
    }

    /// What an ACK has to report.
    pub fn sack_blocks(self) -> SackBlocks {
        // RFC 2018 §4-1.
        let reports = ReceiveFlags::HOLES | ReceiveFlags::DUPLICATE;
        if !(self.has(reports) && self.has(ReceiveFlags::SACK)) {
            return SackBlocks::EMPTY;
        }
        let blocks = self.held().map_or(SackBlocks::EMPTY, |held| {
            held.sack_blocks(self.ranges.view(&held.set))
        });
        if self.has(ReceiveFlags::DUPLICATE) {
            with_duplicate(self.cold.duplicate, &blocks)
        } else {
            blocks
        }
    }

    /// Whether another stack may have to go on with the connection. The peer helps that by sending
    /// again what was not acknowledged.
    #[inline(always)]
    pub(super) fn withholds_acks(self) -> bool {
        self.has(ReceiveFlags::BACKLOG) && self.config.bequeaths()
    }

    /// Whether an ACK is due that the peer does not get yet.
    #[inline(always)]
    pub fn has_withheld_ack(self) -> bool {
        // Both are rare: then nothing else is looked at.
        let both = ReceiveFlags::BACKLOG | ReceiveFlags::ACK_DELAYED;
        self.flags.contains(both) && self.withholds_acks()
    }

    /// Whether the ACK that is due is for less than must be acknowledged at once (RFC 5681 §4.2),
    /// and the peer can go on without it.
    pub fn owes_little(self) -> bool {
        let pending = self.hot.nxt - self.hot.last_ack_sent;
        let two_segments = 2 * u32::from(self.hot.mss);
        (1..two_segments).contains(&pending)
            && self.hot.wnd() >= two_segments
            && self.hot.dup_acks_due == 0
            && !self.has(ReceiveFlags::HOLES | ReceiveFlags::DUPLICATE)
    }

    /// What must hold after anything that happens: tests run with these assertions.
    pub fn check(self) {
        let Hot {
            nxt,
            adv,
            last_ack_sent,
            ack_at: _,
            mss: _,
            dup_acks_due: _,
            quick_acks: _,
        } = *self.hot;
        assert!(nxt <= adv, "more received than was offered");
        assert!(last_ack_sent <= nxt, "more acknowledged than received");
        let Cold {
            tuning: _,
            peer_fin,
            held: _,
            duplicate: _,
        } = *self.cold;
        if self.has(ReceiveFlags::PEER_FIN) {
            assert!(nxt <= peer_fin, "data from beyond the peer's FIN");
        }
        if self.has(ReceiveFlags::HOLES) {
            let held = self.held_ranges();
            assert!(held.is_some(), "holes without a set of ranges");
            let first = held.and_then(|held| held.iter().next());
            assert!(first.is_none_or(|first| first.start > nxt), "no hole");
        }
    }
}
