//! Plots: extra delay over time.

use std::path::Path;

use plotters::prelude::*;

use crate::fail::Failure;

use super::delays::Second;

/// Pixels.
const SIZE: (u32, u32) = (900, 420);
const LABELS: u32 = 60;

/// Writes a plot of the mean and the largest extra delay of each second.
pub(super) fn write(path: &Path, title: &str, seconds: &[Second]) -> anyhow::Result<()> {
    let text = plot(title, seconds)?;
    std::fs::write(path, text).map_err(|error| {
        Failure::error(
            format!("cannot write '{}': {error}", path.display()),
            "choose another --svg FILE",
        )
    })
}

fn plot(title: &str, seconds: &[Second]) -> anyhow::Result<String> {
    let largest = seconds.iter().map(|second| second.max_us).max();
    let top = (largest.unwrap_or_default() as f64 / 1e3).max(0.001) * 1.05;
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 16))
            .margin(12)
            .x_label_area_size(LABELS)
            .y_label_area_size(LABELS)
            .build_cartesian_2d(0.0..seconds.len().max(1) as f64, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc("seconds of the replay")
            .y_desc("extra delay, ms")
            .draw()?;
        let points = |value: fn(&Second) -> f64| {
            let answered = seconds.iter().enumerate().filter(|(_, at)| at.count > 0);
            answered.map(move |(second, at)| (second as f64 + 0.5, value(at)))
        };
        let grey = RGBColor(0x8c, 0x8c, 0x8c);
        let orange = RGBColor(0xd9, 0x5f, 0x02);
        let largest = points(|at| at.max_us as f64 / 1e3);
        chart
            .draw_series(LineSeries::new(largest, grey.stroke_width(1)))?
            .label("largest")
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], grey));
        chart
            .draw_series(LineSeries::new(
                points(Second::mean_ms),
                orange.stroke_width(2),
            ))?
            .label("mean")
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], orange));
        chart
            .configure_series_labels()
            .background_style(WHITE)
            .border_style(grey)
            .draw()?;
        area.present()?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lines_are_there() {
        let second = Second {
            count: 2,
            sum_us: 3000,
            max_us: 2000,
            ..Second::default()
        };
        let text = plot("a < b", &[second, Second::default(), second]).unwrap();
        assert!(text.contains("#D95F02") && text.contains("#8C8C8C"));
        assert!(text.contains("a &lt; b") && text.contains("extra delay, ms"));
        assert!(text.trim_end().ends_with("</svg>"));
        assert!(plot("nothing", &[]).is_ok());
    }
}
