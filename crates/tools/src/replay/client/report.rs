//! The result of a replay, for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::load::stats::Stats;

use super::delays::Delays;

/// A finished replay.
pub(super) struct Report {
    pub(super) stats: Stats,
    pub(super) delays: Delays,
    pub(super) took: Duration,
    /// Processor time, seconds: (user, system).
    pub(super) cpu: (f64, f64),
    /// Which sockets.
    pub(super) label: String,
    pub(super) copies: u32,
    pub(super) scale: f64,
    /// Whether it was stopped before its end.
    pub(super) stopped: bool,
}

impl Report {
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// One JSON object on one line.
    pub(super) fn json(&self) -> String {
        let stats = &self.stats;
        let kinds: Map<String, Value> = stats
            .kinds
            .iter()
            .map(|(kind, count)| (kind.name().to_owned(), json!(count)))
            .collect();
        let figures = |figures: Vec<(&'static str, f64)>| -> Map<String, Value> {
            let named = figures.into_iter();
            named
                .map(|(name, value)| (name.to_owned(), json!(value)))
                .collect()
        };
        let seconds: Vec<Value> = self
            .delays
            .seconds()
            .iter()
            .enumerate()
            .map(|(second, at)| {
                json!({
                    "second": second,
                    "answered": at.count,
                    "failed": at.failed,
                    "mean_ms": at.mean_ms(),
                    "max_ms": at.max_us as f64 / 1e3,
                    "bytes": at.bytes,
                })
            })
            .collect();
        let object = json!({
            "transactions": stats.finished(),
            "succeeded": stats.succeeded,
            "errors": stats.failed,
            "errors_by_kind": kinds,
            "connections": stats.connections,
            "copies": self.copies,
            "scale": self.scale,
            "stopped": self.stopped,
            "seconds": self.took.as_secs_f64(),
            "transactions_per_s": self.per_second(stats.succeeded),
            "bytes_received": stats.received,
            "bytes_sent": stats.sent,
            "bits_per_s": 8.0 * self.per_second(stats.received),
            "extra_delay_ms": figures(self.delays.extra_ms()),
            "client_late_ms": figures(self.delays.late_ms()),
            "by_second": seconds,
            "cpu": { "user": self.cpu.0, "system": self.cpu.1 },
            "io": self.label,
        });
        format!("{object}\n")
    }

    /// A few lines.
    pub(super) fn text(&self) -> String {
        let stats = &self.stats;
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<16}{value}");
        };
        line("sockets", self.label.clone());
        line(
            "transactions",
            format!(
                "{} on {} connections in {:.2} s{}",
                stats.finished(),
                stats.connections,
                self.took.as_secs_f64(),
                if self.stopped { ", then stopped" } else { "" }
            ),
        );
        line("errors", stats.errors_text());
        line(
            "load",
            format!(
                "{} copies of {:.0}% of the log: {:.1} transactions/s, {:.1} Mbit/s",
                self.copies,
                100.0 * self.scale,
                self.per_second(stats.succeeded),
                8.0 * self.per_second(stats.received) / 1e6
            ),
        );
        line(
            "bytes",
            format!("{} received, {} sent", stats.received, stats.sent),
        );
        line("extra delay, ms", figures(self.delays.extra_ms()));
        line("client late, ms", figures(self.delays.late_ms()));
        line(
            "processor",
            format!("{:.2} s user, {:.2} s system", self.cpu.0, self.cpu.1),
        );
        text
    }
}

fn figures(figures: Vec<(&'static str, f64)>) -> String {
    let texts: Vec<String> = figures
        .into_iter()
        .map(|(name, value)| format!("{name} {value:.3}"))
        .collect();
    texts.join("  ")
}
