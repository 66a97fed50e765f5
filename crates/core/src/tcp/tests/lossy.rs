//! How fast transfers are on bad paths: what is lost must not cost a time-out each.

use std::time::Duration;

use super::transfer::{Dice, transfer};
use crate::config::Config;
use crate::testing::{Fate, Pair};

/// A megabyte over a path that loses 5 % and reorders 1 % both ways. How long it took, and how
/// often it timed out.
fn megabyte(seed: u64, delay: Duration, change: impl Fn(&mut Config)) -> (Duration, u64) {
    let mut pair = Pair::new(delay, change);
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let time = transfer(&mut pair, 1_000_000, |_, _| {
        if dice.roll(5) {
            Fate::Lose
        } else if dice.roll(1) {
            Fate::Delay(delay)
        } else {
            Fate::Pass
        }
    });
    let timeouts = pair.ends.iter().map(|end| end.stack.counters().timeouts);
    (time, timeouts.sum())
}

/// Times of 50 transfers, shortest first.
fn fifty(delay: Duration) -> Vec<Duration> {
    let mut times: Vec<_> = (1..=50)
        .map(|seed| megabyte(seed, delay, |_| {}).0)
        .collect();
    times.sort();
    times
}

#[test]
fn a_short_path_is_not_idle() {
    let times = fifty(Duration::from_micros(50));
    assert!(times[25] < Duration::from_millis(500), "{:?}", times[25]);
    assert!(times[49] < Duration::from_secs(3), "{:?}", times[49]);
}

#[test]
fn a_longer_path_is_used_as_well_as_the_loss_allows() {
    // 1.2 / sqrt(p) segments a round trip: 1.3 s for 690.
    let times = fifty(Duration::from_millis(5));
    assert!(times[25] < Duration::from_secs(2), "{:?}", times[25]);
    assert!(times[49] < Duration::from_secs(5), "{:?}", times[49]);
}

#[test]
fn few_losses_cost_a_time_out() {
    // 36 losses each way and transfer: one in twenty.
    let delay = Duration::from_micros(50);
    let timeouts: u64 = (1..=20).map(|seed| megabyte(seed, delay, |_| {}).1).sum();
    assert!(timeouts < 72, "{timeouts}");
}
