//! Response times.

use serde_json::{Value, json};

use crate::bench::case::{Case, Metric};
use crate::bench::end::outcome::Outcome;
use crate::bench::end::work::{Work, WorkArgs};
use crate::bench::options::{BenchArgs, or};
use crate::bench::probe::Probe;
use crate::bench::probe::window::Window;
use crate::bench::side::Side;

const METRICS: &[Metric] = &[
    Metric {
        key: "p50_us",
        title: "median, us",
    },
    Metric {
        key: "p90_us",
        title: "90%, us",
    },
    Metric {
        key: "p99_us",
        title: "99%, us",
    },
    Metric {
        key: "p999_us",
        title: "99.9%, us",
    },
    Metric {
        key: "max_us",
        title: "slowest, us",
    },
    Metric {
        key: "mean_us",
        title: "mean, us",
    },
    Metric {
        key: "stddev_us",
        title: "standard deviation, us",
    },
    Metric {
        key: "messages_per_s",
        title: "messages/s",
    },
    Metric {
        key: "responses",
        title: "responses",
    },
];

/// Milliseconds that both sides sleep between two messages: longer than anybody spins.
const PAUSE: u32 = 5;
/// Connections at a time in the paper's Table 2.
const CLOSED_LOOP: u32 = 8000;
/// Connections that may be waiting at a fixed rate before the client holds back.
const OPEN_LOOP: u32 = 8000;
/// Responses/s that are too few to wait for, in a closed loop with a number of them.
const TOO_SLOW: f64 = 4000.0;

fn figures(outcome: &Outcome) -> Vec<f64> {
    let rate = outcome.per_second(outcome.messages);
    let Some(latency) = &outcome.latency else {
        return vec![f64::NAN; METRICS.len()];
    };
    vec![
        latency.p50,
        latency.p90,
        latency.p99,
        latency.p999,
        latency.max,
        latency.mean,
        latency.stddev,
        rate,
        latency.count as f64,
    ]
}

/// One message after the other on one connection, spinning and sleeping; short connections at a
/// fixed rate, from when they were due; and short connections in a closed loop, for as long and for
/// as many.
pub(super) fn cases(options: &BenchArgs) -> Vec<Case> {
    let work = |messages, concurrency, spin| WorkArgs {
        work: Work::Exchange,
        size: 64,
        messages,
        concurrency,
        spin,
    };
    let rate = options.rate;
    let mut cases = vec![
        case(
            options,
            "one connection, spinning".to_owned(),
            ("wait", json!("spin")),
            work(0, 1, true),
            &[],
        ),
        case(
            options,
            format!("one connection, {PAUSE} ms of sleep between messages"),
            ("wait", json!("sleep")),
            work(0, 1, false),
            &["--pause", &PAUSE.to_string()],
        ),
        case(
            options,
            format!("{rate} connections/s"),
            ("rate", json!(rate)),
            work(1, OPEN_LOOP, false),
            &["--rate", &rate.to_string()],
        ),
    ];
    for concurrency in or(&options.concurrency, CLOSED_LOOP) {
        cases.push(case(
            options,
            format!("{concurrency} connections at a time"),
            ("concurrency", json!(concurrency)),
            work(1, concurrency, false),
            &[],
        ));
        cases.push(as_many(options, concurrency, work(1, concurrency, false)));
    }
    cases
}

/// The closed loop until each side has had the same number of responses, as in the paper's Table 2:
/// what the slowest of many took grows with how many there were.
fn as_many(options: &BenchArgs, concurrency: u32, work: WorkArgs) -> Case {
    let responses = options.responses;
    let mut case = case(
        options,
        format!("{concurrency} connections at a time, {responses} responses each"),
        ("responses", json!(responses)),
        work,
        &["--responses", &responses.to_string()],
    );
    case.parameters.push(("concurrency", json!(concurrency)));
    if let Probe::Window(window) = &mut case.probe {
        window.seconds = options.seconds + f64::from(responses) / TOO_SLOW;
    }
    case
}

fn case(
    options: &BenchArgs,
    title: String,
    parameter: (&'static str, Value),
    work: WorkArgs,
    client: &[&str],
) -> Case {
    let mut client: Vec<String> = client.iter().map(|word| (*word).to_owned()).collect();
    client.push("--latency".to_owned());
    Case {
        title,
        parameters: vec![parameter],
        sides: vec![Side::Kernel, Side::Mtcp],
        left_out: None,
        probe: Probe::Window(Window {
            work,
            seconds: options.seconds,
            client,
            figures,
        }),
        metrics: METRICS,
    }
}
