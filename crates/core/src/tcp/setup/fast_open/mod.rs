//! TCP Fast Open (RFC 7413): data in the SYN, between hosts that have met before. The server's
//! cookies are the [`issuer`]'s; those that we were given are in the [`cache`].

mod cache;
mod issuer;

use std::time::Duration;

use wire::time::Instant;

pub(crate) use cache::CookieCache;
pub(crate) use issuer::{FastOpen, Issuer};

/// RFC 7413 §5.1: a connection that was reset counts for so long after.
const COOLING: Duration = Duration::from_secs(60);

/// Connections that a listener opened by cookie and whose handshakes are not complete: what an
/// attacker with real addresses can hold (RFC 7413 §5.1).
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct PendingOpens {
    pending: u32,
    /// Those that were reset count on until `cool_at`: spoofed SYNs whose victims answer with RST
    /// must not come for free.
    cooling: u32,
    cool_at: Instant,
}

impl PendingOpens {
    /// RFC 7413 §5.1-1.
    pub fn has_room(&mut self, now: Instant, limit: u32) -> bool {
        if now >= self.cool_at {
            self.cooling = 0;
        }
        self.pending.saturating_add(self.cooling) < limit
    }

    /// One more.
    pub fn enter(&mut self) {
        self.pending += 1;
    }

    /// One is established, or over: reset, if `by_reset`.
    pub fn leave(&mut self, now: Instant, by_reset: bool) {
        self.pending = self.pending.saturating_sub(1);
        if by_reset {
            self.cooling += 1;
            self.cool_at = now + COOLING;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_count_for_a_minute() {
        let mut opens = PendingOpens::default();
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        assert!(!opens.has_room(at(0), 0));
        opens.pending = 2;
        assert!(!opens.has_room(at(0), 2));
        opens.leave(at(0), false);
        assert!(opens.has_room(at(0), 2));
        opens.leave(at(0), true);
        assert!(opens.has_room(at(0), 2) && !opens.has_room(at(59), 1));
        assert!(opens.has_room(at(60), 1));
    }
}
