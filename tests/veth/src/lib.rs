//! What the interop tests share: namespaces with a kernel at the other end, processes that end with
//! the test, files to compare.
//!
//! Nothing here knows the inside of mTCP. The tests drive the `mtcp` binary of `target/release`
//! (`MTCP_BIN` names another one), C programs built against an installed library, and the kernel's
//! own programs.
//!
//! `MTCP_FULL=1` takes the full sizes; without it every combination runs with less data.
//! `INTEROP_BASELINE=1` runs the kernel's stack where mTCP would run, which tells a fault of the
//! suite from one of the stack.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a library of tests

use std::io::Write;

pub mod client;
pub mod crowd;
pub mod files;
pub mod gate;
pub mod installed;
pub mod lab;
pub mod namespace;
pub mod path;
pub mod process;
pub mod programs;

pub use gate::Gate;
pub use lab::{Family, Kind, Lab};
pub use namespace::Namespace;
pub use process::{Finished, Process};

/// Says that a test does not run and why, past the test runner, which would keep it to itself.
pub fn skipped(reason: &str) {
    let _ = writeln!(std::io::stdout(), "\nskipped: {reason}");
}

/// Whether the full sizes were asked for.
pub fn full() -> bool {
    is_set("MTCP_FULL")
}

/// Whether the kernel stands in for mTCP.
pub fn baseline() -> bool {
    is_set("INTEROP_BASELINE")
}

/// Whether unmodified programs are to use the stack of a daemon.
pub fn through_daemon() -> bool {
    is_set("INTEROP_DAEMON")
}

/// Whether that daemon is a private one, which the first of them starts.
pub fn through_private_daemon() -> bool {
    std::env::var("INTEROP_DAEMON").is_ok_and(|value| value == "private")
}

fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| !value.is_empty() && value != "0")
}

/// `whole` if the full sizes were asked for, else `part`.
pub fn sized<T>(whole: T, part: T) -> T {
    if full() { whole } else { part }
}
