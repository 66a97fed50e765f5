//! What commands say: on standard output what they were asked for, on standard error all else.

use std::io::{self, BufWriter, Write};

use crate::fail::Failure;

/// Writes to standard output what the command was asked for.
///
/// # Errors
/// As [`print_with`].
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_with(|out| out.write_all(text.as_bytes()))
}

/// Has `write` write to standard output what the command was asked for. A reader that has seen
/// enough is no failure.
///
/// # Errors
/// Where the output goes has no room.
pub(crate) fn print_with(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::error(
            format!("cannot write: {error}"),
            "make room where the output goes",
        )),
        Ok(()) => Ok(()),
    }
}

/// A line on standard output of a command that goes on whether somebody reads it or not.
pub(crate) fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// A line on standard error, which somebody may have closed.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
