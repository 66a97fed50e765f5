//! Steps with a tick or a cross each, and the table of rates.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;
use crate::signals::Stop;

/// Runs steps and shows them.
#[derive(Debug)]
pub(crate) struct Steps {
    stop: Stop,
    terminal: bool,
    /// Steps that failed.
    pub(crate) failed: usize,
}

impl Steps {
    /// None yet; none after `stop`.
    pub(crate) fn new(stop: Stop) -> Self {
        Self {
            stop,
            terminal: std::io::stderr().is_terminal(),
            failed: 0,
        }
    }

    /// Runs `work` under `title`; what it returns is shown behind the tick, its error behind the
    /// cross. `None` after an error.
    pub(crate) fn step<T>(
        &mut self,
        title: &str,
        work: impl FnOnce() -> anyhow::Result<(T, String)>,
    ) -> Option<T> {
        if self.stop.requested() {
            return None;
        }
        let spinner = self.terminal.then(|| spinner(title));
        let start = Instant::now();
        let result = work();
        if let Some(spinner) = spinner {
            spinner.finish_and_clear();
        }
        let seconds = start.elapsed().as_secs_f64();
        let (mark, detail, value) = match result {
            Ok((value, detail)) => ("✓", detail, Some(value)),
            Err(error) => {
                self.failed += 1;
                ("✗", format!("{error:#}"), None)
            }
        };
        output::say(&format!("{mark} {title:<66} {detail} ({seconds:.1} s)"));
        value
    }
}

fn spinner(title: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(title.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rate {
    /// What was measured, with its unit.
    pub(crate) what: &'static str,
    /// For mTCP.
    pub(crate) ours: Option<f64>,
    /// For the kernel.
    pub(crate) kernel: Option<f64>,
}

/// The table, columns aligned.
pub(crate) fn table(title: &str, rates: &[Rate]) -> String {
    let number = |value: Option<f64>| {
        value.map_or("-".to_owned(), |value| {
            if value >= 1000.0 {
                format!("{value:.0}")
            } else {
                format!("{value:.1}")
            }
        })
    };
    let mut text = format!(
        "\n{title:<54}{:>12}{:>12}{:>8}\n",
        "mTCP", "kernel", "ratio"
    );
    for rate in rates {
        let ratio = rate
            .ours
            .zip(rate.kernel)
            .filter(|(_, kernel)| *kernel > 0.0)
            .map_or("-".to_owned(), |(ours, kernel)| {
                format!("{:.2}", ours / kernel)
            });
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<54}{:>12}{:>12}{ratio:>8}",
            rate.what,
            number(rate.ours),
            number(rate.kernel)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count() {
        let mut steps = Steps::new(Stop::default());
        assert_eq!(steps.step("good", || Ok((1, "fine".into()))), Some(1));
        assert_eq!(steps.step::<()>("bad", || anyhow::bail!("broken")), None);
        assert_eq!(steps.failed, 1);
    }

    #[test]
    fn the_table_is_aligned() {
        let text = table(
            "rates",
            &[
                Rate {
                    what: "a (1/s)",
                    ours: Some(3000.0),
                    kernel: Some(1000.0),
                },
                Rate {
                    what: "b",
                    ours: None,
                    kernel: Some(1.5),
                },
            ],
        );
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert!(
            lines
                .iter()
                .all(|line| line.chars().count() == lines[0].chars().count()),
            "{text}"
        );
        assert!(lines[1].ends_with("3000        1000    3.00"), "{text}");
        assert!(
            lines[2].contains(" - ") && lines[2].ends_with("-"),
            "{text}"
        );
    }
}
