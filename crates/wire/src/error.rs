//! Why a packet could not be parsed.

use std::fmt;

/// Why bytes from the wire were refused. Carries nothing, so that it costs nothing on the way to a
/// drop counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParseError {
    /// The bytes end before the header, or before the length that the header claims.
    Truncated,
    /// A length field contradicts the format or another length.
    BadLength,
    /// The version field is not the one expected.
    BadVersion,
    /// The checksum is wrong or missing where one is required.
    BadChecksum,
    /// A field holds a value that its RFC forbids.
    BadValue,
    /// Well-formed, but a kind that this stack does not speak.
    Unsupported,
    /// More nested headers or options than anything honest sends.
    TooComplex,
}

impl ParseError {
    /// A few words for logs and metrics, without spaces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::BadLength => "bad-length",
            Self::BadVersion => "bad-version",
            Self::BadChecksum => "bad-checksum",
            Self::BadValue => "bad-value",
            Self::Unsupported => "unsupported",
            Self::TooComplex => "too-complex",
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "packet ends early",
            Self::BadLength => "a length field is wrong",
            Self::BadVersion => "wrong version",
            Self::BadChecksum => "wrong checksum",
            Self::BadValue => "a field holds a forbidden value",
            Self::Unsupported => "unsupported packet",
            Self::TooComplex => "too many headers or options",
        })
    }
}

impl std::error::Error for ParseError {}
