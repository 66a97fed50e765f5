//! What a process that is gone had written and not got acknowledged.
//!
//! It may have ended between any two instructions: nothing that is read here is trusted. The
//! protocol of a lane helps: bytes are in their place before the tail that covers them, and a
//! larger buffer holds all of them before it takes the place of the one before.

use std::io;
use std::mem::offset_of;

use crate::pool::{Block, pool_bytes};
use crate::region::Plot;

use super::config::StreamsConfig;
use super::record::Record;

const PAGE: usize = 4096;
const RECORD: usize = size_of::<Record>();

/// Of streams that were made in a plot, what is left in it; see the [module](super).
#[derive(Debug)]
pub struct Remains<'a> {
    plot: &'a Plot,
    slots: u32,
    /// Where the send buffers begin, and how many bytes they have.
    memory: usize,
    bytes: usize,
}

/// What is left of the send direction of a slot.
#[derive(Debug)]
pub struct LeftUnsent {
    /// The index of the first byte that was not acknowledged.
    pub head: u32,
    /// Bytes from there on.
    pub len: u32,
    /// Something received was not read.
    pub unread: bool,
    block: Option<Block>,
}

impl<'a> Remains<'a> {
    /// Where what is read here lies in memory: another build may have it elsewhere.
    pub const LAYOUT: [usize; 7] = [
        RECORD,
        offset_of!(Record, stack.send.head),
        offset_of!(Record, stack.recv.tail),
        offset_of!(Record, stack.open),
        offset_of!(Record, app.send.tail),
        offset_of!(Record, app.send.buffer),
        offset_of!(Record, app.recv.head),
    ];

    /// Bytes of a plot that such streams take, in whole pages.
    ///
    /// # Errors
    /// The pool is too large.
    pub fn size(config: &StreamsConfig) -> io::Result<usize> {
        let pool = pool_bytes(config.send_pool_bytes)?.next_multiple_of(PAGE);
        Ok(records_bytes(config.slots) + pool)
    }

    /// Of streams of this `config`, which were the first thing that was made in `plot`.
    ///
    /// # Errors
    /// The pool is too large.
    pub fn new(plot: &'a Plot, config: &StreamsConfig) -> io::Result<Self> {
        Ok(Self {
            plot,
            slots: config.slots,
            memory: records_bytes(config.slots),
            bytes: pool_bytes(config.send_pool_bytes)?,
        })
    }

    /// What is left of a slot; `None`: nothing, or it is in disorder.
    pub fn of(&self, slot: u32) -> Option<LeftUnsent> {
        let mut record = [0; RECORD];
        let at = slot as usize * RECORD;
        if slot >= self.slots || !self.plot.read_at(at, &mut record) {
            return None;
        }
        let byte = |at: usize| record.get(at).copied();
        let word = |at: usize| {
            let bytes = record.get(at..)?.first_chunk()?;
            Some(u32::from_ne_bytes(*bytes))
        };
        let head = word(offset_of!(Record, stack.send.head))?;
        let len = word(offset_of!(Record, app.send.tail))?.wrapping_sub(head);
        let block = Block::from_descriptor(word(offset_of!(Record, app.send.buffer))?);
        let received = word(offset_of!(Record, stack.recv.tail))?;
        let is_open = byte(offset_of!(Record, stack.open))? != 0;
        let is_whole = block
            .as_ref()
            .map_or(len == 0, |block| self.holds(block, len));
        (is_open && is_whole).then_some(LeftUnsent {
            head,
            len,
            unread: received != word(offset_of!(Record, app.recv.head))?,
            block,
        })
    }

    /// Whether it is a block of the pool, and large enough.
    fn holds(&self, block: &Block, len: u32) -> bool {
        let capacity = block.capacity();
        let end = block.offset().checked_add(capacity as usize);
        len <= capacity && end.is_some_and(|end| end <= self.bytes)
    }

    /// Copies the bytes from index `from` on. False: they are not all there.
    pub fn copy(&self, unsent: &LeftUnsent, from: u32, into: &mut [u8]) -> bool {
        let skipped = from.wrapping_sub(unsent.head);
        let left = unsent.len.checked_sub(skipped);
        if left.is_none_or(|left| (left as usize) < into.len()) {
            return false;
        }
        let Some(block) = &unsent.block else {
            return into.is_empty();
        };
        let within = (from & (block.capacity() - 1)) as usize;
        let straight = into.len().min(block.capacity() as usize - within);
        let (one, two) = into.split_at_mut(straight);
        let at = self.memory + block.offset();
        self.plot.read_at(at + within, one) && self.plot.read_at(at, two)
    }
}

fn records_bytes(slots: u32) -> usize {
    (slots as usize * RECORD).max(1).next_multiple_of(PAGE)
}
