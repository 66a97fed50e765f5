//! Interrupt coalescing, as network cards have it: when a sleeping thread wakes up for one frame,
//! and when for many.
//!
//! The first frame ends a sleep, and the frames that follow a moment later find the thread with
//! little to do: each wake-up, each system call and each pass through code that has left the cache
//! is for a frame or two. So while frames come densely, a sleep has a fixed length, the delay: as
//! long as a burst takes to gather. Output of a turn never waits for a delay.
//!
//! Peers that send nothing more before they have an answer are held up by delays. A delay has to
//! cost nothing: where fewer frames come with delays than came without, there are none for a while,
//! and for twice as long the next time.
//!
//! Over a link with cheap wake-ups (shared memory) there are delays only where nearly all round
//! trips take much longer: two ends that both delay would each measure little harm. There a delay
//! takes the place of polling, which is useless beside many busy peers.

use std::time::Duration;

use ::io::Coalesce;
use wire::frame::BURST;
use wire::time::Instant;

/// The window in which frames are counted, to see whether they come densely.
const WINDOW: Duration = Duration::from_millis(2);
/// With fewer frames in the longest delay, they do not come densely.
const FEWEST: u64 = 12;
/// Windows of an epoch, in which the effect of delays is measured: single windows vary much.
const EPOCH: u32 = 16;
/// Epochs with delays between two without, which measure the usual rate.
const ROUND: u32 = 128;
/// Epochs without delays after they did harm: the first time, and at most.
const REST: u32 = 4;
const LONGEST_REST: u32 = 128;
/// Over links with cheap wake-ups, this many delays fit into a round trip: the kernel makes a delay
/// some 60 us longer.
const DELAYS: u64 = 8;
const SECOND: u64 = 1_000_000_000;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Frames in a time.
#[derive(Clone, Copy, Debug, Default)]
struct Frames {
    frames: u64,
    nanos: u64,
}

impl Frames {
    fn add(&mut self, other: Self) {
        self.frames += other.frames;
        self.nanos = self.nanos.saturating_add(other.nanos);
    }

    /// Frames per second.
    fn rate(self) -> u64 {
        self.frames.saturating_mul(SECOND) / self.nanos.max(1)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Coalescer {
    /// The longest delay, nanoseconds; zero: none at all.
    most: u64,
    coalesce: Coalesce,
    /// Begin of the window.
    since: Instant,
    /// Frames in it.
    frames: u64,
    /// The delay now, nanoseconds; zero: none.
    delay: u64,
    /// The last look took as many frames as it may: most likely there are more.
    behind: bool,
    /// The windows of the epoch, and how many they are.
    epoch: Frames,
    windows: u32,
    /// Frames per second that came without delays.
    usual: u64,
    /// Epochs that still have delays; zero: this one has none.
    round: u32,
    rest: u32,
    /// Epochs without delays the next time that they do harm.
    penalty: u32,
}

impl Coalescer {
    /// With delays of at most `most`; zero: none.
    pub(crate) fn new(most: Duration, coalesce: Coalesce, now: Instant) -> Self {
        let most = match coalesce {
            Coalesce::Never => Duration::ZERO,
            Coalesce::WhenFar | Coalesce::Always => most,
        };
        Self {
            most: nanos(most),
            coalesce,
            since: now,
            frames: 0,
            delay: 0,
            behind: false,
            epoch: Frames::default(),
            windows: 0,
            usual: 0,
            round: 0,
            rest: 1,
            penalty: REST,
        }
    }

    /// So many frames were found at `now`. Nearly all round trips took longer than `near`.
    #[inline]
    pub(crate) fn found(&mut self, frames: usize, near: Duration, now: Instant) {
        self.frames += frames as u64;
        self.behind = frames >= BURST;
        let passed = now.since(self.since);
        if passed >= WINDOW {
            self.end_window(passed, near);
            self.since = now;
        }
    }

    /// The length of the next sleep, if it is a delay and does not end with a frame. None while
    /// there are frames.
    #[inline]
    pub(crate) fn delay(&self) -> Option<Duration> {
        (self.delay > 0 && !self.behind).then(|| Duration::from_nanos(self.delay))
    }

    fn end_window(&mut self, passed: Duration, near: Duration) {
        let window = Frames {
            frames: std::mem::take(&mut self.frames),
            nanos: nanos(passed),
        };
        self.epoch.add(window);
        self.windows += 1;
        if self.windows == EPOCH {
            self.windows = 0;
            let epoch = std::mem::take(&mut self.epoch);
            self.end_epoch(epoch.rate());
        }
        let rate = window.rate();
        self.delay = if self.round > 0 {
            self.fitting(rate, near)
        } else {
            0
        };
    }

    /// The delay at `rate` frames per second.
    fn fitting(&self, rate: u64, near: Duration) -> u64 {
        let is_dense = rate.saturating_mul(self.most) >= FEWEST * SECOND;
        let delay = (BURST as u64 * SECOND / rate.max(1)).min(self.most);
        let holds_up = self.coalesce == Coalesce::WhenFar && nanos(near) < delay * DELAYS;
        if is_dense && !holds_up { delay } else { 0 }
    }

    fn end_epoch(&mut self, rate: u64) {
        if self.round == 0 {
            self.usual = rate;
            self.rest -= 1;
            if self.rest == 0 {
                self.round = ROUND;
            }
        } else if rate < self.usual / 4 * 3 {
            self.round = 0;
            self.rest = self.penalty;
            self.penalty = (self.penalty * 2).min(LONGEST_REST);
        } else {
            self.round -= 1;
            if self.round == 0 {
                self.rest = 1;
                self.penalty = (self.penalty / 2).max(REST);
            }
        }
    }
}

/// While sleeps are delays, a wait begins with one. What the wait sent causes nothing yet, and the
/// few frames that came since the last look would make a turn of their own.
#[derive(Debug, Default)]
pub(crate) struct FirstDelay {
    /// The wait before began with a delay and has not slept.
    skipped: bool,
}

impl FirstDelay {
    /// Whether a wait that `may` begin with a delay does so, and does not look before. Never two in
    /// a row without a sleep, so that a descriptor which is always ready does not keep the thread
    /// from looking.
    pub(crate) fn begins(&mut self, may: bool) -> bool {
        self.skipped = may && !self.skipped;
        self.skipped
    }

    /// It has slept.
    pub(crate) fn slept(&mut self) {
        self.skipped = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_micros(200);
    /// A round trip over a link beside us.
    const NEAR: Duration = Duration::from_micros(50);

    fn start() -> Instant {
        Instant::from_nanos(1_000_000_000)
    }

    /// So many frames per millisecond, looked for every 100 us, for `ms` milliseconds.
    fn run(coalescer: &mut Coalescer, now: &mut Instant, per_ms: usize, ms: u32) {
        for step in 0..ms as usize * 10 {
            *now += Duration::from_micros(100);
            let frames = per_ms * (step + 1) / 10 - per_ms * step / 10;
            coalescer.found(frames, NEAR, *now);
        }
    }

    #[test]
    fn few_frames_are_each_worth_a_wake_up() {
        let (mut coalescer, mut now) = (Coalescer::new(MOST, Coalesce::Always, start()), start());
        run(&mut coalescer, &mut now, 59, 1_000);
        assert_eq!(coalescer.delay(), None);
    }

    #[test]
    fn a_delay_lasts_until_a_burst_has_gathered() {
        let (mut coalescer, mut now) = (Coalescer::new(MOST, Coalesce::Always, start()), start());
        run(&mut coalescer, &mut now, 500, 40);
        assert_eq!(coalescer.delay(), Some(Duration::from_micros(128)));
    }

    #[test]
    fn more_than_a_burst_is_not_slept_on() {
        let (mut coalescer, mut now) = (Coalescer::new(MOST, Coalesce::Always, start()), start());
        run(&mut coalescer, &mut now, 320, 40);
        assert_eq!(coalescer.delay(), Some(MOST));
        coalescer.found(BURST, NEAR, now);
        assert_eq!(coalescer.delay(), None);
        coalescer.found(BURST - 1, NEAR, now);
        assert_eq!(coalescer.delay(), Some(MOST));
    }

    #[test]
    fn no_delay_is_longer_than_the_longest() {
        let (mut coalescer, mut now) = (Coalescer::new(MOST, Coalesce::Always, start()), start());
        run(&mut coalescer, &mut now, 100, 40);
        assert_eq!(coalescer.delay(), Some(MOST));
    }

    #[test]
    fn delays_end_soon_after_the_frames_do() {
        let (mut coalescer, mut now) = (Coalescer::new(MOST, Coalesce::Always, start()), start());
        run(&mut coalescer, &mut now, 320, 40);
        run(&mut coalescer, &mut now, 0, 4);
        assert_eq!(coalescer.delay(), None);
    }

    #[test]
    fn a_burst_after_a_long_silence_is_not_dense() {
        let (mut coalescer, now) = (Coalescer::new(MOST, Coalesce::Always, start()), start());
        coalescer.found(64, NEAR, now + Duration::from_secs(10));
        assert_eq!(coalescer.delay(), None);
    }

    #[test]
    fn where_moderation_is_off_there_are_no_delays() {
        let (mut coalescer, mut now) = (
            Coalescer::new(Duration::ZERO, Coalesce::Always, start()),
            start(),
        );
        run(&mut coalescer, &mut now, 5_000, 40);
        assert_eq!(coalescer.delay(), None);
    }

    /// The delay at 500 frames per millisecond over a link that wakes up for little, when round
    /// trips take so long.
    fn delay_from(near: Duration) -> Option<Duration> {
        let (mut coalescer, mut now) = (Coalescer::new(MOST, Coalesce::WhenFar, start()), start());
        for _ in 0..400 {
            now += Duration::from_micros(100);
            coalescer.found(50, near, now);
        }
        coalescer.delay()
    }

    #[test]
    fn where_being_woken_costs_little_delays_are_short_beside_round_trips() {
        let delay = Duration::from_micros(128);
        assert_eq!(delay_from(Duration::from_millis(20)), Some(delay));
        assert_eq!(delay_from(delay * 8), Some(delay));
        assert_eq!(delay_from(delay * 7), None);
        assert_eq!(delay_from(Duration::from_micros(2)), None);
        assert_eq!(delay_from(Duration::ZERO), None);
    }

    #[test]
    fn where_no_frames_gather_there_are_no_delays() {
        let (mut coalescer, mut now) = (Coalescer::new(MOST, Coalesce::Never, start()), start());
        run(&mut coalescer, &mut now, 500, 40);
        assert_eq!(coalescer.delay(), None);
    }

    /// Peers in lock step: while there are delays, half as many frames come.
    fn delaying(coalescer: &mut Coalescer, now: &mut Instant, with: usize, ms: u32) -> u32 {
        let mut delays = 0;
        for _ in 0..ms {
            let delaying = coalescer.delay().is_some();
            delays += u32::from(delaying);
            run(coalescer, now, if delaying { with } else { 200 }, 1);
        }
        delays
    }

    #[test]
    fn delays_that_hold_peers_up_are_given_up_for_longer_and_longer() {
        let (mut coalescer, mut now) = (Coalescer::new(MOST, Coalesce::Always, start()), start());
        let first = delaying(&mut coalescer, &mut now, 100, 1_000);
        let later = delaying(&mut coalescer, &mut now, 100, 10_000);
        assert!(first < 200, "{first} of 1,000 ms were spent with delays");
        assert!(later < 300, "{later} of 10,000 ms were spent with delays");
    }

    #[test]
    fn delays_that_hold_nobody_up_go_on() {
        let (mut coalescer, mut now) = (Coalescer::new(MOST, Coalesce::Always, start()), start());
        let delays = delaying(&mut coalescer, &mut now, 180, 10_000);
        assert!(
            delays > 9_500,
            "only {delays} of 10,000 ms were spent with delays"
        );
    }

    #[test]
    fn waits_begin_with_a_delay_as_long_as_they_get_to_it() {
        let mut first_delay = FirstDelay::default();
        for _ in 0..3 {
            assert!(first_delay.begins(true));
            first_delay.slept();
        }
        assert!(!first_delay.begins(false));
    }

    #[test]
    fn of_two_waits_that_found_something_ready_one_has_looked() {
        let mut first_delay = FirstDelay::default();
        let looks = std::iter::from_fn(|| Some(!first_delay.begins(true)));
        let looks: Vec<bool> = looks.take(6).collect();
        assert_eq!(looks, [false, true, false, true, false, true]);
    }

    #[test]
    fn delays_that_did_harm_once_are_tried_again() {
        let (mut coalescer, mut now) = (Coalescer::new(MOST, Coalesce::Always, start()), start());
        delaying(&mut coalescer, &mut now, 100, 10_000);
        let delays = delaying(&mut coalescer, &mut now, 200, 10_000);
        assert!(
            delays > 5_000,
            "only {delays} of 10,000 ms were spent with delays"
        );
    }
}
