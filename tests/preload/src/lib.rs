//! Programs that know nothing of mTCP, from their Debian packages, on mTCP against real kernels:
//! where they run and how they are judged.
//!
//! With `INTEROP_BASELINE=1` every program runs on the kernel on both sides: the proof that a test
//! asks for nothing odd. With `INTEROP_DAEMON=1` programs on our end have no stack of their own:
//! they attach to a daemon that has the link.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a library of tests

use std::io::Write;
use std::net::SocketAddr;

pub mod calls;
pub mod host;
pub mod nginx;
pub mod resp;
pub mod site;
pub mod steady;
pub mod tls;
pub mod web;

pub use interop::{Family, Process, baseline, files, process};
pub use site::Site;

/// `SCHEME://HOST:PORT/PATH`.
pub fn url(scheme: &str, family: Family, ours: bool, port: u16, path: &str) -> String {
    let host = if ours { family.ours() } else { family.peer() };
    format!("{scheme}://{}/{path}", SocketAddr::new(host, port))
}

/// A figure worth keeping, past the test runner.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stdout(), "\nmeasured: {text}");
}
