//! A stack that another takes the place of, with all that it knows, as when a daemon is replaced.

use mtcp_core::{Snapshot, Stack, Usage};
use wire::time::Instant;

use super::Host;

/// Stacks that go on for others in one run: each is made from nothing.
const MAX_REPLACED: u64 = 50;

impl Host {
    /// How many stacks have taken the place of the one before.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    pub(super) fn replace_if_due(&mut self, now: Instant) -> Result<(), String> {
        if self.replace_at.is_none_or(|at| now < at) {
            return Ok(());
        }
        let next = now + self.rng.duration_up_to(self.style.replaced);
        self.replaced += 1;
        self.replace_at = (self.replaced < MAX_REPLACED).then_some(next);
        self.replace(now)
            .map_err(|error| format!("a stack that goes on for another: {error}"))
    }

    fn replace(&mut self, now: Instant) -> Result<(), String> {
        let before = held(&self.stack.usage());
        let snapshot = self.stack.save(now, &mut self.streams);
        let snapshot = snapshot.map_err(|error| error.to_string())?;
        let bytes =
            postcard::to_extend(&snapshot, Vec::new()).map_err(|error| error.to_string())?;
        let snapshot: Snapshot = postcard::from_bytes(&bytes).map_err(|error| error.to_string())?;
        let restored = Stack::restore(self.config.clone(), snapshot, &[], None);
        let (stack, streams) = restored.map_err(|error| error.to_string())?;
        let after = held(&stack.usage());
        if before != after {
            return Err(format!("it had {before:?}, and has {after:?}"));
        }
        (self.stack, self.streams) = (stack, streams);
        Ok(())
    }
}

/// What a stack has that does not depend on how it came to it.
fn held(usage: &Usage) -> [u32; 11] {
    [
        usage.connections,
        usage.half_open,
        usage.time_wait,
        usage.listeners,
        usage.flows,
        usage.timers,
        usage.events,
        usage.range_sets,
        usage.sent_logs,
        usage.rate_logs,
        usage.undos,
    ]
}
