//! Why an operation on a stream was refused.

use std::error::Error;
use std::fmt;

/// Why an operation was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamError {
    /// There is no such slot.
    NoSlot,
    /// The application still holds the slot.
    Held,
    /// The slot is not open.
    NotOpen,
    /// The pool is exhausted.
    NoMemory,
    /// More than the slot's limit.
    BeyondLimit,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlot => "no such slot",
            Self::Held => "the application still holds the slot",
            Self::NotOpen => "the slot is not open",
            Self::NoMemory => "no buffer memory left",
            Self::BeyondLimit => "beyond the slot's limit",
        })
    }
}

impl Error for StreamError {}
