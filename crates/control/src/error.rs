//! Why something cannot be done, in one line.

use std::fmt;

use rustix::io::Errno;

/// Cause and remedy, one line, with the errno that a call would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    cause: String,
    remedy: String,
    errno: Errno,
}

impl Error {
    /// An error of these.
    pub fn new(errno: Errno, cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            cause: cause.into(),
            remedy: remedy.into(),
            errno,
        }
    }

    /// The errno.
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// What is wrong.
    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// What to do about it.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.remedy.is_empty() {
            self.cause.clone()
        } else {
            format!("{}: {}", self.cause, self.remedy)
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        f.write_str(&words.join(" "))
    }
}

impl std::error::Error for Error {}
