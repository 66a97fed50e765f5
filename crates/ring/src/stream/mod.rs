//! Byte streams between the application and the stack: two elastic rings of bytes per connection slot.
//!
//! A slot's *receive* direction is written by the stack and read by the application, its *send* direction the other way round.
//! Both ends live in different threads or in one; there is no lock, and no end ever waits for the other.
//!
//! # Elastic
//! An idle direction owns no buffer. The first byte attaches the smallest one that fits, from a pool of its direction; when the
//! buffer is full and the limit is not reached, the producer takes one of the next size, *copies* into it what the consumer has
//! not taken yet (and what lies out of order behind it), and publishes it. From then on the consumer finds the new one; the old one
//! goes back to the pool once the consumer has taken every byte it held. So the consumer only ever looks at one buffer, bytes
//! are never in more than two pieces, and a direction that grew to its last size has copied a third of that in total. A drained
//! buffer goes back by `trim` or [`StackStreams::sweep`] / [`AppStreams::sweep`], by the producer's hand: only producers attach,
//! grow and trim, so each pool has one owner.
//!
//! # Indices
//! `head` (consumer) and `tail` (producer) are free-running `u32`s. Bytes from head to tail are the consumer's, bytes from tail to
//! head + capacity the producer's. Each end moves only its own index, clamped to what it may: no call, however wrong, lets
//! the two touch the same byte or leave the buffer. What a wrong call *can* do is to lose bytes of its own connection.
//!
//! # A slot's life
//! The stack [reserves](StackStreams::reserve) a slot and [grants](StackStreams::grant) it ([`StackStreams::open`] is both). From
//! then on the application holds it, until it [releases](AppStreams::release) it; while it does, the stack can neither close nor
//! reuse it. Bytes written before the release can still be sent. [`StackStreams::close`] ends the slot's life.
//! A connection that no one accepted was never granted, so the stack can close it at any time.
//!
//! # Urgent data
//! The stack may [mark](StackStreams::mark_urgent) a byte of the receive direction as urgent. [`AppStreams::read`] then stops at it, and goes on
//! behind it only after [`AppStreams::pass_mark`].
//!
//! # Waiting for room
//! An application whose write came up short learns that there is room again in one of two ways:
//! - bytes are on their way: [`AppStreams::write`] leaves a note, and [`StackStreams::app_wants_space`], asked by the stack after
//!   each [`StackStreams::consume`], answers true once a quarter of the limit is free; the stack then sends a writable event.
//!   Both ends put a sequentially consistent fence between their write (note; head) and their look at the other's (head; note), and
//!   the application tries again after leaving the note: at least one of the two sees the other, so no wake-up is lost.
//! - there are none, and the *pool* was exhausted: that is the application's own affair, for it owns the pool. [`AppStreams::poll_starved`], asked
//!   whenever it is about to wait (after a [`AppStreams::sweep`]), names the slots that can be written again.
//!
//! # Processes and threads
//! Both ends are `Send` and not `Clone`. After `fork` the child has copies of both that share nothing with the parent's, unless they were
//! made in a [`Plot`]: then the child must not use its copies, and who has the plot next finds in it what was not sent ([`Remains`]).

mod app;
mod lane;
mod memory;
mod record;
#[cfg(not(loom))]
mod remains;
mod side;
mod stack;
mod thrift;
mod urgent;

pub use app::AppStreams;
#[cfg(not(loom))]
pub use remains::{LeftUnsent, Remains};
pub use stack::StackStreams;
pub use urgent::Urgent;

use std::error::Error;
use std::fmt;
use std::io;

use crate::pool::{class_bytes, class_for};
use crate::region::{PagePolicy, Plot};
use crate::sync::Arc;

use memory::Memory;
use record::Records;
use side::Side;
use urgent::Marks;

/// Memory behind the buffer of a direction from the start, where that is asked for: as much as most messages need.
const PREFAULT: usize = 2 << 10;

/// Sizes of a pair of [`streams`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamsConfig {
    /// Connection slots; 64 bytes each, from the first use of a slot on.
    pub slots: u32,
    /// All receive buffers together, bytes.
    pub recv_pool_bytes: usize,
    /// All send buffers together, bytes.
    pub send_pool_bytes: usize,
    /// The largest buffer of one direction, bytes; rounded up to a [size there is](crate::pool), at most 32 MiB.
    pub max_buffer: u32,
    /// Of so many slots, the record and 2 KiB for the buffer of either direction are backed by memory from the start.
    pub prefault: u32,
}

/// How many bytes a slot may hold; at most [`StreamsConfig::max_buffer`] each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes received and not read, in order or not.
    pub recv: u32,
    /// Bytes written and not acknowledged.
    pub send: u32,
}

/// Why an operation was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamError {
    /// There is no such slot.
    NoSlot,
    /// The application still holds the slot.
    Held,
    /// The slot is not open.
    NotOpen,
    /// The pool is exhausted.
    NoMemory,
    /// More than the slot's limit.
    BeyondLimit,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlot => "no such slot",
            Self::Held => "the application still holds the slot",
            Self::NotOpen => "the slot is not open",
            Self::NoMemory => "no buffer memory left",
            Self::BeyondLimit => "beyond the slot's limit",
        })
    }
}

impl Error for StreamError {}

bitflags::bitflags! {
    /// What the application must know of a connection besides its bytes; an errno in the high 16 bits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Status: u32 {
        /// The connection is established.
        const CONNECTED = 1;
        /// The peer's FIN was reached in order: nothing comes after the bytes readable now.
        const EOF = 2;
        /// The send direction is closed: writes are refused.
        const WRITE_CLOSED = 4;
        /// The connection failed; why, says [`Status::errno`]. Writes are refused.
        const ERROR = 8;
        /// The stack is done with the connection. Writes are refused.
        const CLOSED = 16;
        /// The peer has sent urgent data, now or before: reading stops at it, see [`AppStreams::urgent`].
        const URGENT = 32;
        /// The bits the errno is in.
        const ERRNO = 0xffff_0000;
    }
}

impl Status {
    /// This with `ERROR` and `errno` in place of any it had.
    #[must_use]
    pub const fn with_errno(self, errno: u16) -> Self {
        let flags = (self.bits() & !Self::ERRNO.bits()) | Self::ERROR.bits();
        Self::from_bits_retain(flags | (errno as u32) << 16)
    }

    /// The errno; 0 if none.
    #[must_use]
    pub const fn errno(self) -> u16 {
        (self.bits() >> 16) as u16
    }
}

/// What the two ends share.
#[derive(Debug)]
struct Shared {
    records: Records,
    marks: Marks,
    recv_memory: Memory,
    send_memory: Memory,
    /// Largest limit there can be, bytes.
    max_limit: u32,
}

/// Makes the two ends, on transparent huge pages.
///
/// # Errors
/// The kernel has no room for it, or a pool is too large.
pub fn streams(config: &StreamsConfig) -> io::Result<(StackStreams, AppStreams)> {
    streams_with(config, PagePolicy::Transparent)
}

/// Makes the two ends, with a choice of pages.
///
/// # Errors
/// As [`streams`].
pub fn streams_with(
    config: &StreamsConfig,
    pages: PagePolicy,
) -> io::Result<(StackStreams, AppStreams)> {
    streams_on(None, config, pages)
}

/// The same; records and send buffers in `plot`, if there is one, so that [`Remains`] are there when this process is not.
///
/// # Errors
/// As [`streams`]; the plot is too small.
pub fn streams_on(
    mut plot: Option<&mut Plot>,
    config: &StreamsConfig,
    pages: PagePolicy,
) -> io::Result<(StackStreams, AppStreams)> {
    let &StreamsConfig {
        slots,
        recv_pool_bytes,
        send_pool_bytes,
        max_buffer,
        prefault,
    } = config;
    let prefault = prefault.min(slots) as usize;
    let recv = Side::recv(slots, recv_pool_bytes, max_buffer)?;
    let send = Side::send(slots, send_pool_bytes, max_buffer)?;
    let largest = class_for(max_buffer).or(class_for(32 << 20)).unwrap_or(0);
    let mut shared = Shared {
        records: Records::new(slots, pages, plot.as_deref_mut())?,
        marks: Marks::new(slots)?,
        send_memory: Memory::new(send.ledger.bytes(), pages, plot)?,
        recv_memory: Memory::new(recv.ledger.bytes(), pages, None)?,
        max_limit: class_bytes(largest),
    };
    shared.records.prefault(prefault);
    shared.send_memory.prefault(prefault * PREFAULT);
    shared.recv_memory.prefault(prefault * PREFAULT);
    let shared = Arc::new(shared);
    let stack = StackStreams::new(Arc::clone(&shared), recv);
    Ok((stack, AppStreams::new(shared, send)))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
