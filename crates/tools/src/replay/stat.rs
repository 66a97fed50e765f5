//! `mtcp replay stat`: what a log is like.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use replay::statistics::{Statistics, Summary};
use serde_json::json;

use crate::output;
use crate::signals::Stop;

use super::files::{Log, Progress};

/// Says what a log is like.
#[derive(Args, Debug)]
pub(crate) struct StatArgs {
    /// Log to read; - is standard input
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl StatArgs {
    /// Prints it; whether all of the log was read.
    pub(super) fn run(&self) -> anyhow::Result<bool> {
        let mut log = Log::open(&self.log)?;
        let stop = Stop::watch(|| {})?;
        let progress = Progress::new(None);
        let (mut statistics, mut count, mut whole) = (Statistics::new(), 0, true);
        while let Some(transaction) = log.next()? {
            statistics.add(&transaction);
            count += 1;
            progress.show(count);
            if stop.requested() {
                whole = false;
                break;
            }
        }
        drop(progress);
        let summary = statistics.summary();
        let text = if self.json {
            object(&summary)
        } else {
            text(&summary)
        };
        output::print(&text)?;
        if !whole {
            output::note(&format!(
                "mtcp: stopped after {count} transactions: run it again for all"
            ));
        }
        Ok(whole)
    }
}

fn object(summary: &Summary) -> String {
    let object = json!({
        "requests": summary.requests,
        "connections": summary.connections,
        "seconds": summary.seconds,
        "response_bytes": summary.response_bytes,
        "request_bytes": summary.request_bytes,
        "median_bytes": summary.median_bytes,
        "mean_bytes": summary.mean_bytes,
        "largest_bytes": summary.largest_bytes,
        "bits_per_s": bits_per_s(summary),
        "arrival_variation": summary.arrival_variation,
        "redundancy": summary.redundancy,
        "concurrency": summary.concurrency,
        "concurrency_peak": summary.concurrency_peak,
        "connections_peak": summary.connections_peak,
        "mean_duration_ms": summary.mean_duration_ms,
    });
    format!("{object}\n")
}

fn bits_per_s(summary: &Summary) -> f64 {
    summary.response_bytes as f64 * 8.0 / summary.seconds.max(1e-6)
}

fn text(summary: &Summary) -> String {
    let mut text = String::new();
    for (name, value) in lines(summary) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14}{value}");
    }
    text
}

fn lines(all: &Summary) -> [(&'static str, String); 7] {
    let per_second = all.requests as f64 / all.seconds.max(1e-6);
    let per_connection = all.requests as f64 / all.connections.max(1) as f64;
    let requests = format!(
        "{} in {:.2} s ({per_second:.1}/s)",
        all.requests, all.seconds
    );
    let connections = format!(
        "{} ({per_connection:.2} requests each), at most {} at a time",
        all.connections, all.connections_peak
    );
    let responses = format!(
        "median {:.0}, mean {:.0}, largest {} bytes",
        all.median_bytes, all.mean_bytes, all.largest_bytes
    );
    let bytes = format!(
        "{} of responses ({:.1} Mbit/s), {} of requests",
        all.response_bytes,
        bits_per_s(all) / 1e6,
        all.request_bytes
    );
    let arrivals = format!(
        "variation {:.2} (Poisson 1, uniform 0)",
        all.arrival_variation
    );
    let redundancy = format!("{:.1}% of the bytes came before", 100.0 * all.redundancy);
    let concurrency = format!(
        "{:.1} transactions at a time, at most {}, of {:.1} ms each",
        all.concurrency, all.concurrency_peak, all.mean_duration_ms
    );
    [
        ("requests", requests),
        ("connections", connections),
        ("responses", responses),
        ("bytes", bytes),
        ("arrivals", arrivals),
        ("redundancy", redundancy),
        ("concurrency", concurrency),
    ]
}
