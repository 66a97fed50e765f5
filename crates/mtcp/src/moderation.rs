//! When to wake up for one frame, and when for many: interrupt moderation as network cards have it, for a thread that sleeps on a link.
//!
//! The first frame ends a sleep, and what follows it a moment later finds the thread with little to do: each wake-up, each call to the
//! kernel and each way through code that is no longer in the cache is for a frame or two. So while frames come densely, a sleep is a
//! nap: it lasts as long as a burst takes to gather, whatever comes. What a turn leaves behind waits for no nap.
//!
//! Peers that send no more before they have an answer are held up by that. A nap has to cost nothing: where fewer frames come with naps
//! than came without, there are none for a while, and for twice as long the next time.
//!
//! Over a link that wakes up for little (shared memory) there are naps only where nearly all round trips take much longer: two ends that
//! nap would both measure little harm. There they are instead of looking again and again, which is of no use to many peers that have more
//! to do than we.

use std::time::Duration;

use ::io::Gathers;
use wire::frame::BURST;
use wire::time::Instant;

/// Over which it is seen whether frames come densely.
const WINDOW: Duration = Duration::from_millis(2);
/// With fewer in the longest nap, frames do not come densely.
const FEWEST: u64 = 12;
/// Over which it is seen what naps do: windows, which vary much.
const EPOCH: u32 = 16;
/// Epochs with naps between two without, which say what is usual.
const ROUND: u32 = 128;
/// Epochs without naps after they did harm: the first time, and at most.
const REST: u32 = 4;
const LONGEST_REST: u32 = 128;
/// Where naps are for peers from far, so many fit into their round trips: the kernel lets a nap take some 60 us longer.
const NAPS: u64 = 8;
const SECOND: u64 = 1_000_000_000;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Frames in a time.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    frames: u64,
    nanos: u64,
}

impl Tally {
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
pub(crate) struct Moderation {
    /// The longest nap, nanoseconds; zero: none at all.
    most: u64,
    gathers: Gathers,
    /// Begin of the window.
    since: Instant,
    /// Frames in it.
    frames: u64,
    /// How long to nap now, nanoseconds; zero: not at all.
    nap: u64,
    /// The last look took as many frames as it may: most likely there are more.
    behind: bool,
    /// The windows of the epoch, and how many they are.
    epoch: Tally,
    windows: u32,
    /// Frames per second that came without naps.
    usual: u64,
    /// Epochs to go with naps if not zero; else without.
    round: u32,
    rest: u32,
    /// Epochs without naps the next time that they do harm.
    penalty: u32,
}

impl Moderation {
    /// With naps of at most so long; zero: none.
    pub(crate) fn new(most: Duration, gathers: Gathers, now: Instant) -> Self {
        let most = match gathers {
            Gathers::Never => Duration::ZERO,
            Gathers::FromFar | Gathers::Always => most,
        };
        Self {
            most: nanos(most),
            gathers,
            since: now,
            frames: 0,
            nap: 0,
            behind: false,
            epoch: Tally::default(),
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

    /// How long to nap instead of sleeping until there is a frame, if so. Not while there are frames.
    #[inline]
    pub(crate) fn nap(&self) -> Option<Duration> {
        (self.nap > 0 && !self.behind).then(|| Duration::from_nanos(self.nap))
    }

    fn end_window(&mut self, passed: Duration, near: Duration) {
        let window = Tally {
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
        self.nap = if self.round > 0 {
            self.fitting(rate, near)
        } else {
            0
        };
    }

    /// How long to nap at so many frames per second.
    fn fitting(&self, rate: u64, near: Duration) -> u64 {
        let is_dense = rate.saturating_mul(self.most) >= FEWEST * SECOND;
        let nap = (BURST as u64 * SECOND / rate.max(1)).min(self.most);
        let holds_up = self.gathers == Gathers::FromFar && nanos(near) < nap * NAPS;
        if is_dense && !holds_up { nap } else { 0 }
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

/// While sleeps are naps, a wait begins with one: what it sent causes nothing before it has gone out, and what has come since the last look
/// would make a turn of its own, with its calls to the kernel for few frames.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// The wait before was to begin with a nap, and has not slept.
    skipped: bool,
}

impl Gathering {
    /// A wait begins, which `may` begin with a nap: whether it does, and does not look before. Never two in a row without a sleep: what is
    /// always ready does not keep anybody from looking.
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
    fn run(moderation: &mut Moderation, now: &mut Instant, per_ms: usize, ms: u32) {
        for step in 0..ms as usize * 10 {
            *now += Duration::from_micros(100);
            let frames = per_ms * (step + 1) / 10 - per_ms * step / 10;
            moderation.found(frames, NEAR, *now);
        }
    }

    #[test]
    fn few_frames_are_each_worth_a_wake_up() {
        let (mut moderation, mut now) = (Moderation::new(MOST, Gathers::Always, start()), start());
        run(&mut moderation, &mut now, 59, 1_000);
        assert_eq!(moderation.nap(), None);
    }

    #[test]
    fn a_nap_lasts_until_a_burst_has_gathered() {
        let (mut moderation, mut now) = (Moderation::new(MOST, Gathers::Always, start()), start());
        run(&mut moderation, &mut now, 500, 40);
        assert_eq!(moderation.nap(), Some(Duration::from_micros(128)));
    }

    #[test]
    fn more_than_a_burst_is_not_slept_on() {
        let (mut moderation, mut now) = (Moderation::new(MOST, Gathers::Always, start()), start());
        run(&mut moderation, &mut now, 320, 40);
        assert_eq!(moderation.nap(), Some(MOST));
        moderation.found(BURST, NEAR, now);
        assert_eq!(moderation.nap(), None);
        moderation.found(BURST - 1, NEAR, now);
        assert_eq!(moderation.nap(), Some(MOST));
    }

    #[test]
    fn no_nap_is_longer_than_the_longest() {
        let (mut moderation, mut now) = (Moderation::new(MOST, Gathers::Always, start()), start());
        run(&mut moderation, &mut now, 100, 40);
        assert_eq!(moderation.nap(), Some(MOST));
    }

    #[test]
    fn naps_end_soon_after_the_frames_do() {
        let (mut moderation, mut now) = (Moderation::new(MOST, Gathers::Always, start()), start());
        run(&mut moderation, &mut now, 320, 40);
        run(&mut moderation, &mut now, 0, 4);
        assert_eq!(moderation.nap(), None);
    }

    #[test]
    fn a_burst_after_a_long_silence_is_not_dense() {
        let (mut moderation, now) = (Moderation::new(MOST, Gathers::Always, start()), start());
        moderation.found(64, NEAR, now + Duration::from_secs(10));
        assert_eq!(moderation.nap(), None);
    }

    #[test]
    fn where_moderation_is_off_there_are_no_naps() {
        let (mut moderation, mut now) = (
            Moderation::new(Duration::ZERO, Gathers::Always, start()),
            start(),
        );
        run(&mut moderation, &mut now, 5_000, 40);
        assert_eq!(moderation.nap(), None);
    }

    /// The nap at 500 frames per millisecond over a link that wakes up for little, when round trips take so long.
    fn nap_from(near: Duration) -> Option<Duration> {
        let (mut moderation, mut now) = (Moderation::new(MOST, Gathers::FromFar, start()), start());
        for _ in 0..400 {
            now += Duration::from_micros(100);
            moderation.found(50, near, now);
        }
        moderation.nap()
    }

    #[test]
    fn where_being_woken_costs_little_naps_are_short_beside_round_trips() {
        let nap = Duration::from_micros(128);
        assert_eq!(nap_from(Duration::from_millis(20)), Some(nap));
        assert_eq!(nap_from(nap * 8), Some(nap));
        assert_eq!(nap_from(nap * 7), None);
        assert_eq!(nap_from(Duration::from_micros(2)), None);
        assert_eq!(nap_from(Duration::ZERO), None);
    }

    #[test]
    fn where_no_frames_gather_there_are_no_naps() {
        let (mut moderation, mut now) = (Moderation::new(MOST, Gathers::Never, start()), start());
        run(&mut moderation, &mut now, 500, 40);
        assert_eq!(moderation.nap(), None);
    }

    /// Peers in lock step: while there are naps, half as many frames come.
    fn napping(moderation: &mut Moderation, now: &mut Instant, with: usize, ms: u32) -> u32 {
        let mut naps = 0;
        for _ in 0..ms {
            let napping = moderation.nap().is_some();
            naps += u32::from(napping);
            run(moderation, now, if napping { with } else { 200 }, 1);
        }
        naps
    }

    #[test]
    fn naps_that_hold_peers_up_are_given_up_for_longer_and_longer() {
        let (mut moderation, mut now) = (Moderation::new(MOST, Gathers::Always, start()), start());
        let first = napping(&mut moderation, &mut now, 100, 1_000);
        let later = napping(&mut moderation, &mut now, 100, 10_000);
        assert!(first < 200, "{first} of 1,000 ms were spent with naps");
        assert!(later < 300, "{later} of 10,000 ms were spent with naps");
    }

    #[test]
    fn naps_that_hold_nobody_up_go_on() {
        let (mut moderation, mut now) = (Moderation::new(MOST, Gathers::Always, start()), start());
        let naps = napping(&mut moderation, &mut now, 180, 10_000);
        assert!(
            naps > 9_500,
            "only {naps} of 10,000 ms were spent with naps"
        );
    }

    #[test]
    fn waits_begin_with_a_nap_as_long_as_they_get_to_it() {
        let mut gathering = Gathering::default();
        for _ in 0..3 {
            assert!(gathering.begins(true));
            gathering.slept();
        }
        assert!(!gathering.begins(false));
    }

    #[test]
    fn of_two_waits_that_found_something_ready_one_has_looked() {
        let mut gathering = Gathering::default();
        let looks = std::iter::from_fn(|| Some(!gathering.begins(true)));
        let looks: Vec<bool> = looks.take(6).collect();
        assert_eq!(looks, [false, true, false, true, false, true]);
    }

    #[test]
    fn naps_that_did_harm_once_are_tried_again() {
        let (mut moderation, mut now) = (Moderation::new(MOST, Gathers::Always, start()), start());
        napping(&mut moderation, &mut now, 100, 10_000);
        let naps = napping(&mut moderation, &mut now, 200, 10_000);
        assert!(
            naps > 5_000,
            "only {naps} of 10,000 ms were spent with naps"
        );
    }
}
