//! How many challenge ACKs one connection may send (RFC 5961 §7).

use wire::time::Instant;

/// RFC 5961 §7: ten in five seconds.
const BURST: u32 = 10;
const INTERVAL_MS: u32 = 500;

/// What one connection has used of its limit. Without one of its own, a connection could use up
/// that of all the others, and by that find out what those do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Challenges {
    /// When nothing will be used any more: milliseconds, low 32 bits.
    unused_at: u32,
}

impl Challenges {
    /// What lies in the past says nothing.
    pub fn forget(&mut self, now: Instant) {
        let ahead = self.unused_at.wrapping_sub(now.as_millis() as u32);
        if ahead > BURST * INTERVAL_MS {
            *self = Self::default();
        }
    }

    pub fn allow(&mut self, now: Instant) -> bool {
        let now = now.as_millis() as u32;
        let ahead = self.unused_at.wrapping_sub(now);
        // It never runs further ahead: this one lies in the past.
        let ahead = if ahead > BURST * INTERVAL_MS {
            0
        } else {
            ahead
        };
        if ahead > (BURST - 1) * INTERVAL_MS {
            return false;
        }
        self.unused_at = now.wrapping_add(ahead + INTERVAL_MS);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_at_once_and_two_a_second() {
        let mut challenges = Challenges::default();
        let mut at = |ms| {
            (0..100)
                .filter(|_| challenges.allow(Instant::from_millis(ms)))
                .count()
        };
        // Close to where the clock wraps.
        let start = (1 << 32) - 5700;
        assert_eq!(at(start), 10);
        assert_eq!(at(start + 499), 0);
        assert_eq!(at(start + 500), 1);
        assert_eq!(at(start + 1500), 2);
        assert_eq!(at(start + 60_000), 10);
        // After 40 days, when the clock has come halfway round.
        assert_eq!(at(start + 40 * 24 * 3_600_000), 10);
    }
}
