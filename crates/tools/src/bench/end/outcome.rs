//! What a client measured, as it tells whoever started it: one JSON object on one line.

use serde::{Deserialize, Serialize};

use super::latency::Latency;
use super::usage::Usage;

/// A measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Its length, nanoseconds.
    pub(crate) wall: u64,
    /// Connections finished.
    pub(crate) connections: u64,
    /// Messages answered.
    pub(crate) messages: u64,
    /// Bytes received.
    pub(crate) bytes: u64,
    /// Connections that failed.
    pub(crate) errors: u64,
    /// Most connections that were open at a time before the window began.
    pub(crate) open: u64,
    /// Of the server's processor.
    pub(crate) server: Usage,
    /// Of the client's.
    pub(crate) client: Usage,
    /// Response times, where they were asked for.
    pub(crate) latency: Option<Latency>,
    /// Jain's index over what the connections received.
    pub(crate) jain: Option<f64>,
}

impl Outcome {
    /// `count` per second of the window.
    pub(crate) fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.wall.max(1) as f64
    }

    /// `nanos` for each of `count`; NaN if there was none, so that nobody takes it for cheap.
    pub(crate) fn per_one(nanos: u64, count: u64) -> f64 {
        if count == 0 {
            f64::NAN
        } else {
            nanos as f64 / count as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_goes_through_a_line() {
        let outcome = Outcome {
            wall: 2_000_000_000,
            connections: 10,
            jain: Some(0.5),
            ..Outcome::default()
        };
        let line = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&line).unwrap(), outcome);
        assert!((outcome.per_second(10) - 5.0).abs() < 1e-9);
        assert!(Outcome::per_one(1, 0).is_nan());
    }
}
