//! The end of a private daemon.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use control::lock::Lock;
use control::private::LINGER;
use control::server::{Server, Stacks};

/// Since when nobody has been connected.
pub(super) struct Idle {
    since: Option<Instant>,
    start_lock: PathBuf,
}

impl Idle {
    pub(super) fn new(start_lock: PathBuf) -> Self {
        Self {
            since: None,
            start_lock,
        }
    }

    /// How long it stays if nobody comes.
    pub(super) fn left(&mut self, connected: usize, now: Instant) -> Option<Duration> {
        if connected > 0 {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        Some(LINGER.saturating_sub(now.duration_since(since)))
    }

    /// Ends the server if it is time. Whoever starts or joins just now is waited for.
    pub(super) fn end<S: Stacks>(
        &mut self,
        server: &mut Server<S>,
        now: Instant,
    ) -> anyhow::Result<Option<Lock>> {
        if self.left(server.connected(), now) != Some(Duration::ZERO) {
            return Ok(None);
        }
        let lock = server.end_if_idle(&self.start_lock)?;
        if lock.is_none() {
            self.since = None;
        }
        Ok(lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lingers_from_when_the_last_one_went() {
        let mut idle = Idle::new("x".into());
        let start = Instant::now();
        assert_eq!(idle.left(0, start), Some(LINGER));
        assert_eq!(idle.left(0, start + LINGER / 2), Some(LINGER / 2));
        assert_eq!(idle.left(1, start + LINGER), None);
        assert_eq!(idle.left(0, start + LINGER * 2), Some(LINGER));
        assert_eq!(idle.left(0, start + LINGER * 9), Some(Duration::ZERO));
    }
}
