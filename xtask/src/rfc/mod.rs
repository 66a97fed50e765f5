//! `cargo xtask rfc`: which requirement of which RFC is obeyed where, and which test shows it.

mod matrix;
mod report;
mod scan;
mod spec;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use scan::Tag;
use spec::Spec;

const PAGE: &str = "docs/conformance.md";

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    only_holes: bool,
    rfc: Option<u32>,
    write: bool,
    check: bool,
}

/// Prints the matrix, writes the page or checks it; fails on holes without a reason.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let request = parse(arguments)?;
    if request.check {
        return check(root);
    }
    let (specs, tags) = load(root)?;
    if request.write {
        fs::write(root.join(PAGE), report::page(&specs, &tags)).context(PAGE)?;
    }
    let problems = matrix::problems(&specs, &tags);
    let shown: Vec<_> = specs
        .into_iter()
        .filter(|spec| request.rfc.is_none_or(|rfc| rfc == spec.rfc))
        .collect();
    if !request.write {
        print!("{}", report::table(&shown, &tags, request.only_holes));
    }
    complain(&problems)
}

/// Fails on holes without a reason, wrong tags, and a page that is not what `--write` would make.
fn check(root: &Path) -> Result<()> {
    let (specs, tags) = load(root)?;
    complain(&matrix::problems(&specs, &tags))?;
    if fs::read_to_string(root.join(PAGE)).unwrap_or_default() != report::page(&specs, &tags) {
        bail!("{PAGE} is stale: run cargo xtask rfc --write");
    }
    let requirements: usize = specs.iter().map(|spec| spec.requirements.len()).sum();
    println!(
        "rfc: {requirements} requirements of {} RFCs, {} places name them",
        specs.len(),
        tags.len()
    );
    Ok(())
}

fn load(root: &Path) -> Result<(Vec<Spec>, Vec<Tag>)> {
    Ok((spec::load(root)?, scan::tags(root)?))
}

fn complain(problems: &[String]) -> Result<()> {
    if !problems.is_empty() {
        bail!("{} problems:\n  {}", problems.len(), problems.join("\n  "));
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Request> {
    let mut request = Request::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--missing" => request.only_holes = true,
            "--write" => request.write = true,
            "--check" => request.check = true,
            "--rfc" => {
                let number = arguments.next().and_then(|number| number.parse().ok());
                request.rfc = Some(number.context("--rfc needs a number")?);
            }
            other => {
                bail!("unknown argument '{other}' of rfc (--missing, --rfc N, --write, --check)")
            }
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    #[test]
    fn arguments() {
        let parse = |line: &str| {
            let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            super::parse(&words)
        };
        let all = parse("--missing --rfc 5961").unwrap();
        assert_eq!(
            (all.only_holes, all.rfc, all.write),
            (true, Some(5961), false)
        );
        assert!(parse("--rfc").is_err());
        assert!(parse("--rfc x").is_err());
        assert!(parse("--what").is_err());
    }
}
