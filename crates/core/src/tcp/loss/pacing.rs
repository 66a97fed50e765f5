//! Pacing: data leaves at a rate, not as fast as the window allows.
//!
//! Each segment moves the time at which the next may leave. The wheel ticks in milliseconds, so
//! what became due since the last tick leaves together. Acknowledgments that arrive in between
//! release what is due by then. A driver that comes later still, because the machine is busy, sends
//! all that became due meanwhile, up to a part of a round trip: the rate is what the path carries,
//! however coarse the clock.

use std::time::Duration;

use wire::time::Instant;

/// A sender that had nothing to send, or no window, may catch up by so much: a tick of the wheel,
/// and as much again.
const CREDIT: Duration = Duration::from_millis(2);
/// One that waited for its time and was called late catches up by this part of a round trip.
const LATE_SHARE: u32 = 4;

/// How a connection is paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pacing {
    /// Bytes per second. 0: the connection is not paced.
    rate: u64,
    /// Bytes per second that the application allows (SO_MAX_PACING_RATE). 0: any number.
    most: u64,
    /// When the next segment may leave.
    next_at: Instant,
    /// A segment waits for `next_at`.
    waits: bool,
    /// The sender was called late, and what became due since has not all left yet.
    late: bool,
}

impl Pacing {
    /// Not paced; later at most at `most` bytes per second.
    pub fn new(most: Option<u64>) -> Self {
        Self {
            rate: 0,
            most: most.unwrap_or(0),
            next_at: Instant::ZERO,
            waits: false,
            late: false,
        }
    }

    /// Bytes per second, if there is a limit.
    pub fn rate(&self) -> Option<u64> {
        (self.rate > 0).then_some(self.rate)
    }

    /// Whether a segment waits.
    pub fn is_waiting(&self) -> bool {
        self.waits
    }

    /// When to look again because one waits. `FAR`: none does.
    pub fn release_at(&self) -> Instant {
        if self.waits {
            self.next_at
        } else {
            Instant::FAR
        }
    }

    /// Whether a segment may leave now. If not, it waits.
    #[inline]
    pub fn may_depart(&mut self, now: Instant) -> bool {
        let may = self.next_at <= now;
        self.late = may && (self.late || self.waits);
        self.waits |= !may;
        may
    }

    /// Segments leave at `rate` bytes per second, or as fast as the application allows.
    pub fn set_rate(&mut self, wanted: Option<u64>) {
        let was_paced = self.rate > 0;
        let most = (self.most > 0).then_some(self.most);
        let rate = match (wanted, most) {
            (Some(wanted), Some(most)) => Some(wanted.min(most)),
            (wanted, most) => wanted.or(most),
        };
        self.rate = rate.map_or(0, |rate| rate.max(1));
        if was_paced && self.rate == 0 {
            self.next_at = Instant::ZERO;
        }
    }

    /// Nothing leaves before `at`.
    pub fn hold_until(&mut self, at: Instant) {
        self.next_at = self.next_at.max(at);
    }

    /// What waited may leave: the timer for it has expired.
    pub fn release(&mut self) {
        (self.waits, self.late) = (false, true);
    }

    /// `bytes` have left, after round trips of `srtt`.
    #[inline(always)]
    pub fn on_departed(&mut self, now: Instant, bytes: u32, srtt: Duration) {
        if self.rate == 0 {
            self.waits = false;
        } else {
            self.on_sent(now, bytes, (srtt / LATE_SHARE).max(CREDIT));
        }
    }

    /// `late_credit`: by how much a sender may catch up that was called late.
    fn on_sent(&mut self, now: Instant, bytes: u32, late_credit: Duration) {
        self.waits = false;
        if self.rate == 0 {
            return;
        }
        let nanos = u64::from(bytes).saturating_mul(1_000_000_000) / self.rate;
        let credit = if self.late { late_credit } else { CREDIT };
        let since = now.as_nanos().saturating_sub(credit.as_nanos() as u64);
        let from = self.next_at.max(Instant::from_nanos(since));
        self.next_at = from + Duration::from_nanos(nanos);
        self.late &= self.next_at <= now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Duration = Duration::from_millis(25);

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Looks every `step` µs for a second and sends segments of 1000 bytes as long as they may
    /// leave. The bytes sent, and the most at once.
    fn send(rate: u64, step: u64) -> (u64, u64) {
        let mut pacing = Pacing::new(None);
        pacing.set_rate(Some(rate));
        let (mut bytes, mut most) = (0, 0);
        for i in 1..=1_000_000 / step {
            let now = Instant::from_micros(5_000_000 + i * step);
            let mut burst = 0;
            while pacing.may_depart(now) {
                pacing.on_sent(now, 1000, LATE);
                burst += 1000;
            }
            // Whoever comes for the first time has credit.
            most = if i > 1 { most.max(burst) } else { 0 };
            bytes += burst;
        }
        (bytes, most)
    }

    #[test]
    fn the_rate_holds_at_any_tick() {
        for rate in [100_000, 1_000_000, 125_000_000, 1_250_000_000] {
            for step in [10, 100, 1000, 1700, 20_000] {
                let (bytes, most) = send(rate, step);
                // What is due in the tick, and the rest of a segment.
                let expected = rate * step / 1_000_000 + 1000;
                // Nothing waited before the first look.
                let due = rate * (1_000_000 - step) / 1_000_000;
                assert!(
                    bytes.abs_diff(due) < rate / 200 + 3000,
                    "{bytes} of {due} at {rate}, {step}"
                );
                assert!(most <= expected + 1000, "{most} at once at {rate}, {step}");
            }
        }
    }

    #[test]
    fn a_silence_earns_no_more_than_the_credit() {
        let mut pacing = Pacing::new(None);
        pacing.set_rate(Some(1_000_000));
        pacing.on_sent(ms(100), 1000, LATE);
        let mut burst = 0;
        while pacing.may_depart(ms(10_000)) {
            pacing.on_sent(ms(10_000), 1000, LATE);
            burst += 1;
        }
        assert_eq!(burst, 3);
    }

    /// However late it is called: by no more than that.
    #[test]
    fn one_that_waited_catches_up() {
        let late = |credit| {
            let mut pacing = Pacing::new(None);
            pacing.set_rate(Some(1_000_000));
            pacing.on_sent(ms(100), 3000, CREDIT);
            assert!(!pacing.may_depart(ms(100)));
            let mut burst = 0;
            while pacing.may_depart(ms(130)) {
                pacing.on_sent(ms(130), 1000, Duration::from_millis(credit));
                burst += 1;
            }
            burst
        };
        assert_eq!(late(100), 30);
        assert_eq!(late(10), 11);
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pacing = Pacing::new(None);
        pacing.set_rate(Some(1));
        pacing.on_sent(ms(1), 1000, CREDIT);
        assert!(pacing.next_at > ms(900_000));
        pacing.set_rate(None);
        assert_eq!((pacing.next_at, pacing.rate()), (Instant::ZERO, None));
        pacing.on_sent(ms(2), u32::MAX, CREDIT);
        assert_eq!(pacing.next_at, Instant::ZERO);
    }
}
