//! Runs scripts through the public tool and through our own runner, and shows where the verdicts
//! differ.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mtcp_packetdrill::tool::{Tool, Verdict, ours};
use pkt::{Dialect, scripts};

const USAGE: &str = "usage: packetdrill-compare [--set=NAME=VALUE]... [--dialect=NAME] TOOL FILE|DIR...

Runs each script, and every *.pkt under each folder, with the packetdrill at TOOL and with our own runner.
--set is a setting of the stack (see `pkt --help`) for the tool, where a script does not say otherwise; --dialect is linux or freebsd:
the scripts were written for that stack.
Exit status: 0 the verdicts are the same, 1 some differ, 2 wrong usage.";

/// Says what each thought, if they differ or both found fault.
fn show(out: &mut impl Write, file: &Path, tool: &Verdict, ours: &Verdict) -> io::Result<()> {
    let name = file.display();
    match (tool, ours) {
        (Verdict::Passed, Verdict::Passed) => writeln!(out, "{name}: both ok"),
        (Verdict::Passed, Verdict::Failed(why)) => writeln!(out, "{name}: ONLY TOOL OK\n  {why}"),
        (Verdict::Failed(why), Verdict::Passed) => writeln!(out, "{name}: ONLY OURS OK\n  {why}"),
        (Verdict::Failed(tool), Verdict::Failed(ours)) => {
            writeln!(out, "{name}: both fail\n  tool: {tool}\n  ours: {ours}")
        }
    }
}

fn compare(tool: &Tool, paths: &[PathBuf]) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let (mut same, mut different) = (0, 0);
    for path in paths {
        for file in scripts(path)? {
            let (by_tool, by_us) = (tool.run(&file)?, ours(&file, tool.dialect));
            let agree = (by_tool == Verdict::Passed) == (by_us == Verdict::Passed);
            *(if agree { &mut same } else { &mut different }) += 1;
            show(&mut out, &file, &by_tool, &by_us)?;
        }
    }
    writeln!(out, "{same} the same, {different} different")?;
    Ok(different == 0)
}

fn main() -> ExitCode {
    let (settings, paths): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    let (dialects, settings): (Vec<String>, Vec<String>) = settings
        .into_iter()
        .partition(|argument| argument.starts_with("--dialect="));
    let dialect: Result<Dialect, String> =
        dialects.last().map_or(Ok(Dialect::default()), |argument| {
            argument.trim_start_matches("--dialect=").parse()
        });
    let settings: Option<Vec<String>> = settings
        .iter()
        .map(|setting| setting.strip_prefix("--set=").map(str::to_owned))
        .collect();
    let mut paths = paths.into_iter().map(PathBuf::from);
    let (Some(settings), Ok(dialect), Some(program)) = (settings, dialect, paths.next()) else {
        let _ = writeln!(io::stderr(), "{USAGE}");
        return ExitCode::from(2);
    };
    let compared = Tool::new(program).and_then(|mut tool| {
        tool.settings = settings;
        tool.dialect = dialect;
        compare(&tool, &paths.collect::<Vec<_>>())
    });
    match compared {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(io::stderr(), "packetdrill-compare: {error}");
            ExitCode::from(2)
        }
    }
}
