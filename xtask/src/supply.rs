//! What the project depends on: licences, sources and doubles, and known holes, as `deny.toml` has
//! them.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

/// Fails when a dependency is not as `deny.toml` says. What cannot be asked here is skipped, with
/// its reason.
pub fn check(root: &Path) -> Result<()> {
    if !deny(root, &["--version"])?.status.success() {
        println!("supply: skipped, there is no cargo-deny (cargo install --locked cargo-deny)");
        return Ok(());
    }
    must(root, &["licenses", "bans", "sources"])?;
    let fetched = deny(root, &["fetch", "db"])?;
    if fetched.status.success() {
        must(root, &["--disable-fetch", "advisories"])
    } else {
        let reason = reason(&fetched);
        println!("supply: advisories: skipped, their list cannot be had: {reason}");
        Ok(())
    }
}

fn must(root: &Path, what: &[&str]) -> Result<()> {
    let checked = deny(root, &[&["check"], what].concat())?;
    let what = what.join(" ");
    let complaint = String::from_utf8_lossy(&checked.stderr);
    ensure!(
        checked.status.success(),
        "{complaint}\n{what}: not as deny.toml says"
    );
    println!("supply: {what}: as deny.toml says");
    Ok(())
}

fn deny(root: &Path, words: &[&str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO"));
    command.arg("deny").args(words).current_dir(root);
    command.output().context("cannot run cargo")
}

/// The last line of its complaint.
fn reason(output: &Output) -> String {
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().rfind(|line| !line.trim().is_empty());
    last.unwrap_or("no word").trim().to_owned()
}
