//! The window that we offer (RFC 9293 §3.8.6): it never shrinks, and opens in worthwhile steps
//! only; and the limit of the receive buffer under it.

use std::time::Duration;

use ring::stream::StackStreams;
use wire::time::Instant;

use crate::tcp::buffers::{MIN_RTT, most, window_clamp};
use crate::tcp::flags::ReceiveFlags;
use crate::tcp::option_sets::{OptionSets, SetId};
use crate::tcp::receive::actions::ReceiveActions;
use crate::tcp::receive::part::Receive;
use crate::tcp::receive::tuning::promised;

/// RCV.WND to offer when `current` bytes are on offer, `free` of `limit` bytes of buffer are free,
/// the largest window that can be expressed is `max`, and a full-sized segment has `mss` bytes.
///
/// Receiver's silly window avoidance, RFC 9293 §3.8.6.2.2: the right edge moves by
/// min(Fr * RCV.BUFF, Eff.snd.MSS), Fr = 1/2, or not.
/// RFC 9293 MUST-39.
fn offer(current: u32, free: u32, limit: u32, max: u32, mss: u32) -> u32 {
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

/// What decides about a larger window. It is passed to a function that is not inlined, so that the
/// borrows of the part can stay in registers where that is not called.
#[derive(Clone, Copy, Debug)]
struct Asked<'a> {
    streams: &'a StackStreams,
    slot: u32,
    current: u32,
    clamp: &'a OptionSets,
    set: SetId,
    scale: u8,
    mss: u16,
}

/// RCV.WND to offer where `free` of `limit` bytes of buffer are free, which is more than there was.
#[inline(never)]
fn opened(asked: Asked<'_>, free: u32, limit: u32) -> u32 {
    let promise = promised(asked.streams, asked.slot, asked.mss);
    let clamp = window_clamp(asked.clamp.at(asked.set));
    offer(
        asked.current,
        free.min(promise),
        limit,
        expressible(asked.scale).min(clamp),
        u32::from(asked.mss),
    )
}

impl Receive<'_> {
    #[inline(always)]
    fn offered(&self) -> u32 {
        let (free, limit) = self.streams.recv_space(self.slot);
        let (current, mss) = (self.hot.wnd(), u32::from(self.mss));
        // Mostly that says it all: what else bounds the window need not be asked.
        if free < next_edge(current, limit, mss) {
            return current;
        }
        opened(self.asked(), free, limit)
    }

    /// What decides about a larger window, in a form that can be passed on.
    #[inline(always)]
    fn asked(&self) -> Asked<'_> {
        Asked {
            streams: self.streams,
            slot: self.slot,
            current: self.hot.wnd(),
            clamp: self.options,
            set: self.set,
            scale: self.scale,
            mss: self.mss,
        }
    }

    /// The window field of the next segment, which from now on is on offer.
    /// RFC 9293 SHLD-14; RFC 7323 §2.3-2, §2.4-2.
    #[inline(always)]
    pub fn take_window(self) -> u16 {
        let scale = self.scale;
        let field = (self.offered() >> scale).min(u32::from(u16::MAX));
        let edge = self.hot.nxt + (field << scale);
        // Rounding down to the scale may show a little less than was offered before: what was
        // offered is still taken (RFC 7323 §2.4).
        self.hot.adv = self.hot.adv.max(edge);
        field as u16
    }

    /// The application has read: the peer is told if the window can open by enough that it matters.
    /// `srtt` is the smoothed round-trip time.
    pub fn on_read(mut self, now: Instant, srtt: Duration) -> ReceiveActions {
        self.tune(now, srtt);
        let has_holes = self.bits.has(ReceiveFlags::HOLES);
        self.streams.trim(self.slot, has_holes);
        let limit = self.streams.recv_limit(self.slot);
        let opening = self.offered().saturating_sub(self.hot.wnd());
        let worthwhile = (limit / 2).min(2 * u32::from(self.mss)).max(1);
        if opening >= worthwhile {
            self.actions |= ReceiveActions::ACK;
        }
        self.actions
    }

    /// The application has taken something. A limit that the application chose, or the
    /// configuration for good, stays.
    fn tune(&mut self, now: Instant, srtt: Duration) {
        let config = self.config;
        if !config.autotune || self.options.at(self.set).recv_buffer.is_some() {
            return;
        }
        let streams = &mut *self.streams;
        let taken = self.statistics.bytes_received - u64::from(streams.recv_unread(self.slot));
        let rtt = srtt.max(MIN_RTT);
        let Some(wanted) = self.cold.tuning.measure(now, taken, rtt) else {
            return;
        };
        let pool = streams.recv_pool(self.slot);
        let limit = wanted.min(u64::from(most(config.max_buffer, pool.bytes))) as u32;
        let has_room = pool.in_use <= pool.bytes / 2;
        if has_room && limit > streams.recv_limit(self.slot) {
            streams.set_recv_limit(self.slot, limit);
        }
    }

    /// The application has chosen a limit of `limit` bytes. Whatever it is, there is room for what
    /// was offered.
    /// RFC 7323 §2.4-1.
    pub fn set_limit(self, limit: u32) {
        let promised = self.streams.recv_unread(self.slot) + self.hot.wnd();
        self.streams.set_recv_limit(self.slot, limit.max(promised));
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
