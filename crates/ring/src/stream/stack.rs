//! The stack's end.

use crate::pool::Block;
use crate::sync::Arc;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::fence;

use super::config::{Limits, PoolUse};
use super::error::StreamError;
use super::guests::Guests;
use super::lane::{Reader, Writer};
use super::offer::offer;
use super::pieces::Pieces;
use super::record::{OPEN, OPEN_ELSEWHERE, Record, held};
use super::shared::Shared;
use super::side::{AT_EASE, Direction, Side};
use super::status::Status;

/// The stack's end of the [streams](super): writes what was received, reads what is to be sent.
///
/// Every call with a slot that does not exist or is not open is refused: an error, 0, empty or
/// false.
///
/// # Homes
/// The slots from 0 on are those of the application in this process. Streams of another process
/// lie in a [home](super::Homes::add) of their own, with slots of higher numbers. Before the stack
/// looks at one of those it [turns to](Self::turn_to) it, and what it changed is shown to the
/// program when it turns to the next, or by [`Self::show`]: before it tells of it.
#[derive(Debug)]
pub struct StackStreams {
    pub(super) shared: Arc<Shared>,
    recv: Side,
    /// Of the application in this process.
    pub(super) slots: u32,
    pub(super) guests: Guests,
}

/// Ends the life of a slot that is open; see [`StackStreams::close`].
#[inline(always)]
pub(super) fn close(mut writer: Writer<'_>, record: &Record) -> bool {
    if held(record) {
        return false;
    }
    // The application does not hold the slot: its receive head is ours, and it reads no byte.
    let tail = record.stack.recv.tail.load(Relaxed);
    record.app.recv.head.store(tail, Relaxed);
    writer.trim(false);
    let unsent = record.app.send.tail.load(Acquire);
    record.stack.send.head.store(unsent, Release);
    record.stack.open.store(0, Relaxed);
    true
}

impl StackStreams {
    pub(super) fn new(shared: Arc<Shared>, recv: Side, slots: u32) -> Self {
        Self {
            recv,
            slots,
            guests: Guests::new(slots, shared.records.len()),
            shared,
        }
    }

    #[inline(always)]
    fn open_record(&self, slot: u32) -> Option<&Record> {
        let record = self.shared.records.record(slot)?;
        debug_assert!(
            slot < self.slots || self.guests.is_current(slot),
            "the stack has not turned to slot {slot}"
        );
        record.is_open().then_some(record)
    }

    #[inline(always)]
    fn send_reader(&self, slot: u32) -> Option<Reader<'_>> {
        let record = self.open_record(slot)?;
        let memory = if record.is_open_here() {
            &self.shared.send_memory
        } else {
            self.guests.send_memory(slot)?
        };
        // SAFETY: this is the one stack's end of these streams, so the consumer of their send
        // directions; the head is only moved in methods that take `&mut self`, while pieces borrow
        // from `&self`.
        Some(unsafe { Reader::of(Direction::Send, memory, record) })
    }

    /// Of a slot of the application in this process.
    #[inline(always)]
    pub(super) fn recv_writer(&mut self, slot: u32) -> Option<(Writer<'_>, &Record)> {
        let record = self.shared.records.record(slot)?;
        if !record.is_open_here() {
            return None;
        }
        // SAFETY: this is the one stack's end of these streams, so the producer of their receive
        // directions, and `recv` is its side.
        let writer = unsafe {
            Writer::of(
                Direction::Recv,
                &mut self.recv,
                &self.shared.recv_memory,
                slot,
                record,
            )
        };
        Some((writer, record))
    }

    /// Opens a slot and gives it to the application at once: [`Self::reserve`] and [`Self::grant`].
    ///
    /// # Errors
    /// `NoSlot`; `Held`: the application has not released it from its life before.
    pub fn open(&mut self, slot: u32, limits: Limits) -> Result<(), StreamError> {
        self.reserve(slot, limits)?;
        self.grant(slot)
    }

    /// Opens a slot without giving it to the application yet: for a connection that may end before
    /// anyone accepts it. All other operations work. An open slot that the application does not
    /// hold is closed first.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn reserve(&mut self, slot: u32, limits: Limits) -> Result<(), StreamError> {
        if slot >= self.slots {
            self.prepare_elsewhere(slot)?;
        }
        let record = self
            .shared
            .records
            .record(slot)
            .ok_or(StreamError::NoSlot)?;
        if held(record) {
            return Err(StreamError::Held);
        }
        if record.is_open() {
            self.close(slot);
        }
        let Shared {
            records, max_limit, ..
        } = &*self.shared;
        let record = records.record(slot).ok_or(StreamError::NoSlot)?;
        let (stack, app) = (&record.stack, &record.app);
        // The application does not hold the slot: these words of its line are ours until `grant`.
        app.recv_mark.store(app.recv.head.load(Relaxed), Relaxed);
        app.was_full.store(0, Relaxed);
        app.wants_space.store(0, Relaxed);
        // What was written in the life before is not to be sent in this one.
        stack.send.head.store(app.send.tail.load(Acquire), Release);
        stack.unsent_low_water.store(u32::MAX, Relaxed);
        stack.status.store(0, Relaxed);
        let open = if slot < self.slots {
            OPEN
        } else {
            OPEN_ELSEWHERE
        };
        stack.open.store(open, Relaxed);
        stack.recv_limit.store(limits.recv.min(*max_limit), Relaxed);
        stack.send_limit.store(limits.send.min(*max_limit), Relaxed);
        Ok(())
    }

    /// Gives a reserved slot to the application (its connection is accepted). Tell the application
    /// after this.
    ///
    /// # Errors
    /// `NoSlot`; `NotOpen`; `Held`: it was granted before.
    pub fn grant(&mut self, slot: u32) -> Result<(), StreamError> {
        let record = self
            .shared
            .records
            .record(slot)
            .ok_or(StreamError::NoSlot)?;
        if record.stack.open.load(Relaxed) == 0 {
            return Err(StreamError::NotOpen);
        }
        if held(record) {
            return Err(StreamError::Held);
        }
        if slot >= self.slots {
            // What is the stack's until now, the application finds.
            self.show_slot(slot);
            if let Some(seen) = self.guests.seen(slot) {
                offer(seen);
            }
        }
        let granted = record.stack.granted.load(Relaxed);
        // Release: the application finds the slot as we have prepared it.
        record.stack.granted.store(granted.wrapping_add(1), Release);
        Ok(())
    }

    /// Ends a slot's life: discards what was not read and what was not acknowledged, and gives the
    /// receive buffers back. (The send buffer goes back with the application's next sweep.) False,
    /// and nothing done, while the application holds the slot.
    pub fn close(&mut self, slot: u32) -> bool {
        if slot >= self.slots {
            return self.close_elsewhere(slot);
        }
        self.recv_writer(slot)
            .is_some_and(|(writer, record)| close(writer, record))
    }

    /// The application does not hold the slot: it released it, or was never granted it.
    pub fn app_released(&self, slot: u32) -> bool {
        self.shared
            .records
            .record(slot)
            .is_some_and(|record| !held(record))
    }

    /// Places received bytes `offset` after those committed. They may leave a hole, and may
    /// overwrite what is not committed.
    ///
    /// # Errors
    /// `NoSlot`; `NotOpen`; `BeyondLimit`: unread, offset and bytes together are more than the
    /// limit; `NoMemory`. Nothing is written then: drop the segment, it will be sent again.
    #[inline]
    pub fn write_at(&mut self, slot: u32, offset: u32, bytes: &[u8]) -> Result<(), StreamError> {
        let Some((mut writer, record)) = self.recv_writer(slot) else {
            return self.write_elsewhere(slot, offset, bytes);
        };
        let limit = record.stack.recv_limit.load(Relaxed);
        writer.place(offset, bytes, limit)
    }

    /// Makes the next `n` bytes readable for the application: they are in order, without a hole. At
    /// most what was placed.
    #[inline]
    pub fn commit(&mut self, slot: u32, n: u32) {
        if let Some(record) = self.open_record(slot) {
            record.stack.recv.commit(n);
        }
    }

    /// The byte `offset` after those committed is urgent. Returns whether that is news: false if
    /// one that the application has not passed lies there or behind. Before that byte is committed,
    /// so that no reader misses it.
    pub fn mark_urgent(&mut self, slot: u32, offset: u32) -> bool {
        let (Some(record), Some(mark)) = (self.open_record(slot), self.shared.marks.at(slot))
        else {
            return false;
        };
        let seen = self.guests.seen_mark(slot);
        if let Some(seen) = seen {
            mark.believe(seen);
        }
        let status = &record.stack.status;
        let is_first = status.load(Relaxed) & Status::URGENT.bits() == 0;
        if is_first {
            // From the life before. The application does not look before the status says so.
            mark.clear();
        }
        let tail = record.stack.recv.tail.load(Relaxed);
        let head = record.app.recv.head.load(Acquire);
        let is_news = mark.set(tail.wrapping_add(offset), head, tail);
        if let Some(seen) = seen {
            mark.show(seen, is_first);
        }
        if is_first {
            self.add_status(slot, Status::URGENT);
        }
        is_news
    }

    /// Bytes committed and not yet read by the application.
    #[inline]
    pub fn recv_unread(&self, slot: u32) -> u32 {
        self.open_record(slot).map_or(0, Record::recv_unread)
    }

    /// Bytes that may still come in: the limit less what is unread. 0 when the limit was lowered
    /// below that.
    #[inline]
    pub fn recv_free(&self, slot: u32) -> u32 {
        let (free, _) = self.recv_space(slot);
        free
    }

    /// The same, and the limit.
    #[inline]
    pub fn recv_space(&self, slot: u32) -> (u32, u32) {
        self.open_record(slot).map_or((0, 0), Record::recv_space)
    }

    /// Bytes that may still come in and are sure to find memory: all that the limit allows if the
    /// pool has a larger buffer, else what is left of the one there is.
    pub fn recv_room(&self, slot: u32) -> u32 {
        let Some(record) = self.open_record(slot) else {
            return 0;
        };
        let ledger = &self.recv_side(slot).ledger;
        let (free, _) = record.recv_space();
        let buffer = Block::from_descriptor(record.stack.recv.buffer.load(Relaxed));
        if ledger.can_allocate(buffer.as_ref().map(Block::class)) {
            return free;
        }
        let capacity = buffer.map_or(0, |block| block.capacity());
        let left = capacity.saturating_sub(record.recv_unread());
        left.min(free)
    }

    /// The limit of the receive direction, bytes.
    #[inline]
    pub fn recv_limit(&self, slot: u32) -> u32 {
        self.open_record(slot)
            .map_or(0, |record| record.stack.recv_limit.load(Relaxed))
    }

    /// Changes the limit of the receive direction, bytes; at most the largest buffer. Below what is
    /// held it only stops more.
    pub fn set_recv_limit(&mut self, slot: u32, limit: u32) {
        if let Some(record) = self.open_record(slot) {
            let limit = limit.min(self.shared.max_limit);
            record.stack.recv_limit.store(limit, Relaxed);
        }
    }

    /// Changes the limit of the send direction, bytes; at most the largest buffer. Below what is
    /// held it only stops more. After raising it ask [`Self::app_wants_space`].
    pub fn set_send_limit(&mut self, slot: u32, limit: u32) {
        if let Some(record) = self.open_record(slot) {
            let limit = limit.min(self.shared.max_limit);
            record.stack.send_limit.store(limit, Relaxed);
        }
    }

    /// Has the application write only while less than `bytes` are unsent; `u32::MAX`: no matter how
    /// much is. From then on [`Self::note_sent`] has to be told what is sent. After raising it ask
    /// [`Self::app_wants_space`].
    pub fn set_unsent_low_water(&mut self, slot: u32, bytes: u32) {
        if let Some(record) = self.open_record(slot) {
            record.stack.unsent_low_water.store(bytes, Relaxed);
        }
    }

    /// Of what was not consumed yet, the first `n` bytes have been sent at least once. Then ask
    /// [`Self::app_wants_space`].
    pub fn note_sent(&mut self, slot: u32, n: u32) {
        if let Some(record) = self.open_record(slot) {
            let head = record.stack.send.head.load(Relaxed);
            record.stack.sent.store(head.wrapping_add(n), Relaxed);
        }
    }

    /// Gives receive buffers back to the pool as far as they are drained; the last one only when
    /// nothing `out_of_order` is held in it (else that would be lost). True when the last one went.
    pub fn trim(&mut self, slot: u32, out_of_order: bool) -> bool {
        match self.recv_writer(slot) {
            Some((mut writer, _)) => writer.trim(out_of_order),
            None => self.trim_elsewhere(slot, out_of_order),
        }
    }

    /// Trims the next `budget` slots that have a receive buffer, taking turns; more when there are
    /// more of them than after the last sweep. Keeps buffers with bytes beyond the committed ones.
    pub fn sweep(&mut self, budget: usize) {
        for _ in 0..self.recv.turns(budget) {
            if let Some(slot) = self.recv.next_attached(&self.shared.records, 0) {
                if let Some((mut writer, _)) = self.recv_writer(slot) {
                    writer.trim(true);
                }
                self.recv.end_look(&self.shared.records, 0, slot);
            }
        }
        self.recv.end_sweep();
        if let Some(home) = self.guests.next() {
            self.sweep_home(home, budget);
        }
    }

    /// As [`super::AppStreams::economize`], of the receive pool.
    #[inline]
    pub fn economize(&mut self, now: u64) -> Option<u64> {
        if self.guests.is_empty() {
            return self.economize_own(now);
        }
        let homes = self.economize_homes(now);
        self.economize_own(now).into_iter().chain(homes).min()
    }

    #[inline(always)]
    fn economize_own(&mut self, now: u64) -> Option<u64> {
        if self.recv.thrift.is_due_to_look(&self.recv.ledger, now)? {
            self.sweep(AT_EASE);
        }
        let memory = &self.shared.recv_memory;
        self.recv
            .thrift
            .economize(&mut self.recv.ledger, memory, now)
    }

    /// Bytes written by the application and not yet consumed.
    #[inline]
    pub fn send_len(&self, slot: u32) -> u32 {
        self.open_record(slot).map_or(0, Record::send_len)
    }

    /// The index of the first of them.
    pub fn send_head(&self, slot: u32) -> u32 {
        let record = self.open_record(slot);
        record.map_or(0, |record| record.stack.send.head.load(Relaxed))
    }

    /// At most `len` bytes from `offset` after the consumed ones on; fewer only at the end of what
    /// was written.
    #[inline]
    pub fn peek(&self, slot: u32, offset: u32, len: u32) -> Pieces<'_> {
        self.send_reader(slot)
            .map_or(Pieces::EMPTY, |reader| reader.pieces(offset, len))
    }

    /// Gives the room of the first `n` bytes back to the application (they were acknowledged); at
    /// most what there is. Then ask [`Self::app_wants_space`].
    #[inline]
    pub fn consume(&mut self, slot: u32, n: u32) {
        if let Some(record) = self.open_record(slot) {
            let n = n.min(record.send_len());
            let head = record.stack.send.head.load(Relaxed);
            // Release: what we read is read before the application writes there.
            record.stack.send.head.store(head.wrapping_add(n), Release);
        }
    }

    /// The application's last write came up short, and now a quarter of its limit is free: send it
    /// a writable event. Ask after every [`Self::consume`]; a true is said once. May be true
    /// although the application has found room by itself meanwhile.
    pub fn app_wants_space(&mut self, slot: u32) -> bool {
        if slot >= self.slots {
            return self.wants_space_elsewhere(slot);
        }
        let Some(record) = self.open_record(slot) else {
            return false;
        };
        // Pairs with the fence in `AppStreams::write`: either we see its note, or it sees the head
        // we have moved.
        fence(SeqCst);
        let wants = record.app_is_short() && record.has_space();
        if wants {
            record.app.wants_space.store(0, Relaxed);
        }
        wants
    }

    /// Whether the application's last write came up short, and it has not been told of room since.
    pub fn app_is_short(&self, slot: u32) -> bool {
        let record = self.open_record(slot);
        record.is_some_and(Record::app_is_short)
    }

    /// Replaces the status. The application sees it after the bytes committed before.
    pub fn set_status(&mut self, slot: u32, status: Status) {
        if let Some(record) = self.open_record(slot) {
            record.stack.status.store(status.bits(), Release);
        }
    }

    /// Adds to the status, as [`Self::set_status`].
    pub fn add_status(&mut self, slot: u32, status: Status) {
        if let Some(record) = self.open_record(slot) {
            let word = &record.stack.status;
            word.store(word.load(Relaxed) | status.bits(), Release);
        }
    }

    /// The status as set.
    pub fn status(&self, slot: u32) -> Status {
        self.open_record(slot)
            .map_or(Status::empty(), Record::status)
    }

    #[inline(always)]
    fn recv_side(&self, slot: u32) -> &Side {
        if slot < self.slots {
            &self.recv
        } else {
            self.guests.recv_side(slot).unwrap_or(&self.recv)
        }
    }

    /// The receive pool that the buffers of a slot are from.
    #[inline]
    pub fn recv_pool(&self, slot: u32) -> PoolUse {
        let side = self.recv_side(slot);
        PoolUse {
            bytes: side.ledger.bytes(),
            in_use: side.ledger.in_use(),
            buffers: side.attached(),
        }
    }

    /// Bytes of receive buffers handed out by the pools of all homes.
    pub fn recv_bytes_in_use(&self) -> usize {
        self.recv.ledger.in_use() + self.guests.recv_bytes_in_use()
    }

    /// The most that the pool of this process has ever handed out.
    pub fn recv_bytes_high_water(&self) -> usize {
        self.recv.ledger.high_water()
    }

    /// Bytes of the receive pool of this process.
    pub fn recv_pool_bytes(&self) -> usize {
        self.recv.ledger.bytes()
    }

    /// Number of slots with a receive buffer, or with one that was given back and not looked for
    /// since.
    pub fn recv_buffers(&self) -> usize {
        self.recv.attached()
    }

    /// Hints the processor to load the slot's record early.
    #[inline(always)]
    pub fn prefetch(&self, slot: u32) {
        if let Some(record) = self.shared.records.record(slot) {
            crate::prefetch::prefetch(record);
        }
    }
}
