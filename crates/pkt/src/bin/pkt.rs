//! Runs script tests in packetdrill's language against the stack.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pkt::{Mode, OPTIONS, Reason, SETTINGS, reasons, run_file, scripts};

const USAGE: &str = "usage: pkt [--ignore-rest] [--quiet] [--dialect=NAME] [--reasons=FILE] FILE|DIR...

Runs each script, and every *.pkt under each folder, against a stack of its own in virtual time.
Exit status: 0 all passed, 1 some failed, 2 wrong usage.

  --ignore-rest  packets after the last expected one are no failure
  --quiet        say nothing of scripts that pass, nor of skipped commands
  --dialect      linux, freebsd: the scripts were written for that stack
  --reasons      a text with tables of why scripts fail: one that fails for a reason there is no failure; implies --quiet, and
                 the numbers in the tables have to be right";

/// What the command line says.
#[derive(Debug, Default)]
struct Arguments {
    mode: Mode,
    quiet: bool,
    help: bool,
    reasons: Option<PathBuf>,
    paths: Vec<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    for argument in std::env::args().skip(1) {
        if let Some(name) = argument.strip_prefix("--dialect=") {
            arguments.mode.dialect = name.parse()?;
            continue;
        }
        if let Some(file) = argument.strip_prefix("--reasons=") {
            arguments.reasons = Some(file.into());
            continue;
        }
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

/// Scripts that fail for each reason, and those that fail for none.
#[derive(Debug)]
struct Account {
    reasons: Vec<(Reason, usize)>,
    passed: usize,
    unexplained: usize,
}

impl Account {
    fn play(&mut self, out: &mut impl Write, folder: &Path, mode: Mode) -> std::io::Result<()> {
        for file in scripts(folder)? {
            let Err(failure) = run_file(&file, mode) else {
                self.passed += 1;
                continue;
            };
            let name = file.strip_prefix(folder).unwrap_or(&file).to_string_lossy();
            let mut reasons = self.reasons.iter_mut();
            match reasons.find(|(reason, _)| reason.covers(&name)) {
                Some((_, scripts)) => *scripts += 1,
                None => {
                    self.unexplained += 1;
                    writeln!(out, "{failure}")?;
                }
            }
        }
        Ok(())
    }

    /// Whether each failure has a reason and the tables are right, as far as they speak of these
    /// scripts.
    fn close(&self, out: &mut impl Write) -> std::io::Result<bool> {
        let mut right = true;
        let mut explained = 0;
        for (reason, scripts) in self.reasons.iter().filter(|(_, scripts)| *scripts > 0) {
            explained += scripts;
            if reason.scripts != *scripts {
                right = false;
                let (why, said) = (&reason.why, reason.scripts);
                writeln!(out, "{scripts} scripts, not {said}, fail for: {why}")?;
            }
        }
        let Self {
            passed,
            unexplained,
            ..
        } = self;
        writeln!(
            out,
            "{passed} passed, {explained} failed for a reason, {unexplained} without one"
        )?;
        Ok(right && *unexplained == 0)
    }
}

fn account(arguments: &Arguments, tables: &Path) -> std::io::Result<bool> {
    let mut out = std::io::stdout().lock();
    let reasons = reasons(&std::fs::read_to_string(tables)?);
    let mut account = Account {
        reasons: reasons.into_iter().map(|reason| (reason, 0)).collect(),
        passed: 0,
        unexplained: 0,
    };
    for folder in &arguments.paths {
        account.play(&mut out, folder, arguments.mode)?;
    }
    account.close(&mut out)
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
    let done = match &arguments.reasons {
        Some(tables) => account(&arguments, tables),
        None => run(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => say(&error.to_string()),
    }
}
