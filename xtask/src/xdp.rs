//! The committed XDP object against its source.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Exit code of the check script when it could not run, with the reason on its output.
const SKIPPED: i32 = 77;

/// Recompiles the XDP program and compares it with the committed object.
pub fn check(root: &Path) -> Result<()> {
    let status = Command::new("sh")
        .arg("crates/io/bpf/check.sh")
        .current_dir(root)
        .status()
        .context("cannot run crates/io/bpf/check.sh")?;
    match status.code() {
        Some(0) => {
            println!("xdp: the committed object matches its source");
            Ok(())
        }
        Some(SKIPPED) => {
            println!("xdp: skipped (see above)");
            Ok(())
        }
        _ => {
            bail!("crates/io/bpf/steer.bpf.o does not match steer.bpf.c: run make -C crates/io/bpf")
        }
    }
}
