//! `libmtcp_packetdrill.so`: the stack for the public packetdrill tool (`--so_filename`,
//! `--so_flags`).
//!
//! The tool makes the calls of a script, hands in packets, takes those that the stack sends, and
//! asks this library for the time. Time is virtual: it moves when the tool sleeps, waits for a
//! packet, or reads the clock, so a script of hours takes no longer than one of milliseconds.
//! `docs/packetdrill.md` says how to use it.
#![deny(unsafe_code)]

mod commands;
#[allow(unsafe_code)]
mod ffi;
pub mod flags;
mod machine;
mod numbers;
pub mod tool;
pub mod world;

pub use ffi::{Interface, packetdrill_interface_init};
