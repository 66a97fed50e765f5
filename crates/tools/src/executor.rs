//! `mtcp executor`: the process beside a program of `mtcp run` that goes on with its connections
//! when it is killed. The library starts it, with what it needs in the environment and in
//! descriptors.

use std::fs::File;
use std::os::fd::OwnedFd;

use mtcp::{Config, Executor};

use crate::fail::Failure;
use crate::run::SETTINGS;

/// Two memories, and the end of a pipe.
const DESCRIPTORS: [u32; 3] = [3, 4, 5];

/// Waits for the end of the program, and goes on.
pub(crate) fn run() -> anyhow::Result<bool> {
    let settings = std::env::var(SETTINGS).unwrap_or_default();
    let mut config = Config::default();
    config.read(&settings, SETTINGS)?;
    // As in the library: one stack in each process.
    config.cores = 1;
    let [memory, plots, lifeline] = DESCRIPTORS.map(|number| {
        let path = format!("/proc/self/fd/{number}");
        let writes = number != DESCRIPTORS[2];
        File::options().read(true).write(writes).open(path)
    });
    let missing = |error| {
        let what = format!("no program to go on for: {error}");
        Failure::error(what, "leave this to 'mtcp run'")
    };
    let open = |file: std::io::Result<File>| file.map(OwnedFd::from).map_err(missing);
    let bequests = [open(memory)?, open(plots)?];
    Executor::new(config, bequests, open(lifeline)?)?.run()?;
    Ok(true)
}
