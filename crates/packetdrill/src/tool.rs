//! Running scripts through the tool itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use pkt::{Dialect, ParseError, Settings};

use crate::commands::without_commands;
use crate::flags;

/// A run of the tool takes a fraction of a second; one that hangs is ended, seconds.
const LIMIT: &str = "30";

/// The tool, and the library that it loads.
#[derive(Clone, Debug)]
pub struct Tool {
    program: PathBuf,
    library: PathBuf,
    /// Settings of the stack that hold where a script does not say otherwise, as `NAME=VALUE`.
    pub settings: Vec<String>,
    /// For whom the scripts were written.
    pub dialect: Dialect,
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it says.
    Passed,
    /// Otherwise; in words.
    Failed(String),
}

impl Tool {
    /// The tool at `program`, with the library that was built with this program.
    ///
    /// # Errors
    /// There is no such library, or this program does not know where it is itself.
    pub fn new(program: PathBuf) -> io::Result<Self> {
        let exe = std::env::current_exe()?;
        let name = "libmtcp_packetdrill.so";
        let library = exe.ancestors().skip(1).take(2).map(|dir| dir.join(name));
        let library = library.into_iter().find(|path| path.exists());
        let missing =
            || io::Error::new(io::ErrorKind::NotFound, format!("no {name} beside {exe:?}"));
        Ok(Self {
            program,
            library: library.ok_or_else(missing)?,
            settings: Vec::new(),
            dialect: Dialect::default(),
        })
    }

    /// The library.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Runs a script, without its shell commands; settings of Linux that have a counterpart here
    /// are taken over.
    ///
    /// # Errors
    /// The script cannot be read, or the tool not started.
    pub fn run(&self, script: &Path) -> io::Result<Verdict> {
        let text = fs::read_to_string(script)?;
        let settings = match settings(&text, self.dialect) {
            Ok(settings) => settings,
            Err(error) => return Ok(Verdict::Failed(error.what)),
        };
        let dir = tempfile::tempdir()?;
        let safe = dir.path().join(script.file_name().unwrap_or_default());
        fs::write(
            &safe,
            without_commands(&self.dialect.translate_for_tool(&text)),
        )?;
        let link = settings.link();
        let flags = flags::of_script(&settings, &self.settings);
        let output = Command::new("timeout")
            .arg(LIMIT)
            .arg(&self.program)
            .arg(format!("--local_ip={}", link.local))
            .arg(format!("--remote_ip={}/{}", link.remote, link.prefix_len))
            .arg(format!("--so_flags={flags}"))
            .arg(format!("--so_filename={}", self.library.display()))
            .arg(&safe)
            .env("LD_PRELOAD", &self.library)
            .output()?;
        if output.status.success() {
            return Ok(Verdict::Passed);
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(Verdict::Failed(match output.status.code() {
            Some(124) => format!("did not end: {said}"),
            Some(_) => said,
            None => format!("{}: {said}", output.status),
        }))
    }
}

/// The settings at the beginning of a script, of which our parser need not know the rest.
fn settings(text: &str, dialect: Dialect) -> Result<Settings, ParseError> {
    pkt::settings(text, dialect).or_else(|error| {
        let before = text.split_inclusive('\n').take(error.line - 1);
        pkt::settings(&before.collect::<String>(), dialect)
    })
}

/// What our own runner says of a script.
pub fn ours(script: &Path, dialect: Dialect) -> Verdict {
    let mode = pkt::Mode {
        ignore_rest: true,
        dialect,
    };
    match pkt::run_file(script, mode) {
        Ok(_) => Verdict::Passed,
        Err(failure) => Verdict::Failed(failure.to_string()),
    }
}
