//! What passes over the control socket: one request of a program, one answer of the daemon.
//!
//! A message is a header and a body of plain little-endian words. The header, [`Request::Hello`]
//! and [`Reply::Refused`] are the same in all versions, so that two builds that do not fit can name
//! each other; of everything else version and layout hash must be equal.

mod envelope;
mod reply;
mod request;
#[cfg(test)]
mod tests;
mod words;

pub use envelope::{Build, DESCRIPTORS_MAX, Envelope, MESSAGE_MAX, VERSION};
pub use reply::{
    CLIENTS_IN_PAGE, Channel, ClientRow, Drops, Overview, Refused, Reply, SOCKETS_IN_PAGE,
    SocketRow, Welcome,
};
pub use request::{Hello, Request};
pub use words::Malformed;
