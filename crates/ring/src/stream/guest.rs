//! The stack's end of streams that another process has the application's end of.
//!
//! That process may write anything anywhere in the memory of its streams, at any time. So the stack
//! keeps records of its own, where nobody else writes, and works on those alone. When it turns to a
//! slot, what the application's words say then is taken over, each read once, and only as far as it
//! can be; when it is done with it, its own words are shown. Nothing that was shown is ever read
//! back.
//!
//! What the application can spoil are the bytes of its own connections: indices never move back,
//! and all that is read or written lies in the pools of this memory.

use std::io;

use crate::pool::Block;
use crate::sync::AtomicU32;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::fence;

use super::lane::Writer;
use super::marks::Marks;
use super::memory::Memory;
use super::plan::{HomeMemory, HomePlan, Parts};
use super::record::{Record, Records, held};
use super::side::{Direction, Side};

/// Streams of another process.
#[derive(Debug)]
pub(super) struct Guest {
    /// What its memory was made with.
    pub(super) plan: HomePlan,
    /// What the application reads and writes.
    pub(super) seen: Records,
    pub(super) seen_marks: Marks,
    pub(super) recv: Side,
    pub(super) recv_memory: Memory,
    pub(super) send_memory: Memory,
    /// A slot whose words were not believed, since it was last asked.
    pub(super) disorder: Option<u32>,
    /// Slots that are open.
    pub(super) open: u32,
    /// Slots from here on were never opened.
    pub(super) used: u32,
    /// Those before that are free, for who wants any.
    pub(super) free: Vec<u32>,
    /// Whom the used ones were reserved for.
    pub(super) owners: Vec<u32>,
    /// The application is gone: nothing that is still written is looked at.
    pub(super) is_gone: bool,
}

impl Guest {
    pub(super) fn new(memory: &HomeMemory) -> io::Result<Self> {
        let plan = memory.plan();
        let Parts {
            records,
            marks,
            recv,
            send,
        } = memory.parts()?;
        Ok(Self {
            plan,
            seen: records,
            seen_marks: marks,
            recv: Side::recv(plan.slots, plan.recv_pool_bytes as usize, plan.max_buffer)?,
            recv_memory: recv,
            send_memory: send,
            disorder: None,
            open: 0,
            used: 0,
            free: Vec::new(),
            owners: Vec::new(),
            is_gone: false,
        })
    }

    pub(super) fn set_owner(&mut self, slot: u32, owner: u32) {
        let at = slot as usize;
        if self.owners.len() <= at {
            self.owners.resize(at + 1, 0);
        }
        if let Some(entry) = self.owners.get_mut(at) {
            *entry = owner;
        }
    }

    /// Takes over what the application's words of a slot say now, into the stack's `own` record.
    pub(super) fn refresh(&mut self, slot: u32, own: &Record) {
        if self.is_gone {
            // A slot that was granted since is released as well.
            own.app
                .released
                .store(own.stack.granted.load(Relaxed), Relaxed);
            return;
        }
        let Some(seen) = self.seen.record(slot) else {
            return;
        };
        // Acquire, and first: everything that the application did to the slot before has happened.
        let released = seen.app.released.load(Acquire);
        let note = seen.app.wants_space.load(Relaxed);
        own.app.wants_space.store(note, Relaxed);
        let is_in_order = take_recv(own, seen) & take_send(own, seen, &self.send_memory);
        // It cannot take that back.
        if released == own.stack.granted.load(Relaxed) {
            own.app.released.store(released, Relaxed);
        }
        if !is_in_order {
            self.disorder = Some(slot);
        }
    }

    /// Before a slot that the application does not hold is opened: wherever that is with its index,
    /// the stream begins there.
    pub(super) fn prepare(&self, slot: u32, own: &Record) {
        if let Some(seen) = self.seen.record(slot) {
            own.app.send.buffer.store(0, Relaxed);
            own.app
                .send
                .tail
                .store(seen.app.send.tail.load(Acquire), Relaxed);
        }
    }

    /// Shows the stack's words of a slot to the application.
    pub(super) fn show(&self, slot: u32, own: &Record) {
        let Some(seen) = self.seen.record(slot) else {
            return;
        };
        // While the application does not hold the slot, some of its words are the stack's.
        if !held(own) {
            show(&own.app.recv.head, &seen.app.recv.head);
            show(&own.app.recv_mark, &seen.app.recv_mark);
            seen.app.was_full.store(0, Relaxed);
            seen.app.wants_space.store(0, Relaxed);
        }
        show(&own.stack.recv_limit, &seen.stack.recv_limit);
        // The block before the tail that it holds the bytes of, and that before the status.
        show(&own.stack.recv.buffer, &seen.stack.recv.buffer);
        show(&own.stack.recv.tail, &seen.stack.recv.tail);
        show_send(own, seen);
        show(&own.stack.status, &seen.stack.status);
        let granted = own.stack.granted.load(Relaxed);
        // Release: the application finds the slot as it was prepared.
        seen.stack.granted.store(granted, Release);
    }

    /// The application's last write came up short, and there is room for more now; said once.
    pub(super) fn wants_space(&self, slot: u32, own: &Record) -> bool {
        let Some(seen) = self.seen.record(slot) else {
            return false;
        };
        show_send(own, seen);
        // Pairs with the fence in `AppStreams::write`: either we see its note, or it sees the head
        // that was shown.
        fence(SeqCst);
        let wants = seen.app_is_short() && own.has_space();
        if wants {
            own.app.wants_space.store(0, Relaxed);
            seen.app.wants_space.store(0, Relaxed);
        }
        wants
    }

    /// The receive direction of a slot, of which this is the stack's record.
    pub(super) fn recv_writer<'a>(&'a mut self, slot: u32, own: &'a Record) -> Writer<'a> {
        // SAFETY: this is the stack's end of these streams, so the producer of their receive
        // directions, and `recv` is its side.
        unsafe {
            Writer::of(
                Direction::Recv,
                &mut self.recv,
                &self.recv_memory,
                slot,
                own,
            )
        }
    }
}

/// The application's head moves on, and not beyond the tail. While it does not hold the slot, the
/// head is the stack's.
fn take_recv(own: &Record, seen: &Record) -> bool {
    // Acquire: the application has read what it gives back before we write there.
    let head = seen.app.recv.head.load(Acquire);
    let known = own.app.recv.head.load(Relaxed);
    let is_in_order = head.wrapping_sub(known) <= own.recv_unread();
    if held(own) && is_in_order {
        own.app.recv.head.store(head, Relaxed);
    }
    is_in_order || !held(own)
}

/// The application's tail moves on, and there is a block in the pool that holds all bytes up to it.
/// Tail and block are believed together: as long as any of these bytes is to be sent, they stay
/// where they are, whatever the application does with other blocks.
fn take_send(own: &Record, seen: &Record, memory: &Memory) -> bool {
    // Acquire: the bytes are there, and the block that they are in.
    let tail = seen.app.send.tail.load(Acquire);
    let known = own.app.send.tail.load(Relaxed);
    if tail == known {
        return true;
    }
    let descriptor = seen.app.send.buffer.load(Acquire);
    let written = tail.wrapping_sub(own.stack.send.head.load(Relaxed));
    // More than there is in all, if it went back.
    let fresh = tail.wrapping_sub(known);
    let is_in_order = fresh <= written && written <= capacity(descriptor, memory);
    if is_in_order {
        own.app.send.buffer.store(descriptor, Relaxed);
        own.app.send.tail.store(tail, Relaxed);
    }
    is_in_order
}

/// Bytes of the block that a word names; 0, if that is none of the pool.
pub(super) fn capacity(descriptor: u32, memory: &Memory) -> u32 {
    let is_inside = descriptor.wrapping_sub(1) < memory.limit();
    let block = Block::from_descriptor(descriptor).filter(|_| is_inside);
    block.map_or(0, |block| block.capacity())
}

#[inline(always)]
fn show(own: &AtomicU32, seen: &AtomicU32) {
    seen.store(own.load(Relaxed), Release);
}

/// Shows what concerns sending.
fn show_send(own: &Record, seen: &Record) {
    show(&own.stack.send_limit, &seen.stack.send_limit);
    show(&own.stack.sent, &seen.stack.sent);
    show(&own.stack.unsent_low_water, &seen.stack.unsent_low_water);
    show(&own.stack.send.head, &seen.stack.send.head);
}
