//! Byte streams between the application and the stack: two elastic rings of bytes per connection
//! slot.
//!
//! A slot's *receive* direction is written by the stack and read by the application, its *send*
//! direction the other way round. Both ends live in different threads or in one; there is no lock,
//! and no end ever waits for the other.
//!
//! # Elastic
//! An idle direction owns no buffer. The first byte attaches the smallest one that fits, from a
//! pool of its direction; when the buffer is full and the limit is not reached, the producer takes
//! one of the next size, *copies* into it what the consumer has not taken yet (and what lies out of
//! order behind it), and publishes it. From then on the consumer finds the new one; the old one
//! goes back to the pool once the consumer has taken every byte it held. So the consumer only ever
//! looks at one buffer, bytes are never in more than two pieces, and a direction that grew to its
//! last size has copied a third of that in total. A drained buffer goes back by `trim` or
//! [`StackStreams::sweep`] / [`AppStreams::sweep`], by the producer's hand: only producers attach,
//! grow and trim, so each pool has one owner.
//!
//! # Indices
//! `head` (consumer) and `tail` (producer) are free-running `u32`s. Bytes from head to tail are the
//! consumer's, bytes from tail to head + capacity the producer's. Each end moves only its own
//! index, clamped to what it may: no call, however wrong, lets the two touch the same byte or leave
//! the buffer. What a wrong call *can* do is to lose bytes of its own connection.
//!
//! # A slot's life
//! The stack [reserves](StackStreams::reserve) a slot and [grants](StackStreams::grant) it
//! ([`StackStreams::open`] is both). From then on the application holds it, until it
//! [releases](AppStreams::release) it; while it does, the stack can neither close nor reuse it.
//! Bytes written before the release can still be sent. [`StackStreams::close`] ends the slot's
//! life. A connection that no one accepted was never granted, so the stack can close it at any
//! time.
//!
//! # Urgent data
//! The stack may [mark](StackStreams::mark_urgent) a byte of the receive direction as urgent.
//! [`AppStreams::read`] then stops at it, and goes on behind it only after
//! [`AppStreams::pass_mark`].
//!
//! # Waiting for room
//! An application whose write came up short learns that there is room again in one of two ways:
//! - bytes are on their way: [`AppStreams::write`] leaves a note, and
//!   [`StackStreams::app_wants_space`], asked by the stack after each [`StackStreams::consume`],
//!   answers true once a quarter of the limit is free; the stack then sends a writable event. Both
//!   ends put a sequentially consistent fence between their write (note; head) and their look at
//!   the other's (head; note), and the application tries again after leaving the note: at least one
//!   of the two sees the other, so no wake-up is lost.
//! - there are none, and the *pool* was exhausted: that is the application's own affair, for it
//!   owns the pool. [`AppStreams::poll_starved`], asked whenever it is about to wait (after a
//!   [`AppStreams::sweep`]), names the slots that can be written again.
//!
//! # Processes and threads
//! Both ends are `Send` and not `Clone`. After `fork` the child has copies of both that share
//! nothing with the parent's, unless they were made in a [`Plot`]: then the child must not use its
//! copies, and who has the plot next finds in it what was not sent ([`Remains`]).

mod abandoned;
mod app;
mod config;
mod error;
mod guest;
mod guests;
mod homes;
mod lane;
mod marks;
mod memory;
mod moved;
mod offer;
mod pieces;
mod plan;
mod record;
#[cfg(not(loom))]
mod remains;
mod saved;
mod saved_home;
mod shared;
mod side;
mod stack;
mod status;
mod thrift;
mod urgent;

pub use app::AppStreams;
pub use config::{Limits, PoolUse, StreamsConfig};
pub use error::StreamError;
pub use guests::{slot_in_home, slot_of};
pub use homes::Homes;
pub use pieces::Pieces;
pub use plan::{HomeMemory, HomePlan};
#[cfg(not(loom))]
pub use remains::{LeftUnsent, Remains};
pub use saved::{SavedStream, restore_streams, save_stream};
pub use saved_home::SavedHome;
pub use stack::StackStreams;
pub use status::Status;
pub use urgent::Urgent;

use std::io;

use crate::pool::{class_bytes, class_for};
use crate::region::{PagePolicy, Plot};
use crate::sync::Arc;

use guests::all_slots;
use marks::Marks;
use memory::Memory;
use record::Records;
use shared::Shared;
use side::Side;

/// Memory behind the buffer of a direction from the start, where that is asked for: as much as most
/// messages need.
const PREFAULT: usize = 2 << 10;

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

/// The same; records and send buffers in `plot`, if there is one, so that [`Remains`] are there
/// when this process is not.
///
/// # Errors
/// As [`streams`]; the plot is too small.
pub fn streams_on(
    plot: Option<&mut Plot>,
    config: &StreamsConfig,
    pages: PagePolicy,
) -> io::Result<(StackStreams, AppStreams)> {
    streams_and_homes(plot, config, pages, 0)
}

/// The same; so many [homes](Homes::add) can be added, each for 4 MiB of address space.
///
/// # Errors
/// As [`streams_on`]; `InvalidInput`: too many.
pub fn streams_and_homes(
    mut plot: Option<&mut Plot>,
    config: &StreamsConfig,
    pages: PagePolicy,
    homes: u32,
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
    let all = all_slots(slots, homes)?;
    let mut shared = Shared {
        records: Records::new(all, pages, plot.as_deref_mut())?,
        marks: Marks::new(all, None)?,
        send_memory: Memory::new(send.ledger.bytes(), pages, plot)?,
        recv_memory: Memory::new(recv.ledger.bytes(), pages, None)?,
        max_limit: class_bytes(largest),
    };
    shared.records.prefault(prefault);
    shared.send_memory.prefault(prefault * PREFAULT);
    shared.recv_memory.prefault(prefault * PREFAULT);
    let shared = Arc::new(shared);
    let stack = StackStreams::new(Arc::clone(&shared), recv, slots);
    Ok((stack, AppStreams::new(shared, send)))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
