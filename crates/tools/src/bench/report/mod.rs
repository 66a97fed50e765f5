//! The result of a benchmark, for people and for programs.

mod json;
mod page;
mod svg;
mod table;

pub(crate) use page::SUMMARY_HEAD;

use super::baseline::Baseline;
use super::case::Measured;
use super::noise::Noise;
use super::options::{BenchArgs, What};

/// A finished benchmark.
pub(crate) struct Report {
    /// What was measured.
    pub(crate) what: What,
    /// As asked for.
    pub(crate) options: BenchArgs,
    /// Processors of the server and of the client.
    pub(crate) cores: [usize; 2],
    /// What the kernel's sockets ran with.
    pub(crate) baseline: Baseline,
    /// What the machine did meanwhile.
    pub(crate) noise: Noise,
    /// What came out.
    pub(crate) cases: Vec<Measured>,
}

impl Report {
    /// Whether every run counted.
    pub(crate) fn went_well(&self) -> bool {
        self.cases.iter().all(|case| case.failures.is_empty())
    }
}
