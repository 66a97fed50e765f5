//! The fuzz targets on random bytes, for a moment. `fuzz/run stack` does it properly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sim::fuzzing::{TARGETS, stack, two_stacks};

/// Always the same ones, unless `SIM_FUZZ=100` asks for a hundred times as many.
fn cases(least: u32) -> ProptestConfig {
    let factor = std::env::var("SIM_FUZZ")
        .ok()
        .and_then(|text| text.parse::<u32>().ok());
    ProptestConfig {
        cases: least.saturating_mul(factor.unwrap_or(1)),
        max_shrink_iters: 10_000,
        failure_persistence: None,
        rng_seed: factor.map_or(RngSeed::Fixed(1), |_| RngSeed::Random),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn anything_at_one_stack(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        stack(&bytes);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn any_interference_between_two(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        two_stacks(&bytes);
    }
}

#[test]
fn the_corpus() {
    for (name, target) in TARGETS {
        let corpus = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
        let files: Vec<_> = std::fs::read_dir(&corpus).unwrap().collect();
        assert!(!files.is_empty(), "{corpus} is empty");
        for file in files {
            target(&std::fs::read(file.unwrap().path()).unwrap());
        }
    }
}

/// `SIM_FUZZ_FILE=stack:crash-1234` runs what a fuzzer found.
#[test]
fn a_file() {
    let Ok(named) = std::env::var("SIM_FUZZ_FILE") else {
        return;
    };
    let (name, path) = named.split_once(':').unwrap();
    let (_, target) = TARGETS.iter().find(|(target, _)| *target == name).unwrap();
    target(&std::fs::read(path).unwrap());
}
