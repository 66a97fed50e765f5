//! The names of what arrives of a response.

use crate::content::CHUNK;
use crate::{Chunk, Digest};

/// Bytes of a response that have no name yet, at most a chunk of them, and the names of the rest.
#[derive(Debug, Default)]
pub(super) struct Chunker {
    rest: Vec<u8>,
    names: Vec<Chunk>,
    pub(super) bytes: u64,
}

impl Chunker {
    pub(super) fn take(&mut self, mut bytes: &[u8], digest: Digest) {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = CHUNK - self.rest.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.rest.extend_from_slice(now);
            bytes = later;
            if self.rest.len() == CHUNK {
                self.name(digest);
            }
        }
    }

    fn name(&mut self, digest: Digest) {
        self.names.push(Chunk::of(&self.rest, digest));
        self.rest.clear();
    }

    /// All names.
    pub(super) fn finish(mut self, digest: Digest) -> Vec<Chunk> {
        if !self.rest.is_empty() {
            self.name(digest);
        }
        self.names
    }
}
