//! What a log shall be like.

/// When requests begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Arrivals {
    /// Independent of each other.
    #[default]
    Poisson,
    /// At equal distances.
    Uniform,
}

/// What a log shall be like. The defaults are those of the paper's Table 4, as far as its text has
/// them: 2.8 million requests in three minutes, median 1.7 KB, mean 40 KB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// Transactions.
    pub requests: u64,
    /// From the first to the last beginning, seconds.
    pub seconds: f64,
    /// Of responses, bytes.
    pub median_bytes: f64,
    /// Of responses, bytes.
    pub mean_bytes: f64,
    /// No response is larger.
    pub largest_bytes: u64,
    /// When requests begin.
    pub arrivals: Arrivals,
    /// Share of response bytes in chunks that came before, 0 to 1.
    pub redundancy: f64,
    /// Transactions that are open at a time, on average.
    pub concurrency: f64,
    /// Transactions that a connection has, on average.
    pub per_connection: f64,
    /// What is random depends on it alone.
    pub seed: u64,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            requests: 2_800_000,
            seconds: 180.0,
            median_bytes: 1_700.0,
            mean_bytes: 40_000.0,
            largest_bytes: 64 << 20,
            arrivals: Arrivals::Poisson,
            redundancy: 0.5,
            concurrency: 10_000.0,
            per_connection: 2.0,
            seed: 1,
        }
    }
}

/// What each stream of randomness is for.
pub(super) mod purpose {
    pub(crate) const ARRIVALS: u64 = 1;
    pub(crate) const SIZES: u64 = 2;
    pub(crate) const DURATIONS: u64 = 3;
    pub(crate) const CHUNKS: u64 = 4;
    pub(crate) const CLIENTS: u64 = 5;
}

/// Refuses what no log can be like: why, and what to do.
pub(super) fn check(wanted: &Wanted) -> Result<(), (String, &'static str)> {
    let wrong = |cause: String, remedy| Err((cause, remedy));
    let finite = |value: f64, least: f64| value.is_finite() && value >= least;
    if wanted.requests < 2 {
        return wrong("a log of fewer than 2 requests".into(), "ask for more");
    }
    if !finite(wanted.seconds, 1e-6) || wanted.seconds > 31_536_000.0 {
        let cause = format!("a log of {} seconds", wanted.seconds);
        return wrong(cause, "give 0.000001 to 31536000, a year");
    }
    if !(0.0..=0.99).contains(&wanted.redundancy) {
        let cause = format!("a redundancy of {}", wanted.redundancy);
        return wrong(cause, "give a share of the bytes, 0 to 0.99");
    }
    let longest = wanted.concurrency * wanted.seconds / wanted.requests as f64;
    if !finite(wanted.concurrency, 0.0) || longest > 86_400.0 {
        let cause = format!("a concurrency of {}", wanted.concurrency);
        return wrong(cause, "give one at which a transaction takes at most a day");
    }
    if !finite(wanted.per_connection, 1.0) {
        let cause = format!("{} transactions per connection", wanted.per_connection);
        return wrong(cause, "give 1 or more");
    }
    Ok(())
}
