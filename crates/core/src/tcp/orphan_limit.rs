//! Connections that their application has closed and that are not over: what Linux calls orphans.
//! They have no socket that would count them, and their peers may never answer. So there is a
//! limit, below the number of control blocks, which leaves room for connections that somebody uses.

use wire::time::Instant;

use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;

/// Orphans that are looked at to find one whose peer is silent.
const LOOKS: u32 = 8;

impl Conn<'_> {
    /// Whether a time-out has passed without an answer.
    fn is_unanswered(&self) -> bool {
        self.hot.retries > 0 || self.hot.loss.backoff > 0
    }

    /// The application has closed it, and it is not over.
    pub fn enter_orphans(&mut self) {
        // Of a connection in a backlog the links are in use: its listener ends it.
        self.sh.queues.push_orphan(self.place);
    }

    pub fn leave_orphans(&mut self) {
        if self.has(Flags::APP_CLOSED) {
            self.sh.queues.remove_orphan(self.place);
        }
    }
}

impl Tcp {
    /// One orphan more: is it one too many? If no peer seems to be silent, the one goes that was
    /// closed first.
    pub fn limit_orphans(&mut self, now: Instant) {
        let is_one_too_many = self.shared.queues.orphans() > self.shared.config.max_orphans;
        if is_one_too_many
            && !self.evict_silent_orphan(now)
            && let Some(place) = self.shared.queues.first_orphan()
        {
            self.reset_orphan(now, place);
        }
    }

    /// Resets the first orphan whose peer has not answered for a time-out, if there is one among
    /// the first few. Those that are passed over get behind the others. False if there is none.
    #[cold]
    fn evict_silent_orphan(&mut self, now: Instant) -> bool {
        for _ in 0..LOOKS.min(self.shared.queues.orphans()) {
            let Some(place) = self.shared.queues.first_orphan() else {
                return false;
            };
            let conn = self.conns.at(place, &mut self.shared);
            if conn.is_some_and(|conn| conn.is_unanswered()) {
                self.reset_orphan(now, place);
                return true;
            }
            self.shared.queues.remove_orphan(place);
            self.shared.queues.push_orphan(place);
        }
        false
    }

    fn reset_orphan(&mut self, now: Instant, place: u32) {
        if let Some(mut conn) = self.conns.at(place, &mut self.shared) {
            conn.sh.counters.orphans_evicted += 1;
            conn.abort(now);
            let slot = conn.slot;
            self.settle(now, slot);
        }
    }
}
