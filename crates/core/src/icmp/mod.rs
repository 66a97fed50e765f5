//! ICMP for both families: echo, errors about our segments, errors that we send.

mod errors;
mod v4;
mod v6;

pub use errors::{Errors, Refusals, Unreachable};
