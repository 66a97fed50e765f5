//! One index logic over raw memory: cursors, SPSC queues, mapped regions, buffer pools, byte streams, parking.
#![allow(unused_variables, clippy::todo)] // signatures first

pub mod cursor;
pub mod park;
pub mod pool;
pub mod prefetch;
pub mod region;
pub mod spsc;
pub mod stream;
mod sync;
