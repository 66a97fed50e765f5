//! Fetching, loading and measuring, wherever the server is.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::process::output;
use crate::signals::Stop;

use super::steps::Rate;

/// No step takes longer, unless something hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// SHA-256 of a file, hexadecimal.
pub(crate) fn sha256(path: &Path, stop: &Stop) -> anyhow::Result<String> {
    let mut command = Command::new("sha256sum");
    command.arg(path);
    let text = output(command, LIMIT, stop)?;
    text.split(' ')
        .next()
        .map(str::to_owned)
        .context("sha256sum said nothing")
}

/// Checks that the files at `paths` have the same SHA-256; the start of it, for people.
pub(crate) fn same(paths: [&Path; 2], stop: &Stop) -> anyhow::Result<String> {
    let [first, second] = [sha256(paths[0], stop)?, sha256(paths[1], stop)?];
    ensure!(first == second, "sha256 differs: {first} and {second}");
    Ok(format!(
        "sha256 {}… equal",
        first.get(..12).unwrap_or(&first)
    ))
}

/// Fetches `url` with curl and compares it with `original`.
pub(crate) fn curl(
    mut command: Command,
    url: &str,
    copy: &Path,
    original: &Path,
    stop: &Stop,
) -> anyhow::Result<String> {
    command
        .args([
            "-sS",
            "--fail",
            "--max-time",
            "100",
            "-w",
            "%{speed_download}",
            "-o",
        ])
        .arg(copy)
        .arg(url);
    let speed: f64 = output(command, LIMIT, stop)?
        .trim()
        .parse()
        .unwrap_or_default();
    let sum = same([copy, original], stop)?;
    Ok(format!("{:.0} MB/s, {sum}", speed / 1e6))
}

/// Runs ab; the line of `name` as a number.
fn number(report: &str, name: &str) -> Option<f64> {
    let line = report.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':')
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Runs ab and checks that nothing failed.
pub(crate) fn ab(
    mut command: Command,
    url: &str,
    requests: u64,
    stop: &Stop,
) -> anyhow::Result<String> {
    command.args([
        "-q",
        "-r",
        "-s",
        "60",
        "-n",
        &requests.to_string(),
        "-c",
        "500",
        url,
    ]);
    let report = output(command, LIMIT, stop)?;
    let complete = number(&report, "Complete requests").unwrap_or_default();
    let failed = number(&report, "Failed requests").unwrap_or(f64::INFINITY)
        + number(&report, "Non-2xx responses").unwrap_or_default();
    if failed > 0.0 || complete < requests as f64 {
        bail!("{complete} complete, {failed} failed");
    }
    let rate = number(&report, "Requests per second").unwrap_or_default();
    Ok(format!(
        "{complete} requests, 0 failed, {rate:.0} requests/s"
    ))
}

/// Runs `mtcp load … --json`.
pub(crate) fn load(mut command: Command, arguments: &[&str], stop: &Stop) -> anyhow::Result<Value> {
    command.args(arguments).arg("--json");
    let text = output(command, LIMIT, stop)?;
    let value: Value = serde_json::from_str(&text).context("mtcp load printed no object")?;
    ensure!(value["errors"] == 0, "errors: {}", value["errors_by_kind"]);
    Ok(value)
}

/// MB/s of the typical one of several transfers of `megabytes`: the first also waits for addresses
/// to be confirmed and resolved.
pub(crate) fn speed(report: &Value, megabytes: u64) -> f64 {
    let microseconds = report["latency_us"]["p50"]
        .as_f64()
        .unwrap_or(f64::INFINITY);
    megabytes as f64 * 1e6 / microseconds.max(1.0)
}

/// What is measured of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Raw,
    Fresh,
    Kept,
    Download,
    Upload,
}

/// All of it, in the order of the table.
pub(crate) const MEASURES: [Measure; 5] = [
    Measure::Raw,
    Measure::Fresh,
    Measure::Kept,
    Measure::Download,
    Measure::Upload,
];

impl Measure {
    /// Its line in the table.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Raw => "64-byte request and response, one connection each (1/s)",
            Self::Fresh => "HTTP GET of 1 kB, one connection each (1/s)",
            Self::Kept => "HTTP GET of 1 kB, connections kept (1/s)",
            Self::Download => "download (MB/s)",
            Self::Upload => "upload (MB/s)",
        }
    }

    /// Options of `mtcp load` for it against a server at `host`, with `big` as the file to send.
    pub(crate) fn arguments(self, host: &str, seconds: &str, big: &str) -> Vec<String> {
        let words = match self {
            Self::Raw => format!("{host}:9000 --raw 64/64 -c 200 -d {seconds} --reset"),
            Self::Fresh => format!("http://{host}/small -c 200 -d {seconds}"),
            Self::Kept => format!("http://{host}/small -c 100 -k -d {seconds}"),
            Self::Download => format!("http://{host}/big -n 3 -k"),
            Self::Upload => format!("http://{host}/uploaded -n 2 -k --method PUT --body {big}"),
        };
        words.split(' ').map(str::to_owned).collect()
    }

    /// The number for the table.
    pub(crate) fn value(self, report: &Value) -> Option<f64> {
        match self {
            Self::Raw | Self::Fresh | Self::Kept => report["requests_per_s"].as_f64(),
            Self::Download | Self::Upload => {
                report["bytes_per_s"].as_f64().map(|bytes| bytes / 1e6)
            }
        }
    }

    /// An empty line of the table.
    pub(crate) fn rate(self) -> Rate {
        Rate {
            what: self.what(),
            ours: None,
            kernel: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_ab_are_read() {
        let report = "Complete requests:      100000\nFailed requests:        0\nRequests per second:    16457.72 [#/sec] (mean)\n";
        assert_eq!(number(report, "Complete requests"), Some(100_000.0));
        assert_eq!(number(report, "Requests per second"), Some(16_457.72));
        assert_eq!(number(report, "Non-2xx responses"), None);
    }
}
