//! The thread that runs the stack of a paired context while the application is elsewhere.
//!
//! It looks every [`LOOK`] whether the application has called since. If not, it takes the stack's
//! turns, and sleeps between them until frames come, a timer is due or the application says
//! something, until the application calls again. An application that sleeps in a call runs the
//! stack itself: then the thread soon sleeps without looking, until the call returns.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ring::park::FdSleeper;

use super::shared::Shared;
use crate::{Result, affinity};

/// Between looks: ACKs and timers of an application that computes are late by two at most, and
/// looking takes less than 1% of a processor.
pub(super) const LOOK: Duration = Duration::from_millis(1);
/// Looks that find the application waiting before the thread stops looking: a timer must wake it
/// then, which each request of a slow client would pay for.
const WAITING_LOOKS: u32 = 8;

/// All that the thread owns.
#[derive(Debug)]
pub(super) struct Background {
    shared: Arc<Shared>,
    /// Between turns.
    sleeper: FdSleeper,
    cpu: Option<usize>,
}

impl Background {
    pub(super) fn new(shared: Arc<Shared>, sleeper: FdSleeper, cpu: Option<usize>) -> Self {
        Self {
            shared,
            sleeper,
            cpu,
        }
    }

    pub(super) fn run(mut self) {
        if let Some(cpu) = self.cpu
            && let Err(error) = affinity::pin(cpu)
        {
            log::warn!("stack thread not pinned to processor {cpu}: {error}");
        }
        let mut waiting = 0;
        while !self.shared.stopped() {
            let seen = self.shared.calls();
            thread::sleep(LOOK);
            if self.shared.waits() {
                waiting += 1;
                if waiting >= WAITING_LOOKS {
                    self.park();
                    waiting = 0;
                }
            } else {
                waiting = 0;
                if self.drive(seen).is_err() {
                    return;
                }
            }
        }
    }

    /// Sleeps until the application's call has returned.
    fn park(&self) {
        let shared = &self.shared;
        shared.park.sleep(|| shared.waits() && !shared.stopped());
    }

    /// Runs the stack until the application calls again; not at all if it has since there were
    /// `seen` calls, or has the stack.
    ///
    /// # Errors
    /// The link is gone, which the application will see.
    fn drive(&mut self, seen: u64) -> Result<()> {
        let Some(mut held) = self.shared.try_hold() else {
            return Ok(());
        };
        while self.shared.is_away(seen) {
            held.drove_alone = true;
            held.take_doorbells();
            held.inline.submit()?;
            held.inline.collect()?;
            held.inline.settle()?;
            // Announced before looking: who says something later wakes us.
            self.sleeper.prepare();
            let slept = if self.shared.is_away(seen) && !held.has_doorbells() {
                held.inline.sleep(self.sleeper.fd())
            } else {
                Ok(())
            };
            self.sleeper.finish();
            slept?;
        }
        Ok(())
    }
}
