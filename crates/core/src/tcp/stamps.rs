//! Timestamps (RFC 7323): our clock, which segments those of the peer say are old, and what is
//! echoed.

use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::tcp::flags::Flags;
use crate::tcp::segment::Segment;
use crate::tcp::tcb::Hot;

/// RFC 7323 §5.5: a TS.Recent older than 24 days says nothing any more.
const TS_RECENT_LIFETIME_MS: u32 = 24 * 24 * 3600 * 1000;

impl Hot {
    /// The millisecond clock of this connection's timestamps (RFC 7323 §4.1).
    /// RFC 7323 §4.1-2, §5.4-1.
    pub fn tsval(&self, now: Instant) -> u32 {
        (now.as_millis() as u32).wrapping_add(self.ts_offset)
    }

    /// PAWS (RFC 7323 §5.3 R1). A segment without timestamps on a connection that has them is
    /// taken: §3.2 says that it SHOULD be dropped, but middleboxes strip options, and dropping
    /// kills the connection. RFC 7323 §3.2-8, §3.2-9, §5.2-3, §5.3-1, §5.3-5.
    #[inline]
    pub fn is_old(&self, now: Instant, seg: &Segment<'_>) -> bool {
        let Some(stamps) = seg.options.timestamps else {
            return false;
        };
        if !self.has(Flags::TIMESTAMPS) || seg.has(TcpFlags::RST) {
            return false;
        }
        let is_before = (stamps.tsval.wrapping_sub(self.ts_recent) as i32) < 0;
        is_before && !self.ts_recent_is_stale(now)
    }

    /// RFC 7323 §5.5-1.
    fn ts_recent_is_stale(&self, now: Instant) -> bool {
        let age = (now.as_millis() as u32).wrapping_sub(self.last_received);
        age > TS_RECENT_LIFETIME_MS
    }

    /// RFC 7323 §4.3 (2): SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent.
    /// RFC 7323 §4.3-1, §4.3-3, §4.3-4, §4.3-5, §5.3-3.
    #[inline(always)]
    pub fn update_ts_recent(&mut self, seg: &Segment<'_>) {
        if let Some(stamps) = seg.options.timestamps
            && self.has(Flags::TIMESTAMPS)
            && seg.seq <= self.rcv.last_ack_sent
        {
            self.ts_recent = stamps.tsval;
        }
    }
}
