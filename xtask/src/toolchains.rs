//! What other toolchains than the pinned one say: the oldest that is promised, and another
//! processor.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::metadata;

const ELSEWHERE: &str = "aarch64-unknown-linux-gnu";

/// Checks the workspace with the minimum version, and for another processor. What rustup cannot get
/// is skipped with its reason.
pub fn check(root: &Path) -> Result<()> {
    let oldest = minimum(root)?;
    match toolchain(root, &oldest) {
        Ok(()) => {
            cargo(root, Some(&oldest), &[])?;
            println!("toolchains: Rust {oldest}, the minimum version, compiles everything");
        }
        Err(reason) => println!("toolchains: Rust {oldest}: skipped: {reason:#}"),
    }
    match rustup(root, &["target", "add", ELSEWHERE]) {
        Ok(()) => {
            cargo(root, None, &["--target", ELSEWHERE])?;
            println!("toolchains: {ELSEWHERE} compiles everything");
        }
        Err(reason) => println!("toolchains: {ELSEWHERE}: skipped: {reason:#}"),
    }
    Ok(())
}

/// `rust-version` of the manifest, with its patch number.
fn minimum(root: &Path) -> Result<String> {
    let metadata = metadata::read(root)?;
    let version = metadata.pointer("/packages/0/rust_version");
    let version = version.and_then(Value::as_str);
    let version = version.context("no rust-version in Cargo.toml")?;
    let patch = if version.matches('.').count() < 2 {
        ".0"
    } else {
        ""
    };
    Ok(format!("{version}{patch}"))
}

fn toolchain(root: &Path, version: &str) -> Result<()> {
    let there = rustup(root, &["run", version, "rustc", "--version"]);
    there.or_else(|_| {
        rustup(
            root,
            &["toolchain", "install", version, "--profile", "minimal"],
        )
    })
}

fn rustup(root: &Path, arguments: &[&str]) -> Result<()> {
    let output = Command::new("rustup")
        .args(arguments)
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .context("no rustup")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{}", text.lines().last().unwrap_or("rustup failed").trim());
    }
    Ok(())
}

/// `cargo check` of everything with the toolchain, or with the pinned one. Flags of this machine's
/// processor are for its own code only.
fn cargo(root: &Path, toolchain: Option<&str>, arguments: &[&str]) -> Result<()> {
    let mut command = match toolchain {
        None => Command::new(env!("CARGO")),
        Some(toolchain) => {
            let mut rustup = Command::new("rustup");
            rustup.args(["run", toolchain, "cargo"]);
            rustup
        }
    };
    let status = command
        .args(["check", "--quiet", "--workspace"])
        .args(arguments)
        .env("RUSTFLAGS", "")
        .env("CARGO_TARGET_DIR", "target/toolchains")
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!(
            "cargo check --workspace {} fails (see above)",
            arguments.join(" ")
        );
    }
    Ok(())
}
