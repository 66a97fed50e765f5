//! Rules of the house that no lint knows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

const MAX_LINES: usize = 600;
/// Columns of a line that is a comment.
const MAX_COMMENT: usize = 100;

/// Crates that forbid unsafe code as a whole.
const SAFE_CRATES: &[&str] = &[
    "crates/core",
    "crates/http1",
    "crates/loader",
    "crates/logger",
    "crates/pkt",
    "crates/replay",
    "crates/sim",
    "crates/tools",
    "tests/netns",
    "xtask",
];

/// Where `unsafe` may stand.
const UNSAFE_HOMES: &[&str] = &[
    "crates/control/src/sys.rs",
    "crates/wire/src/checksum/wide.rs",
    "crates/ring/",
    "crates/io/",
    "crates/mtcp/",
    "crates/capi/",
    "crates/packetdrill/src/ffi/",
    "crates/preload/",
];

/// Fails on files that are too long and on unsafe code away from home.
pub fn check(root: &Path) -> Result<()> {
    let mut wrong = Vec::new();
    let files = tracked_sources(root)?;
    for path in &files {
        let name = path.display().to_string();
        let source = fs::read_to_string(root.join(path)).with_context(|| name.clone())?;
        let lines = source.lines().count();
        if lines > MAX_LINES {
            wrong.push(format!("{name}: {lines} lines, at most {MAX_LINES}"));
        }
        wrong.extend(long_comments(&source).map(|number| {
            format!("{name}:{number}: a comment of more than {MAX_COMMENT} columns")
        }));
        if has_unsafe(&source) && !UNSAFE_HOMES.iter().any(|home| name.starts_with(home)) {
            wrong.push(format!(
                "{name}: unsafe code outside {}",
                UNSAFE_HOMES.join(" ")
            ));
        }
    }
    for crate_dir in SAFE_CRATES {
        if !forbids_unsafe(&root.join(crate_dir)) {
            wrong.push(format!(
                "{crate_dir}: its root lacks #![forbid(unsafe_code)]"
            ));
        }
    }
    if !wrong.is_empty() {
        bail!("against the rules of the house:\n  {}", wrong.join("\n  "));
    }
    println!("style: {} source files", files.len());
    Ok(())
}

/// Lines of comments that are too long, counted from 1.
fn long_comments(source: &str) -> impl Iterator<Item = usize> {
    let lines = source.lines().enumerate();
    let long = lines.filter(|(_, line)| {
        line.trim_start().starts_with("//") && line.chars().count() > MAX_COMMENT
    });
    long.map(|(index, _)| index + 1)
}

fn tracked_sources(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "*.rs", "*.c", "*.h"])
        .current_dir(root)
        .output()
        .context("cannot run git ls-files")?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(PathBuf::from)
        .filter(|path| root.join(path).exists())
        .collect())
}

fn has_unsafe(source: &str) -> bool {
    source.lines().any(|line| {
        let code = line.split("//").next().unwrap_or_default();
        ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]
            .iter()
            .any(|word| code.contains(word) && !code.contains('"'))
    })
}

fn forbids_unsafe(crate_dir: &Path) -> bool {
    ["src/lib.rs", "src/main.rs"]
        .iter()
        .filter_map(|file| fs::read_to_string(crate_dir.join(file)).ok())
        .any(|source| source.contains("#![forbid(unsafe_code)]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_comments_are_found_by_their_columns() {
        let fits = format!("    // {}", "é".repeat(93));
        assert_eq!(long_comments(&fits).count(), 0);
        let long = format!("let x = 1;\n{fits}e");
        assert_eq!(long_comments(&long).collect::<Vec<_>>(), [2]);
    }
}
