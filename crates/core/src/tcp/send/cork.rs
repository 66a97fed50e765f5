//! Segments held back until they are full, because the application asks for it: TCP_CORK and
//! MSG_MORE.

use std::time::Duration;

use wire::time::Instant;

use crate::tcp::flags::SendFlags;
use crate::tcp::send::actions::SendActions;
use crate::tcp::send::part::SendPart;
use crate::tcp::send::state::Cold;
use crate::tcp::send::view::SendView;

/// Longest time that bytes are held back, as on Linux.
const CEILING: Duration = Duration::from_millis(200);

impl Cold {
    /// When what is held back goes.
    pub fn cork_deadline(&self) -> Instant {
        let hold = self.held_until;
        if hold == Instant::ZERO {
            Instant::FAR
        } else {
            hold
        }
    }
}

impl SendView<'_> {
    /// Whether a segment that is not full has to wait. Behind a FIN nothing will follow that could
    /// fill it.
    pub fn is_corked(self) -> bool {
        (self.options().cork || self.cold.more_follows)
            && self.cold.held_until != Instant::ZERO
            && !self.has(SendFlags::FIN_QUEUED)
    }
}

impl SendPart<'_> {
    /// What has been written may go: nothing of it is held back any more.
    pub fn pull_cork(&mut self) {
        if self.view().has_unsent() {
            self.cold.held_until = Instant::ZERO;
        }
    }

    /// What may go has been sent: what is left is held back, if it is corked.
    pub fn note_held(&mut self, now: Instant) {
        if self.cold.held_until == Instant::FAR && !self.view().is_corked() {
            return;
        }
        if !self.view().has_unsent() {
            self.cold.held_until = Instant::FAR;
        } else if self.cold.held_until == Instant::FAR {
            self.cold.held_until = now + CEILING;
            self.bits.insert(SendFlags::COLD_TIMERS);
            self.actions |= SendActions::TIMER;
        }
    }
}
