//! Command lines as texts.

/// The words of a command line without quotes.
pub(super) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_ascii_whitespace()
}
