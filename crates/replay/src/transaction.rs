//! One request and its response.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use sha1::Digest as _;

use crate::content;

/// Longest URL, bytes: what a server takes.
const URL_MAX: usize = 4096;
/// Longest method, bytes.
const METHOD_MAX: usize = 32;
/// Longest time of a log and of a transaction in it: a year, in microseconds.
const TIME_MAX: u64 = 365 * 86_400 * 1_000_000;

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The connection that it was on; those of one connection follow each other on it.
    pub connection: u64,
    /// Who asked.
    pub client: IpAddr,
    /// When the request began, microseconds since the log did.
    pub start_us: u64,
    /// When the last byte of the response was there.
    pub end_us: u64,
    /// GET, POST and so on.
    pub method: String,
    /// `http://HOST/PATH`, or `/PATH`.
    pub url: String,
    /// Bytes of the request's body.
    pub request_bytes: u64,
    /// Bytes of the response's body.
    pub response_bytes: u64,
    /// Whether the connection was used again, or could have been.
    pub keep_alive: bool,
    /// The names of each 4 KB of the response's body.
    pub chunks: Vec<Chunk>,
}

impl Transaction {
    /// How long it took, microseconds.
    #[must_use]
    pub fn duration_us(&self) -> u64 {
        self.end_us.saturating_sub(self.start_us)
    }

    /// What the request line asks for: the URL without scheme and host.
    #[must_use]
    pub fn target(&self) -> &str {
        target(&self.url)
    }

    /// The host of the URL, if it names one.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        let rest = self.url.strip_prefix("http://")?;
        Some(rest.split(['/', '?']).next().unwrap_or(rest)).filter(|host| !host.is_empty())
    }

    /// The seeds of the content of its chunks.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + '_ {
        self.chunks.iter().map(Chunk::seed)
    }

    /// What is wrong with it, and what to do about it.
    ///
    /// # Errors
    /// It cannot be replayed.
    pub fn check(&self) -> Result<(), (String, &'static str)> {
        let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let wrong = |cause: String, remedy| Err((cause, remedy));
        if self.end_us < self.start_us {
            return wrong(
                format!(
                    "end_us {} is before start_us {}",
                    self.end_us, self.start_us
                ),
                "a response ends after its request began",
            );
        }
        if self.end_us > TIME_MAX {
            return wrong(
                format!("end_us {} is more than a year", self.end_us),
                "count microseconds since the log began",
            );
        }
        if self.method.is_empty() || self.method.len() > METHOD_MAX || !is_token(&self.method) {
            return wrong(
                format!("method '{}' is none", self.method.escape_default()),
                "write one like GET",
            );
        }
        if self.url.len() > URL_MAX {
            return wrong(
                format!("the URL has {} bytes", self.url.len()),
                "write at most 4096",
            );
        }
        let begins = self.url.starts_with('/') || self.host().is_some();
        if !begins || !printable(&self.url) {
            return wrong(
                format!("'{}' is no URL", self.url.escape_default()),
                "write http://HOST/PATH or /PATH, without spaces",
            );
        }
        let expected = content::chunks(self.response_bytes);
        if self.chunks.len() as u64 != expected {
            return wrong(
                format!(
                    "a response of {} bytes has {expected} chunks of 4096 bytes, and {} are named",
                    self.response_bytes,
                    self.chunks.len()
                ),
                "name each",
            );
        }
        Ok(())
    }
}

/// What a request line asks for of a URL.
fn target(url: &str) -> &str {
    let Some(rest) = url.strip_prefix("http://") else {
        return url;
    };
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// How chunks are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Digest {
    /// As in the paper.
    #[default]
    Sha1,
    /// Faster, and nobody makes two contents with one name.
    Blake3,
}

/// The name of a chunk: a digest of what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chunk {
    /// 40 hexadecimal digits.
    Sha1([u8; 20]),
    /// 64 hexadecimal digits.
    Blake3([u8; 32]),
}

impl Chunk {
    /// The name of `content`.
    #[must_use]
    pub fn of(content: &[u8], digest: Digest) -> Self {
        match digest {
            Digest::Sha1 => Self::Sha1(sha1::Sha1::digest(content).into()),
            Digest::Blake3 => Self::Blake3(*blake3::hash(content).as_bytes()),
        }
    }

    /// What its content is made from: its first eight bytes.
    #[must_use]
    pub fn seed(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.bytes()[..8]);
        u64::from_be_bytes(first)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Sha1(bytes) => bytes,
            Self::Blake3(bytes) => bytes,
        }
    }
}

impl fmt::Display for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (two, byte) in text.chunks_exact_mut(2).zip(self.bytes()) {
            two[0] = DIGITS[usize::from(byte >> 4)];
            two[1] = DIGITS[usize::from(byte & 15)];
        }
        let text = &text[..2 * self.bytes().len()];
        f.write_str(std::str::from_utf8(text).unwrap_or_default())
    }
}

/// The text is no name of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoChunk;

impl FromStr for Chunk {
    type Err = NoChunk;

    fn from_str(text: &str) -> Result<Self, NoChunk> {
        match text.len() {
            40 => digits(text).map(Self::Sha1),
            64 => digits(text).map(Self::Blake3),
            _ => Err(NoChunk),
        }
    }
}

fn digits<const N: usize>(text: &str) -> Result<[u8; N], NoChunk> {
    let mut bytes = [0; N];
    for (byte, two) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(two[0])? << 4 | digit(two[1])?;
    }
    Ok(bytes)
}

fn digit(letter: u8) -> Result<u8, NoChunk> {
    match letter {
        b'0'..=b'9' => Ok(letter - b'0'),
        b'a'..=b'f' => Ok(letter - b'a' + 10),
        b'A'..=b'F' => Ok(letter - b'A' + 10),
        _ => Err(NoChunk),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_digests() {
        let name = Chunk::of(b"abc", Digest::Sha1);
        let text = "a9993e364706816aba3e25717850c26c9cd0d89d";
        assert_eq!(name.to_string(), text);
        assert_eq!(text.parse(), Ok(name));
        assert_eq!(name.seed(), 0xa999_3e36_4706_816a);
        let name = Chunk::of(b"abc", Digest::Blake3);
        let text = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
        assert_eq!(name.to_string(), text);
        assert_eq!(text.to_uppercase().parse(), Ok(name));
        for wrong in ["", "a9", &text[1..], &text.replace('6', "g")] {
            assert_eq!(wrong.parse::<Chunk>(), Err(NoChunk), "{wrong}");
        }
    }

    #[test]
    fn a_url_is_split() {
        let split = |url: &str| {
            let transaction = Transaction {
                url: url.into(),
                ..crate::log::example()
            };
            let host = transaction.host().map(str::to_owned);
            (host, transaction.target().to_owned())
        };
        assert_eq!(split("http://a/b?c"), (Some("a".into()), "/b?c".into()));
        assert_eq!(split("http://a:80"), (Some("a:80".into()), "/".into()));
        assert_eq!(split("/b"), (None, "/b".into()));
        assert_eq!(split("http:///b").0, None);
    }
}
