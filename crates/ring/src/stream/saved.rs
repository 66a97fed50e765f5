//! Streams of the first home on their way to another process, which goes on with them.
//!
//! The bytes travel, too: whoever has both ends of streams in memory of its own takes that memory
//! along when it ends.

use crate::sync::Arc;
use crate::sync::Ordering::Relaxed;

use super::app::AppStreams;
use super::config::Limits;
use super::error::StreamError;
use super::lane::{Reader, Writer};
use super::record::Record;
use super::side::Direction;
use super::stack::StackStreams;

/// Both directions of one slot. Buffers are not in it: the next owner attaches its own.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct SavedStream {
    slot: u32,
    recv_head: u32,
    /// Bytes of `received` that the application may read. The others lie behind a hole.
    unread: u32,
    received: Vec<u8>,
    send_head: u32,
    written: Vec<u8>,
    recv_limit: u32,
    send_limit: u32,
    sent: u32,
    unsent_low_water: u32,
    status: u32,
    granted: u8,
    released: u8,
    recv_mark: u32,
    was_full: u8,
    is_starved: bool,
    wants_space: u8,
    /// The words of the mark of urgent data.
    mark: [u32; 7],
}

/// Copies what is in `slot` of the first home. The application's end is borrowed, so that nobody
/// reads or writes meanwhile. `None`: there is no such slot, or it is not open, or the ends do not
/// belong to each other.
pub fn save_stream(stack: &StackStreams, app: &mut AppStreams, slot: u32) -> Option<SavedStream> {
    let record = stack.shared.records.record(slot)?;
    if !Arc::ptr_eq(&stack.shared, app.shared()) || !record.is_open_here() {
        return None;
    }
    let mark = stack.shared.marks.at(slot)?;
    let Record { stack: own, app } = record;
    let unread = record.recv_unread();
    Some(SavedStream {
        slot,
        recv_head: app.recv.head.load(Relaxed),
        unread,
        received: copy(
            stack,
            record,
            Direction::Recv,
            unread.wrapping_add(own.recv.placed()),
        ),
        send_head: own.send.head.load(Relaxed),
        written: copy(stack, record, Direction::Send, record.send_len()),
        recv_limit: own.recv_limit.load(Relaxed),
        send_limit: own.send_limit.load(Relaxed),
        sent: own.sent.load(Relaxed),
        unsent_low_water: own.unsent_low_water.load(Relaxed),
        status: own.status.load(Relaxed),
        granted: own.granted.load(Relaxed),
        released: app.released.load(Relaxed),
        recv_mark: app.recv_mark.load(Relaxed),
        was_full: app.was_full.load(Relaxed),
        is_starved: app.starved.load(Relaxed) != 0,
        wants_space: app.wants_space.load(Relaxed),
        mark: mark.words(),
    })
}

/// `len` bytes from the consumer's head on.
fn copy(stack: &StackStreams, record: &Record, direction: Direction, len: u32) -> Vec<u8> {
    let memory = match direction {
        Direction::Recv => &stack.shared.recv_memory,
        Direction::Send => &stack.shared.send_memory,
    };
    // SAFETY: both ends are borrowed by `save_stream`, which is the only caller, so this is the
    // only consumer of either direction.
    let reader = unsafe { Reader::of(direction, memory, record) };
    let mut bytes = vec![0; len as usize];
    let copied = reader.copy(len, 0, &mut bytes);
    bytes.truncate(copied);
    bytes
}

/// Puts each of `saved` into its slot, where nothing is open yet. Both ends are not to be used if
/// it fails.
///
/// # Errors
/// `NoSlot`: there is no such slot; `Held`: something is in it; `BeyondLimit`: it contradicts
/// itself; `NoMemory`: a pool is smaller than the one before.
pub fn restore_streams(
    stack: &mut StackStreams,
    app: &mut AppStreams,
    saved: &[SavedStream],
) -> Result<(), StreamError> {
    if !Arc::ptr_eq(&stack.shared, app.shared()) {
        return Err(StreamError::NoSlot);
    }
    for one in saved {
        begin(stack, one)?;
    }
    // The largest buffers first: what is then left of a pool is in one piece as far as it can be.
    let mut by_size: Vec<&SavedStream> = saved.iter().collect();
    by_size.sort_by_key(|one| std::cmp::Reverse(one.received.len()));
    for one in &by_size {
        let (mut writer, record) = stack.recv_writer(one.slot).ok_or(StreamError::NotOpen)?;
        writer.place(0, &one.received, u32::MAX)?;
        record.stack.recv.commit(one.unread);
    }
    by_size.sort_by_key(|one| std::cmp::Reverse(one.written.len()));
    for one in &by_size {
        let (mut writer, record): (Writer<'_>, _) =
            app.send_writer(one.slot).ok_or(StreamError::NotOpen)?;
        writer.place(0, &one.written, u32::MAX)?;
        let len = u32::try_from(one.written.len()).unwrap_or(u32::MAX);
        record.app.send.commit(len);
    }
    for one in saved {
        finish(stack, app, one)?;
    }
    Ok(())
}

/// Opens the slot, with indices that stand where they stood.
fn begin(stack: &mut StackStreams, saved: &SavedStream) -> Result<(), StreamError> {
    let slot = saved.slot;
    if slot >= stack.slots {
        return Err(StreamError::NoSlot);
    }
    if saved.unread as usize > saved.received.len() {
        return Err(StreamError::BeyondLimit);
    }
    let record = stack.shared.records.record(slot);
    if record.is_none_or(Record::is_open) {
        return Err(StreamError::Held);
    }
    let limits = Limits {
        recv: saved.recv_limit,
        send: saved.send_limit,
    };
    stack.reserve(slot, limits)?;
    let record = stack.shared.records.record(slot);
    let Record { stack: own, app } = record.ok_or(StreamError::NoSlot)?;
    for word in [&app.recv.head, &own.recv.tail, &own.recv.high] {
        word.store(saved.recv_head, Relaxed);
    }
    for word in [&own.send.head, &app.send.tail, &app.send.high] {
        word.store(saved.send_head, Relaxed);
    }
    Ok(())
}

/// What else its words say.
fn finish(
    stack: &StackStreams,
    app: &mut AppStreams,
    saved: &SavedStream,
) -> Result<(), StreamError> {
    let shared = &stack.shared;
    let record = shared.records.record(saved.slot);
    let record = record.ok_or(StreamError::NoSlot)?;
    let (own, its) = (&record.stack, &record.app);
    own.sent.store(saved.sent, Relaxed);
    own.unsent_low_water.store(saved.unsent_low_water, Relaxed);
    own.status.store(saved.status, Relaxed);
    own.granted.store(saved.granted, Relaxed);
    its.released.store(saved.released, Relaxed);
    its.recv_mark.store(saved.recv_mark, Relaxed);
    its.was_full.store(saved.was_full, Relaxed);
    its.wants_space.store(saved.wants_space, Relaxed);
    let mark = shared.marks.at(saved.slot).ok_or(StreamError::NoSlot)?;
    mark.set_words(&saved.mark);
    app.note_starved(saved.slot, saved.is_starved);
    Ok(())
}
