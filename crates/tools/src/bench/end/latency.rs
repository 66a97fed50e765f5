//! Response times.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Response times of a window, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) stddev: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// Records response times.
#[derive(Debug)]
pub(crate) struct Recorder(Histogram<u64>);

impl Recorder {
    /// Empty.
    pub(crate) fn new() -> anyhow::Result<Self> {
        // Nanoseconds, up to an hour, three digits.
        Ok(Self(Histogram::new_with_bounds(1, 3_600_000_000_000, 3)?))
    }

    /// One response took `time`.
    pub(crate) fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanos.max(1));
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.0.reset();
    }

    /// What was recorded; `None` if nothing.
    pub(crate) fn summary(&self) -> Option<Latency> {
        let count = self.0.len();
        let micros = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        (count > 0).then(|| Latency {
            count,
            mean: self.0.mean() / 1e3,
            stddev: self.0.stdev() / 1e3,
            p50: micros(0.5),
            p90: micros(0.9),
            p99: micros(0.99),
            p999: micros(0.999),
            max: self.0.max() as f64 / 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_the_figures_of_what_was_recorded() {
        let mut recorder = Recorder::new().unwrap();
        assert_eq!(recorder.summary(), None);
        for micros in 1..=100 {
            recorder.record(Duration::from_micros(micros));
        }
        let summary = recorder.summary().unwrap();
        assert_eq!(summary.count, 100);
        let close = |value: f64, wanted: f64| (value - wanted).abs() < wanted * 0.005;
        assert!(close(summary.mean, 50.5) && close(summary.stddev, 28.87));
        assert!(close(summary.p50, 50.0) && close(summary.p99, 99.0) && close(summary.max, 100.0));
        recorder.clear();
        assert_eq!(recorder.summary(), None);
    }
}
