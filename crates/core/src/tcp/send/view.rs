//! What the send part says when it is asked: nothing here changes anything.

use ring::stream::StackStreams;
use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::command::Options;
use crate::info::State;
use crate::tcp::flags::SendFlags;
use crate::tcp::option_sets::{OptionSets, SetId};
use crate::tcp::send::state::{Cold, FARTHEST_MARK, Hot};

/// The send part of a connection, to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendView<'a> {
    pub hot: &'a Hot,
    pub cold: &'a Cold,
    pub flags: SendFlags,
    pub streams: &'a StackStreams,
    pub slot: u32,
    pub options: &'a OptionSets,
    pub set: SetId,
    pub state: State,
}

impl<'a> SendView<'a> {
    #[inline(always)]
    pub(super) fn has(self, flags: SendFlags) -> bool {
        self.flags.intersects(flags)
    }

    #[inline(always)]
    pub(super) fn options(self) -> &'a Options {
        self.options.at(self.set)
    }

    /// The sequence number of the first byte in the send stream: behind the SYN as long as that is
    /// not acknowledged.
    #[inline(always)]
    pub fn stream_start(self) -> SeqNumber {
        match self.state {
            State::SynSent | State::SynReceived => self.hot.una + 1,
            _ => self.hot.una,
        }
    }

    /// The sequence number behind the last byte that is to be sent (the FIN's, if there is one).
    #[inline(always)]
    pub fn stream_end(self) -> SeqNumber {
        if self.has(SendFlags::FIN_QUEUED) {
            self.hot.fin_seq
        } else {
            self.stream_start() + self.streams.send_len(self.slot)
        }
    }

    /// The right edge of the peer's window.
    #[inline(always)]
    pub fn edge(self) -> SeqNumber {
        self.hot.una + self.hot.wnd
    }

    /// How far data and window reach.
    pub fn sendable_end(self) -> SeqNumber {
        self.stream_end().min(self.edge())
    }

    /// Whether there are bytes that were never sent.
    #[inline(always)]
    pub fn has_unsent(self) -> bool {
        self.stream_end() > self.hot.nxt
    }

    /// Whether our FIN has been sent.
    #[inline(always)]
    pub fn fin_sent(self) -> bool {
        self.has(SendFlags::FIN_QUEUED) && self.hot.nxt > self.hot.fin_seq
    }

    /// Whether our FIN has been acknowledged.
    #[inline(always)]
    pub fn fin_acked(self) -> bool {
        self.has(SendFlags::FIN_QUEUED) && self.hot.una > self.hot.fin_seq
    }

    /// Whether there is anything that was never sent.
    #[inline(always)]
    pub fn has_more(self) -> bool {
        let fin_due = self.has(SendFlags::FIN_QUEUED) && !self.fin_sent();
        self.has_unsent() || fin_due
    }

    /// Whether nothing but our FIN is left to be sent.
    #[inline(always)]
    pub fn has_only_fin(self) -> bool {
        self.has(SendFlags::FIN_QUEUED) && self.hot.nxt == self.hot.fin_seq
    }

    /// Bytes that were never sent.
    pub fn not_sent(self) -> u32 {
        let start = self.stream_start();
        let end = start + self.streams.send_len(self.slot);
        end - self.hot.nxt.max(start).min(end)
    }

    /// Bytes that were sent and are not acknowledged.
    pub fn data_in_flight(self) -> u32 {
        self.streams.send_len(self.slot) - self.not_sent()
    }

    /// Segments of `mss` bytes with data or FIN that were sent and have not arrived: what is in
    /// flight, less `sacked` bytes.
    pub fn segments_missing(self, mss: u16, sacked: u32) -> u32 {
        let data = self.data_in_flight().saturating_sub(sacked);
        let fin = self.fin_sent() && !self.fin_acked();
        data.div_ceil(u32::from(mss).max(1)).max(u32::from(fin))
    }

    /// Until when something was in flight: nothing is since the last ACK if nothing is now.
    pub fn busy_until(self, now: Instant) -> Instant {
        if self.hot.flight() == 0 {
            self.cold.una_since
        } else {
            now
        }
    }

    /// What must hold after anything that happens: tests run with these assertions.
    pub fn check(self) {
        self.check_hot();
        self.check_cold();
    }

    fn check_hot(self) {
        let Hot {
            una,
            nxt,
            wl1: _,
            wl2: _,
            wnd,
            max_wnd,
            fin_seq,
        } = *self.hot;
        assert!(una <= nxt, "more acknowledged than sent");
        assert!(wnd <= max_wnd, "a larger window than the largest");
        if self.has(SendFlags::FIN_QUEUED) {
            assert!(nxt <= fin_seq + 1, "sent, but behind the FIN");
        }
    }

    fn check_cold(self) {
        let Cold {
            last_sent: _,
            una_since: _,
            blocked_since: _,
            held_until,
            probed_since: _,
            small_end: _,
            up,
            limit: _,
            is_urgent: _,
            more_follows: _,
        } = *self.cold;
        if self.has_urgent() {
            let farthest = self.stream_start() + FARTHEST_MARK;
            assert!(up <= farthest, "urgent, but no buffer has room for it");
        }
        let is_held = held_until != Instant::FAR && held_until != Instant::ZERO;
        assert!(
            !is_held || self.has(SendFlags::COLD_TIMERS),
            "held back, and no timer runs"
        );
    }
}
