//! The programs that this one runs: itself, and what it needs of the system.

use std::path::Path;

use anyhow::Context as _;

use crate::fail::Failure;
use crate::namespaces::search_path;

/// This program, to run again.
pub(crate) fn program() -> anyhow::Result<String> {
    let path = std::env::current_exe().context("cannot tell where this program is")?;
    Ok(path.to_string_lossy().into_owned())
}

/// Which package of Debian has a program.
const PACKAGES: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("curl", "curl"),
    ("ab", "apache2-utils"),
    ("sha256sum", "coreutils"),
];

/// Refuses if a program is missing, with the package that has it.
pub(crate) fn require(programs: &[&str]) -> anyhow::Result<()> {
    let path = search_path();
    let missing = programs.iter().filter(|program| {
        !path
            .split(':')
            .any(|directory| Path::new(directory).join(program).is_file())
    });
    let missing: Vec<&str> = missing.copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = PACKAGES
        .iter()
        .filter(|(program, _)| missing.contains(program))
        .map(|(_, package)| *package)
        .collect();
    Err(Failure::error(
        format!("not installed: {}", missing.join(", ")),
        format!("apt-get install {}", packages.join(" ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        assert!(require(&["sh"]).is_ok());
        let error = require(&["sh", "no-such-program"]).unwrap_err().to_string();
        assert!(error.contains("no-such-program"), "{error}");
    }
}
