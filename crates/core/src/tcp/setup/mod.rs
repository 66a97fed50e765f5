//! Set-up: listeners, half-open connections, SYN cookies, Fast Open, initial sequence numbers.
//!
//! State: [`SetupState`] of the stack, and [`OpenState`] of a connection, which the cold column of
//! the control block embeds. Behaviour: [`SetupPart`] and [`OpenPart`]. Steps of the former say
//! what is left to be done where a connection comes of them ([`Listened`], a SYN that may open one,
//! a record whose handshake is complete), steps of the latter what the connection has to do
//! ([`OpenActions`]).
//!
//! No module of this folder knows `Tcp` or a connection; `docs/internals/setup.md` says more.

mod actions;
mod calls;
mod cookie;
mod fast_open;
mod half_open;
mod handshake;
pub(crate) mod isn;
mod listen;
mod offload;
mod open_part;
mod open_state;
mod open_view;
mod pace;
mod part;
mod passive;
mod ports;
mod state;
mod syn_ack;
mod syn_offload;

pub(crate) use actions::{Listened, OpenActions};
pub(crate) use fast_open::{CookieCache, FastOpen, Issuer};
pub(crate) use half_open::{Before, HalfOpen, HalfOpens, Options, SavedHalfOpens, beyond};
pub(crate) use listen::{Listener, Listeners, SavedListeners};
pub(crate) use open_part::OpenPart;
pub(crate) use open_state::OpenState;
pub(crate) use open_view::OpenView;
pub(crate) use part::SetupPart;
pub(crate) use ports::{Between, pick_port};
pub(crate) use state::SetupState;
