//! The process: one interface, its queues, and the contexts that drive them.

use std::fmt;

use crate::config::Config;
use crate::context::Context;

/// Why set-up failed: one line with cause and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupError(pub String);

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SetupError {}

/// What was opened, for people and for `mtcp doctor`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// `(what, value)` lines: io, interface, queues, mac, mtu, checksum offload, mode, cores, pages.
    pub lines: Vec<(&'static str, String)>,
}

/// The interface, opened once per process. Contexts outlive it safely.
#[derive(Debug)]
pub struct Mtcp(());

impl Mtcp {
    /// Opens all queues of the configured interface.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub fn init(config: Config) -> Result<Self, SetupError> {
        let _ = config;
        Err(SetupError("not built yet".into()))
    }

    /// The configuration in force. What concerns a context only (`max_concurrency`, buffers, time-outs) may be changed until it is made.
    pub fn config_mut(&mut self) -> &mut Config {
        unreachable!()
    }

    /// Logical cores that contexts may be made for: 0..cores.
    pub fn cores(&self) -> usize {
        0
    }

    /// Pins the calling thread to the processor that logical core `core` maps to.
    ///
    /// # Errors
    /// No such core.
    pub fn pin(&self, core: usize) -> Result<(), SetupError> {
        let _ = core;
        Err(SetupError("not built yet".into()))
    }

    /// Makes the context of logical core `core`, which takes queue `core`. Call it on the thread that will use it, or move it there. In paired mode this starts the stack thread.
    ///
    /// # Errors
    /// One line with cause and remedy: no such core, context exists already, fewer queues than cores, out of memory.
    pub fn context(&self, core: usize) -> Result<Context, SetupError> {
        let _ = core;
        Err(SetupError("not built yet".into()))
    }

    /// What was opened.
    pub fn report(&self) -> Report {
        Report::default()
    }
}
