//! Stacks that others take the place of at random moments, on bad networks: no connection is lost,
//! no byte either, and nothing is left behind.
//!
//! `SIM_SEED=7` runs one again; `SIM_SEEDS=1000` runs that many others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use sim::scenario::Scenario;
use sim::settings;

const SEEDS: u64 = 60;

/// The same seed with and without replacements need not send the same frames: neighbours are asked
/// for again. How many stacks took the place of others.
fn run(seed: u64) -> u64 {
    let mut scenario = Scenario::new(seed);
    // From one in a round trip to a few in a run.
    let longest = Duration::from_millis(1 << (seed % 12));
    for host in &mut scenario.hosts {
        host.style.replaced = longest;
    }
    let mut network = scenario.build().unwrap();
    if let Some(text) = settings::trace() {
        network.trace_to(text);
    }
    let summary = scenario.run(network);
    summary
        .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"))
        .replaced
}

#[test]
fn nothing_is_lost_when_another_stack_goes_on() {
    let seeds = settings::seeds(SEEDS, SEEDS);
    let replaced: u64 = seeds.into_iter().map(run).sum();
    assert!(replaced > 100, "{replaced} stacks were replaced");
}
