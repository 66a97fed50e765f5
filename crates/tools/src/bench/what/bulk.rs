//! Bytes per second from the server to the client.

use serde_json::json;

use crate::bench::case::{Case, Metric};
use crate::bench::end::outcome::Outcome;
use crate::bench::end::work::{Work, WorkArgs};
use crate::bench::options::{BenchArgs, LinkKind};
use crate::bench::probe::Probe;
use crate::bench::probe::window::Window;
use crate::bench::side::Side;

const METRICS: &[Metric] = &[
    Metric {
        key: "gbit_per_s",
        title: "Gbit/s",
    },
    Metric {
        key: "server_cpu_ns_per_kb",
        title: "server core, ns/kB",
    },
    Metric {
        key: "client_cpu_ns_per_kb",
        title: "client core, ns/kB",
    },
];

fn figures(outcome: &Outcome) -> Vec<f64> {
    let per_kb = |nanos| Outcome::per_one(nanos, outcome.bytes) * 1000.0;
    vec![
        outcome.per_second(outcome.bytes) * 8.0 / 1e9,
        per_kb(outcome.server.busy(outcome.wall)),
        per_kb(outcome.client.busy(outcome.wall)),
    ]
}

/// One flow and a hundred, unless asked otherwise.
pub(super) fn cases(options: &BenchArgs) -> Vec<Case> {
    let flows = if options.concurrency.is_empty() {
        &[1, 100][..]
    } else {
        &options.concurrency
    };
    // Over shared memory there is no interface whose offloads could be off.
    let sides = match options.link {
        LinkKind::Shm => vec![Side::Kernel, Side::Mtcp],
        LinkKind::Afxdp | LinkKind::Packet | LinkKind::Tap => {
            vec![Side::Kernel, Side::Mtcp, Side::KernelPlain]
        }
    };
    let case = |flows: &u32| Case {
        title: format!("bulk, {flows} flows"),
        parameters: vec![("flows", json!(flows))],
        sides: sides.clone(),
        left_out: None,
        probe: Probe::Window(window(options.seconds, *flows, figures)),
        metrics: METRICS,
    };
    flows.iter().map(case).collect()
}

/// A run of so many flows.
pub(super) fn window(seconds: f64, flows: u32, figures: fn(&Outcome) -> Vec<f64>) -> Window {
    Window {
        work: WorkArgs {
            work: Work::Stream,
            size: 64,
            messages: 1,
            concurrency: flows,
            spin: false,
        },
        seconds,
        client: Vec::new(),
        figures,
    }
}
