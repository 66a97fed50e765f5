//! The instructions that a short transaction, and one more message on its connection, take on the
//! server, counted by valgrind and compared with what SPECIFICATION says.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Transactions of the two runs; what both do once is in neither of the difference.
const COUNTS: [u64; 2] = [2_000, 12_000];
/// The same for connections with `MESSAGES` more messages, of which fewer are needed.
const KEPT_COUNTS: [u64; 2] = [200, 1_200];
const MESSAGES: u64 = 32;
const AT_A_TIME: &str = "64";
/// Stacks that share an interface: each is to cost what one alone does ...
const STACKS: u64 = 8;
/// ... but for this much, percent.
const SHARE: f64 = 2.0;
/// How far the count may be from the number in SPECIFICATION, percent. Compilers differ a little; a
/// change of the stack that costs or saves more than this is to be known.
const MARGIN: f64 = 4.0;
/// What the lines of SPECIFICATION start with.
const TRANSACTION: &str = "| instructions of the server per short transaction";
const MESSAGE: &str = "| instructions of the server per message more";

/// Fails when the count is not what SPECIFICATION says. Without valgrind nothing is counted.
pub fn check(root: &Path) -> Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: skipped, valgrind is not installed");
        return Ok(());
    }
    let specification = fs::read_to_string(root.join("SPECIFICATION.md"))?;
    let program = build(root)?;
    let transaction = each(&program, COUNTS, 1, 1)?;
    let kept = each(&program, KEPT_COUNTS, 1 + MESSAGES, 1)?;
    let short = each(&program, KEPT_COUNTS, 1, 1)?;
    let shared = each(&program, COUNTS, 1, STACKS)?;
    compare(&specification, TRANSACTION, transaction)?;
    compare(&specification, MESSAGE, (kept - short) / MESSAGES as f64)?;
    println!("the same on each of {STACKS} stacks that share an interface: {shared:.0}");
    ensure!(
        shared <= transaction * (1.0 + SHARE / 100.0),
        "a transaction costs more than {SHARE}% more where stacks share an interface: find out what they have in common"
    );
    Ok(())
}

/// What one more transaction of so many messages takes, on so many stacks.
fn each(program: &str, counts: [u64; 2], messages: u64, stacks: u64) -> Result<f64> {
    let [few, many] = counts.map(|counted| count(program, counted, messages, stacks));
    let ((few, few_done), (many, many_done)) = (few?, many?);
    Ok((many - few) as f64 / (many_done - few_done) as f64)
}

fn compare(specification: &str, line: &str, counted: f64) -> Result<()> {
    let promised = promised(specification, line)
        .with_context(|| format!("SPECIFICATION.md has no line that starts with \"{line}\""))?;
    let what = line.trim_start_matches("| ");
    println!("{what}: {counted:.0}, SPECIFICATION says {promised:.0}");
    ensure!(
        (counted / promised - 1.0).abs() * 100.0 <= MARGIN,
        "more than {MARGIN}% from what SPECIFICATION says: find out why, or say so there"
    );
    Ok(())
}

/// The first number in the second column of the line that starts so.
fn promised(specification: &str, start: &str) -> Option<f64> {
    let line = specification.lines().find(|line| line.starts_with(start))?;
    let column = line.split('|').nth(2)?.trim();
    let digits: String = column
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == ',')
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// Builds the program that does nothing but transactions; its path.
fn build(root: &Path) -> Result<String> {
    let output = Command::new("cargo")
        .args(["build", "--release", "-p", "sim", "--bin", "transactions"])
        .args(["--message-format", "json-render-diagnostics"])
        // As `make build` has it: the count is not to depend on this processor, of which valgrind
        // may not know all.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot run cargo build")?;
    ensure!(output.status.success(), "the transactions do not build");
    let text = String::from_utf8_lossy(&output.stdout);
    let path = text
        .lines()
        .filter_map(|line| line.split("\"executable\":\"").nth(1))
        .find_map(|rest| rest.split('"').next());
    path.map(str::to_owned).context("cargo named no executable")
}

/// Instructions of the servers in a run of so many transactions, of so many messages each; and how
/// many they really were.
fn count(program: &str, transactions: u64, messages: u64, stacks: u64) -> Result<(u64, u64)> {
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=*server_turn*",
            program,
            &transactions.to_string(),
            AT_A_TIME,
            &messages.to_string(),
            &stacks.to_string(),
        ])
        .output()
        .context("cannot run valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{program} failed under valgrind: {text}");
    }
    let collected = text
        .lines()
        .filter_map(|line| line.split("Collected :").nth(1))
        .find_map(|number| number.trim().parse().ok());
    let collected = collected.with_context(|| format!("valgrind counted nothing: {text}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let done = printed.split_whitespace().next();
    let done = done.and_then(|number| number.parse().ok());
    Ok((collected, done.context("the transactions are not counted")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_in_its_line() {
        let text = format!("# S\n\n{TRANSACTION}, 64 bytes | 5,432, ± 4% | `x` |\n");
        assert_eq!(promised(&text, TRANSACTION), Some(5432.0));
        assert_eq!(promised(&text, MESSAGE), None);
    }
}
