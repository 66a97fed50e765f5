//! What is wrong with a script.

/// The text is not a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}
