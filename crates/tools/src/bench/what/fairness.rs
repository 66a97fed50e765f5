//! How evenly flows share a link: Jain's index over what each received.

use serde_json::json;

use crate::bench::case::{Case, Metric};
use crate::bench::end::outcome::Outcome;
use crate::bench::options::{BenchArgs, or};
use crate::bench::probe::Probe;
use crate::bench::side::Side;

use super::bulk;

const METRICS: &[Metric] = &[
    Metric {
        key: "jain_index",
        title: "Jain's index",
    },
    Metric {
        key: "gbit_per_s",
        title: "Gbit/s",
    },
];

fn figures(outcome: &Outcome) -> Vec<f64> {
    vec![
        outcome.jain.unwrap_or(f64::NAN),
        outcome.per_second(outcome.bytes) * 8.0 / 1e9,
    ]
}

/// 8,000 flows, as in the paper (§5), unless asked otherwise.
pub(super) fn cases(options: &BenchArgs) -> Vec<Case> {
    let case = |flows: u32| Case {
        title: format!("fairness, {flows} flows"),
        parameters: vec![("flows", json!(flows))],
        sides: vec![Side::Kernel, Side::Mtcp],
        left_out: None,
        probe: Probe::Window(bulk::window(options.seconds, flows, figures)),
        metrics: METRICS,
    };
    or(&options.concurrency, 8000)
        .into_iter()
        .map(case)
        .collect()
}
