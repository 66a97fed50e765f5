//! The send part of a connection: what there is to send, how much of it may go, and what the next
//! segment is.
//!
//! State: [`Hot`] and [`Cold`] are embedded in the columns of the control block; [`Compact`] is
//! what is left of both while a connection idles. The bytes are in the send stream.
//!
//! Entry points: the connection borrows the part as [`SendPart`] for one step (`on_new`, `advance`,
//! `release`, `begin_persist`, `note_held` …) and carries out the [`SendActions`] that come up.
//! [`SendView`] answers questions (`unsent`, `new_len`, `new_segment` …) and changes nothing. A
//! [`Plan`] is a segment that is to be sent.
//!
//! Invariants: [`SendView::check`] asserts them.
//!
//! No module of this folder knows the connection or another part; `docs/internals/send.md` says how
//! it is cut.

mod actions;
mod cork;
mod gather;
mod limit;
mod next;
mod part;
mod persist;
mod plan;
mod sent;
mod state;
#[cfg(test)]
mod tests;
mod urgent;
mod view;

pub(crate) use actions::SendActions;
pub(crate) use gather::at_a_time;
pub(crate) use limit::{Limit, PathTimes, near_buffer, send_limit};
pub(crate) use next::Unsent;
pub(crate) use part::SendPart;
pub(crate) use plan::{Kind, Plan};
pub(crate) use state::{Cold, Compact, Hot};
pub(crate) use view::SendView;
