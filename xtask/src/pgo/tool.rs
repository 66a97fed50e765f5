//! `llvm-profdata`, which makes one profile of many.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The one that belongs to the compiler: others may not know the format in which its programs write what they counted.
pub fn find(root: &Path) -> Result<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc)
        .args(["--print", "target-libdir"])
        .current_dir(root)
        .output()
        .with_context(|| format!("cannot run {}", rustc.display()))?;
    let libraries = String::from_utf8_lossy(&output.stdout);
    let tool = beside(Path::new(libraries.trim()));
    ensure!(
        output.status.success() && tool.is_file(),
        "the toolchain has no llvm-profdata: rustup component add llvm-tools"
    );
    Ok(tool)
}

/// Where it is in a toolchain: in `bin` beside the libraries of the compiler's own target.
fn beside(libraries: &Path) -> PathBuf {
    libraries.with_file_name("bin").join("llvm-profdata")
}

/// Makes `profile` of the files in `counts`. Functions that never ran are left out, so that the compiler takes them as it does without a
/// profile: that the training did not use an AF_XDP interface says nothing about whether the user will.
pub fn merge(tool: &Path, counts: &Path, profile: &Path) -> Result<()> {
    let output = Command::new(tool)
        .args(["merge", "--sparse", "--output"])
        .args([profile, counts])
        .output()
        .with_context(|| format!("cannot run {}", tool.display()))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = complaint.lines().next().unwrap_or("no word");
    ensure!(output.status.success(), "llvm-profdata: {complaint}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_is_beside_the_libraries() {
        let tool = beside(Path::new("/t/lib/rustlib/x86_64-unknown-linux-gnu/lib"));
        let expected = "/t/lib/rustlib/x86_64-unknown-linux-gnu/bin/llvm-profdata";
        assert_eq!(tool, Path::new(expected));
    }

    #[test]
    fn a_tool_that_fails_is_quoted_on_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let nothing = directory.path().join("nothing");
        let error = merge(Path::new("cp"), &nothing, &nothing).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("llvm-profdata: cp: ") && !error.contains('\n'));
    }
}
