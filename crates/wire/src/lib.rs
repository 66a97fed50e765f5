//! Headers on the wire: parse and emit, checksums, sequence numbers, and the words that ports and
//! the stack share.
//!
//! Nothing here keeps state, reads a clock or panics on input: a parser answers with a value or
//! with [`ParseError`], and an emitter that is given a buffer that is too short writes nothing and
//! returns 0.
#![deny(unsafe_code)] // but for `checksum::wide`

pub mod arp;
pub mod checksum;
pub mod display;
mod error;
pub mod ethernet;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod handed;
pub mod icmpv4;
pub mod icmpv6;
pub mod impair;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod ndp;
pub mod quoted;
pub mod seq;
pub mod steering;
pub mod syn_offload;
pub mod tcp;
pub mod time;
pub mod toeplitz;
pub mod udp;

pub use error::ParseError;
