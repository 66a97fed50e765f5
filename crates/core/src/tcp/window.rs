//! The window that we offer (RFC 9293 §3.8.6): never shrinks, and opens in worthwhile steps only.

use wire::time::Instant;

use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::open::window_clamp;

/// RCV.WND to offer when `current` bytes are on offer, `free` of `limit` bytes of buffer are free, the largest window that can be
/// expressed is `max`, and a full-sized segment has `mss` bytes.
///
/// Receiver's silly window avoidance, RFC 9293 §3.8.6.2.2: the right edge moves by min(Fr * RCV.BUFF, Eff.snd.MSS), Fr = 1/2, or not.
/// RFC 9293 MUST-39.
pub(crate) fn offer(current: u32, free: u32, limit: u32, max: u32, mss: u32) -> u32 {
    let possible = free.min(max);
    if possible >= next_edge(current, limit, mss) {
        possible
    } else {
        current
    }
}

/// The least that more than `current` bytes may be.
fn next_edge(current: u32, limit: u32, mss: u32) -> u32 {
    let step = mss.min(limit / 2).max(1);
    current.saturating_add(step)
}

/// The largest window that fits the header under `scale`.
fn expressible(scale: u8) -> u32 {
    u32::from(u16::MAX) << scale
}

impl Conn<'_> {
    #[inline]
    fn offered(&self) -> u32 {
        let (free, limit) = self.sh.streams.recv_space(self.slot);
        let (current, mss) = (self.hot.rcv_wnd(), u32::from(self.cold.local_mss));
        // Mostly that says it all: what else bounds the window has not to be asked.
        if free < next_edge(current, limit, mss) {
            return current;
        }
        self.opened(free, limit)
    }

    /// The same where the buffer has room for more.
    #[inline(never)]
    fn opened(&self, free: u32, limit: u32) -> u32 {
        offer(
            self.hot.rcv_wnd(),
            free.min(self.promise()),
            limit,
            expressible(self.hot.rcv_wscale).min(window_clamp(self.options())),
            u32::from(self.cold.local_mss),
        )
    }

    /// The window field of the next segment, which from now on is on offer.
    /// RFC 9293 SHLD-14; RFC 7323 §2.3-2, §2.4-2.
    pub fn take_window(&mut self) -> u16 {
        let scale = self.hot.rcv_wscale;
        let field = (self.offered() >> scale).min(u32::from(u16::MAX));
        let edge = self.hot.rcv_nxt + (field << scale);
        // Rounding down to the scale may show a little less than was offered before: what was offered is still taken (RFC 7323 §2.4).
        self.hot.rcv_adv = self.hot.rcv_adv.max(edge);
        field as u16
    }

    /// The application read something: tell the peer if the window can open by enough that it matters.
    pub fn on_received(&mut self, now: Instant) {
        self.tune_receive_buffer(now);
        self.sh.streams.trim(self.slot, self.hot.has(Flags::HOLES));
        let limit = self.sh.streams.recv_limit(self.slot);
        let opening = self.offered().saturating_sub(self.hot.rcv_wnd());
        let worthwhile = (limit / 2).min(2 * u32::from(self.cold.local_mss)).max(1);
        if opening >= worthwhile && self.hot.state.may_receive() {
            self.mark_ack();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    #[test]
    fn opens_by_a_segment_or_not_at_all() {
        assert_eq!(offer(0, 999, 10_000, 65_535, MSS), 0);
        assert_eq!(offer(0, 1000, 10_000, 65_535, MSS), 1000);
        assert_eq!(offer(4000, 4999, 10_000, 65_535, MSS), 4000);
        assert_eq!(offer(4000, 5000, 10_000, 65_535, MSS), 5000);
    }

    #[test]
    fn a_small_buffer_opens_by_half() {
        assert_eq!(offer(0, 299, 600, 65_535, MSS), 0);
        assert_eq!(offer(0, 300, 600, 65_535, MSS), 300);
    }

    #[test]
    fn never_shrinks() {
        assert_eq!(offer(5000, 100, 10_000, 65_535, MSS), 5000);
        assert_eq!(offer(5000, 0, 0, 65_535, MSS), 5000);
    }

    #[test]
    fn no_more_than_the_header_can_say() {
        assert_eq!(offer(0, 1 << 20, 1 << 20, 65_535, MSS), 65_535);
    }
}
