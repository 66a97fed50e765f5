//! The header of a message, and the builds that it names.

use std::fmt;

use super::words::{Malformed, Reader, Writer, printable};

/// Longest message, bytes.
pub const MESSAGE_MAX: usize = 4096;
/// Descriptors that come with one message at most.
pub const DESCRIPTORS_MAX: usize = 8;
/// The version of the protocol.
pub const VERSION: u16 = 1;

/// Bytes of a header.
pub(super) const HEADER: usize = 24;
/// "mtcp".
const MAGIC: u32 = u32::from_le_bytes(*b"mtcp");
/// Bytes of the text that names a build.
pub(super) const BUILD: usize = 48;

/// Reasons of [`super::Drops`].
pub(super) const DROPS: usize = 8;
/// Words that describe a channel.
pub(super) const CHANNEL_WORDS: usize = 16;
/// Bytes of the name of a program (Linux: TASK_COMM_LEN).
pub(super) const COMMAND: usize = 16;
/// Bytes of a [`super::ClientRow`].
pub(super) const CLIENT_ROW: usize = 8 + 4 * 6 + 8 * 2 + COMMAND;
/// Bytes of a [`super::SocketRow`].
pub(super) const SOCKET_ROW: usize = 4 * 2 + 1 + 2 * 19 + 4 * 2;
/// Bytes of a piece of settings that are no text: place and length.
pub(super) const SETTINGS_HEAD: usize = 8 + 4;

/// Sizes of what depends on the version, for the layout hash.
const LAYOUT: u64 = fnv(&[
    MESSAGE_MAX as u64,
    DESCRIPTORS_MAX as u64,
    HEADER as u64,
    BUILD as u64,
    CLIENT_ROW as u64,
    SOCKET_ROW as u64,
    SETTINGS_HEAD as u64,
    CHANNEL_WORDS as u64,
    DROPS as u64,
]);

/// FNV-1a of words.
const fn fnv(words: &[u64]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < words.len() {
        hash = (hash ^ words[at]).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    hash
}

/// A build of mTCP: its name for people, and a hash of how it lays out what both ends share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    name: String,
    layout: u64,
}

impl Build {
    /// The build that calls itself `name`, whose shared memory has the layout of this hash.
    pub fn new(name: &str, shared_memory: u64) -> Self {
        Self {
            name: printable(name, BUILD),
            layout: fnv(&[LAYOUT, shared_memory]),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mTCP {}", self.name)
    }
}

/// A message whose header was checked and whose body was not.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    version: u16,
    pub(super) kind: u16,
    layout: u64,
    pub(super) body: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// It is no message of ours, or its length is not what it says.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u32()? != MAGIC {
            return Err(Malformed::Magic);
        }
        let (version, kind, layout) = (reader.u16()?, reader.u16()?, reader.u64()?);
        let (length, reserved) = (reader.u32()? as usize, reader.u32()?);
        if reserved != 0 {
            return Err(Malformed::Field);
        }
        let body = bytes.get(HEADER..).ok_or(Malformed::Short)?;
        match body.len().cmp(&length) {
            std::cmp::Ordering::Less => Err(Malformed::Short),
            std::cmp::Ordering::Greater => Err(Malformed::Long),
            std::cmp::Ordering::Equal => Ok(Self {
                version,
                kind,
                layout,
                body,
            }),
        }
    }

    /// Whether the sender speaks as `build` does.
    pub fn fits(&self, build: &Build) -> bool {
        self.version == VERSION && self.layout == build.layout
    }
}

/// Puts a header in front of `body`.
pub(super) fn seal(build: &Build, kind: u16, body: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u32(MAGIC);
    writer.u16(VERSION);
    writer.u16(kind);
    writer.u64(build.layout);
    writer.u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
    writer.u32(0);
    writer.bytes.extend(body);
    writer.bytes
}
