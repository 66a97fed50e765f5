//! Everything that `docs/performance.md` has figures of, in one go.

use std::fmt::Write as _;
use std::path::Path;

use clap::Parser;

use crate::doctor::capabilities::has_net_admin;
use crate::fail::Failure;
use crate::signals::Stop;

use super::options::BenchArgs;

/// Command lines over shared memory.
const SHM: &[&str] = &[
    "short --messages 1,8,32,64,128",
    "short --size 1024,8192",
    "short --concurrency 1,100,10000,100000",
    "short --mode paired",
    "reset",
    "latency",
    "bulk",
    "cpu",
    "memory",
    "fairness",
];
/// Command lines that need privileges.
const VETH: &[&str] = &[
    "short --link afxdp",
    "short --link afxdp --client mtcp",
    "bulk --link afxdp",
    "short --link tap",
    "bulk --link tap",
];
/// Around what is replaced.
const BEGIN: &str = "<!-- figures of mtcp bench --all: begin -->\n";
const END: &str = "<!-- figures of mtcp bench --all: end -->\n";

/// One command line of the lists.
#[derive(Parser, Debug)]
struct Line {
    #[command(flatten)]
    bench: BenchArgs,
}

/// Runs all of it and puts what came out between the marks of `page`; whether every run went well.
pub(super) fn run(options: &BenchArgs, page: &Path, stop: &Stop) -> anyhow::Result<bool> {
    // What cannot be written need not be measured.
    let text = std::fs::read_to_string(page).map_err(|error| no_page(page, &error.to_string()))?;
    if replace(&text, "").is_none() {
        return Err(no_page(page, &format!("it has no '{}'", BEGIN.trim())));
    }
    let mut lines = SHM.to_vec();
    if has_net_admin() {
        lines.extend(VETH);
    }
    let (mut figures, mut well) = (String::new(), true);
    for line in lines {
        let bench = parse(line, options)?;
        let report = bench.measure(stop)?;
        well &= report.went_well();
        // Writing to a string cannot fail.
        let _ = writeln!(
            figures,
            "### `mtcp bench {line}`\n\n```\n{}```\n",
            report.text()
        );
        if stop.requested() {
            return Ok(false);
        }
    }
    let machine = crate::machine::description();
    let figures = format!("Machine: {machine}.\n\n{figures}");
    let text = replace(&text, &figures).unwrap_or(text);
    std::fs::write(page, text).map_err(|error| no_page(page, &error.to_string()))?;
    Ok(well)
}

/// A line of the lists with the pairs, seconds and processors that were asked for.
fn parse(line: &str, options: &BenchArgs) -> anyhow::Result<BenchArgs> {
    let words = std::iter::once("bench").chain(line.split(' '));
    let mut bench = Line::try_parse_from(words)?.bench;
    bench.pairs = options.pairs;
    bench.seconds = options.seconds;
    bench.cores.clone_from(&options.cores);
    Ok(bench)
}

/// `text` with `figures` between the marks; `None` without marks.
fn replace(text: &str, figures: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{figures}{END}{after}"))
}

fn no_page(page: &Path, error: &str) -> anyhow::Error {
    Failure::error(
        format!("cannot put figures into '{}': {error}", page.display()),
        "run it in the root of the source tree, or name a page with --into",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_can_be_run() {
        let options = Line::try_parse_from(["bench", "--all", "--pairs", "3"]).unwrap();
        for line in SHM.iter().chain(VETH) {
            let bench = parse(line, &options.bench).unwrap();
            assert_eq!(bench.pairs, 3);
            assert!(!bench.cases().unwrap().is_empty(), "{line}");
        }
    }

    #[test]
    fn figures_go_between_the_marks() {
        let page = format!("a\n{BEGIN}old\n{END}z\n");
        let written = replace(&page, "new\n").unwrap();
        assert_eq!(written, format!("a\n{BEGIN}\nnew\n{END}z\n"));
        assert_eq!(replace("nothing", "new"), None);
    }
}
