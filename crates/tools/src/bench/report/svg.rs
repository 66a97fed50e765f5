//! Plots: a bar for each side of each case, with a line from the slowest to the fastest run.

use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::bench::case::{Measured, Metric};
use crate::bench::side::Side;
use crate::fail::Failure;

use super::Report;

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
        let picture = plot(&title, self.plotted().title, &self.cases)?;
        let written =
            std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, picture));
        written.map_err(|error| {
            Failure::error(
                format!("cannot write '{}': {error}", path.display()),
                "choose another --svg DIR",
            )
        })?;
        Ok(path)
    }
}

/// Pixels.
const WIDTH: u32 = 900;
const BAR: u32 = 20;
const GAP: u32 = 14;
const HEAD: u32 = 40;
const FOOT: u32 = 50;
/// Right of the longest bar: its side and its value.
const VALUES: u32 = 190;
/// Of a letter in labels, about.
const LETTER: u32 = 7;
/// The longest bar may be so many times the shortest before lengths stand for magnitudes.
const LINEAR: f64 = 30.0;

fn colour(side: Side) -> RGBColor {
    match side {
        Side::Kernel => RGBColor(0x8c, 0x8c, 0x8c),
        Side::KernelTuned => RGBColor(0xbd, 0xbd, 0xbd),
        Side::KernelPlain => RGBColor(0xd9, 0xd9, 0xd9),
        Side::Mtcp => RGBColor(0xd9, 0x5f, 0x02),
        Side::MtcpInline => RGBColor(0xfd, 0xae, 0x6b),
    }
}

/// A bar: whose it is, where it stands (pixels from the top of the diagram), and its slowest,
/// median and fastest run.
struct Bar {
    side: Side,
    top: u32,
    runs: [f64; 3],
}

/// The bars of all cases, the title of each case with the middle of its bars, and the height of
/// all.
struct Layout {
    bars: Vec<Bar>,
    titles: Vec<(String, u32)>,
    height: u32,
}

impl Layout {
    fn of(cases: &[Measured]) -> Self {
        let (mut bars, mut titles, mut top) = (Vec::new(), Vec::new(), GAP / 2);
        for measured in cases {
            let start = top;
            for (side, row) in measured.case.sides.iter().zip(&measured.values) {
                if let Some(series) = row.first().filter(|series| series.median().is_finite()) {
                    let runs = [series.min(), series.median(), series.max()];
                    bars.push(Bar {
                        side: *side,
                        top,
                        runs,
                    });
                }
                top += BAR;
            }
            titles.push((measured.case.title.clone(), start.midpoint(top)));
            top += GAP;
        }
        Self {
            bars,
            titles,
            height: top,
        }
    }

    /// The range of the axis, and whether it is logarithmic.
    fn range(&self) -> (f64, f64, bool) {
        let positive = self
            .bars
            .iter()
            .map(|bar| bar.runs[0])
            .filter(|&value| value > 0.0);
        let least = positive.fold(f64::INFINITY, f64::min);
        let most = self
            .bars
            .iter()
            .map(|bar| bar.runs[2])
            .fold(f64::MIN_POSITIVE, f64::max);
        if least.is_finite() && most > LINEAR * least {
            (10f64.powf(least.log10().floor()), most, true)
        } else {
            (0.0, most, false)
        }
    }
}

/// The picture: a bar for each side of each case, beside the title of the case; `unit` is the name
/// of the axis.
fn plot(title: &str, unit: &str, cases: &[Measured]) -> anyhow::Result<String> {
    let layout = Layout::of(cases);
    let (least, most, is_log) = layout.range();
    let widths = layout.titles.iter().map(|(title, _)| title.chars().count());
    let left = widths.max().unwrap_or(0) as u32 * LETTER + GAP;
    let mut text = String::new();
    {
        let size = (WIDTH.max(left + VALUES + 400), HEAD + layout.height + FOOT);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE)?;
        let mut builder = ChartBuilder::on(&area);
        builder
            .caption(title, ("sans-serif", 16))
            .margin_right(VALUES)
            .x_label_area_size(FOOT)
            .y_label_area_size(left);
        let rows = 0.0..f64::from(layout.height);
        if is_log {
            let chart = builder.build_cartesian_2d((least..most).log_scale(), rows)?;
            draw(&area, chart, &layout, unit, least)?;
        } else {
            draw(
                &area,
                builder.build_cartesian_2d(least..most, rows)?,
                &layout,
                unit,
                least,
            )?;
        }
        area.present()?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw<'a, X>(
    area: &Area<'a>,
    mut chart: ChartContext<'_, SVGBackend<'a>, Cartesian2d<X, RangedCoordf64>>,
    layout: &Layout,
    unit: &str,
    least: f64,
) -> anyhow::Result<()>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh().y_labels(0).x_labels(8).x_desc(unit);
    mesh.x_label_formatter(&|value| short(*value)).draw()?;
    // Rows count from the top, the axis from the bottom.
    let up = |row: u32| f64::from(layout.height) - f64::from(row);
    let label = ("sans-serif", 12).into_font();
    for Bar {
        side,
        top,
        runs: [slowest, median, fastest],
    } in &layout.bars
    {
        let (upper, middle, lower) = (up(top + 2), up(top + BAR / 2), up(top + BAR - 2));
        let bar = [(least, upper), (*median, lower)];
        chart.draw_series([Rectangle::new(bar, colour(*side).filled())])?;
        let spread = vec![(slowest.max(least), middle), (*fastest, middle)];
        chart.draw_series([PathElement::new(spread, BLACK)])?;
        let (x, y) = chart.backend_coord(&(*fastest, middle));
        let words = format!("{} {}", side.title(), short(*median));
        area.draw(&Text::new(words, (x + 6, y - 6), label.clone()))?;
    }
    for (title, middle) in &layout.titles {
        let (_, y) = chart.backend_coord(&(least, up(*middle)));
        area.draw(&Text::new(title.clone(), (4, y - 6), label.clone()))?;
    }
    Ok(())
}

/// A number with the letter of its magnitude: three digits say what there is to say.
fn short(value: f64) -> String {
    let (scaled, letter) = match value.abs() {
        1e9.. => (value / 1e9, " G"),
        1e6.. => (value / 1e6, " M"),
        1e3.. => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let text = format!("{scaled:.digits$}");
    let text = if digits == 0 {
        text.as_str()
    } else {
        text.trim_end_matches('0').trim_end_matches('.')
    };
    format!("{text}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::options::BenchArgs;
    use crate::bench::statistics::Series;
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
        let text = plot("t", "messages/s", &[measured]).unwrap();
        let bars = [Side::Kernel, Side::Mtcp].map(|side| {
            let RGBColor(r, g, b) = colour(side);
            text.matches(&format!("#{r:02X}{g:02X}{b:02X}")).count()
        });
        assert_eq!(bars, [1, 1]);
        assert!(text.contains("messages/s") && text.contains("a &lt; b"));
        assert!(text.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn an_axis_is_logarithmic_where_bars_would_vanish() {
        let line = Line::try_parse_from(["bench", "short"]).unwrap();
        let case = line.bench.cases().unwrap().remove(0);
        let range = |least, most| {
            let mut measured = Measured::new(case.clone());
            measured.values[0][0] = Series(vec![least]);
            measured.values[1][0] = Series(vec![most]);
            Layout::of(&[measured]).range()
        };
        assert_eq!(range(10.0, 200.0), (0.0, 200.0, false));
        assert_eq!(range(20.0, 2000.0), (10.0, 2000.0, true));
        // What failed has no bar, and bounds nothing.
        assert_eq!(range(f64::NAN, 5.0), (0.0, 5.0, false));
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.057, 9.5, 123.4, 1500.0, 2_345_678.0].map(short);
        assert_eq!(texts, ["0", "0.06", "9.5", "123", "1.5 k", "2.35 M"]);
    }
}
