//! The receive part of a connection: it puts what arrives in order, decides when to acknowledge it,
//! offers the window, and has the receive buffer follow the application.
//!
//! State: [`Hot`] and [`Cold`] are embedded in the columns of the control block; [`Held`] is what
//! the few connections have that hold out-of-order data. The bytes are in the receive stream.
//!
//! Entry points: the connection borrows the part as [`Receive`] for one step (`take_text`,
//! `owe_ack`, `take_window`, `on_read` …) and carries out the [`ReceiveActions`] that come up.
//! [`ReceiveView`] answers questions (`sack_blocks`, `limit`, `has_withheld_ack` …) and changes
//! nothing.
//!
//! Invariants: [`ReceiveView::check`] asserts them.
//!
//! No module of this folder knows the connection or another part; `docs/internals/receive.md` says
//! how it is cut.

mod acks;
mod actions;
mod held;
mod part;
mod state;
mod text;
mod tuning;
mod urgent;
mod view;
mod window;

pub(crate) use actions::ReceiveActions;
pub(crate) use held::Held;
pub(crate) use part::Receive;
pub(crate) use state::{Cold, Hot};
pub(crate) use view::ReceiveView;
