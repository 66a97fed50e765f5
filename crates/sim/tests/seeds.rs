//! Five hundred bad networks: up to 20% loss, duplication, reordering, corruption, both directions at once. Every byte arrives once and in
//! its place, both ends reach CLOSED, and nothing is left in arena, pool or wheel.
//!
//! `SIM_SEED=7 cargo test -p sim --test seeds` runs one seed; `SIM_SEEDS=10000` more; `SIM_TRACE=1` prints the frames.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use sim::scenario::Scenario;
use sim::{Failure, settings};

const SEEDS: u64 = 500;

fn run(seed: u64) -> Result<sim::scenario::Summary, Failure> {
    let scenario = Scenario::new(seed);
    let mut network = scenario.build()?;
    if let Some(text) = settings::trace() {
        network.trace_to(text);
    }
    scenario.run(network)
}

#[test]
fn every_seed_delivers_every_byte() {
    let seeds = settings::seeds(SEEDS);
    let mut failed = Vec::new();
    let (mut bytes, mut frames, mut retransmits) = (0, 0, 0);
    for &seed in &seeds {
        match run(seed) {
            Ok(summary) => {
                bytes += summary.bytes;
                frames += summary.frames;
                retransmits += summary.retransmits;
            }
            Err(failure) => failed.push(failure),
        }
    }
    for failure in failed.iter().take(usize::MAX) {
        eprintln!("{failure}\n");
    }
    let numbers: Vec<_> = failed.iter().map(|failure| failure.seed).collect();
    assert!(
        failed.is_empty(),
        "{} of {} seeds failed: {numbers:?}",
        failed.len(),
        seeds.len()
    );
    if seeds.len() > 100 {
        // The network was as bad as it was meant to be.
        assert!(
            bytes > 100_000 * seeds.len() as u64 && retransmits * 50 > frames,
            "{bytes} bytes, {frames} frames, {retransmits} retransmits"
        );
    }
}
