//! The result of a load run, for people and for programs.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::stats::Stats;

/// A finished run.
#[derive(Debug)]
pub(crate) struct Report {
    /// What was counted.
    pub(crate) stats: Stats,
    /// How long it took.
    pub(crate) took: Duration,
    /// Processor time, seconds: (user, system).
    pub(crate) cpu: (f64, f64),
    /// Which sockets.
    pub(crate) label: String,
}

impl Report {
    fn per_second(&self, count: u64) -> f64 {
        (count as f64 / self.took.as_secs_f64().max(1e-9) * 10.0).round() / 10.0
    }

    /// One JSON object on one line.
    pub(crate) fn json(&self) -> String {
        let stats = &self.stats;
        let latency: Map<String, Value> = stats
            .latency_us()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        let kinds: Map<String, Value> = stats
            .kinds
            .iter()
            .map(|(kind, count)| (kind.name().to_owned(), json!(count)))
            .collect();
        let classes = stats
            .statuses
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        let statuses: Map<String, Value> = classes
            .map(|(class, count)| (format!("{class}xx"), json!(count)))
            .collect();
        json!({
            "requests": stats.finished(),
            "succeeded": stats.succeeded,
            "errors": stats.failed,
            "errors_by_kind": kinds,
            "statuses": statuses,
            "connections": stats.connections,
            "seconds": self.took.as_secs_f64(),
            "requests_per_s": self.per_second(stats.succeeded),
            "connections_per_s": self.per_second(stats.connections),
            "bytes_received": stats.received,
            "bytes_sent": stats.sent,
            "bytes_per_s": self.per_second(stats.received + stats.sent),
            "latency_us": latency,
            "cpu": { "user": self.cpu.0, "system": self.cpu.1 },
            "io": self.label,
        })
        .to_string()
    }

    /// A few lines.
    pub(crate) fn text(&self) -> String {
        let stats = &self.stats;
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<14}{value}");
        };
        line("sockets", self.label.clone());
        line(
            "requests",
            format!("{} in {:.2} s", stats.finished(), self.took.as_secs_f64()),
        );
        line("errors", stats.errors_text());
        line(
            "rate",
            format!(
                "{:.1} requests/s, {:.1} connections/s",
                self.per_second(stats.succeeded),
                self.per_second(stats.connections)
            ),
        );
        let (received, sent) = (self.per_second(stats.received), self.per_second(stats.sent));
        line(
            "bytes",
            format!(
                "{} received ({:.2} MB/s), {} sent ({:.2} MB/s)",
                stats.received,
                received / 1e6,
                stats.sent,
                sent / 1e6
            ),
        );
        let latency: Vec<String> = stats
            .latency_us()
            .into_iter()
            .map(|(name, value)| format!("{name} {value:.1}"))
            .collect();
        line("latency, µs", latency.join("  "));
        line(
            "processor",
            format!("{:.2} s user, {:.2} s system", self.cpu.0, self.cpu.1),
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::stats::Kind;

    #[test]
    fn the_object_has_what_programs_look_for() {
        let mut stats = Stats::new().unwrap();
        stats.success(Duration::from_micros(100));
        stats.success(Duration::from_micros(300));
        stats.failure(Kind::Reset);
        stats.status(200);
        stats.received = 2000;
        let report = Report {
            stats,
            took: Duration::from_secs(2),
            cpu: (0.5, 0.25),
            label: "kernel".into(),
        };
        let value: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(value["requests"], 3);
        assert_eq!(value["errors"], 1);
        assert_eq!(value["errors_by_kind"]["reset"], 1);
        assert_eq!(value["statuses"]["2xx"], 1);
        assert_eq!(value["requests_per_s"], 1.0);
        assert_eq!(value["bytes_per_s"], 1000.0);
        assert_eq!(value["cpu"]["user"], 0.5);
        let p50 = value["latency_us"]["p50"].as_f64().unwrap();
        assert!((99.0..101.0).contains(&p50), "{p50}");
        for name in ["p90", "p99", "p999", "max"] {
            let value = value["latency_us"][name].as_f64().unwrap();
            assert!((299.0..301.0).contains(&value), "{name} {value}");
        }
        assert!(report.text().contains("1 reset"));
    }
}
