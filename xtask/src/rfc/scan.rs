//! Tags: comments that name a requirement, as `RFC 9293 MUST-23` or `RFC 5961 §3.2-1`. Several of
//! one RFC stand behind its number, on the same line:
//! `RFC 9293 §3.8.4, MUST-24, MUST-25 and SHLD-12`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Where sources with tags may be.
const SOURCES: &[&str] = &[
    "crates/*.rs",
    "crates/*.c",
    "crates/*.h",
    "tests/*.rs",
    "tests/*.c",
    "tests/*.pkt",
];

/// What a tagged place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Code,
    Test,
}

/// A comment that names a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub rfc: u32,
    pub id: String,
    pub kind: Kind,
    pub file: String,
    pub line: usize,
    /// The function or constant it belongs to, if that can be told.
    pub item: Option<String>,
}

/// All tags of the files that git knows.
pub fn tags(root: &Path) -> Result<Vec<Tag>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "--",
        ])
        .args(SOURCES)
        .current_dir(root)
        .output()
        .context("cannot run git ls-files")?;
    let mut tags = Vec::new();
    for file in String::from_utf8_lossy(&output.stdout).lines() {
        // Deleted and not committed: nothing to read.
        if let Ok(source) = fs::read_to_string(root.join(file)) {
            tags.extend(scan(file, &source));
        }
    }
    Ok(tags)
}

/// The tags of one file.
pub fn scan(file: &str, source: &str) -> Vec<Tag> {
    let lines: Vec<&str> = source.lines().collect();
    let is_test_file = is_test_file(file);
    let mut in_tests = false;
    let mut tags = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        in_tests = match *line {
            "}" => false,
            "#[cfg(test)]" => opens_module(&lines[index + 1..]),
            _ => in_tests,
        };
        let kind = if is_test_file || in_tests {
            Kind::Test
        } else {
            Kind::Code
        };
        for (rfc, id) in comment(line).map(ids).unwrap_or_default() {
            tags.push(Tag {
                rfc,
                id,
                kind,
                file: file.to_owned(),
                line: index + 1,
                item: item(&lines, index),
            });
        }
    }
    tags
}

fn is_test_file(file: &str) -> bool {
    let code = file.starts_with("crates/") && file.contains("/src/");
    !code || file.contains("/tests/") || file.ends_with("/tests.rs") || file.contains("/testing/")
}

/// Whether a module with a body follows, behind attributes.
fn opens_module(rest: &[&str]) -> bool {
    rest.iter()
        .find(|line| !line.starts_with("#["))
        .is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
}

/// The comment of a line.
fn comment(line: &str) -> Option<&str> {
    let start = line.trim_start();
    if start.starts_with(['*', '#']) && !start.starts_with("#[") {
        return Some(start);
    }
    line.find("//")
        .or_else(|| line.find("/*"))
        .and_then(|at| line.get(at..))
}

/// The requirements that a text names: ids behind the number of their RFC, whatever else stands
/// between them.
fn ids(text: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for part in text.split("RFC ").skip(1) {
        let mut words =
            part.split(|c: char| !(c.is_alphanumeric() || matches!(c, '§' | '-' | '.')));
        let Some(rfc) = words.next().and_then(|number| number.parse().ok()) else {
            continue;
        };
        // A full stop ends the sentence, not the id.
        let words = words.map(|word| word.trim_end_matches(['.', '-']));
        found.extend(
            words
                .filter(|word| is_id(word))
                .map(|id| (rfc, id.to_owned())),
        );
    }
    found
}

fn is_id(word: &str) -> bool {
    let Some((head, number)) = word.rsplit_once('-') else {
        return false;
    };
    let numbered = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    let labelled = ["MUST", "SHLD", "MAY", "REC"].contains(&head);
    let section = head
        .strip_prefix('§')
        .is_some_and(|section| section.chars().all(|c| c.is_alphanumeric() || c == '.'));
    numbered && (labelled || section)
}

/// What the comment on line `index` is about: what is declared below it, or else the function it
/// stands in.
fn item(lines: &[&str], index: usize) -> Option<String> {
    let below = lines[index + 1..].iter().find(|line| {
        let line = line.trim_start();
        !(line.starts_with("//") || line.starts_with("#[") || line.starts_with('*'))
    });
    let own = lines[index].trim_start();
    let declared = if own.starts_with("//") {
        below.and_then(|line| name(line, &["fn ", "const ", "struct ", "enum ", "mod "]))
    } else {
        None
    };
    declared.or_else(|| {
        let around = lines[..index].iter().rev();
        around
            .take_while(|line| **line != "}")
            .find_map(|line| name(line, &["fn "]))
    })
}

fn name(line: &str, words: &[&str]) -> Option<String> {
    let code = line.split("//").next()?.trim_start();
    let code = code
        .strip_prefix("pub ")
        .or_else(|| {
            code.split_once(") ")
                .filter(|_| code.starts_with("pub("))
                .map(|(_, rest)| rest)
        })
        .unwrap_or(code);
    let code = code.strip_prefix("const fn ").map_or(code, |_| &code[6..]);
    let rest = words.iter().find_map(|word| code.strip_prefix(word))?;
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
    (end > 0).then(|| rest[..end].to_owned())
}

#[cfg(test)]
mod tests;
