//! Segments held back until they are full, because the application asks for it: TCP_CORK and
//! MSG_MORE.

use std::time::Duration;

use wire::time::Instant;

use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;

/// Longest time that bytes are held back, as on Linux.
const CEILING: Duration = Duration::from_millis(200);

impl Conn<'_> {
    /// Whether a segment that is not full has to wait. Behind a FIN nothing will follow that could
    /// fill it.
    pub fn is_corked(&self) -> bool {
        (self.options().cork || self.cold.snd.more_follows)
            && self.cold.snd.held_until != Instant::ZERO
            && !self.has(Flags::FIN_QUEUED)
    }

    /// A write says whether more follows.
    pub fn expect_more(&mut self, more: bool) {
        self.cold.snd.more_follows = more;
    }

    /// What has been written may go: nothing of it is held back any more.
    pub fn pull_cork(&mut self) {
        if self.has_unsent() {
            self.cold.snd.held_until = Instant::ZERO;
        }
    }

    fn has_unsent(&self) -> bool {
        self.stream_end() > self.hot.snd.nxt
    }

    /// TCP_NODELAY is set (again): what has been written goes now, whatever holds it back.
    pub fn push(&mut self) {
        self.pull_cork();
        self.mark_output();
    }

    /// `transmit` has sent what it may: what is left is held back, if it is corked.
    pub fn note_held(&mut self, now: Instant) {
        if self.cold.snd.held_until == Instant::FAR && !self.is_corked() {
            return;
        }
        if !self.has_unsent() {
            self.cold.snd.held_until = Instant::FAR;
        } else if self.cold.snd.held_until == Instant::FAR {
            self.cold.snd.held_until = now + CEILING;
            self.set(Flags::COLD_TIMERS);
            self.wake_at(now + CEILING);
        }
    }

    pub fn cork_deadline(&self) -> Instant {
        let hold = self.cold.snd.held_until;
        if hold == Instant::ZERO {
            Instant::FAR
        } else {
            hold
        }
    }

    pub fn on_cork_timer(&mut self) {
        self.push();
    }
}
