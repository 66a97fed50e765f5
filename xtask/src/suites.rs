//! `cargo xtask test`: every suite, one sum.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// What users take, as `make build` builds it.
pub const BUILD: [&str; 8] = [
    "build",
    "--release",
    "-p",
    "tools",
    "-p",
    "capi",
    "-p",
    "preload",
];

struct Suite {
    name: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

const SUITES: &[Suite] = &[
    Suite {
        name: "programs the tests drive",
        args: &BUILD,
        env: &[],
    },
    Suite {
        name: "unit, property, simulation, C and interop tests",
        args: &["test", "--workspace", "--no-fail-fast"],
        env: &[],
    },
    Suite {
        name: "unmodified programs on the stack of a daemon",
        args: &[
            "test",
            "-p",
            "applications",
            "--no-fail-fast",
            "--test",
            "clients",
            "--test",
            "handed",
            "--test",
            "handlers",
            "--test",
            "iperf",
            "--test",
            "passed",
            "--test",
            "process",
            "--test",
            "script_servers",
            "--test",
            "secure_servers",
            "--test",
            "sshd",
            "--test",
            "stores",
            "--test",
            "web_servers",
        ],
        env: &[("INTEROP_DAEMON", "private")],
    },
    Suite {
        name: "interleavings of the rings (loom)",
        args: &["test", "-p", "ring", "--release", "--lib", "--tests"],
        env: &[
            ("RUSTFLAGS", "--cfg loom"),
            ("CARGO_TARGET_DIR", "target/loom"),
            ("LOOM_MAX_PREEMPTIONS", "3"),
        ],
    },
];

#[derive(Default)]
struct Sum {
    passed: u64,
    failed: u64,
    failures: Vec<String>,
    /// Reasons, and how many tests gave each.
    skips: BTreeMap<String, u64>,
}

/// Runs everything, prints the sum as the last line, fails if anything failed.
pub fn run(root: &Path) -> Result<()> {
    let mut sum = Sum::default();
    for suite in SUITES {
        let start = Instant::now();
        println!("==> {}: cargo {}", suite.name, suite.args.join(" "));
        let success = run_suite(root, suite, &mut sum)?;
        println!(
            "<== {} took {:.0} s",
            suite.name,
            start.elapsed().as_secs_f64()
        );
        if !success && sum.failures.is_empty() {
            sum.failed += 1;
            sum.failures
                .push(format!("{}: did not build or run", suite.name));
        }
    }
    for (reason, tests) in &sum.skips {
        println!("skipped: {reason} ({tests} times)");
    }
    for failure in &sum.failures {
        println!("failed: {failure}");
    }
    println!("{} passed, {} failed", sum.passed, sum.failed);
    if sum.failed > 0 {
        bail!("{} tests failed", sum.failed);
    }
    Ok(())
}

fn run_suite(root: &Path, suite: &Suite, sum: &mut Sum) -> Result<bool> {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(suite.args)
        .envs(suite.env.iter().copied())
        .current_dir(root)
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot run cargo")?;
    let output = child.stdout.take().context("no output from cargo")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        count(&line, sum);
    }
    Ok(child.wait()?.success())
}

/// Reads the test runner's own words.
fn count(line: &str, sum: &mut Sum) {
    if let Some(result) = line.strip_prefix("test result: ") {
        let number = |word: &str| -> u64 {
            result
                .split([';', '.'])
                .filter_map(|part| part.trim().strip_suffix(word))
                .filter_map(|count| count.trim().parse().ok())
                .next()
                .unwrap_or(0)
        };
        sum.passed += number("passed");
        sum.failed += number("failed");
    } else if let Some(name) = line
        .strip_prefix("test ")
        .and_then(|rest| rest.strip_suffix(" ... FAILED"))
    {
        sum.failures.push(name.to_owned());
    } else if let Some(reason) = line.trim_start().strip_prefix("skipped: ") {
        *sum.skips.entry(reason.to_owned()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_what_the_runner_says() {
        let mut sum = Sum::default();
        count(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            &mut sum,
        );
        count(
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
            &mut sum,
        );
        count("test tcp::closes ... FAILED", &mut sum);
        count("skipped: no tcpdump", &mut sum);
        count("skipped: no tcpdump", &mut sum);
        assert_eq!((sum.passed, sum.failed), (15, 2));
        assert_eq!(sum.failures, ["tcp::closes"]);
        assert_eq!(sum.skips, BTreeMap::from([("no tcpdump".to_owned(), 2)]));
    }
}
