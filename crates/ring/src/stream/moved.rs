//! The stack's end: what was received in one slot goes on in another, whose application is another
//! one.

use crate::sync::Ordering::Relaxed;

use super::config::Limits;
use super::error::StreamError;
use super::homes::Homes;
use super::lane::Reader;
use super::record::Record;
use super::side::Direction;
use super::stack::StackStreams;
use super::status::Status;

/// Bytes copied at a time.
const PIECE: usize = 64 << 10;

impl Homes<'_> {
    /// What both directions of an open slot may hold.
    pub fn limits(&self, slot: u32) -> Option<Limits> {
        let record = open_record(self.0, slot).ok()?;
        Some(Limits {
            recv: record.stack.recv_limit.load(Relaxed),
            send: record.stack.send_limit.load(Relaxed),
        })
    }

    /// Copies all that was received in the slot `from` and not read to the slot `to`, which has
    /// just been reserved: also what came out of order, the urgent mark, and the status. `from` is
    /// as before, and for the caller to close or [abandon](Self::abandon). What was written
    /// there to be sent is for the caller, too.
    ///
    /// The stack has turned to `to` then.
    ///
    /// # Errors
    /// `NotOpen`; `NoMemory`: then `to` may have part of it.
    pub fn copy_received(&mut self, from: u32, to: u32) -> Result<(), StreamError> {
        let streams = &mut *self.0;
        streams.turn_to(from);
        let record = open_record(streams, from)?;
        let unread = record.recv_unread();
        let all = unread.saturating_add(record.stack.recv.placed());
        let status = record.status();
        let mark = mark_ahead(streams, from);
        let mut bytes = vec![0; PIECE.min(all as usize)];
        let mut done = 0;
        streams.turn_to(to);
        while done < all {
            let n = copy_placed(streams, from, all, done, &mut bytes)?;
            streams.write_at(to, done, bytes.get(..n).unwrap_or_default())?;
            done += n as u32;
        }
        open_record(streams, to)?;
        if let Some(offset) = mark {
            streams.mark_urgent(to, offset);
        }
        streams.commit(to, unread);
        // One that was passed is no mark of the new slot.
        let urgent = streams.status(to) & Status::URGENT;
        streams.set_status(to, (status - Status::URGENT) | urgent);
        Ok(())
    }
}

fn open_record(streams: &StackStreams, slot: u32) -> Result<&Record, StreamError> {
    let record = streams.shared.records.record(slot);
    let record = record.ok_or(StreamError::NoSlot)?;
    let open = record.is_open().then_some(record);
    open.ok_or(StreamError::NotOpen)
}

/// Bytes from the first one that was not read up to the urgent one, which was not passed.
fn mark_ahead(streams: &StackStreams, slot: u32) -> Option<u32> {
    let record = open_record(streams, slot).ok()?;
    if !record.status().contains(Status::URGENT) {
        return None;
    }
    let mark = streams.shared.marks.at(slot)?;
    if let Some(seen) = streams.guests.seen_mark(slot) {
        mark.believe(seen);
    }
    mark.ahead(record.recv_head()).mark
}

/// Copies from `offset` on, of the first `all` bytes that were placed; how many, and never none.
fn copy_placed(
    streams: &StackStreams,
    slot: u32,
    all: u32,
    offset: u32,
    into: &mut [u8],
) -> Result<usize, StreamError> {
    let record = open_record(streams, slot)?;
    let memory = match record.is_open_here() {
        true => &streams.shared.recv_memory,
        false => streams
            .guests
            .recv_memory(slot)
            .ok_or(StreamError::NoSlot)?,
    };
    // SAFETY: what was placed lies in the newest block, which only the stack gives back. An
    // application that holds the slot reads it at most, and its head is where the stack knows it.
    let reader = unsafe { Reader::of(Direction::Recv, memory, record) };
    match reader.copy(all, offset, into) {
        0 => Err(StreamError::NoMemory),
        n => Ok(n),
    }
}
