//! The send part of a connection: what there is to send, how much of it may go, and what goes next.
//!
//! State: [`Hot`] and [`Cold`] are embedded in the columns of the control block; [`Compact`] is
//! what is left of both while a connection idles. The bytes are in the send stream.

mod limit;
mod state;

pub(crate) use limit::{Limit, send_limit};
pub(crate) use state::{Cold, Compact, Hot};
