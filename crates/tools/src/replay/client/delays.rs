//! How much longer transactions took than in the log.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Percentiles of a report, with their names.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// Transactions whose time began in the same second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Second {
    pub(super) count: u64,
    pub(super) sum_us: u64,
    pub(super) max_us: u64,
    pub(super) failed: u64,
    pub(super) bytes: u64,
}

impl Second {
    pub(super) fn mean_ms(&self) -> f64 {
        self.sum_us as f64 / self.count.max(1) as f64 / 1e3
    }
}

/// Delays of a replay.
#[derive(Debug)]
pub(super) struct Delays {
    all: Histogram<u64>,
    sum_us: u64,
    seconds: Vec<Second>,
    /// How late the client itself began, which is part of the delay.
    late: Histogram<u64>,
    late_sum_us: u64,
}

impl Delays {
    pub(super) fn new() -> anyhow::Result<Self> {
        // Microseconds, up to a day, three digits.
        let histogram = || Histogram::new_with_bounds(1, 86_400_000_000, 3);
        Ok(Self {
            all: histogram()?,
            sum_us: 0,
            seconds: Vec::new(),
            late: histogram()?,
            late_sum_us: 0,
        })
    }

    fn second(&mut self, start: Duration) -> Option<&mut Second> {
        let at = start.as_secs() as usize;
        if self.seconds.len() <= at {
            self.seconds.resize(at + 1, Second::default());
        }
        self.seconds.get_mut(at)
    }

    /// A transaction that was to begin at `start` was answered so much later than in the log.
    pub(super) fn answered(&mut self, start: Duration, extra: Duration, bytes: u64) {
        let extra = micros(extra);
        self.all.saturating_record(extra);
        self.sum_us = self.sum_us.saturating_add(extra);
        if let Some(second) = self.second(start) {
            second.count += 1;
            second.sum_us = second.sum_us.saturating_add(extra);
            second.max_us = second.max_us.max(extra);
            second.bytes += bytes;
        }
    }

    /// A transaction failed.
    pub(super) fn failed(&mut self, start: Duration) {
        if let Some(second) = self.second(start) {
            second.failed += 1;
        }
    }

    /// The client came to a transaction so much after its time.
    pub(super) fn begun(&mut self, late: Duration) {
        let late = micros(late);
        self.late.saturating_record(late);
        self.late_sum_us = self.late_sum_us.saturating_add(late);
    }

    /// Mean, percentiles and maximum of the extra delay, ms.
    pub(super) fn extra_ms(&self) -> Vec<(&'static str, f64)> {
        figures(&self.all, self.sum_us)
    }

    /// The same of how late the client was.
    pub(super) fn late_ms(&self) -> Vec<(&'static str, f64)> {
        figures(&self.late, self.late_sum_us)
    }

    pub(super) fn seconds(&self) -> &[Second] {
        &self.seconds
    }
}

fn figures(histogram: &Histogram<u64>, sum_us: u64) -> Vec<(&'static str, f64)> {
    let mean = sum_us as f64 / histogram.len().max(1) as f64;
    let percentiles = PERCENTILES
        .iter()
        .map(|(name, share)| (*name, histogram.value_at_quantile(*share) as f64));
    let all = [("mean", mean)]
        .into_iter()
        .chain(percentiles)
        .chain([("max", histogram.max() as f64)]);
    all.map(|(name, micros)| (name, micros.round() / 1e3))
        .collect()
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_counted_in_the_second_in_which_they_began() {
        let mut delays = Delays::new().unwrap();
        for (start, extra) in [(0.2, 1), (0.9, 3), (2.5, 8)] {
            let start = Duration::from_secs_f64(start);
            delays.answered(start, Duration::from_millis(extra), 10);
        }
        delays.failed(Duration::from_secs(1));
        delays.begun(Duration::from_micros(500));
        let means: Vec<f64> = delays.seconds().iter().map(Second::mean_ms).collect();
        assert_eq!(means, [2.0, 0.0, 8.0]);
        assert_eq!(delays.seconds()[1].failed, 1);
        assert_eq!(delays.seconds()[0].bytes, 20);
        let extra = delays.extra_ms();
        assert_eq!(extra[0], ("mean", 4.0));
        assert!((extra[5].1 - 8.0).abs() < 0.02, "{extra:?}");
        assert_eq!(delays.late_ms()[0], ("mean", 0.5));
    }
}
