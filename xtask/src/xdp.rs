//! The committed XDP object against its source.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Exit code of the check script when it could not run, with the reason on its output.
const SKIPPED: i32 = 77;

/// Recompiles the programs for the kernel and compares them with the committed objects.
pub fn check(root: &Path) -> Result<()> {
    let status = Command::new("sh")
        .arg("crates/io/bpf/check.sh")
        .current_dir(root)
        .status()
        .context("cannot run crates/io/bpf/check.sh")?;
    match status.code() {
        Some(0) => {
            println!("xdp: the committed objects match their sources");
            Ok(())
        }
        Some(SKIPPED) => {
            println!(
                "xdp: sources and objects belong together; compiling them again was skipped (see above)"
            );
            Ok(())
        }
        _ => {
            bail!("an object in crates/io/bpf does not match its source (see above)")
        }
    }
}
