//! Script tests in packetdrill's language: timed socket calls, packets that arrive, packets that
//! the stack is to send.
//!
//! [`run`] plays a script against a stack of its own, in virtual time: it is the program above the
//! stack and the peer behind the link. The program makes the calls that users make: those of
//! [`mtcp::Context`]. `tests/pkt/README.md` describes the language.

#![forbid(unsafe_code)]

mod args;
mod call;
mod check;
mod code;
mod compose;
pub mod constants;
mod cookie;
mod dialect;
mod error;
mod flows;
mod host;
mod icmp;
mod link;
mod mode;
mod observe;
mod packets;
mod parse;
mod perform;
mod reasons;
mod results;
mod runner;
mod script;
mod settings;
mod show;
mod splice;
mod stage;

use std::fmt;
use std::path::{Path, PathBuf};

pub use call::{Kind, Outcome, Polled, Reply, Watch};
pub use dialect::Dialect;
pub use error::ParseError;
pub use host::{FarEnd, Sent, boot, turn};
pub use link::{Link, OUR_MAC, PEER_MAC};
pub use mode::Mode;
pub use perform::Timeline;
pub use reasons::{Reason, reasons};
pub use settings::{OPTIONS, SETTINGS, Settings, set, small_config};

/// A script failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The script.
    pub file: PathBuf,
    /// Counted from 1; 0 if it could not be read.
    pub line: usize,
    /// What went wrong, maybe over several lines.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// Runs the script in a file. Returns what it said: commands that were skipped.
///
/// # Errors
/// It cannot be read, is no script, or failed.
pub fn run_file(file: &Path, mode: Mode) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| Failure {
        file: file.to_owned(),
        line: 0,
        what: error.to_string(),
    })?;
    run(&text, mode).map_err(|ParseError { line, what }| Failure {
        file: file.to_owned(),
        line,
        what,
    })
}

/// Runs a script.
///
/// # Errors
/// It is no script, or failed.
pub fn run(text: &str, mode: Mode) -> Result<Vec<String>, ParseError> {
    let text = &mode.dialect.translate(text);
    let script = parse::parse(text)?;
    let settings = Settings::new(&script, &mode.dialect.settings(text))?;
    runner::run(script, settings, mode)
}

/// What a script says about its world.
///
/// # Errors
/// It is no script.
pub fn settings(text: &str, dialect: Dialect) -> Result<Settings, ParseError> {
    let text = &dialect.translate(text);
    Settings::new(&parse::parse(text)?, &dialect.settings(text))
}

/// All scripts under `path`, which may be one itself, in order of their names.
///
/// # Errors
/// A folder cannot be read.
pub fn scripts(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(scripts(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
