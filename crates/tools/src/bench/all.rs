//! Everything that `docs/performance.md` has figures of, in one go.

use std::path::Path;

use clap::Parser;
use serde_json::json;

use crate::doctor::capabilities::has_net_admin;
use crate::fail::Failure;
use crate::output;
use crate::signals::Stop;

use super::options::BenchArgs;
use super::report::SUMMARY_HEAD;

/// Command lines over shared memory.
const SHM: &[&str] = &[
    "short --messages 1,8,32,64,128",
    "short --size 1024,8192",
    "short --concurrency 1,32,100,10000,100000",
    "short --mode paired",
    "reset",
    "latency",
    "bulk",
    "cpu",
    "memory --concurrency 10000,100000",
    "fairness",
];
/// Command lines that need privileges.
const VETH: &[&str] = &[
    "short --link afxdp",
    "short --link afxdp --steer",
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

/// What came out, in the forms it is kept in.
#[derive(Default)]
struct Figures {
    summary: String,
    sections: String,
    json: Vec<String>,
}

/// Runs all of it and puts what came out between the marks of `page`, plots and JSON into the
/// directory beside it; whether every run went well.
pub(super) fn run(options: &BenchArgs, page: &Path, stop: &Stop) -> anyhow::Result<bool> {
    // What cannot be written need not be measured.
    let text = std::fs::read_to_string(page).map_err(|error| no_page(page, &error.to_string()))?;
    if replace(&text, "").is_none() {
        return Err(no_page(page, &format!("it has no '{}'", BEGIN.trim())));
    }
    let directory = page.with_extension("");
    std::fs::create_dir_all(&directory).map_err(|error| no_page(page, &error.to_string()))?;
    let mut lines = SHM.to_vec();
    if has_net_admin() {
        lines.extend(VETH);
    }
    let (mut figures, mut well) = (Figures::default(), true);
    for line in lines {
        output::note(&format!("mtcp bench {line}"));
        well &= figures.add(line, options, &directory, stop)?;
        if stop.requested() {
            return Ok(false);
        }
    }
    let json = format!("[\n{}\n]\n", figures.json.join(",\n"));
    let written = std::fs::write(directory.join("figures.json"), json).and_then(|()| {
        let text = replace(&text, &figures.text(&options.command())).unwrap_or(text);
        std::fs::write(page, text)
    });
    written.map_err(|error| no_page(page, &error.to_string()))?;
    Ok(well)
}

impl Figures {
    /// Measures one line of the lists; whether every run of it went well. A line that cannot be
    /// measured here leaves its reason.
    fn add(
        &mut self,
        line: &str,
        options: &BenchArgs,
        directory: &Path,
        stop: &Stop,
    ) -> anyhow::Result<bool> {
        let report = match parse(line, options)?.measure(stop) {
            Ok(report) => report,
            Err(error) => {
                let error = format!("### `mtcp bench {line}`\n\nNot measured: {error:#}\n\n");
                self.sections.push_str(&error);
                return Ok(false);
            }
        };
        let plot = format!("{}.svg", slug(line));
        report.plot(directory, &plot)?;
        let folder = directory.file_name().unwrap_or_default().to_string_lossy();
        let section = report.section(line, &format!("{folder}/{plot}"));
        self.summary.push_str(&report.summary(line));
        self.sections.push_str(&section);
        self.sections.push('\n');
        let object = json!({ "command": format!("mtcp bench {line}"), "result": report.json() });
        self.json.push(object.to_string());
        Ok(report.went_well())
    }

    /// What goes onto the page.
    fn text(&self, command: &str) -> String {
        let machine = crate::machine::description();
        let word = |key| machine[key].to_string().replace('"', "");
        format!(
            "`{command}` on a machine with {} processors ({}), Linux {}.\n\n{SUMMARY_HEAD}{}\n{}",
            word("processors"),
            word("processor"),
            word("kernel"),
            self.summary,
            self.sections
        )
    }
}

/// A command line as the name of a file.
fn slug(line: &str) -> String {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

/// A line of the lists with the pairs, seconds and processors that were asked for.
fn parse(line: &str, options: &BenchArgs) -> anyhow::Result<BenchArgs> {
    let words = std::iter::once("bench").chain(line.split(' '));
    let mut bench = Line::try_parse_from(words)?.bench;
    bench.pairs = options.pairs;
    bench.seconds = options.seconds;
    bench.cores.clone_from(&options.cores);
    bench.kernel_congestion = options.kernel_congestion;
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
    fn every_line_has_a_file_of_its_own() {
        let mut names: Vec<String> = SHM.iter().chain(VETH).map(|line| slug(line)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SHM.len() + VETH.len());
        assert_eq!(slug("short --messages 1,8"), "short-messages-1-8");
    }

    #[test]
    fn everything_runs_for_a_second_each_unless_asked_otherwise() {
        let seconds = |words: &[&str]| {
            let line = Line::try_parse_from([&["bench"], words].concat()).unwrap();
            line.bench.seconds
        };
        assert_eq!(seconds(&["--all"]), 1.0);
        assert_eq!(seconds(&["--all", "--seconds", "3"]), 3.0);
        assert_eq!(seconds(&["short"]), 2.0);
    }

    #[test]
    fn figures_go_between_the_marks() {
        let page = format!("a\n{BEGIN}old\n{END}z\n");
        let written = replace(&page, "new\n").unwrap();
        assert_eq!(written, format!("a\n{BEGIN}\nnew\n{END}z\n"));
        assert_eq!(replace("nothing", "new"), None);
    }
}
