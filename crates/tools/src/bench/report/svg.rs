//! Plots: a bar per side and case, with a line from the slowest to the fastest run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::bench::case::{Measured, Metric};
use crate::bench::side::Side;
use crate::bench::statistics::Series;
use crate::fail::Failure;

use super::Report;

/// Pixels.
const BAR: f64 = 26.0;
const GAP: f64 = 30.0;
const HEIGHT: f64 = 260.0;
const MARGIN: f64 = 60.0;

impl Report {
    /// What its plot is called, unless its caller knows better.
    pub(crate) fn plot_name(&self) -> String {
        format!(
            "{}-{}-{}-{}.svg",
            self.what.name(),
            self.plotted().key,
            self.options.link.name(),
            self.options.mode.name()
        )
    }

    fn plotted(&self) -> Metric {
        let first = self.cases.first();
        let metric = first.and_then(|first| first.case.metrics.first());
        metric.copied().unwrap_or(Metric {
            key: "nothing",
            title: "nothing",
        })
    }

    /// Writes a plot of the first figure of all cases to `name` in `directory`; its path.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn plot(&self, directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
        let path = directory.join(name);
        let title = format!(
            "{}, {} ({}, {})",
            self.what.name(),
            self.plotted().title,
            self.options.link.name(),
            self.options.mode.name()
        );
        let written = std::fs::create_dir_all(directory)
            .and_then(|()| std::fs::write(&path, plot(&title, &self.cases)));
        written.map_err(|error| {
            Failure::error(
                format!("cannot write '{}': {error}", path.display()),
                "choose another --svg DIR",
            )
        })?;
        Ok(path)
    }
}

fn colour(side: Side) -> &'static str {
    match side {
        Side::Kernel => "#8c8c8c",
        Side::KernelTuned => "#bdbdbd",
        Side::KernelPlain => "#d9d9d9",
        Side::Mtcp => "#d95f02",
        Side::MtcpInline => "#fdae6b",
    }
}

/// The picture; the bars of a case stand together, over its title.
fn plot(title: &str, cases: &[Measured]) -> String {
    let top = cases
        .iter()
        .flat_map(|measured| measured.values.iter().filter_map(|row| row.first()))
        .map(Series::max)
        .fold(f64::MIN_POSITIVE, f64::max);
    let bars: usize = cases.iter().map(|measured| measured.case.sides.len()).sum();
    let width = (bars as f64 * BAR + cases.len() as f64 * GAP + 2.0 * MARGIN).max(520.0);
    let (base, height) = (MARGIN + HEIGHT, HEIGHT + 2.5 * MARGIN);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"14\">{}</text>\n\
         <text x=\"8\" y=\"{MARGIN}\">{top:.4}</text><text x=\"8\" y=\"{base}\">0</text>\n\
         <line x1=\"{MARGIN}\" y1=\"{base}\" x2=\"{width:.0}\" y2=\"{base}\" stroke=\"black\"/>\n",
        escape(title)
    );
    let mut x = MARGIN + GAP / 2.0;
    for measured in cases {
        let start = x;
        for (side, row) in measured.case.sides.iter().zip(&measured.values) {
            if let Some(series) = row.first() {
                let y = |value: f64| base - value / top * HEIGHT;
                let (median, low, high) = (y(series.median()), y(series.min()), y(series.max()));
                bar(&mut text, *side, x, [median, low, high], base);
            }
            x += BAR;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "<text x=\"{start:.1}\" y=\"{:.1}\" transform=\"rotate(20 {start:.1} {:.1})\">{}</text>",
            base + 16.0,
            base + 16.0,
            escape(&measured.case.title)
        );
        x += GAP;
    }
    legend(&mut text, cases);
    text.push_str("</svg>\n");
    text
}

/// One bar up to `median`, and the line from `low` to `high`; nothing where there is no number.
fn bar(text: &mut String, side: Side, x: f64, [median, low, high]: [f64; 3], base: f64) {
    if median.is_nan() {
        return;
    }
    let middle = x + BAR / 2.0 - 2.0;
    // As above.
    let _ = writeln!(
        text,
        "<rect x=\"{x:.1}\" y=\"{median:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/><line x1=\"{middle:.1}\" y1=\"{low:.1}\" x2=\"{middle:.1}\" y2=\"{high:.1}\" stroke=\"black\"/>",
        BAR - 4.0,
        (base - median).max(0.0),
        colour(side)
    );
}

fn legend(text: &mut String, cases: &[Measured]) {
    let sides = cases.first().map(|first| first.case.sides.as_slice());
    let mut x = MARGIN;
    for side in sides.unwrap_or_default() {
        // As above.
        let _ = writeln!(
            text,
            "<rect x=\"{x:.1}\" y=\"34\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{:.1}\" y=\"43\">{}</text>",
            colour(*side),
            x + 14.0,
            escape(side.title())
        );
        x += 130.0;
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::options::BenchArgs;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: BenchArgs,
    }

    #[test]
    fn every_side_has_a_bar_and_titles_are_text() {
        let line = Line::try_parse_from(["bench", "short"]).unwrap();
        let mut measured = Measured::new(line.bench.cases().unwrap().remove(0));
        measured.case.title = "a < b".to_owned();
        for row in &mut measured.values {
            row[0] = Series(vec![1.0, 2.0, 3.0]);
        }
        let text = plot("t", &[measured]);
        let bars = text.matches("<line").count() - 1;
        assert_eq!(bars, 3);
        assert!(text.contains("a &lt; b") && text.ends_with("</svg>\n"));
    }
}
