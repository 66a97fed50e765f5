//! The C API of mTCP: what `include/mtcp_api.h` and `include/mtcp_epoll.h` declare, over
//! [`mtcp::Context`].
//!
//! The headers are the specification of these functions; what is said here is how they keep it. A
//! pointer from C is checked for NULL and its length for sense, the rest is the caller's word. A
//! context is named by the address of a slot in a fixed table and never dereferenced before it was
//! found there, so a wrong one is an error, not a crash. A panic ends at this boundary: the call
//! fails with `ENOTRECOVERABLE`, and so does everything on that context afterwards.
//!
//! The original API has no handle for the process, so this crate, alone of all, has global state:
//! the table of contexts (`handle`), the process with its configuration (`process`), and the signal
//! handlers (`signal`).

// The headers say what each pointer must be.
#![allow(clippy::missing_safety_doc)]

pub mod data;
pub mod epoll;
mod handle;
pub mod option;
pub mod process;
mod say;
mod settings;
pub mod signal;
pub mod socket;

pub use handle::Handle;
