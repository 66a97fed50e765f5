//! Errors that say what failed and what to do.

use std::fmt::Display;
use std::io;

/// `cause` as an error of the same kind that starts with `what`.
pub(crate) fn error(what: impl Display, cause: impl Into<io::Error>) -> io::Error {
    let cause = cause.into();
    io::Error::new(cause.kind(), format!("{what}: {cause}"))
}

/// A caller's mistake.
pub(crate) fn invalid(what: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.to_string())
}

/// Words that the other side should not have sent.
pub(crate) fn corrupt(what: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}
