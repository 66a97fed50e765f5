//! The shape is right: short connections are several times as fast as the kernel's, measured in
//! turn on the same cores.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::process::Command;
use std::time::Duration;

use interop::{Gate, baseline, process, programs, sized};

/// Times the kernel's rate.
const FASTER: f64 = 3.0;
/// Noise of the machine is no fault of the stack.
const TRIES: usize = 3;
const WITHIN: Duration = Duration::from_secs(300);

fn ratio() -> f64 {
    let mut compare = Command::new("sh");
    compare.arg(programs::repository().join("scripts/compare.sh"));
    compare.env("MTCP_BIN", programs::mtcp());
    compare.env("ROUNDS", sized("7", "3"));
    compare.env("SECONDS_EACH", sized("5", "2"));
    let done = process::finish(compare, WITHIN).must_succeed();
    println!("{}", done.stdout);
    let line = done
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("ratio "));
    line.unwrap().parse().unwrap()
}

#[test]
fn short_connections_over_shm_are_three_times_as_fast_as_the_kernels() {
    if baseline() {
        interop::skipped("the kernel cannot stand in for the shared-memory link");
        return;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        interop::skipped("needs two processors, one for each side");
        return;
    }
    let Some(_gate) = Gate::alone() else { return };
    let mut best = 0.0_f64;
    for _ in 0..TRIES {
        best = best.max(ratio());
        if best >= FASTER {
            return;
        }
    }
    panic!("{best:.2} times the kernel's rate, not {FASTER}");
}
