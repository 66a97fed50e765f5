//! The files in which a program that counts leaves what it counted.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// How many there are in a directory.
pub(super) fn files(directory: &Path) -> Result<usize> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let counts = |path: &Path| path.extension() == Some(OsStr::new("profraw"));
    Ok(entries
        .flatten()
        .filter(|file| counts(&file.path()))
        .count())
}
