//! Every attack in `docs/security.md` has a test, and the test is there.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// Reads the table: in the last column of each row a file, and behind it names of tests in that
/// file.
pub fn check(root: &Path) -> Result<()> {
    let text = std::fs::read_to_string(root.join("docs/security.md"))
        .context("cannot read docs/security.md")?;
    let problems: Vec<_> = rows(&text)
        .flat_map(|(attack, tests)| missing(root, attack, tests))
        .collect();
    if !problems.is_empty() {
        bail!("docs/security.md:\n  {}", problems.join("\n  "));
    }
    Ok(())
}

/// Attack and test of each row.
fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.skip(1).filter_map(|row| {
        let mut cells = row.trim_matches('|').split('|');
        Some((cells.next()?.trim(), cells.next_back()?.trim()))
    })
}

fn missing(root: &Path, attack: &str, tests: &str) -> Vec<String> {
    let mut file = None;
    let mut problems = Vec::new();
    for word in tests.split('`').skip(1).step_by(2) {
        if word.ends_with(".rs") {
            file = read(root, word);
            if file.is_none() {
                problems.push(format!("{attack}: there is no {word}"));
            }
        } else if !file.as_deref().is_some_and(|text| has_test(text, word)) {
            problems.push(format!("{attack}: no test {word} there"));
        }
    }
    if tests.is_empty() {
        problems.push(format!("{attack}: no test"));
    }
    problems
}

fn has_test(text: &str, name: &str) -> bool {
    text.contains(&format!("fn {name}("))
}

fn read(root: &Path, name: &str) -> Option<String> {
    let path = match name.strip_prefix("attacks/") {
        Some(name) => format!("crates/core/src/tcp/tests/attacks/{name}"),
        None if name.starts_with("tests/") => name.to_owned(),
        None => format!("crates/{name}"),
    };
    std::fs::read_to_string(root.join(path)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_tests_looked_for() {
        let table = "| attack | defence | test |\n|---|---|---|\n| a | b | `x.rs` `y` |\ntext\n| c | d | |\n";
        let found: Vec<_> = rows(table).collect();
        assert_eq!(found, [("a", "`x.rs` `y`"), ("c", "")]);
        let nowhere = Path::new("/nonexistent");
        assert_eq!(missing(nowhere, "a", "`x.rs` `y`").len(), 2);
        assert_eq!(missing(nowhere, "c", "").len(), 1);
        assert!(has_test("fn y() {}", "y") && !has_test("fn yy() {}", "y"));
    }
}
