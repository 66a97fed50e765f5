//! What cargo knows of the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The answer of `cargo metadata`, without dependencies.
pub fn read(root: &Path) -> Result<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The target directory, however it was chosen.
pub fn target(root: &Path) -> Result<PathBuf> {
    let metadata = read(root)?;
    let target = metadata["target_directory"].as_str();
    Ok(target.context("cargo names no target directory")?.into())
}
