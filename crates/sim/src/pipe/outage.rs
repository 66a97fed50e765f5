//! Times when nothing gets through.

use std::time::Duration;

use wire::time::Instant;

/// A black hole that comes and goes: frames sent within `lasts` from any multiple of `every` plus `offset` are lost. Never by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Outages {
    /// From the beginning of one to that of the next; zero: there are none.
    pub every: Duration,
    /// How long each lasts.
    pub lasts: Duration,
    /// Beginning of the first, counted from time zero.
    pub offset: Duration,
}

impl Outages {
    /// Whether there is one now.
    pub(super) fn is_out(&self, now: Instant) -> bool {
        let since = now.since(Instant::ZERO).checked_sub(self.offset);
        let phase = since.and_then(|since| since.as_nanos().checked_rem(self.every.as_nanos()));
        phase.is_some_and(|phase| phase < self.lasts.as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_and_goes() {
        let ms = Duration::from_millis;
        let outages = Outages {
            every: ms(100),
            lasts: ms(10),
            offset: ms(50),
        };
        let out = |at| outages.is_out(Instant::from_millis(at));
        let expected = [
            (0, false),
            (49, false),
            (50, true),
            (59, true),
            (60, false),
            (155, true),
        ];
        for (at, is_out) in expected {
            assert_eq!(out(at), is_out, "{at} ms");
        }
        assert!(!Outages::default().is_out(Instant::from_millis(5)));
    }
}
