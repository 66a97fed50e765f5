//! The page of figures: Markdown.

use std::fmt::Write as _;

use crate::bench::case::Measured;
use crate::bench::side::Side;

use super::Report;
use super::table::{number, range, ratio};

impl Report {
    /// Lines of the table at the page's head: the first figure of every case, for the command
    /// `line`.
    pub(crate) fn summary(&self, line: &str) -> String {
        let mut text = String::new();
        for measured in &self.cases {
            let Some(metric) = measured.case.metrics.first() else {
                continue;
            };
            let median = |side| {
                let series = measured.series(side, 0).cloned();
                number(series.unwrap_or_default().median())
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| `{line}` | {} | {} | {} | {} | {} |",
                measured.case.title,
                metric.title,
                median(Side::Mtcp),
                median(Side::Kernel),
                compared(measured),
            );
        }
        text
    }

    /// All figures of the command `line`, below its plot.
    pub(crate) fn section(&self, line: &str, plot: &str) -> String {
        format!(
            "### `mtcp bench {line}`\n\n![{line}]({plot})\n\n```\n{}```\n",
            self.text()
        )
    }
}

/// The head of that table.
pub(crate) const SUMMARY_HEAD: &str = "| `mtcp bench …` | case | figure | mTCP | kernel | ratio (pairs) |\n|---|---|---|---|---|---|\n";

/// mTCP's first figure by the kernel's.
fn compared(measured: &Measured) -> String {
    let ratios = measured.ratios(Side::Kernel, 0).unwrap_or_default();
    format!("{} ({})", ratio(ratios.median()), range(&ratios))
}
