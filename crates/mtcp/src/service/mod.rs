//! One stack for several programs: the side of the daemon, which has the stack, and what both sides
//! say to each other.
//!
//! Each program has a channel of its own: two rings in memory that only it and the daemon have
//! ([`ring::duplex`]), and a pair of sockets that wakes a side which sleeps (`wake_socket`).
//! Through the rings go the news and calls of a program and the events and answers of the stack
//! (`message`); bytes go through the streams. The program's side is a driver
//! beside those that have a stack in the process, with the same contract; the daemon's is [`Host`].
//!
//! A program can write anything into its memory at any time. The daemon keeps what it knows of a
//! program in memory of its own (`channel`), copies what it reads before it looks at it, and
//! names no connection to the stack that is not this program's.

mod attachment;
mod channel;
mod desk;
mod end;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod kept;
mod listeners;
mod listing;
mod local;
mod message;
mod owners;
mod pairs;
mod wake_socket;
mod wake_sockets;

pub use attachment::{Attachment, Words};
pub use channel::{Identity, Policy, Usage};
pub(crate) use end::{Heard, ProgramEnd};
pub use host::{Host, HostHandle, Leftover};
pub use listing::{Piece, Socket};
pub use local::on_thread;
pub(crate) use message::{Answer, Call, Facts};

/// How daemon and programs lay out what they share: another build may have it elsewhere, or say
/// something else with it.
const LAYOUT: u64 = ring::stream::HomePlan::LAYOUT ^ message::VERSION;

/// This build, for daemons and programs that attach: its version, and how it lays out what they
/// share.
pub fn build() -> control::Build {
    control::Build::new(env!("CARGO_PKG_VERSION"), LAYOUT)
}

#[cfg(test)]
mod tests;
