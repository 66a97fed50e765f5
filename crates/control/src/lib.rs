//! The control plane of `mtcp daemon`: the socket through which programs attach to its stacks.
//!
//! Payload and events pass through shared memory, which is set up here and never seen here again.
//! [`message`] says what passes over the socket and knows no socket; [`server`] is the daemon's
//! end, [`client`] the program's, and [`policy`] says who may use what. `docs/internals/control.md`
//! explains it.

#![deny(unsafe_code)]

pub mod client;
pub mod error;
#[doc(hidden)]
pub mod fuzzing;
pub mod lock;
pub mod message;
pub mod namespace;
pub mod place;
pub mod policy;
pub mod private;
pub mod server;
mod socket;
#[allow(unsafe_code)]
mod sys;

pub use error::Error;
pub use message::Build;
pub use namespace::NetNamespace;
pub use policy::Policy;
