//! Connections per second that the server accepts and resets at once: what refusing costs.

use serde_json::json;

use crate::bench::case::Case;
use crate::bench::end::work::{Work, WorkArgs};
use crate::bench::options::{BenchArgs, or};
use crate::bench::probe::Probe;
use crate::bench::probe::window::Window;
use crate::bench::side::Side;

use super::short;

/// One per concurrency.
pub(super) fn cases(options: &BenchArgs) -> Vec<Case> {
    let concurrency = or(&options.concurrency, 1000).into_iter();
    concurrency
        .map(|concurrency| case(options.seconds, concurrency))
        .collect()
}

fn case(seconds: f64, concurrency: u32) -> Case {
    Case {
        title: format!("accept and reset, {concurrency} at a time"),
        parameters: vec![("concurrency", json!(concurrency))],
        sides: vec![Side::Kernel, Side::Mtcp],
        left_out: None,
        probe: Probe::Window(Window {
            work: WorkArgs {
                work: Work::Reset,
                size: 64,
                messages: 1,
                concurrency,
                spin: false,
            },
            seconds,
            client: Vec::new(),
            figures: short::figures,
        }),
        metrics: short::METRICS,
    }
}
