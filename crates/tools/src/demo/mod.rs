//! `mtcp demo`: all of it on this machine, cleaned up afterwards.

mod lab;
mod measure;
mod process;
mod shm;
mod steps;
mod veth;

use std::path::Path;

use anyhow::Context as _;
use clap::Args;

use crate::doctor::capabilities::has_net_admin;
use crate::fail::Failure;
use crate::signals::Stop;

use lab::{Directory, search_path};
use steps::Steps;

const EXAMPLES: &str = "Examples:
  mtcp demo            as root: AF_XDP on a veth pair against the kernel; otherwise shared memory
  mtcp demo --shm      shared memory in any case
  mtcp demo --quick    less of everything";

/// Shows all of it on this machine: server, client, both IP versions, rates beside the kernel's. Exits with 1 if a step failed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Use shared memory even where AF_XDP would do
    #[arg(long)]
    shm: bool,
    /// A tenth of the data and the requests
    #[arg(long)]
    quick: bool,
}

/// How much of everything.
#[derive(Clone, Copy, Debug)]
struct Size {
    megabytes: u64,
    requests: u64,
    seconds: &'static str,
}

impl DemoArgs {
    /// Runs all steps; whether every one passed.
    pub(crate) fn run(&self) -> anyhow::Result<bool> {
        let privileged = has_net_admin() && !self.shm;
        require(if privileged {
            &["ip", "ethtool", "curl", "ab", "sha256sum"]
        } else {
            &["sha256sum"]
        })?;
        let size = if self.quick {
            Size {
                megabytes: 10,
                requests: 10_000,
                seconds: "0.5",
            }
        } else {
            Size {
                megabytes: 100,
                requests: 100_000,
                seconds: "3",
            }
        };
        // Children die with their guards once a step sees the flag.
        let stop = Stop::watch(|| {})?;
        let mut steps = Steps::new(stop.clone());
        let directory = Directory::new()?;
        steps.step(
            &format!("a file of {} MB of random bytes", size.megabytes),
            || Ok((directory.fill(size.megabytes)?, String::new())),
        );
        if privileged {
            veth::run(&mut steps, &directory, size, &stop)?;
        } else {
            if !self.shm {
                println!(
                    "(not root: shared memory instead of AF_XDP; 'sudo mtcp demo' shows it against the kernel)"
                );
            }
            shm::run(&mut steps, &directory, size, &stop)?;
        }
        if stop.requested() {
            println!("interrupted");
            return Ok(false);
        }
        match steps.failed {
            0 => println!("all steps passed"),
            failed => println!("{failed} steps failed"),
        }
        Ok(steps.failed == 0)
    }
}

/// This program, to run again.
fn program() -> anyhow::Result<String> {
    let path = std::env::current_exe().context("cannot tell where this program is")?;
    Ok(path.to_string_lossy().into_owned())
}

/// The words of a command line without quotes.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_ascii_whitespace()
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
fn require(programs: &[&str]) -> anyhow::Result<()> {
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
