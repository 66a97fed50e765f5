//! The application's end.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use crate::sync::Arc;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::fence;

use super::lane::{self, Reader, Writer};
use super::marks::{Ahead, Mark};
use super::offer;
use super::plan::{HomeMemory, HomePlan, Parts};
use super::record::{Record, Unsent};
use super::shared::Shared;
use super::side::{AT_EASE, Direction, Side};
use super::status::Status;
use super::urgent::Urgent;

/// Two segments of Ethernet: what a sender whose window was closed needs to be told about at once.
const TWO_SEGMENTS: u32 = 2 * 1460;
/// After any of these there is nothing more to be written.
const NO_WRITE: Status = Status::WRITE_CLOSED
    .union(Status::ERROR)
    .union(Status::CLOSED);

/// The application's end of the [streams](super): reads what was received, writes what is to be
/// sent.
///
/// Every call with a slot that does not exist or that the application does not hold is refused: 0,
/// empty or false.
#[derive(Debug)]
pub struct AppStreams {
    shared: Arc<Shared>,
    send: Side,
    /// Slots whose write came up short for lack of memory, in that order.
    starved: VecDeque<u32>,
}

/// The application has been granted the slot and has not released it. Only the application may ask.
#[inline(always)]
fn held(record: &Record) -> bool {
    // Acquire: the slot is as the stack prepared it.
    record.stack.granted.load(Acquire) != record.app.released.load(Relaxed)
}

/// The status, as the stack last set it, of a slot that is held. Bytes committed before that are
/// readable by who asks after it.
#[inline(always)]
fn status(record: &Record) -> Status {
    Status::from_bits_retain(record.stack.status.load(Acquire))
}

/// Most bytes that the send direction may hold now.
#[inline(always)]
fn send_limit(record: &Record) -> u32 {
    let limit = record.stack.send_limit.load(Relaxed);
    match record.unsent() {
        Some(unsent) => unsent.limit().min(limit),
        None => limit,
    }
}

impl AppStreams {
    /// Where the pool for sending lies.
    #[cfg(all(test, not(loom)))]
    pub(super) fn send_place(&self) -> (usize, usize) {
        self.shared.send_memory.place()
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn new(shared: Arc<Shared>, send: Side) -> Self {
        Self {
            shared,
            send,
            starved: VecDeque::new(),
        }
    }

    /// The application's end of streams in memory that the stack's process lent to this one, and
    /// what it said of it. Their slots are numbered from 0 on: see
    /// [`slot_in_home`](super::slot_in_home). No process that is forked has them.
    ///
    /// # Errors
    /// `InvalidInput`: another build made it, or it is not what was said. Otherwise the kernel's.
    pub fn attach(fd: OwnedFd, plan: &HomePlan) -> io::Result<Self> {
        let Parts {
            records,
            marks,
            recv,
            send,
        } = HomeMemory::open(fd, plan)?.parts()?;
        let shared = Shared {
            records,
            marks,
            recv_memory: recv,
            send_memory: send,
            max_limit: plan.max_limit(),
        };
        let send = Side::send(plan.slots, plan.send_pool_bytes as usize, plan.max_buffer)?;
        Ok(Self::new(Arc::new(shared), send))
    }

    #[inline(always)]
    fn held_record(&self, slot: u32) -> Option<&Record> {
        self.shared
            .records
            .record(slot)
            .filter(|record| held(record))
    }

    #[inline(always)]
    fn recv_reader(&self, slot: u32) -> Option<(Reader<'_>, &Record)> {
        let record = self.held_record(slot)?;
        // SAFETY: this is the one `AppStreams` of `shared`, so the consumer of the receive
        // directions of the slots it holds; no pieces of them are ever handed out.
        Some((
            unsafe { Reader::of(Direction::Recv, &self.shared.recv_memory, record) },
            record,
        ))
    }

    /// The producer's view, of a slot that is held or not: the send buffer stays the application's
    /// either way.
    #[inline(always)]
    pub(super) fn send_writer(&mut self, slot: u32) -> Option<(Writer<'_>, &Record)> {
        let record = self.shared.records.record(slot)?;
        // SAFETY: this is the one `AppStreams` of `shared`, so the producer of its send directions,
        // and `send` is its side.
        let writer = unsafe {
            Writer::of(
                Direction::Send,
                &mut self.send,
                &self.shared.send_memory,
                slot,
                record,
            )
        };
        Some((writer, record))
    }

    /// Reads up to `buf.len()` bytes; returns how many. 0 when there are none: see [`Self::at_eof`]
    /// and [`Self::status`] for why. Then ask [`Self::window_update_due`].
    #[inline(always)]
    pub fn read(&mut self, slot: u32, buf: &mut [u8]) -> usize {
        let Some((reader, record)) = self.recv_reader(slot) else {
            return 0;
        };
        let there = note_fullness(record, &reader);
        let there = before_mark(self, slot, record, there);
        let n = reader.copy(there, 0, buf);
        reader.advance(n as u32);
        n
    }

    /// As [`Self::read`], but leaves the bytes there.
    pub fn peek(&self, slot: u32, buf: &mut [u8]) -> usize {
        self.recv_reader(slot).map_or(0, |(reader, record)| {
            let there = before_mark(self, slot, record, reader.len());
            reader.copy(there, 0, buf)
        })
    }

    /// The mark of a slot that is held and has had one, and what is ahead of the reader.
    fn marked(&self, slot: u32) -> Option<(&Mark, Ahead, Reader<'_>)> {
        let (reader, record) = self.recv_reader(slot)?;
        if !status(record).contains(Status::URGENT) {
            return None;
        }
        let mark = self.shared.marks.at(slot)?;
        Some((mark, mark.ahead(reader.head()), reader))
    }

    /// Most bytes that may be read at a time: those before the urgent one.
    #[cold]
    #[inline(never)]
    fn stop(&self, slot: u32) -> u32 {
        match self.marked(slot) {
            Some((_, ahead, _)) if ahead.gap > 0 => 0,
            Some((_, ahead, _)) => ahead.mark.unwrap_or(u32::MAX),
            None => u32::MAX,
        }
    }

    /// The urgent byte of the receive direction.
    pub fn urgent(&self, slot: u32) -> Urgent {
        let marked = self.marked(slot);
        marked.map_or(Urgent::None, |(mark, _, reader)| mark.look(&reader))
    }

    /// The urgent byte was taken apart. It stays in its place until the reader passes that.
    pub fn take_urgent(&mut self, slot: u32) {
        if let Some((mark, ..)) = self.marked(slot) {
            mark.take();
        }
    }

    /// Passes what [`Self::read`] stopped at: the urgent byte, if it is here, which is then read
    /// with the others if it is `inline`, and else not at all. Whether there was anything.
    pub fn pass_mark(&mut self, slot: u32, inline: bool) -> bool {
        let marked = self.marked(slot);
        marked.is_some_and(|(mark, _, reader)| mark.pass(&reader, inline))
    }

    /// [`Self::peek`] at what is behind the place where that stopped.
    pub fn peek_past_mark(&self, slot: u32, inline: bool, buf: &mut [u8]) -> usize {
        let Some((_, ahead, reader)) = self.marked(slot) else {
            return 0;
        };
        reader.copy(reader.len(), ahead.left_out(inline), buf)
    }

    /// Whether the reader stands at the urgent byte: what it reads next came after that.
    pub fn at_mark(&self, slot: u32) -> bool {
        let marked = self.marked(slot);
        marked.is_some_and(|(_, ahead, _)| ahead.mark.is_some_and(|mark| mark == ahead.gap))
    }

    /// Bytes that can be read now before reading stops at the urgent byte, unless that is `inline`.
    pub fn readable_to_mark(&self, slot: u32, inline: bool) -> u32 {
        let all = self.readable(slot);
        match self.marked(slot) {
            Some((_, ahead, _)) if !inline => {
                let to_mark = ahead.mark.filter(|&mark| mark < all).unwrap_or(all);
                to_mark.saturating_sub(ahead.gap)
            }
            _ => all,
        }
    }

    /// Bytes that can be read now, past the urgent byte, which is none of them unless it is
    /// `inline`.
    pub fn readable_past_mark(&self, slot: u32, inline: bool) -> u32 {
        let left_out = self
            .marked(slot)
            .map_or(0, |(_, ahead, _)| ahead.left_out(inline));
        self.readable(slot).saturating_sub(left_out)
    }

    /// Takes up to `n` bytes without copying them; returns how many.
    pub fn skip(&mut self, slot: u32, n: u32) -> u32 {
        self.recv_reader(slot).map_or(0, |(reader, record)| {
            note_fullness(record, &reader);
            reader.advance(n)
        })
    }

    /// Bytes that can be read now.
    #[inline]
    pub fn readable(&self, slot: u32) -> u32 {
        self.recv_reader(slot).map_or(0, |(reader, _)| reader.len())
    }

    /// Asks the processor for the line that the next byte written to the slot goes to, where that
    /// is known: with many connections it has left the cache since another was written there.
    #[inline]
    pub fn prefetch_write(&self, slot: u32) {
        if let Some(record) = self.shared.records.record(slot) {
            lane::prefetch_tail(&record.app.send, &self.shared.send_memory);
        }
    }

    /// The peer's FIN was reached and everything before it was read.
    pub fn at_eof(&self, slot: u32) -> bool {
        // The status first: bytes committed before it was set are visible then.
        self.recv_reader(slot).is_some_and(|(reader, record)| {
            status(record).contains(Status::EOF) && reader.len() == 0
        })
    }

    /// The status, as the stack last set it. Bytes committed before that are readable by who asks
    /// after it.
    #[inline]
    pub fn status(&self, slot: u32) -> Status {
        self.held_record(slot).map_or(Status::empty(), status)
    }

    /// Writes as many of `bytes` as the limit and the pool allow; returns how many. When it comes
    /// up short a wake-up follows, see the [module](super). 0 after `WRITE_CLOSED`, `ERROR` or
    /// `CLOSED`.
    #[inline]
    pub fn write(&mut self, slot: u32, bytes: &[u8]) -> usize {
        let Some((mut writer, record)) = self.send_writer(slot) else {
            return 0;
        };
        if !held(record) || status(record).intersects(NO_WRITE) {
            return 0;
        }
        let limit = send_limit(record);
        let written = writer.append(bytes, limit) as usize;
        if written == bytes.len() {
            return written;
        }
        written + self.write_rest(slot, bytes.get(written..).unwrap_or_default())
    }

    /// Leaves a note that the write came up short, and tries again.
    #[cold]
    #[inline(never)]
    fn write_rest(&mut self, slot: u32, bytes: &[u8]) -> usize {
        let Some((mut writer, record)) = self.send_writer(slot) else {
            return 0;
        };
        record.app.wants_space.store(1, Relaxed);
        // Pairs with the fence in `StackStreams::app_wants_space`: either it sees our note, or we
        // see the head it has moved.
        fence(SeqCst);
        let limit = send_limit(record);
        let written = writer.append(bytes, limit) as usize;
        if written == bytes.len() {
            record.app.wants_space.store(0, Relaxed);
            return written;
        }
        let starves = limit > 0 && writer.used() == 0;
        self.note_starved(slot, starves);
        written
    }

    /// Nothing of the slot is on its way that could be acknowledged, and still there was no room:
    /// the pool is exhausted.
    pub(super) fn note_starved(&mut self, slot: u32, starves: bool) {
        let record = self.shared.records.record(slot);
        if let Some(record) =
            record.filter(|record| starves && record.app.starved.load(Relaxed) == 0)
        {
            record.app.starved.store(1, Relaxed);
            self.starved.push_back(slot);
        }
    }

    /// Bytes that a write would take now, if the pool has the memory; 0 when it surely has not, or
    /// when writes are refused.
    pub fn writable(&self, slot: u32) -> u32 {
        let Some(record) = self.held_record(slot) else {
            return 0;
        };
        if status(record).intersects(NO_WRITE) {
            return 0;
        }
        let head = record.stack.send.head.load(Acquire);
        let used = record.app.send.tail.load(Relaxed).wrapping_sub(head);
        let limit = send_limit(record);
        if record.unsent().is_some_and(Unsent::is_much) {
            0
        } else if self.send.has_room(&record.app.send, used) {
            limit.saturating_sub(used)
        } else {
            0
        }
    }

    /// For who waits for room without having written: asks for a wake-up when there is some, as a
    /// short write does. True when there is room already.
    pub fn want_space(&mut self, slot: u32) -> bool {
        if self.held_record(slot).is_none() || self.writable(slot) > 0 {
            return self.writable(slot) > 0;
        }
        let Some((writer, record)) = self.send_writer(slot) else {
            return false;
        };
        record.app.wants_space.store(1, Relaxed);
        // Pairs with the fence in `StackStreams::app_wants_space`, as in `write_rest`.
        fence(SeqCst);
        let limit = send_limit(record);
        let starves = limit > 0 && writer.used() == 0;
        self.note_starved(slot, starves);
        self.writable(slot) > 0
    }

    /// The index behind the last byte written.
    pub fn written(&self, slot: u32) -> u32 {
        let record = self.held_record(slot);
        record.map_or(0, |record| record.app.send.tail.load(Relaxed))
    }

    /// Bytes written and not yet acknowledged.
    pub fn unsent(&self, slot: u32) -> u32 {
        self.held_record(slot).map_or(0, |record| {
            let head = record.stack.send.head.load(Acquire);
            record.app.send.tail.load(Relaxed).wrapping_sub(head)
        })
    }

    /// Enough was read since this last said so for the peer to be told of the room: a quarter of
    /// the limit, or two segments when the stream was (nearly) full. Tell the stack.
    pub fn window_update_due(&mut self, slot: u32) -> bool {
        let Some(record) = self.held_record(slot) else {
            return false;
        };
        let head = record.app.recv.head.load(Relaxed);
        let read = head.wrapping_sub(record.app.recv_mark.load(Relaxed));
        let quarter = (record.stack.recv_limit.load(Relaxed) / 4).max(1);
        let enough = if record.app.was_full.load(Relaxed) != 0 {
            quarter.min(TWO_SEGMENTS)
        } else {
            quarter
        };
        if read < enough {
            return false;
        }
        record.app.recv_mark.store(head, Relaxed);
        record.app.was_full.store(0, Relaxed);
        true
    }

    /// Gives the send buffers back to the pool as far as they are drained; true when the last one
    /// went. Works on released slots.
    pub fn trim(&mut self, slot: u32) -> bool {
        self.send_writer(slot)
            .is_some_and(|(mut writer, _)| writer.trim(false))
    }

    /// Trims the next `budget` slots that have a send buffer, taking turns; more when there are
    /// more of them than after the last sweep. Returns how many have given theirs back since they
    /// last had a turn.
    pub fn sweep(&mut self, budget: usize) -> usize {
        let before = self.send.attached();
        for _ in 0..self.send.turns(budget) {
            if let Some(slot) = self.send.next_attached(&self.shared.records, 0) {
                self.trim(slot);
                self.send.end_look(&self.shared.records, 0, slot);
            }
        }
        self.send.end_sweep();
        before - self.send.attached()
    }

    /// Gives the kernel back what of the send pool was not used for half a minute, a little at a
    /// time. `now` in milliseconds of any clock; returns when to ask again, in milliseconds from
    /// now.
    #[inline]
    pub fn economize(&mut self, now: u64) -> Option<u64> {
        if self.send.thrift.is_due_to_look(&self.send.ledger, now)? {
            self.sweep(AT_EASE);
        }
        let memory = &self.shared.send_memory;
        self.send
            .thrift
            .economize(&mut self.send.ledger, memory, now)
    }

    /// So many slots have a send buffer that those not in use are worth a sweep when there is
    /// nothing else to do.
    pub fn is_crowded(&self) -> bool {
        self.send.is_crowded()
    }

    /// A slot whose write came up short for lack of pool memory and would not now: tell the
    /// application that it is writable. Ask until `None` before waiting, after [`Self::sweep`].
    /// Looks at each starved slot at most once: those that need a larger block than there is must
    /// not hide one that is content with less.
    pub fn poll_starved(&mut self) -> Option<u32> {
        let mut joined = false;
        for _ in 0..self.starved.len() {
            let slot = self.starved.pop_front()?;
            let (mut writer, record) = self.send_writer(slot)?;
            if !writer.can_grow() && !joined {
                writer.join_kept();
                joined = true;
            }
            let possible = writer.can_grow();
            let held = held(record);
            if held && !possible {
                self.starved.push_back(slot);
                continue;
            }
            record.app.starved.store(0, Relaxed);
            if held {
                return Some(slot);
            }
        }
        None
    }

    /// Whether slots wait for pool memory. Nobody but [`Self::sweep`] and [`Self::trim`] gives any
    /// back, and no event of the stack says when they could: as long as this is so, do not wait for
    /// events alone.
    pub fn is_starved(&self) -> bool {
        !self.starved.is_empty()
    }

    /// The application is done with the slot and can do nothing to it any more, until it is granted
    /// again. What it has written can still be sent. Tell the stack.
    pub fn release(&mut self, slot: u32) {
        self.trim(slot);
        if let Some(record) = self.held_record(slot) {
            let granted = record.stack.granted.load(Relaxed);
            // Release: everything we did to the slot has happened.
            record.app.released.store(granted, Release);
        }
    }

    /// The application takes the connection in a slot that it was told of. False: the stack has
    /// given that to another program, and the slot is to be released.
    #[inline]
    pub fn accept(&mut self, slot: u32) -> bool {
        self.shared.records.record(slot).is_some_and(offer::take)
    }

    /// The stack has given the connection in a slot that the application was told of to another
    /// program.
    #[inline]
    pub fn is_withdrawn(&self, slot: u32) -> bool {
        let record = self.shared.records.record(slot);
        record.is_some_and(offer::is_withdrawn)
    }

    /// The application holds the slot.
    pub fn holds(&self, slot: u32) -> bool {
        self.held_record(slot).is_some()
    }

    /// Bytes of send buffers handed out by the pool.
    pub fn send_bytes_in_use(&self) -> usize {
        self.send.ledger.in_use()
    }

    /// The most [`Self::send_bytes_in_use`] ever was.
    pub fn send_bytes_high_water(&self) -> usize {
        self.send.ledger.high_water()
    }

    /// Bytes of the send pool.
    pub fn send_pool_bytes(&self) -> usize {
        self.send.ledger.bytes()
    }

    /// Number of slots with a send buffer, or with one that was given back and not looked for
    /// since.
    pub fn send_buffers(&self) -> usize {
        self.send.attached()
    }
}

/// Remembers that the stream was within an eighth of its limit when it was read. Returns what is
/// there to be read.
#[inline(always)]
fn note_fullness(record: &Record, reader: &Reader<'_>) -> u32 {
    let limit = record.stack.recv_limit.load(Relaxed);
    let there = reader.len();
    if there >= limit - limit / 8 && limit > 0 {
        record.app.was_full.store(1, Relaxed);
    }
    there
}

/// Of the `there` bytes that are there, those before the urgent byte. The status is looked at after
/// them: the mark was set before they came.
#[inline(always)]
fn before_mark(streams: &AppStreams, slot: u32, record: &Record, there: u32) -> u32 {
    if status(record).contains(Status::URGENT) {
        there.min(streams.stop(slot))
    } else {
        there
    }
}
