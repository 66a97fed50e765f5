//! Connections per second, each with so many messages each way, and the time that the server's
//! processor spends on one.

use serde_json::json;

use crate::bench::case::{Case, Metric};
use crate::bench::end::outcome::Outcome;
use crate::bench::end::work::{Work, WorkArgs};
use crate::bench::options::{BenchArgs, Mode, or};
use crate::bench::probe::Probe;
use crate::bench::probe::window::Window;
use crate::bench::side::Side;

/// The first figure is the one that a single ratio is of.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        key: "connections_per_s",
        title: "connections/s",
    },
    Metric {
        key: "messages_per_s",
        title: "messages/s",
    },
    Metric {
        key: "server_cpu_ns_per_connection",
        title: "server core, ns/connection",
    },
    Metric {
        key: "server_process_ns_per_connection",
        title: "server process, ns/connection",
    },
    Metric {
        key: "client_cpu_ns_per_connection",
        title: "client core, ns/connection",
    },
];

/// The figures of a window.
pub(super) fn figures(outcome: &Outcome) -> Vec<f64> {
    let per_connection = |nanos| Outcome::per_one(nanos, outcome.connections);
    vec![
        outcome.per_second(outcome.connections),
        outcome.per_second(outcome.messages),
        per_connection(outcome.server.busy(outcome.wall)),
        per_connection(outcome.server.process),
        per_connection(outcome.client.busy(outcome.wall)),
    ]
}

/// Every combination of what was asked for.
pub(super) fn cases(options: &BenchArgs) -> Vec<Case> {
    let mut cases = Vec::new();
    let sides = sides(options.mode);
    for concurrency in or(&options.concurrency, 1000) {
        for size in or(&options.size, 64) {
            for messages in or(&options.messages, 1) {
                cases.push(case(&sides, options.seconds, concurrency, size, messages));
            }
        }
    }
    cases
}

/// The tuned kernel last; other modes are compared with inline, too, in turn like the rest.
fn sides(mode: Mode) -> Vec<Side> {
    let mut sides = vec![Side::Kernel, Side::Mtcp];
    if mode != Mode::Inline {
        sides.push(Side::MtcpInline);
    }
    sides.push(Side::KernelTuned);
    sides
}

fn case(sides: &[Side], seconds: f64, concurrency: u32, size: u32, messages: u32) -> Case {
    Case {
        title: format!("{messages} x {size} B, {concurrency} at a time"),
        parameters: vec![
            ("messages", json!(messages)),
            ("size", json!(size)),
            ("concurrency", json!(concurrency)),
        ],
        sides: sides.to_vec(),
        left_out: None,
        probe: Probe::Window(Window {
            work: WorkArgs {
                work: Work::Exchange,
                size,
                messages,
                concurrency,
                spin: false,
            },
            seconds,
            client: Vec::new(),
            figures,
        }),
        metrics: METRICS,
    }
}
