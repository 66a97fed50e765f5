//! Logs as files, and how far a command is with one.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use replay::Transaction;
use replay::log::{Format, LogError, Reader, Writer};

use crate::fail::Failure;

/// Bytes between a file and us.
const BUFFER: usize = 256 * 1024;
/// The progress is drawn at every so-manieth transaction.
const STEP: u64 = 1024;

/// A log that is read, and its name.
pub(super) struct Log {
    reader: Reader<BufReader<Box<dyn Read>>>,
    path: PathBuf,
}

impl Log {
    /// Opens a file; `-` is standard input.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let input: Box<dyn Read> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            let file = File::open(path).map_err(|error| {
                Failure::error(
                    format!("cannot read '{}': {error}", path.display()),
                    "name a log, or make one with 'mtcp replay make'",
                )
            })?;
            Box::new(file)
        };
        Ok(Self {
            reader: Reader::new(BufReader::with_capacity(BUFFER, input)),
            path: path.to_owned(),
        })
    }

    /// The next transaction; `None` at the end.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Transaction>> {
        let next = self.reader.next_transaction();
        next.map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &LogError) -> anyhow::Error {
        let at = format!("{}:{}", self.path.display(), error.line);
        Failure::error(format!("{at}: {}", error.cause), error.remedy.clone())
    }
}

/// A log that is written.
pub(super) struct NewLog {
    writer: Writer<BufWriter<Box<dyn Write>>>,
    path: Option<PathBuf>,
}

impl NewLog {
    /// Creates a file, whose format its name says, or writes to standard output.
    pub(super) fn create(path: Option<&Path>, format: Option<Format>) -> anyhow::Result<Self> {
        let output: Box<dyn Write> = match path {
            None => Box::new(io::stdout()),
            Some(path) => {
                Box::new(File::create(path).map_err(|error| failure(Some(path), &error))?)
            }
        };
        let named = path.and_then(Path::extension).map(|end| {
            if end.eq_ignore_ascii_case("csv") {
                Format::Csv
            } else {
                Format::Json
            }
        });
        let format = format.or(named).unwrap_or_default();
        Ok(Self {
            writer: Writer::new(BufWriter::with_capacity(BUFFER, output), format),
            path: path.map(Path::to_owned),
        })
    }

    /// Writes one more.
    pub(super) fn write(&mut self, transaction: &Transaction) -> anyhow::Result<()> {
        let written = self.writer.write(transaction);
        written.map_err(|error| failure(self.path.as_deref(), &error))
    }

    /// Writes what is left.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let finished = self.writer.finish();
        finished.map_err(|error| failure(self.path.as_deref(), &error))?;
        Ok(())
    }
}

fn failure(path: Option<&Path>, error: &io::Error) -> anyhow::Error {
    let name = path.map_or_else(
        || "standard output".to_owned(),
        |path| format!("'{}'", path.display()),
    );
    Failure::error(
        format!("cannot write {name}: {error}"),
        "choose another --out FILE",
    )
}

/// A line on a terminal that says how far it is; nothing elsewhere.
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Of so many transactions, if that is known.
    pub(super) fn new(total: Option<u64>) -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(10));
        let template = match total {
            Some(_) => "{wide_bar} {percent:>3}% {human_pos} transactions, {eta} left",
            None => "{spinner} {human_pos} transactions",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(Some(bar))
    }

    /// So many are done.
    pub(super) fn show(&self, done: u64) {
        if let Some(bar) = self.0.as_ref().filter(|_| done.is_multiple_of(STEP)) {
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
