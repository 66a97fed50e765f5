//! `cargo xtask guests`: the suite of network cards alone, with what it says as it goes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::suites::BUILD;

const SUITE: [&str; 6] = ["test", "-p", "guests", "--test", "cards", "--"];

/// Builds what the guests run, and runs them.
pub fn run(root: &Path) -> Result<()> {
    for words in [&BUILD[..], &[&SUITE[..], &["--nocapture"]].concat()] {
        let mut cargo = Command::new(env!("CARGO"));
        let status = cargo.args(words).current_dir(root).status();
        if !status.context("cannot run cargo")?.success() {
            bail!("cargo {} failed", words.join(" "));
        }
    }
    Ok(())
}
