//! The end of a private daemon.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use control::lock::Lock;
use control::private::LINGER;
use control::server::{Server, Stacks};
use mtcp::service::Leftover;

/// How often it is looked whether what programs have left is done.
const LOOK: Duration = Duration::from_millis(100);

/// Since when nobody has been connected.
pub(super) struct Idle {
    since: Option<Instant>,
    /// How long it stays from then on at least.
    stays: Duration,
    start_lock: PathBuf,
}

impl Idle {
    pub(super) fn new(start_lock: PathBuf) -> Self {
        Self {
            since: None,
            stays: LINGER,
            start_lock,
        }
    }

    /// When to look again, if nobody comes.
    pub(super) fn left(&mut self, connected: usize, now: Instant) -> Option<Duration> {
        if connected > 0 {
            (self.since, self.stays) = (None, LINGER);
            return None;
        }
        let since = *self.since.get_or_insert(now);
        Some(self.stays.saturating_sub(now.duration_since(since)))
    }

    /// Nobody is connected: whether anybody needs the stack all the same. What programs wrote is
    /// sent, and whoever has a connection or a listener by a socket of the kernel keeps it. The
    /// stack gives up peers that are silent.
    fn waits_for(&mut self, leftover: Leftover) -> bool {
        if !leftover.is_nothing() {
            self.stays += LOOK;
        }
        !leftover.is_nothing()
    }

    /// Ends the server if it is time. Whoever starts or joins just now is waited for.
    pub(super) fn end<S: Stacks>(
        &mut self,
        server: &mut Server<S>,
        leftover: impl FnOnce() -> Leftover,
        now: Instant,
    ) -> anyhow::Result<Option<Lock>> {
        if self.left(server.connected(), now) != Some(Duration::ZERO) || self.waits_for(leftover())
        {
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
        assert!(!idle.waits_for(Leftover::default()));
    }

    #[test]
    fn it_stays_as_long_as_something_is_left() {
        let mut idle = Idle::new("x".into());
        let start = Instant::now();
        let mut now = start;
        let used = Leftover {
            is_used: true,
            ..Leftover::default()
        };
        let mut unsent = Leftover::default();
        (unsent.undelivered.connections, unsent.undelivered.bytes) = (1, 1000);
        for left in [used, unsent].into_iter().cycle().take(100) {
            now += idle.left(0, now).unwrap();
            assert!(idle.waits_for(left));
        }
        // It looks now and then, and no more often.
        assert_eq!(now - start, LINGER + LOOK * 99);
        now += idle.left(0, now).unwrap();
        assert!(!idle.waits_for(Leftover::default()));
        // Whoever comes makes it linger anew.
        assert_eq!(idle.left(1, now), None);
        assert_eq!(idle.left(0, now), Some(LINGER));
    }
}
