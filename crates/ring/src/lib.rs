//! One index logic over raw memory.
//!
//! This crate is where mTCP's unsafe code about memory lives, so that the layers above need none.
//! What it offers is safe and sound even when misused from two threads, unless marked `unsafe`:
//!
//! - [`cursor`]: the producer's and consumer's ends of a ring in memory of any origin (AF_XDP, a
//!   shared-memory link)
//! - [`spsc`]: a bounded queue between two threads
//! - [`duplex`]: two rings in memory shared with another process
//! - [`region`]: mapped memory, huge pages, arrays in it, memory shared with another process
//! - [`pool`]: size-classed buffers
//! - [`stream`]: the elastic byte streams between application and stack
//! - [`park`]: sleeping and waking between two threads
//! - [`prefetch`], [`whole`]: what compilers do not know of processors
//!
//! Nothing here reads a clock, starts a thread, or has a global. The concurrent parts are checked
//! with loom (`tests/loom.rs`) and their tests can run under Miri.

#[cfg(not(loom))]
mod announcement;
#[cfg(loom)]
pub mod announcement;
pub mod cursor;
#[cfg(not(loom))]
pub mod duplex;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod fuzzing;
pub mod park;
pub mod pool;
pub mod prefetch;
pub mod region;
pub mod spsc;
pub mod stream;
mod sync;
pub mod whole;
