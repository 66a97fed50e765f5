//! A progress bar on a terminal, nothing elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::plan::Plan;
use super::stats::Stats;

/// How often it is drawn.
const INTERVAL: Duration = Duration::from_millis(100);

/// The bar.
#[derive(Debug)]
pub(crate) struct Meter {
    bar: Option<ProgressBar>,
    /// Whether the length counts milliseconds rather than requests.
    timed: bool,
}

impl Meter {
    /// A bar for `plan` if stderr is a terminal.
    pub(crate) fn new(plan: &Plan) -> Self {
        let timed = plan.requests.is_none();
        if !std::io::stderr().is_terminal() {
            return Self { bar: None, timed };
        }
        let length = plan
            .requests
            .or(plan.duration.map(|duration| duration.as_millis() as u64));
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3}% {msg}") {
            bar.set_style(style);
        }
        bar.set_message("connecting");
        Self {
            bar: Some(bar),
            timed,
        }
    }

    /// How long the loop may sleep without drawing.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.bar.as_ref().map(|_| INTERVAL)
    }

    /// Draws, if it is time to.
    pub(crate) fn show(&self, stats: &Stats, elapsed: Duration) {
        let Some(bar) = &self.bar else { return };
        let done = if self.timed {
            elapsed.as_millis() as u64
        } else {
            stats.finished()
        };
        if done == bar.position() {
            // Where nobody answers for seconds, there is something to see all the same.
            bar.tick();
            return;
        }
        bar.set_position(done);
        let rate = stats.finished() as f64 / elapsed.as_secs_f64().max(0.001);
        bar.set_message(format!("{rate:.0} requests/s, {} errors", stats.failed));
    }

    /// Removes it.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
