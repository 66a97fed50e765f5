//! Whether the program of a listener comes to accept what waits there.

use std::time::Duration;

use wire::time::Instant;

/// Of one listener.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Connections that were accepted so far.
    accepted: u32,
    /// The same when this was last looked at.
    seen: u32,
    /// Since when none was, while some wait. `None`: it has not been looked at since some do.
    since: Option<Instant>,
    pub is_stalled: bool,
    /// It is among those that are looked at.
    pub is_watched: bool,
}

impl Pace {
    /// The program has accepted one, or was about to.
    #[inline]
    pub fn accept(&mut self) {
        self.accepted = self.accepted.wrapping_add(1);
        self.is_stalled = false;
    }

    /// Nothing waits, or somebody else is to be given time with it.
    pub fn restart(&mut self) {
        self.since = None;
    }

    /// What could be done at this time was done.
    pub fn note(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// Some wait. True: none was accepted for as long as `limit`.
    pub fn look(&mut self, now: Instant, limit: Duration) -> bool {
        if std::mem::replace(&mut self.seen, self.accepted) != self.accepted {
            self.since = None;
        }
        let since = *self.since.get_or_insert(now);
        let is_late = now.since(since) >= limit;
        self.is_stalled |= is_late;
        is_late
    }

    /// When it is late at the earliest.
    pub fn due(&self, now: Instant, limit: Duration) -> Instant {
        self.since.unwrap_or(now) + limit
    }
}
