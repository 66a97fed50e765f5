//! `mtcp demo`: all of it on this machine, cleaned up afterwards.

mod lab;
mod measure;
mod shm;
mod size;
mod steps;
mod veth;
mod words;

use clap::Args;

use crate::directory::Directory;
use crate::doctor::capabilities::has_net_admin;
use crate::output;
use crate::programs::require;
use crate::signals::Stop;

use size::Size;
use steps::Steps;

const EXAMPLES: &str = "Examples:
  mtcp demo            as root: AF_XDP on a veth pair against the kernel; otherwise shared memory
  mtcp demo --shm      shared memory in any case
  mtcp demo --quick    less of everything";

/// Shows all of it on this machine: server, client, both IP versions, rates beside the kernel's.
/// Exits with 1 if a step failed.
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

impl DemoArgs {
    /// Runs all steps; whether every one passed.
    pub(crate) fn run(&self) -> anyhow::Result<bool> {
        let privileged = has_net_admin() && !self.shm;
        require(if privileged {
            &["ip", "curl", "ab", "sha256sum"]
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
        let directory = Directory::new("demo")?;
        steps.step(
            &format!("a file of {} MB of random bytes", size.megabytes),
            || Ok((lab::fill(&directory, size.megabytes)?, String::new())),
        );
        if privileged {
            veth::run(&mut steps, &directory, size, &stop)?;
        } else {
            if !self.shm {
                output::say(
                    "(not root: shared memory instead of AF_XDP; 'sudo mtcp demo' shows it against the kernel)",
                );
            }
            shm::run(&mut steps, &directory, size, &stop)?;
        }
        if stop.requested() {
            output::say("interrupted");
            return Ok(false);
        }
        match steps.failed {
            0 => output::say("all steps passed"),
            failed => output::say(&format!("{failed} steps failed")),
        }
        Ok(steps.failed == 0)
    }
}
