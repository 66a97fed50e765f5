//! The matrix as a table for people, and as `docs/conformance.md`.

use std::fmt::Write;

use super::matrix::{Row, rows};
use super::scan::Tag;
use super::spec::{Level, Requirement, Spec, Status};

/// What stands before the tables of the page.
const HEAD: &str = "\
# Conformance

Made by `cargo xtask rfc --write` from `specs/*.toml` and from the comments in code and tests that name requirements (`RFC 9293 MUST-23`,
`RFC 5961 §3.2-1`: section and a number of ours). `make check` fails (`cargo xtask rfc --check`) when a MUST has no code or no test and no written
reason, when a comment names a requirement that is not in `specs/`, and when this page is not what the tool would write.
";

/// A table for a terminal, with places that can be clicked.
pub fn table(specs: &[Spec], tags: &[Tag], only_holes: bool) -> String {
    let mut text = String::new();
    for spec in specs {
        let rows = rows(spec, tags);
        let shown: Vec<_> = rows
            .iter()
            .filter(|row| !only_holes || row.is_hole())
            .collect();
        if shown.is_empty() {
            continue;
        }
        let _ = writeln!(text, "RFC {}  {}", spec.rfc, spec.title);
        for row in shown {
            table_row(&mut text, row);
        }
        text.push('\n');
    }
    text
}

fn table_row(text: &mut String, row: &Row<'_>) {
    let Requirement {
        id,
        level,
        text: words,
        reason,
        ..
    } = row.requirement;
    let section = row.requirement.section();
    let _ = writeln!(text, "  {id:<12} {:<10} §{section}: {words}", level.name());
    let mut places = |name: &str, tags: &[&Tag]| {
        for tag in tags {
            let item = tag.item.as_deref().unwrap_or_default();
            let _ = writeln!(text, "      {name} {}:{} {item}", tag.file, tag.line);
        }
    };
    places("code", &row.code);
    places("test", &row.tests);
    if let Some(reason) = reason {
        let _ = writeln!(text, "      {} {reason}", standing(row));
    }
}

/// `docs/conformance.md`.
pub fn page(specs: &[Spec], tags: &[Tag]) -> String {
    let mut text = String::from(HEAD);
    text.push_str("\n| RFC | | MUST | SHOULD | deviations | open | not applicable |\n|---|---|---|---|---|---|---|\n");
    for spec in specs {
        summary(&mut text, spec, &rows(spec, tags));
    }
    for spec in specs {
        let _ = write!(
            text,
            "\n## RFC {}: {}\n\n| | level | requirement | code | tests |\n|---|---|---|---|---|\n",
            spec.rfc, spec.title
        );
        for row in rows(spec, tags) {
            page_row(&mut text, &row);
        }
    }
    text
}

/// How many of each kind are met, of how many that apply.
fn summary(text: &mut String, spec: &Spec, rows: &[Row<'_>]) {
    let of = |must: bool| {
        let asked = rows.iter().filter(|row| {
            let level = row.requirement.level;
            level.needs_test() == must
                && level != Level::May
                && row.requirement.status != Status::NotApplicable
        });
        let met = asked
            .clone()
            .filter(|row| !row.is_hole() && row.requirement.status == Status::Done);
        format!("{} of {}", met.count(), asked.count())
    };
    let count = |status| {
        let rows = rows.iter().map(|row| row.requirement.status);
        rows.filter(|&it| it == status).count()
    };
    let _ = writeln!(
        text,
        "| {} | {} | {} | {} | {} | {} | {} |",
        spec.rfc,
        spec.title,
        of(true),
        of(false),
        count(Status::Deviation),
        rows.iter().filter(|row| row.is_hole()).count(),
        count(Status::NotApplicable),
    );
}

fn page_row(text: &mut String, row: &Row<'_>) {
    let Requirement {
        id,
        level,
        text: words,
        reason,
        ..
    } = row.requirement;
    let section = match id.starts_with('§') {
        true => String::new(),
        false => format!(" (§{})", row.requirement.section()),
    };
    let because = reason.as_ref().map_or(String::new(), |reason| {
        format!("<br>*{}: {reason}*", standing(row))
    });
    let _ = writeln!(
        text,
        "| {id}{section} | {} | {words}{because} | {} | {} |",
        level.name(),
        places(&row.code),
        places(&row.tests)
    );
}

fn standing(row: &Row<'_>) -> &'static str {
    match row.requirement.status {
        Status::NotApplicable => "not applicable",
        Status::Deviation => "deviation",
        Status::Open => "open",
        Status::Done => "note",
    }
}

/// Without line numbers, which would change with every edit of a file.
fn places(tags: &[&Tag]) -> String {
    let mut names: Vec<_> = tags
        .iter()
        .map(|tag| {
            let file = tag.file.trim_start_matches("crates/").replace("/src/", "/");
            match &tag.item {
                Some(item) => format!("{file} `{item}`"),
                None => file,
            }
        })
        .collect();
    names.sort();
    names.dedup();
    names.join("<br>")
}
