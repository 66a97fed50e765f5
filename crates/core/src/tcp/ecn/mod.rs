//! The ECN part of a connection (RFC 3168, RFC 8311, RFC 9768): which segments are ECN-capable, how
//! congestion is told to the sender, and when the sender has to react to it.
//!
//! State: [`EcnState`] is embedded in the cold column of the control block.
//!
//! Entry points: the connection borrows the part as [`EcnPart`] for one step (`agree`, `receive`,
//! `on_ack`, `on_reduced` …) and carries out the [`EcnActions`] that come back. [`EcnView`] says
//! what a segment that is sent carries. [`Feedback`] and [`Answer`] are what a handshake needs
//! before there is a connection.
//!
//! No module of this folder knows the connection or another part; `docs/internals/ecn.md` says
//! how it is cut.

mod actions;
mod counts;
mod handshake;
mod part;
mod receiver;
mod sender;
mod state;
mod view;

pub(crate) use actions::EcnActions;
pub(crate) use counts::Counts;
#[cfg(test)]
pub(crate) use handshake::ace;
pub(crate) use handshake::{Answer, Feedback};
pub(crate) use part::EcnPart;
pub(crate) use state::{Compact, EcnState, Outgoing};
pub(crate) use view::EcnView;
