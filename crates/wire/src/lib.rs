//! Headers on the wire: parse and emit, checksums, sequence numbers, and the words that ports and the stack share.
//!
//! Nothing here keeps state, reads a clock or panics on input: a parser answers with a value or with [`ParseError`].
#![forbid(unsafe_code)]

pub mod frame;
pub mod seq;
pub mod time;
