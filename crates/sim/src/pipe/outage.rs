//! Times when nothing gets through.

use std::time::Duration;

use wire::time::Instant;

/// A black hole that comes and goes. Never by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outages {
    /// Beginning of the first.
    pub first: Instant,
    /// From the beginning of one to that of the next.
    pub every: Duration,
    /// How long each lasts: frames sent then are lost.
    pub lasts: Duration,
    /// How many there are.
    pub times: u32,
}

impl Default for Outages {
    fn default() -> Self {
        Self {
            first: Instant::ZERO,
            every: Duration::ZERO,
            lasts: Duration::ZERO,
            times: 0,
        }
    }
}

impl Outages {
    /// Whether there is one now.
    pub(super) fn is_out(&self, now: Instant) -> bool {
        if self.times == 0 || now < self.first {
            return false;
        }
        let since = now.since(self.first).as_nanos();
        let every = self.every.as_nanos().max(1);
        since / every < u128::from(self.times) && since % every < self.lasts.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_and_goes_so_often() {
        let ms = Duration::from_millis;
        let outages = Outages {
            first: Instant::from_millis(50),
            every: ms(100),
            lasts: ms(10),
            times: 2,
        };
        let expected = [
            (0, false),
            (49, false),
            (50, true),
            (59, true),
            (60, false),
            (155, true),
            (255, false),
        ];
        for (at, is_out) in expected {
            assert_eq!(outages.is_out(Instant::from_millis(at)), is_out, "{at} ms");
        }
        assert!(!Outages::default().is_out(Instant::from_millis(5)));
    }
}
