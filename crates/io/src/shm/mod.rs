//! Shared-memory link: two processes, or two stacks in one, joined by rings of frames in memory
//! that both map.
//!
//! One side listens on a Unix socket, the other connects and gets the memory (a sealed memfd) and
//! the doorbells (`doorbells.rs`) over it. Each queue is two rings, one per direction; a frame is
//! written and read in its slot, and nothing else moves. What is sent on queue *i* arrives on queue
//! *i*: with several queues both sides use the same number of threads, and a flow stays on the
//! queue that its first packet was sent on.
//!
//! A side that has nothing to do says so in shared memory and sleeps on its doorbell; the other
//! rings it only then, once per flush.
//!
//! The socket closes when a process ends, however it ends. A connecting side then reports the loss
//! (`BrokenPipe`) from `flush` and `wait`; a listening side goes back to waiting for a peer, each
//! of which gets fresh memory. A third process is refused.
//!
//! Nothing leaves memory, so checksums need not be computed: frames arrive as trusted. Those of
//! which the sender has computed them all the same, since it damages frames on purpose say, do not.
//!
//! The same rings join stacks that have the same addresses: [`Exchange`].
//!
//! **Trust.** The socket is only for its owner. Indices and lengths from the peer are checked, and
//! a peer that breaks them is cut off (`InvalidData`); it cannot make us read or write outside the
//! link's memory. A peer that rewrites a frame while it is lent to us can make us see other bytes
//! than we checked before, as any process of the same user that writes our memory could.

mod config;
mod connection;
mod doorbells;
mod endpoint;
mod exchange;
mod handshake;
mod owners;
mod port;
mod process;
mod returned;
mod ring;
mod seats;
mod socket;

pub use config::ShmConfig;
pub use exchange::{Desk, Exchange, Relay};
pub use owners::Owners;
pub use port::{ShmPort, ShmRole};

#[cfg(test)]
mod tests;
