//! Bad networks: bottlenecks, loss of up to 20% and in bursts, duplication, reordering, corruption,
//! jitter, outages, paths with a smaller MTU; crowds, slow readers, half-closes, aborts at any
//! time, SYNs that links answer. Every byte arrives once and in its place, both ends reach CLOSED,
//! nothing is left in arena, pool or wheel, and what must hold of a connection holds after every
//! step.
//!
//! `cargo test -p sim --test seeds` runs the same few hundred each time. `SIM_SEEDS=10000` runs
//! that many new ones and says which; `SIM_SEED=7` runs one again, and `SIM_TRACE=1` prints its
//! frames.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use sim::scenario::{Scenario, Summary};
use sim::{Failure, settings};

const SEEDS: u64 = 300;
/// Failures that are shown in full.
const SHOWN: usize = 5;

fn run(seed: u64) -> Result<Summary, Failure> {
    let scenario = Scenario::new(seed);
    let mut network = scenario.build()?;
    if let Some(text) = settings::trace() {
        network.trace_to(text);
    }
    scenario.run(network)
}

/// A panic, as well, must say which seed it was.
fn run_caught(seed: u64) -> Result<Summary, String> {
    match catch_unwind(AssertUnwindSafe(|| run(seed))) {
        Ok(result) => result.map_err(|failure| failure.to_string()),
        Err(panic) => Err(format!("seed {seed} panicked: {}", message(&*panic))),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("")
}

/// What all seeds came to, and what went wrong.
#[derive(Default)]
struct Results {
    bytes: u64,
    frames: u64,
    retransmits: u64,
    answered_syns: u64,
    failed: Vec<(u64, String)>,
}

impl Results {
    fn note(&mut self, seed: u64, result: Result<Summary, String>) {
        match result {
            Ok(summary) => {
                self.bytes += summary.bytes;
                self.frames += summary.frames;
                self.retransmits += summary.retransmits;
                self.answered_syns += summary.answered_syns;
            }
            Err(what) => self.failed.push((seed, what)),
        }
    }
}

/// Runs all of them on all cores.
fn run_all(seeds: &[u64]) -> Results {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Results::default()));
    let work = || {
        while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = run_caught(seed);
            results.lock().unwrap().note(seed, result);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    results.into_inner().unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "where new seeds come from; everything else follows from the seed"
)]
fn fresh() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_millis() as u64
}

#[test]
fn every_seed_delivers_every_byte() {
    let seeds = settings::seeds(SEEDS, fresh());
    eprintln!("{} seeds from {:?} on", seeds.len(), seeds.first());
    let results = run_all(&seeds);
    for (_, what) in results.failed.iter().take(SHOWN) {
        eprintln!("{what}\n");
    }
    let failed: Vec<_> = results.failed.iter().map(|(seed, _)| seed).collect();
    assert!(
        failed.is_empty(),
        "{} of {} seeds failed: {failed:?}",
        failed.len(),
        seeds.len()
    );
    if seeds.len() >= 100 {
        // The networks were as bad as they were meant to be.
        let Results {
            bytes,
            frames,
            retransmits,
            answered_syns,
            ..
        } = results;
        assert!(
            bytes > 20_000 * seeds.len() as u64 && retransmits * 50 > frames,
            "{bytes} bytes, {frames} frames, {retransmits} retransmits"
        );
        assert!(
            answered_syns > 4 * seeds.len() as u64,
            "{answered_syns} SYNs answered by links"
        );
    }
}
