//! The logger of the command, the C library and `mtcp run`: what the stack has to say goes to
//! stderr, one line each.
//!
//! The Rust library installs none: its user has one. Errors and warnings are said once each;
//! `MTCP_LOG`, else `RUST_LOG`, else [`DEFAULT`] say what else is. `MTCP_QUIET=1` says nothing at
//! all.

#![forbid(unsafe_code)]

mod once;

use std::ffi::OsStr;
use std::fmt;
use std::io::Write as _;

use env_filter::{Builder, Filter};
use log::{Level, LevelFilter, Log, Metadata, Record};

use once::{Once, Telling};

/// The environment variable that chooses, in the words of `RUST_LOG`: `debug`, `off`,
/// `warn,io=trace`.
pub const VARIABLE: &str = "MTCP_LOG";
/// What is said where nobody chooses.
pub const DEFAULT: LevelFilter = LevelFilter::Warn;
/// What loads programs into the kernel warns with all that the kernel has to say, pages of it;
/// whoever calls it says in a line what failed.
const VERBOSE: &str = "aya";

/// What Rust programs have for the same.
const COMMON: &str = "RUST_LOG";
/// `1`: nothing is said.
const QUIET: &str = "MTCP_QUIET";
/// Longest line, bytes.
const LONGEST: usize = 2_000;

/// Writes a line, which ends with a newline.
pub type Sink = fn(&[u8]);

#[derive(Debug)]
struct Logger {
    filter: Filter,
    once: Once,
    sink: Sink,
}

/// Installs the logger of this process, unless there is one. `choice` comes before the environment.
///
/// # Errors
/// `choice` is not in the words of `RUST_LOG`; the text says how it is written.
pub fn install(choice: Option<&str>) -> Result<(), String> {
    install_with(choice, write)
}

/// The same, where lines go to `sink` instead of stderr.
///
/// # Errors
/// As [`install`].
pub fn install_with(choice: Option<&str>, sink: Sink) -> Result<(), String> {
    let (filter, misread) = match choice {
        Some(choice) => (parse(choice)?, None),
        None => from_environment(|name| std::env::var_os(name)),
    };
    let level = filter.filter();
    let logger = Logger {
        filter,
        once: Once::new(),
        sink,
    };
    // There is one: somebody else's, or ours, when a library is started again.
    if log::set_boxed_logger(Box::new(logger)).is_ok() {
        log::set_max_level(level);
    }
    if let Some(misread) = misread {
        log::warn!("{misread}");
    }
    Ok(())
}

/// What `text` chooses. What it does not name is as without it.
///
/// # Errors
/// As [`install`].
pub fn parse(text: &str) -> Result<Filter, String> {
    // Of a word alone the filter would think that it is a module.
    let is_level =
        |part: &str| part.trim().is_empty() || part.trim().parse::<LevelFilter>().is_ok();
    let known = text
        .split(',')
        .all(|part| part.contains('=') || is_level(part));
    let filter = known.then(|| read(text)).flatten();
    filter.ok_or_else(|| {
        format!(
            "'{text}' is no level: use off, error, warn, info, debug, trace, or MODULE=LEVEL,..."
        )
    })
}

/// The same, as other programs read it.
fn read(text: &str) -> Option<Filter> {
    let mut builder = Builder::new();
    builder.filter_level(DEFAULT);
    builder.try_parse(text).ok()?;
    Some(builder.build())
}

/// The filter, and what is wrong with the variable that was to choose it.
fn from_environment(
    value: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> (Filter, Option<String>) {
    let of = |level: LevelFilter| {
        let mut builder = Builder::new();
        builder.filter_level(level);
        builder.filter_module(VERBOSE, level.min(LevelFilter::Error));
        builder.build()
    };
    if value(QUIET).is_some_and(|quiet| quiet == OsStr::new("1")) {
        return (of(LevelFilter::Off), None);
    }
    if let Some(text) = value(VARIABLE).filter(|text| !text.is_empty()) {
        return match parse(&text.to_string_lossy()) {
            Ok(filter) => (filter, None),
            Err(error) => (of(DEFAULT), Some(format!("{VARIABLE}: {error}"))),
        };
    }
    // What is wrong with that one is for others to say.
    let common = value(COMMON).and_then(|text| read(&text.to_string_lossy()));
    (common.unwrap_or_else(|| of(DEFAULT)), None)
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.filter.matches(record) {
            return;
        }
        let said = line(record.level(), *record.args());
        // What was asked for is said each time; what was not must not fill a disk.
        let telling = match record.level() {
            Level::Error | Level::Warn => self.once.tell(&said),
            _ => Telling::New,
        };
        match telling {
            Telling::New => (self.sink)(&said),
            Telling::Last => {
                (self.sink)(&said);
                (self.sink)(&line(
                    Level::Warn,
                    format_args!("there were many different warnings: no more are shown"),
                ));
            }
            Telling::Known => {}
        }
    }

    fn flush(&self) {}
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warning",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    }
}

/// One line of at most [`LONGEST`] bytes, whatever is in `text`: names of files and words of peers
/// can be.
fn line(level: Level, text: fmt::Arguments<'_>) -> Vec<u8> {
    let mut said = Vec::with_capacity(160);
    // Writing to memory cannot fail.
    let _ = write!(said, "mtcp: {}: {text}", name(level));
    said.truncate(LONGEST);
    for byte in &mut said {
        if byte.is_ascii_control() {
            *byte = b' ';
        }
    }
    said.push(b'\n');
    said
}

/// In one system call, not through the C library: in the program of `mtcp run` its calls are
/// hooked, and its locks may be held by a thread that `fork` left behind.
fn write(line: &[u8]) {
    // Nobody may be reading.
    let _ = rustix::io::write(rustix::stdio::stderr(), line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn level(variables: &[(&str, &str)]) -> (LevelFilter, Option<String>) {
        let value = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let (filter, misread) = from_environment(value);
        (filter.filter(), misread)
    }

    #[test]
    fn warnings_are_said_where_nobody_chooses() {
        assert_eq!(level(&[]), (LevelFilter::Warn, None));
        assert_eq!(level(&[("MTCP_LOG", "")]), (LevelFilter::Warn, None));
    }

    #[test]
    fn the_nearest_variable_chooses() {
        let both = [("RUST_LOG", "trace"), ("MTCP_LOG", "info")];
        assert_eq!(level(&both).0, LevelFilter::Info);
        assert_eq!(level(&both[..1]).0, LevelFilter::Trace);
        assert_eq!(level(&[("MTCP_LOG", "off")]).0, LevelFilter::Off);
        let quiet = [("MTCP_LOG", "debug"), ("MTCP_QUIET", "1")];
        assert_eq!(level(&quiet).0, LevelFilter::Off);
        assert_eq!(level(&[("MTCP_QUIET", "0")]).0, LevelFilter::Warn);
    }

    #[test]
    fn what_a_program_chooses_for_itself_leaves_our_warnings() {
        let filter = read("myapp=debug,mine").unwrap();
        let warning = Metadata::builder().level(Level::Warn).target("io").build();
        assert!(filter.enabled(&warning));
    }

    #[test]
    fn a_wrong_variable_is_told_and_ours_stays() {
        let (filter, misread) = level(&[("MTCP_LOG", "loud")]);
        assert_eq!(filter, LevelFilter::Warn);
        let misread = misread.unwrap();
        assert!(
            misread.starts_with("MTCP_LOG: 'loud'") && misread.contains("debug"),
            "{misread}"
        );
    }

    #[test]
    fn a_line_is_one_line() {
        let said = line(Level::Warn, format_args!("a\nb\u{1b}[31m"));
        assert_eq!(said, b"mtcp: warning: a b [31m\n");
        let long = "x".repeat(10_000);
        assert_eq!(line(Level::Info, format_args!("{long}")).len(), LONGEST + 1);
    }
}
