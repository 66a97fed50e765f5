//! SIGINT, SIGTERM and SIGHUP as flags and a wake-up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
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
        watch(&[SIGINT, SIGTERM], stop.clone(), Reload::default(), wake)?;
        Ok(stop)
    }

    /// The same, and SIGHUP, which asks to read settings again.
    pub(crate) fn watch_with_reload(
        wake: impl Fn() + Send + 'static,
    ) -> anyhow::Result<(Self, Reload)> {
        let (stop, reload) = (Self::default(), Reload::default());
        let signals = [SIGINT, SIGTERM, SIGHUP];
        watch(&signals, stop.clone(), reload.clone(), wake)?;
        Ok((stop, reload))
    }
}

/// Set once the user asked the command to read its settings again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reload(Arc<AtomicBool>);

impl Reload {
    /// Whether to do so, once for each time it was asked for.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

fn watch(
    signals: &[i32],
    stop: Stop,
    reload: Reload,
    wake: impl Fn() + Send + 'static,
) -> anyhow::Result<()> {
    let mut signals = Signals::new(signals).map_err(|error| {
        Failure::error(
            format!("cannot watch signals: {error}"),
            "raise the limit of open files (ulimit -n 1024)",
        )
    })?;
    let forever = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                reload.0.store(true, Ordering::Release);
            } else if stop.0.swap(true, Ordering::AcqRel) {
                std::process::exit(128 + signal);
            }
            wake();
        }
    };
    let thread = std::thread::Builder::new().name("mtcp-signals".into());
    thread.spawn(forever).map(drop).map_err(|error| {
        Failure::error(
            format!("cannot start a thread: {error}"),
            "raise the limit of processes (ulimit -u)",
        )
    })
}
