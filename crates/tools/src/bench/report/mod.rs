//! The result of a benchmark, for people and for programs.

mod json;
mod table;

use super::case::Measured;
use super::noise::Noise;
use super::options::{BenchArgs, What};

/// A finished benchmark.
pub(crate) struct Report<'a> {
    /// What was measured.
    pub(crate) what: What,
    /// As asked for.
    pub(crate) options: &'a BenchArgs,
    /// Processors of the server and of the client.
    pub(crate) cores: [usize; 2],
    /// What the machine did meanwhile.
    pub(crate) noise: &'a Noise,
    /// What came out.
    pub(crate) cases: &'a [Measured],
}
