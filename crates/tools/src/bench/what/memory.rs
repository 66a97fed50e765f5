//! What a connection costs the server in memory: established and idle, and in TIME_WAIT.

use serde_json::json;

use crate::bench::case::{Case, Metric};
use crate::bench::end::hold::FIRST;
use crate::bench::options::{BenchArgs, or};
use crate::bench::probe::Probe;
use crate::bench::probe::memory::Memory;
use crate::bench::side::Side;
use crate::machine::raise_open_files;

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
        key: "full_mb",
        title: "server process with all of them, MB",
    },
    Metric {
        key: "answered_percent",
        title: "still answering afterwards, %",
    },
];

/// Open files of an end besides its sockets.
const OTHER_FILES: u64 = 64;

/// Why the kernel cannot hold so many `connections` here, if it cannot.
fn too_many(connections: u32, open_files: u64) -> Option<String> {
    let needed = u64::from(connections) + u64::from(FIRST) + OTHER_FILES;
    (needed > open_files).then(|| {
        format!("the kernel's side, which needs {needed} open files and may have {open_files}")
    })
}

/// Both, with 10,000 connections unless asked otherwise: more than many users may have open files
/// for.
pub(super) fn cases(options: &BenchArgs) -> Vec<Case> {
    let mut cases = Vec::new();
    let open_files = raise_open_files();
    for connections in or(&options.concurrency, 10_000) {
        let left_out = too_many(connections, open_files);
        let sides = match left_out {
            None => vec![Side::Kernel, Side::Mtcp],
            Some(_) => vec![Side::Mtcp],
        };
        for (closed, state) in [(false, "idle"), (true, "time_wait")] {
            cases.push(Case {
                title: format!("{connections} connections, {state}"),
                parameters: vec![("connections", json!(connections)), ("state", json!(state))],
                sides: sides.clone(),
                left_out: left_out.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_left_out_where_it_may_not_have_as_many_files() {
        assert_eq!(too_many(10_000, 20_000), None);
        let why = too_many(1_000_000, 20_000).unwrap();
        assert!(why.contains("1002112") && why.contains("20000"), "{why}");
    }
}
