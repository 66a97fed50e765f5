//! Logs: one transaction a line, as a JSON object or as a row of a CSV table, in the order in which
//! they began.

mod json;
mod reader;
mod table;
mod writer;

use std::fmt;

pub use reader::Reader;
pub use writer::Writer;

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// A JSON object a line.
    #[default]
    Json,
    /// A table with a row of names.
    Csv,
}

/// The columns of a table, which are the keys of an object.
const FIELDS: [&str; 10] = [
    "connection",
    "client",
    "start_us",
    "end_us",
    "method",
    "url",
    "request_bytes",
    "response_bytes",
    "keep_alive",
    "chunks",
];

/// A line that is none of a log: where, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError {
    /// Counted from 1.
    pub line: u64,
    /// What is wrong.
    pub cause: String,
    /// What to do.
    pub remedy: String,
}

impl LogError {
    fn new(line: u64, cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            line,
            cause: cause.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.cause, self.remedy)
    }
}

impl std::error::Error for LogError {}

#[cfg(test)]
pub(crate) fn example() -> crate::Transaction {
    use crate::{Chunk, Digest};
    crate::Transaction {
        connection: 3,
        client: [10, 0, 0, 7].into(),
        start_us: 1_500_000,
        end_us: 1_750_000,
        method: "GET".into(),
        url: "http://www.example.org/a,\"b\"?c".into(),
        request_bytes: 0,
        response_bytes: 5000,
        keep_alive: true,
        chunks: vec![
            Chunk::of(b"a", Digest::Sha1),
            Chunk::of(b"b", Digest::Blake3),
        ],
    }
}

#[cfg(test)]
mod tests;
