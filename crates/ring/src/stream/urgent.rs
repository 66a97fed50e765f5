//! Urgent data: where in the receive stream of a slot the urgent byte is, as Linux understands it
//! (RFC 6093 §2, §3).
//!
//! The mark is kept beside the slot's line, in memory that only slots with urgent data touch. The
//! stack sets it *before* it commits bytes up to it, and says so in the status
//! ([`Status::URGENT`](super::Status)), so that no reader runs past a mark that it has not seen.
//! The byte itself stays in the stream until the reader passes it.

use crate::sync::Ordering::{Acquire, Relaxed, Release};

use super::lane::Reader;
use super::marks::Mark;

/// The urgent byte, as the application finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgent {
    /// There is none, or the reader has passed it.
    None,
    /// The peer has announced one that has not come.
    Announced,
    /// It is here.
    Here(u8),
    /// It was taken apart, and the reader has not passed its place.
    Taken,
}

impl Mark {
    /// By the application: it moves past what is at its head, `inline` bytes that are urgent are
    /// part of the stream. Whether that was anything.
    pub(super) fn pass(&self, reader: &Reader<'_>, inline: bool) -> bool {
        let ahead = self.ahead(reader.head());
        self.skipped.store(self.gap_end.load(Acquire), Relaxed);
        if ahead.gap > 0 && !inline {
            return reader.advance(ahead.gap) > 0;
        }
        let serial = self.serial();
        match ahead.mark {
            Some(0) if reader.len() > 0 => {
                reader.advance(u32::from(!inline));
                self.passed.store(serial, Release);
                true
            }
            Some(_) => ahead.gap > 0,
            None => {
                self.passed.store(serial, Release);
                ahead.gap > 0
            }
        }
    }

    /// By the application: the urgent byte, if there is one.
    pub(super) fn look(&self, reader: &Reader<'_>) -> Urgent {
        let Some(offset) = self.ahead(reader.head()).mark else {
            return Urgent::None;
        };
        if self.serial() == self.taken.load(Relaxed) {
            return Urgent::Taken;
        }
        let mut byte = [0];
        match reader.copy(reader.len(), offset, &mut byte) {
            0 => Urgent::Announced,
            _ => Urgent::Here(byte[0]),
        }
    }
}
