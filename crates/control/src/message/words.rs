//! Plain words of a message: little-endian, in order, each checked.

use std::fmt;

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It ends too early.
    Short,
    /// It goes on behind its end.
    Long,
    /// It is none of ours.
    Magic,
    /// It has no such kind, or not in this direction.
    Kind,
    /// A number is out of its range.
    Field,
    /// A text is no printable UTF-8.
    Text,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "a message that is too short",
            Self::Long => "a message that is too long",
            Self::Magic => "a message of another protocol",
            Self::Kind => "a message of a kind that is not known",
            Self::Field => "a message with a number out of range",
            Self::Text => "a message with a text that cannot be printed",
        })
    }
}

/// As much of a text as `most` bytes hold.
pub(super) fn cut(text: &str, most: usize) -> &str {
    let ends = (0..=most.min(text.len())).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

/// Writes words one behind the other.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// A text in a field of `length` bytes, cut to fit, zeros behind it.
    pub(super) fn text(&mut self, text: &str, length: usize) {
        let text = printable(text, length);
        let end = self.bytes.len() + length;
        self.bytes.extend(text.bytes());
        self.bytes.resize(end, 0);
    }

    /// A piece of lines, behind how many bytes it is, which no message holds more of than `most`.
    pub(super) fn piece(&mut self, text: &str, most: usize) {
        let text = text.replace(|char: char| char.is_control() && char != '\n', "?");
        let text = cut(&text, most);
        self.u32(text.len() as u32);
        self.bytes.extend(text.bytes());
    }
}

/// What of `text` a field of `length` bytes can say: one line, whole characters.
pub(super) fn printable(text: &str, length: usize) -> String {
    let mut out = String::new();
    for char in text.chars() {
        let char = if char.is_control() { ' ' } else { char };
        if out.len() + char.len_utf8() > length {
            break;
        }
        out.push(char);
    }
    out
}

/// Reads words one behind the other.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (word, rest) = self.bytes.split_first_chunk().ok_or(Malformed::Short)?;
        self.bytes = rest;
        Ok(*word)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        self.take().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_le_bytes)
    }

    /// A count of at most `most`.
    pub(super) fn count(&mut self, most: usize) -> Result<usize, Malformed> {
        match self.u32() {
            Ok(count) if count as usize <= most => Ok(count as usize),
            Ok(_) => Err(Malformed::Field),
            Err(error) => Err(error),
        }
    }

    /// A text of printable characters in a field of `length` bytes.
    pub(super) fn text(&mut self, length: usize) -> Result<String, Malformed> {
        let (field, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or(Malformed::Short)?;
        self.bytes = rest;
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(length);
        let (text, padding) = field.split_at(end);
        if padding.iter().any(|byte| *byte != 0) {
            return Err(Malformed::Text);
        }
        let text = std::str::from_utf8(text).map_err(|_| Malformed::Text)?;
        if text.chars().any(char::is_control) {
            return Err(Malformed::Text);
        }
        Ok(text.to_owned())
    }

    /// A piece of lines of printable characters, of at most `most` bytes.
    pub(super) fn piece(&mut self, most: usize) -> Result<String, Malformed> {
        let length = self.count(most)?;
        let (text, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or(Malformed::Short)?;
        self.bytes = rest;
        let text = std::str::from_utf8(text).map_err(|_| Malformed::Text)?;
        if text.chars().any(|char| char.is_control() && char != '\n') {
            return Err(Malformed::Text);
        }
        Ok(text.to_owned())
    }

    /// There must be nothing more.
    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(Malformed::Long)
        }
    }
}
