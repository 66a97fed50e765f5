//! Logs: made, measured.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::path::Path;
use std::process::Output;

use common::run;
use serde_json::Value;

/// What a log is like, as `mtcp replay stat --json` says.
fn stat(log: &Path) -> Value {
    let output = run(&["replay", "stat", log.to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Makes a log.
fn make(log: &Path, arguments: &str) -> Output {
    let mut all = vec!["replay", "make", "--out", log.to_str().unwrap()];
    all.extend(arguments.split_whitespace());
    run(&all)
}

fn near(found: &Value, wanted: f64) {
    let found = found.as_f64().unwrap();
    assert!(
        (found / wanted - 1.0).abs() <= 0.02,
        "{found}, not {wanted}"
    );
}

#[test]
fn a_log_has_the_statistics_asked_for_in_both_formats() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["log.jsonl", "log.csv"] {
        let log = directory.path().join(name);
        let made = make(
            &log,
            "--requests 20000 --seconds 20 --median 2000 --mean 10000 --redundancy 0.3 --concurrency 40 --seed 7",
        );
        assert!(made.status.success(), "{made:?}");
        let found = stat(&log);
        assert_eq!(found["requests"], 20_000, "{name}");
        for (key, wanted) in [
            ("seconds", 20.0),
            ("median_bytes", 2000.0),
            ("mean_bytes", 10_000.0),
            ("redundancy", 0.3),
            ("concurrency", 40.0),
            ("connections", 10_000.0),
        ] {
            near(&found[key], wanted);
        }
    }
    let text = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    assert!(text("log.jsonl").starts_with("{\"connection\":0,"));
    assert!(text("log.csv").starts_with("connection,client,"));
}

#[test]
fn a_seed_makes_the_same_log() {
    let directory = tempfile::tempdir().unwrap();
    let made = |name: &str, seed: &str| {
        let log = directory.path().join(name);
        assert!(
            make(&log, &format!("--requests 1000 --seed {seed}"))
                .status
                .success()
        );
        std::fs::read(log).unwrap()
    };
    let first = made("a", "7");
    assert!(first == made("b", "7"));
    assert!(first != made("c", "8"));
}

#[test]
fn what_is_no_log_is_told_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log.jsonl");
    assert!(make(&log, "--requests 10").status.success());
    let mut text = std::fs::read_to_string(&log).unwrap();
    text.push_str("{\"connection\":1}\n");
    std::fs::write(&log, text).unwrap();
    let output = run(&["replay", "stat", log.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("log.jsonl:11: missing field `client`"),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1);
}
