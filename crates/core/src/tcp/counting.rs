//! What a connection counts as segments come and go.

use std::time::Duration;

use wire::time::Instant;

use crate::tcp::conn::Conn;
use crate::tcp::plan::{Kind, Plan};
use crate::tcp::segment::Segment;

impl Conn<'_> {
    /// A segment came, acceptable or not.
    pub fn count_arrival(&mut self, seg: &Segment<'_>) {
        let statistics = &mut self.cold.statistics;
        statistics.segments_in = statistics.segments_in.saturating_add(1);
        let data = u32::from(!seg.payload.is_empty());
        statistics.data_segments_in = statistics.data_segments_in.saturating_add(data);
    }

    /// A segment is sent; SND.NXT has not moved yet.
    pub fn count_sent(&mut self, plan: &Plan) {
        if plan.kind == Kind::Ack {
            return;
        }
        let statistics = &mut self.cold.statistics;
        if plan.end() > self.hot.snd.nxt && plan.kind != Kind::Syn {
            statistics.new_segments_out = statistics.new_segments_out.saturating_add(1);
        }
        if plan.len == 0 {
            return;
        }
        statistics.data_segments_out = statistics.data_segments_out.saturating_add(1);
        if plan.seq < self.hot.snd.nxt {
            let again = plan.len.min(self.hot.snd.nxt - plan.seq);
            statistics.bytes_retransmitted += u64::from(again);
        }
    }

    /// `transmit` has sent what it may: what holds up the rest?
    pub fn note_limits(&mut self, now: Instant) {
        if self.hot.flight() == 0 {
            return;
        }
        let unsent = self.stream_end() > self.hot.snd.nxt;
        let edge = self.hot.snd.una + self.hot.snd.wnd;
        let closed = edge < self.hot.snd.nxt + u32::from(self.hot.loss.mss);
        let starved = !unsent && self.sh.streams.app_is_short(self.slot);
        self.cold.statistics.window.set(unsent && closed, now);
        self.cold.statistics.buffer.set(starved, now);
    }

    /// `(busy, held up by the window, by the send buffer)`. Nothing is in flight since the last ACK
    /// if nothing is now.
    pub fn busy_times(&self, now: Instant) -> (Duration, Duration, Duration) {
        let end = if self.hot.flight() == 0 {
            self.cold.snd.una_since
        } else {
            now
        };
        let statistics = &self.cold.statistics;
        (
            statistics.busy.total(end),
            statistics.window.total(end),
            statistics.buffer.total(end),
        )
    }
}
