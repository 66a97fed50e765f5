//! What sending a segment changes, and what its acknowledgment does.

use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::tcp::segment::Segment;
use crate::tcp::send::part::SendPart;
use crate::tcp::send::plan::Plan;
use crate::tcp::send::state::Hot;

impl Hot {
    /// Takes the window of a segment; on a SYN it is not scaled (RFC 7323 §2.2).
    /// RFC 9293 MUST-1; RFC 7323 §2.3-1.
    #[inline(always)]
    pub fn take_window(&mut self, seg: &Segment<'_>, scale: u8) {
        self.wnd = u32::from(seg.window) << scale;
        self.max_wnd = self.max_wnd.max(self.wnd);
        self.wl1 = seg.seq;
        self.wl2 = seg.ack;
    }

    /// RFC 5927 §4.1: SND.UNA =< SEG.SEQ < SND.NXT.
    /// RFC 5927 §4.1-1.
    pub fn is_in_flight(&self, seq: SeqNumber) -> bool {
        seq >= self.una && seq < self.nxt
    }

    /// Whether the window of a segment is newer than the one that is known.
    #[inline(always)]
    pub fn is_newer(&self, seg: &Segment<'_>) -> bool {
        self.wl1 < seg.seq || (self.wl1 == seg.seq && self.wl2 <= seg.ack)
    }
}

impl SendPart<'_> {
    /// Gives acknowledged bytes back to the application. Of a SYN or FIN alone there are none:
    /// whether room is waited for need not be asked, which takes a fence. RFC 2018 §8-1;
    /// RFC 6675 §4-5.
    #[inline(always)]
    pub fn release(&mut self, bytes: u32) {
        if bytes == 0 {
            return;
        }
        self.streams.consume(self.slot, bytes);
        self.statistics.bytes_acked += u64::from(bytes);
        self.offer_room();
    }

    /// New data goes out: SND.NXT has not moved yet.
    #[inline(always)]
    pub fn on_new(&mut self, now: Instant, plan: &Plan) {
        if self.hot.flight() == 0 {
            self.statistics.begin_flight(now, self.cold.una_since);
            self.cold.una_since = now;
        }
        self.note_small(plan);
    }

    /// Data or FIN goes out again: SND.NXT has not moved yet.
    pub fn on_again(&mut self, plan: &Plan) {
        if plan.end() > self.hot.nxt {
            // It takes along what was not sent yet.
            self.note_small(plan);
        }
    }

    /// Notes a small segment at the end of what was written. What the window cuts short waits for
    /// the window.
    #[inline(always)]
    fn note_small(&mut self, plan: &Plan) {
        let last = match u32::from(plan.cut) {
            0 => plan.len,
            cut => plan.len % cut,
        };
        let is_small = last > 0 && last < u32::from(self.mss);
        if is_small && plan.flags.contains(TcpFlags::PSH) {
            self.cold.small_end = plan.end();
        }
    }

    /// What ends at `end` was sent: SND.NXT moves, unless that was sent before.
    #[inline(always)]
    pub fn advance(&mut self, now: Instant, end: SeqNumber) {
        self.hot.nxt = self.hot.nxt.max(end);
        self.cold.last_sent = now;
    }

    /// New data that ends at `end` was sent.
    #[inline(always)]
    pub fn advance_new(&mut self, now: Instant, end: SeqNumber) {
        self.hot.nxt = end;
        self.publish_sent();
        self.cold.last_sent = now;
    }

    /// TCP_NOTSENT_LOWAT: little is taken from the application ahead of what can be sent. Tells the
    /// send stream how much it may hold unsent.
    pub fn bound_unsent(&mut self) {
        let low_water = self.view().options().unsent_low_water.unwrap_or(u32::MAX);
        self.streams.set_unsent_low_water(self.slot, low_water);
        self.publish_sent();
    }

    /// SND.NXT has moved: tells the send stream, if the application wants its unsent bytes bounded.
    #[inline(always)]
    fn publish_sent(&mut self) {
        if self.view().options().unsent_low_water.is_some() {
            let sent = self.hot.nxt - self.view().stream_start();
            self.streams.note_sent(self.slot, sent);
            self.offer_room();
        }
    }

    /// What may go has been sent: what holds up the rest?
    pub fn note_limits(&mut self, now: Instant) {
        let view = self.view();
        if view.hot.flight() == 0 {
            return;
        }
        let unsent = view.has_unsent();
        let closed = view.edge() < self.hot.nxt + u32::from(self.mss);
        let starved = !unsent && self.streams.app_is_short(self.slot);
        self.statistics.window.set(unsent && closed, now);
        self.statistics.buffer.set(starved, now);
    }
}
