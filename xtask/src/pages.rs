//! Pages that explain the code: that they name files which exist, link to pages which exist, and
//! can be read.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Columns of a line of prose. Tables, pictures and lines without a space to break at may be
/// longer.
const COLUMNS: usize = 130;
/// Lines of a paragraph. What needs more is a page of its own, or a table.
const PARAGRAPH: usize = 6;
/// Pages whose prose is held to that.
const PROSE: &[&str] = &["README.md", "ARCHITECTURE.md", "docs/internals/"];

/// Fails on a page that names a file or a page that does not exist, or has a paragraph that is too
/// long.
pub fn check(root: &Path) -> Result<()> {
    let files = tracked(root)?;
    let pages: Vec<&str> = files
        .iter()
        .map(String::as_str)
        .filter(|file| is_page(file))
        .collect();
    let mut wrong = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(root.join(page)).with_context(|| (*page).to_owned())?;
        for (number, line) in text.lines().enumerate() {
            let place = format!("{page}:{}", number + 1);
            let links = links(line).filter(|link| !link_exists(root, page, link));
            wrong.extend(links.map(|link| format!("{place}: no page '{link}'")));
            if is_prose(page) {
                let sources = sources(line).filter(|name| !source_exists(&files, name));
                wrong.extend(sources.map(|name| format!("{place}: no file '{name}'")));
            }
        }
        if is_prose(page) {
            wrong.extend(
                too_long(&text).map(|(line, fault)| format!("{page}:{}: {fault}", line + 1)),
            );
        }
    }
    if !wrong.is_empty() {
        bail!("pages are wrong:\n  {}", wrong.join("\n  "));
    }
    println!("pages: {} pages", pages.len());
    Ok(())
}

fn tracked(root: &Path) -> Result<Vec<String>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let output = list
        .current_dir(root)
        .output()
        .context("cannot run git ls-files")?;
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let exist = names.lines().filter(|name| root.join(name).exists());
    Ok(exist.map(str::to_owned).collect())
}

fn is_page(file: &str) -> bool {
    file.ends_with(".md") && (!file.contains('/') || file.starts_with("docs/"))
}

fn is_prose(page: &str) -> bool {
    PROSE.iter().any(|prose| page.starts_with(prose))
}

/// Targets of links to other pages of the project.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let names = targets.map(|target| target.split('#').next().unwrap_or_default());
    names.filter(|name| !name.is_empty() && !name.contains(':'))
}

fn link_exists(root: &Path, page: &str, link: &str) -> bool {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    root.join(folder).join(link).exists()
}

/// Files of code that a line names, `{a,b}` written out.
fn sources(line: &str) -> impl Iterator<Item = String> {
    let quoted = line.split('`').skip(1).step_by(2);
    let names = quoted.filter(|name| {
        [".rs", ".c", ".h"].iter().any(|end| name.ends_with(end)) && !name.contains([' ', '*'])
    });
    names.flat_map(written_out)
}

fn written_out(name: &str) -> Vec<String> {
    let Some((before, (inside, after))) = name
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return vec![name.to_owned()];
    };
    let parts = inside.split(',');
    parts.map(|part| format!("{before}{part}{after}")).collect()
}

/// Pages name files by the end of their path, with or without `crates` and `src`.
fn source_exists(files: &[String], name: &str) -> bool {
    let name = name.trim_start_matches("../");
    let short = |file: &str| file.replace("/src/", "/");
    files.iter().any(|file| {
        [file.clone(), short(file)]
            .iter()
            .any(|file| file == name || file.ends_with(&format!("/{name}")))
    })
}

/// Lines and paragraphs of prose that are too long, by their first line.
fn too_long(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut faults = Vec::new();
    let (mut lines, mut in_code) = (0, false);
    for (number, line) in text.lines().enumerate() {
        in_code ^= line.starts_with("```");
        if in_code || !is_text(line) {
            lines = 0;
            continue;
        }
        lines = if begins(line) { 1 } else { lines + 1 };
        if lines == PARAGRAPH + 1 {
            let fault = format!("a paragraph of more than {PARAGRAPH} lines");
            faults.push((number, fault));
        }
        if line.chars().count() > COLUMNS {
            faults.push((number, format!("more than {COLUMNS} columns")));
        }
    }
    faults.into_iter()
}

/// Not a blank line, a heading, a table, indented code or the fence of code.
fn is_text(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with(['#', '|', '`', '<']) && !line.starts_with("    ")
}

/// Whether a line begins a paragraph of its own: an item of a list.
fn begins(line: &str) -> bool {
    let number = line.split_once(". ").map(|(number, _)| number);
    line.starts_with("- ")
        || number.is_some_and(|number| number.chars().all(|digit| digit.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_the_end_of_their_path() {
        let files = ["crates/core/src/tcp/ack.rs".to_owned()];
        for name in ["tcp/ack.rs", "core/tcp/ack.rs", "core/src/tcp/ack.rs"] {
            assert!(source_exists(&files, name), "{name}");
        }
        assert!(!source_exists(&files, "tcp/nack.rs"));
    }

    #[test]
    fn braces_name_several_files() {
        let names: Vec<_> =
            sources("See `tcp/{ack,data}.rs` and `x.rs`, not `cargo test`.").collect();
        assert_eq!(names, ["tcp/ack.rs", "tcp/data.rs", "x.rs"]);
    }

    #[test]
    fn long_paragraphs_and_lines_are_found() {
        let text = "a\n".repeat(7);
        assert_eq!(too_long(&text).count(), 1);
        let list = "- a\n".repeat(7);
        assert_eq!(too_long(&list).count(), 0);
        let table = format!("| {} |\n", "a".repeat(200));
        assert_eq!(too_long(&table).count(), 0);
        assert_eq!(too_long(&"a".repeat(200)).count(), 1);
    }

    #[test]
    fn links_to_other_sites_are_not_ours() {
        let line = "[a](docs/a.md#x), [b](https://example.org/b.md)";
        assert_eq!(links(line).collect::<Vec<_>>(), ["docs/a.md"]);
    }
}
