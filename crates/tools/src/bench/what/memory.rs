//! What a connection costs the server in memory: established and idle, and in TIME_WAIT.

use serde_json::json;

use crate::bench::case::{Case, Metric, Side};
use crate::bench::options::BenchArgs;
use crate::bench::probe::Probe;
use crate::bench::probe::memory::Memory;

use super::or;

const METRICS: &[Metric] = &[
    Metric {
        key: "bytes_per_connection",
        title: "bytes/connection",
    },
    Metric {
        key: "startup_mb",
        title: "server process at its start, MB",
    },
    Metric {
        key: "answered_percent",
        title: "still answering afterwards, %",
    },
];

/// Both, with 10,000 connections unless asked otherwise: more than many users may have open files for.
pub(super) fn cases(options: &BenchArgs) -> Vec<Case> {
    let mut cases = Vec::new();
    for connections in or(&options.concurrency, 10_000) {
        for (closed, state) in [(false, "idle"), (true, "time_wait")] {
            cases.push(Case {
                title: format!("{connections} connections, {state}"),
                parameters: vec![("connections", json!(connections)), ("state", json!(state))],
                sides: vec![Side::Kernel, Side::Mtcp],
                probe: Probe::Memory(Memory {
                    connections,
                    closed,
                }),
                metrics: METRICS,
            });
        }
    }
    cases
}
