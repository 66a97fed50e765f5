//! What the server's processor does for one message: in the program, in system calls, in
//! interrupts.

use crate::bench::case::{Case, Metric};
use crate::bench::end::outcome::Outcome;
use crate::bench::options::BenchArgs;
use crate::bench::probe::Probe;

use super::short;

const METRICS: &[Metric] = &[
    Metric {
        key: "server_cpu_ns_per_message",
        title: "server core, ns/message",
    },
    Metric {
        key: "server_user_ns_per_message",
        title: "user, ns/message",
    },
    Metric {
        key: "server_system_ns_per_message",
        title: "system, ns/message",
    },
    Metric {
        key: "server_softirq_ns_per_message",
        title: "interrupts, ns/message",
    },
    Metric {
        key: "messages_per_s",
        title: "messages/s",
    },
];

fn figures(outcome: &Outcome) -> Vec<f64> {
    let per_message = |nanos| Outcome::per_one(nanos, outcome.messages);
    vec![
        per_message(outcome.server.busy(outcome.wall)),
        per_message(outcome.server.user),
        per_message(outcome.server.system),
        per_message(outcome.server.softirq),
        outcome.per_second(outcome.messages),
    ]
}

/// The cases of short connections with one message and with 32, unless asked otherwise, and other
/// figures of them.
pub(super) fn cases(options: &BenchArgs) -> Vec<Case> {
    let mut options = options.clone();
    if options.messages.is_empty() {
        options.messages = vec![1, 32];
    }
    let mut cases = short::cases(&options);
    for case in &mut cases {
        case.metrics = METRICS;
        if let Probe::Window(window) = &mut case.probe {
            window.figures = figures;
        }
    }
    cases
}
