//! What calls have staged goes out: at once, with whoever waits next, or with the call of another
//! thread that waits for the lock or was woken a moment ago.

use mtcp::Context;

use super::state::Engine;
use crate::lock::Shared;
use crate::owner::Owner;
use crate::waiters::Doorbells;

/// How many calls may leave what they staged to the next.
const OWED_CALLS_MAX: u32 = 16;

/// What is left to do when the lock is given back.
#[derive(Debug)]
pub(crate) struct After {
    doorbells: Doorbells,
    owners: Vec<Owner>,
}

impl Drop for After {
    fn drop(&mut self) {
        self.doorbells.notify();
        for owner in self.owners.drain(..) {
            owner.tell();
        }
    }
}

impl Shared for Engine {
    type After = After;

    fn part(&mut self, is_wanted: bool) -> After {
        let is_followed = || is_wanted || self.waiters.are_coming();
        if self.owed > 0 && !(self.owed < OWED_CALLS_MAX && is_followed()) {
            self.hand_out();
        }
        self.after()
    }
}

impl Engine {
    /// Hands over what calls have staged, now or with whoever waits next. When someone sleeps on
    /// the stack already, that is now, or after the call of another thread, which is about to have
    /// the lock: what several stage goes out together.
    pub(crate) fn staged(&mut self, now: bool) {
        if !now && !self.waiters.is_driven() {
            return;
        }
        let is_followed = || (self.duties.is_wanted)() || self.waiters.are_coming();
        if self.owed < OWED_CALLS_MAX && is_followed() {
            self.owed += 1;
            return;
        }
        self.hand_out();
    }

    /// Wakes those whose sockets became ready by a call.
    pub(crate) fn wake_ready(&mut self) {
        if let Some((context, waiters)) = self.parts() {
            waiters.wake_ready(context);
        }
    }

    /// Whether a thread of the program sleeps on the link, and runs the next turn.
    pub(crate) fn is_attended(&mut self) -> bool {
        self.context().is_some_and(|context| context.is_attended())
    }

    fn hand_out(&mut self) {
        self.owed = 0;
        let Some((context, waiters)) = self.parts() else {
            return;
        };
        if context.has_staged() {
            // The next call on a socket says what became of the link.
            let _ = context.poll();
        }
        waiters.wake_ready(context);
        waiters.wake_if_due(context);
        self.turns += 1;
    }

    fn after(&mut self) -> After {
        let mut owners = Vec::new();
        while let Some(id) = self.context().and_then(Context::take_urgent) {
            owners.extend(self.sockets.owner_of(id));
        }
        After {
            doorbells: self.waiters.take_doorbells(),
            owners,
        }
    }
}
