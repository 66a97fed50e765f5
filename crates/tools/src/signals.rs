//! SIGINT and SIGTERM as a flag and a wake-up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::fail::Failure;

/// Set once the user asked the command to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether to stop.
    pub(crate) fn requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Watches for SIGINT and SIGTERM from now on: sets the flag, then calls `wake`. The second
    /// signal ends the process at once.
    pub(crate) fn watch(wake: impl Fn() + Send + 'static) -> anyhow::Result<Self> {
        let stop = Self::default();
        let flag = Arc::clone(&stop.0);
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| {
            Failure::error(
                format!("cannot watch signals: {error}"),
                "raise the limit of open files (ulimit -n 1024)",
            )
        })?;
        std::thread::Builder::new()
            .name("mtcp-signals".into())
            .spawn(move || {
                for signal in signals.forever() {
                    if flag.swap(true, Ordering::AcqRel) {
                        std::process::exit(128 + signal);
                    }
                    wake();
                }
            })
            .map_err(|error| {
                Failure::error(
                    format!("cannot start a thread: {error}"),
                    "raise the limit of processes (ulimit -u)",
                )
            })?;
        Ok(stop)
    }
}
