//! Runs script tests in packetdrill's language against the stack.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use sim::pkt::{Mode, OPTIONS, SETTINGS, run_file, scripts};

const USAGE: &str = "usage: pkt [--ignore-rest] [--quiet] FILE|DIR...

Runs each script, and every *.pkt under each folder, against a stack of its own in virtual time.
Exit status: 0 all passed, 1 some failed, 2 wrong usage.

  --ignore-rest  packets after the last expected one are no failure
  --quiet        say nothing of scripts that pass, nor of skipped commands";

/// What the command line says.
#[derive(Debug, Default)]
struct Arguments {
    mode: Mode,
    quiet: bool,
    help: bool,
    paths: Vec<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--ignore-rest" => arguments.mode.ignore_rest = true,
            "--quiet" => arguments.quiet = true,
            "--help" | "-h" => arguments.help = true,
            option if option.starts_with('-') => return Err(format!("unknown option {option}")),
            path => arguments.paths.push(path.into()),
        }
    }
    if arguments.paths.is_empty() && !arguments.help {
        return Err("no script named".to_owned());
    }
    Ok(arguments)
}

fn help() -> String {
    let mut text = format!("{USAGE}\n\nOptions in scripts:\n");
    for (name, takes) in OPTIONS {
        text.push_str(&format!("  --{name:<18} {takes}\n"));
    }
    text.push_str("\nSettings of the stack, --define=mtcp_NAME=VALUE:\n");
    for (name, takes, _) in SETTINGS {
        text.push_str(&format!("  {name:<20} {takes}\n"));
    }
    text
}

fn run(arguments: &Arguments) -> std::io::Result<bool> {
    let mut out = std::io::stdout().lock();
    let (mut passed, mut failed) = (0, 0);
    for path in &arguments.paths {
        for file in scripts(path)? {
            match run_file(&file, arguments.mode) {
                Ok(notices) => {
                    passed += 1;
                    if !arguments.quiet {
                        writeln!(out, "{}: ok", file.display())?;
                        notices
                            .iter()
                            .try_for_each(|notice| writeln!(out, "  {notice}"))?;
                    }
                }
                Err(failure) => {
                    failed += 1;
                    writeln!(out, "{failure}")?;
                }
            }
        }
    }
    writeln!(out, "{passed} passed, {failed} failed")?;
    Ok(failed == 0)
}

fn main() -> ExitCode {
    let say = |text: &str| {
        let _ = writeln!(std::io::stderr(), "{text}");
        ExitCode::from(2)
    };
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => return say(&format!("{error}\n{USAGE}")),
    };
    if arguments.help {
        let _ = writeln!(std::io::stdout(), "{}", help());
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => say(&error.to_string()),
    }
}
