//! A progress bar on a terminal, nothing elsewhere.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::load::stats::Stats;

/// How often it is drawn.
const INTERVAL: Duration = Duration::from_millis(100);

/// What the terminal shows while a log is replayed; how long that takes, only its end tells.
pub(super) struct Meter(Option<ProgressBar>);

impl Meter {
    pub(super) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        Self(Some(bar))
    }

    /// How long the loop may sleep without drawing.
    pub(super) fn interval(&self) -> Option<Duration> {
        self.0.as_ref().map(|_| INTERVAL)
    }

    /// Draws, if it is time to.
    pub(super) fn show(&self, stats: &Stats, elapsed: Duration) {
        let Some(bar) = &self.0 else { return };
        let rate = stats.finished() as f64 / elapsed.as_secs_f64().max(0.001);
        bar.set_message(format!(
            "{} transactions, {rate:.0}/s, {} errors",
            stats.finished(),
            stats.failed
        ));
        bar.tick();
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
