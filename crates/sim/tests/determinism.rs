//! The same seed gives the same frames at the same nanoseconds; another seed does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use sim::scenario::{Scenario, Summary};

fn run(seed: u64) -> Summary {
    let scenario = Scenario::new(seed);
    let network = scenario.build().unwrap();
    scenario
        .run(network)
        .unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn a_seed_repeats_itself_to_the_nanosecond() {
    for seed in [1, 5, 42, 99, u64::MAX] {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

#[test]
fn seeds_differ() {
    assert_ne!(run(1).trace_hash, run(2).trace_hash);
}
