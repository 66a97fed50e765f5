//! Logs of HTTP traffic and what `mtcp replay` does with them without a network: a log is read and
//! written in two formats ([`log`]), made to given statistics ([`make`]), measured ([`statistics`])
//! and expanded to the content that its responses have ([`content`]).
//!
//! A log does not hold what was transferred, but the name of each 4 KB of it. Equal names stand for
//! equal content, so that a replay has the redundancy of the original traffic.

#![forbid(unsafe_code)]

pub mod catalogue;
pub mod content;
pub mod log;
pub mod make;
pub mod random;
pub mod record;
pub mod statistics;
pub mod transaction;

pub use transaction::{Chunk, Digest, Transaction};
