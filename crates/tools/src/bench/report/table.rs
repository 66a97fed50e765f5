//! Tables.

use std::fmt::Write as _;

use crate::bench::case::Measured;
use crate::bench::options::{BenchArgs, Mode, Stack};
use crate::bench::side::Side;
use crate::bench::statistics::Series;

use super::Report;

impl Report {
    /// A table per case, then what the kernel's sockets ran with and what the machine did
    /// meanwhile.
    pub(crate) fn text(&self) -> String {
        let options = &self.options;
        let mut text = format!(
            "{}: mTCP over {} to {}, {}; {} pairs of {} s; server on processor {}, client on {}{}\n",
            self.what.name(),
            options.link.name(),
            match options.client() {
                Stack::Kernel => "the kernel",
                Stack::Mtcp => "mTCP",
            },
            mode(options, self.cores),
            options.pairs,
            options.seconds,
            self.cores[0],
            self.cores[1],
            if options.steer {
                ", each receiving for itself"
            } else {
                ""
            },
        );
        for measured in &self.cases {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{}", align(&rows(measured)));
            if let Some(left_out) = &measured.case.left_out {
                let _ = writeln!(text, "left out: {left_out}");
            }
            for failure in &measured.failures {
                let _ = writeln!(text, "failed: {failure}");
            }
        }
        let _ = writeln!(text, "\n{}\n{}", self.baseline.text(), self.noise.text());
        text
    }
}

/// How mTCP ran, and where its daemon did.
fn mode(options: &BenchArgs, cores: [usize; 2]) -> String {
    match options.mode {
        Mode::Service => format!(
            "service (the server attached to a daemon on processor {})",
            options.daemon_core(cores)
        ),
        other => other.name().to_owned(),
    }
}

/// The table of a case: a line per figure; median and spread of each side, ratios of mTCP to each
/// of the others.
fn rows(measured: &Measured) -> Vec<Vec<String>> {
    let mut header = vec![measured.case.title.clone()];
    for side in &measured.case.sides {
        header.extend([side.title().to_owned(), "±".to_owned()]);
    }
    let others = || {
        let sides = measured.case.sides.iter().copied();
        sides.filter(|side| *side != Side::Mtcp)
    };
    for side in others() {
        header.extend([format!("mTCP / {}", side.title()), "pairs".to_owned()]);
    }
    let mut rows = vec![header];
    for (index, metric) in measured.case.metrics.iter().enumerate() {
        let mut row = vec![metric.title.to_owned()];
        for side in &measured.case.sides {
            let series = measured.series(*side, index).cloned().unwrap_or_default();
            row.extend([number(series.median()), spread(&series)]);
        }
        for side in others() {
            let ratios = measured.ratios(side, index).unwrap_or_default();
            row.extend([ratio(ratios.median()), range(&ratios)]);
        }
        rows.push(row);
    }
    rows
}

pub(super) fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "-".to_owned(),
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}

/// A dash where there is nothing to compare with, or to compare.
pub(super) fn ratio(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.3}")
    } else {
        "-".to_owned()
    }
}

fn spread(series: &Series) -> String {
    let percent = series.spread_percent();
    if percent.is_nan() {
        "-".to_owned()
    } else {
        format!("{:.0}%", percent / 2.0)
    }
}

pub(super) fn range(series: &Series) -> String {
    if series.0.is_empty() || !series.median().is_finite() {
        return "-".to_owned();
    }
    format!("{}-{}", ratio(series.min()), ratio(series.max()))
}

/// Columns under each other, the first to the left, the others to the right.
pub(super) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            cells(column)
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = if column == 0 {
                write!(text, "{cell:<width$}")
            } else {
                write!(text, "  {cell:>width$}")
            };
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_under_each_other() {
        let rows = [["a", "12"], ["long", "3"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(align(&rows), "a     12\nlong   3\n");
    }

    #[test]
    fn nothing_is_infinitely_fast() {
        let nothing = Series(vec![f64::INFINITY, f64::NAN, f64::INFINITY]);
        assert_eq!(ratio(nothing.median()), "-");
        assert_eq!(range(&nothing), "-");
        assert_eq!(range(&Series(vec![2.0, 4.0])), "2.000-4.000");
    }
}
