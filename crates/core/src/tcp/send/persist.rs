//! A closed window (RFC 9293 §3.8.6.1), and how long what was sent may stay unanswered.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::tcp::clock::near;
use crate::tcp::flags::SendFlags;
use crate::tcp::send::part::SendPart;
use crate::tcp::send::view::SendView;

impl SendView<'_> {
    /// Whether something waits for the window with nothing in flight: then only a probe can find
    /// out that it has opened.
    pub fn is_blocked_by_window(self) -> bool {
        self.state.may_transmit() && self.hot.flight() == 0 && self.has_more()
    }

    /// RFC 5482: a SYN or data unacknowledged for so long. A window that stays closed is not that,
    /// as long as the peer answers the probes (RFC 9293 MUST-37); that nobody answers `retries` of
    /// them for so long is. RFC 9293 MUST-21. RFC 5482 §3.1-1, §3.1-2.
    pub fn user_deadline(self, now: Instant, retries: u8) -> Instant {
        let Some(timeout) = self.options().user_timeout else {
            return Instant::FAR;
        };
        if self.has(SendFlags::PERSIST) {
            let since = near(now, self.cold.probed_since);
            return if retries > 0 {
                since + timeout
            } else {
                Instant::FAR
            };
        }
        if self.hot.flight() > 0 {
            self.cold.una_since + timeout
        } else {
            Instant::FAR
        }
    }
}

impl SendPart<'_> {
    /// Something waits for the window, and nothing is in flight that could bring news of it. True
    /// if that is new: the timer of probes starts.
    /// RFC 9293 SHLD-29.
    pub fn begin_persist(&mut self, now: Instant) -> bool {
        let is_new = !self.bits.has(SendFlags::PERSIST);
        self.note_blocked(now);
        self.bits.insert(SendFlags::PERSIST);
        is_new
    }

    /// The window is closed, if it was not before.
    pub fn note_blocked(&mut self, now: Instant) {
        if !self.bits.has(SendFlags::PERSIST) {
            self.cold.blocked_since = now;
        }
    }

    /// The window has been closed for longer than we care to wait (RFC 6429 §5: who runs out of
    /// memory may; else never, RFC 9293 §3.8.6.1).
    pub fn is_held_up(&self, now: Instant) -> bool {
        let limit = self.config.persist_timeout;
        limit.is_some_and(|limit| now - self.cold.blocked_since >= limit)
    }

    /// A probe is due.
    pub fn owe_probe(&mut self) {
        self.bits.insert(SendFlags::PERSIST | SendFlags::PROBE_DUE);
    }

    /// A probe up to `end` was sent, after `retries` that were not answered.
    pub fn on_probe(&mut self, now: Instant, end: SeqNumber, retries: u8) {
        if retries == 0 {
            self.cold.probed_since = now.as_millis() as u32;
        }
        self.advance(now, end);
    }
}
