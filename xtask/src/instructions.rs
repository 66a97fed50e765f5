//! The instructions that a short transaction takes on the server, counted by valgrind and compared with what SPECIFICATION says.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Transactions of the two runs; what both do once is in neither of the difference.
const COUNTS: [u64; 2] = [2_000, 12_000];
/// How far the count may be from the number in SPECIFICATION, percent. Compilers differ a little; a change of the stack that costs or
/// saves more than this is to be known.
const MARGIN: f64 = 4.0;
/// What the line of SPECIFICATION starts with.
const PROMISE: &str = "| instructions of the server per short transaction";

/// Fails when the count is not what SPECIFICATION says. Without valgrind nothing is counted.
pub fn check(root: &Path) -> Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: skipped, valgrind is not installed");
        return Ok(());
    }
    let promised = promised(&fs::read_to_string(root.join("SPECIFICATION.md"))?)
        .context("SPECIFICATION.md does not say how many instructions a short transaction takes")?;
    let program = build(root)?;
    let [few, many] = [count(&program, COUNTS[0])?, count(&program, COUNTS[1])?];
    let each = (many - few) as f64 / (COUNTS[1] - COUNTS[0]) as f64;
    println!(
        "instructions: {each:.0} per short transaction on the server, SPECIFICATION says {promised:.0}"
    );
    ensure!(
        (each / promised - 1.0).abs() * 100.0 <= MARGIN,
        "more than {MARGIN}% from what SPECIFICATION says: find out why, or say so there"
    );
    Ok(())
}

/// The first number in the second column of its line.
fn promised(specification: &str) -> Option<f64> {
    let line = specification
        .lines()
        .find(|line| line.starts_with(PROMISE))?;
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

/// Instructions of the server's side in a run of so many transactions.
fn count(program: &str, transactions: u64) -> Result<u64> {
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=*server_turn*",
            program,
            &transactions.to_string(),
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
    collected.with_context(|| format!("valgrind counted nothing: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_in_its_line() {
        let text = format!("# S\n\n{PROMISE}, 64 bytes | 5,432, ± 4% | `x` |\n");
        assert_eq!(promised(&text), Some(5432.0));
        assert_eq!(promised("nothing"), None);
    }
}
