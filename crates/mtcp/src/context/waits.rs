//! What a context remembers between calls that wait.

use std::sync::Arc;
use std::time::Duration;

use wire::time::Instant;

use crate::coalescing::FirstDelay;
use crate::wake::Requests;
use crate::{Errno, Result};

/// Waits that may last so long may begin with a coalescing delay.
const LONG: Duration = Duration::from_millis(1);
/// Calls that would block after `epoll_wait` has reported, per report and in any case, before such
/// calls run the stack themselves.
const ALLOWANCE: (u32, u32) = (2, 16);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub(super) requests: Arc<Requests>,
    /// Whether waits look before they sleep.
    pub(super) first_delay: FirstDelay,
    /// Another thread sleeps until the stack has something to do, and runs it then.
    pub(super) attended: bool,
    /// Calls that may still say `EAGAIN` without running the stack.
    allowance: u32,
}

impl Waits {
    /// `epoll_wait` reported `n` events.
    pub(super) fn reported(&mut self, n: usize) {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        self.allowance = n.saturating_mul(ALLOWANCE.0).saturating_add(ALLOWANCE.1);
    }

    /// Whether a call that would block may say so without running the stack: another thread will,
    /// or `epoll_wait` soon will.
    pub(super) fn spares(&mut self, would_be_told: impl FnOnce() -> bool) -> bool {
        if self.attended {
            return true;
        }
        let spares = self.allowance > 0 && would_be_told();
        self.allowance -= u32::from(spares);
        spares
    }

    /// Whether a wait begins with a coalescing delay, if there are such `delays` now.
    pub(super) fn begins_with_delay(
        &mut self,
        wakes: bool,
        timeout: Option<Duration>,
        delays: impl FnOnce() -> bool,
    ) -> bool {
        let may = wakes && timeout.is_none_or(|timeout| timeout >= LONG) && delays();
        self.first_delay.begins(may)
    }

    /// Whether a wait is over without a result.
    pub(super) fn ends(
        &mut self,
        now: Instant,
        deadline: Option<Instant>,
        wakes: bool,
    ) -> Result<bool> {
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Ok(true);
        }
        if self.requests.take_interrupt() {
            return Err(Errno::EINTR);
        }
        Ok(wakes && self.requests.take_wake())
    }
}
