//! When to acknowledge what has arrived (RFC 9293 §3.8.6.3, RFC 5681 §4.2).

use std::time::Duration;

use wire::time::Instant;

use crate::tcp::flags::ReceiveFlags;
use crate::tcp::receive::actions::ReceiveActions;
use crate::tcp::receive::part::Receive;

/// So long an ACK waits for an application to accept the connection, if another stack may have to
/// go on with it.
const WITHHELD_ACK: Duration = Duration::from_millis(400);

impl Receive<'_> {
    /// One ACK for each out-of-order segment: the peer counts them (RFC 5681 §4.2).
    /// RFC 9293 MAY-13; RFC 5681 §4.2-3; RFC 2018 §4-3.
    #[inline(always)]
    pub fn owe_duplicate_ack(&mut self) {
        self.hot.dup_acks_due = self.hot.dup_acks_due.saturating_add(1);
        self.hot.quick_acks = self.config.quick_acks;
        self.actions |= ReceiveActions::ACK;
    }

    /// In-order data came (RFC 9293 §3.8.6.3, RFC 5681 §4.2): the part acknowledges at once what
    /// fills a gap and at least every second full-sized segment. The rest may wait for data to ride
    /// on.
    /// RFC 9293 SHLD-19; RFC 5681 §4.2-1, §4.2-4.
    #[inline(always)]
    pub fn owe_ack(&mut self, now: Instant, filled_gap: bool) {
        self.hot.dup_acks_due = 0;
        let pending = self.hot.nxt - self.hot.last_ack_sent;
        let two_segments = 2 * u32::from(self.hot.mss);
        let quick = self.hot.quick_acks > 0 && !self.options.at(self.set).delay_acks;
        if self.view().withholds_acks() {
            // An ACK that was due for what came before would acknowledge this, too.
            self.bits.remove(ReceiveFlags::ACK_NOW);
            self.actions |= ReceiveActions::UNMARK;
            self.delay_ack(now, WITHHELD_ACK);
        } else if filled_gap || quick || pending >= two_segments {
            self.actions |= ReceiveActions::ACK;
        } else {
            self.delay_ack(now, self.config.delayed_ack);
        }
    }

    /// The connection is about to be accepted, and stays here: no ACK is withheld any more.
    pub fn release_withheld_ack(&mut self, now: Instant) {
        if self.view().has_withheld_ack() {
            self.bits
                .remove(ReceiveFlags::ACK_DELAYED | ReceiveFlags::BACKLOG);
            self.owe_ack(now, false);
        }
    }

    /// RFC 9293 SHLD-18; RFC 5681 §4.2-2, §4.2-6.
    #[inline(always)]
    fn delay_ack(&mut self, now: Instant, delay: Duration) {
        if self
            .bits
            .has(ReceiveFlags::ACK_NOW | ReceiveFlags::ACK_DELAYED)
        {
            return;
        }
        let at = now + delay;
        self.hot.ack_at = at.as_nanos().div_ceil(1_000_000) as u32;
        self.bits.insert(ReceiveFlags::ACK_DELAYED);
        self.actions |= ReceiveActions::TIMER;
    }
}
