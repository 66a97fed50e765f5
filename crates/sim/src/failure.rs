//! What went wrong, and how to see it again.

use std::fmt;

use wire::time::Instant;

/// A run that ended badly. Displays as a few lines: what, when, and the command that reproduces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed of the network.
    pub seed: u64,
    /// Virtual time.
    pub at: Instant,
    /// Steps taken until then.
    pub step: u64,
    /// What is wrong.
    pub what: String,
    /// The command that runs the same again.
    pub reproduce: String,
    /// The last frames, oldest first.
    pub frames: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            at,
            step,
            what,
            reproduce,
            frames,
        } = self;
        writeln!(f, "seed {seed}, at {at:?}, step {step}: {what}")?;
        for frame in frames {
            writeln!(f, "  {frame}")?;
        }
        write!(f, "reproduce with: {reproduce}")
    }
}

impl std::error::Error for Failure {}
