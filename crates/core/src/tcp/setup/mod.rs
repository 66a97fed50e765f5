//! Set-up: listeners, half-open connections, SYN cookies, Fast Open, initial sequence numbers.
//!
//! State: [`SetupState`]. Behaviour: [`SetupPart`], whose steps say what is left to be done where a
//! connection comes of them: [`Listened`], a SYN that may open one, a record whose handshake is
//! complete.
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
mod part;
mod passive;
mod ports;
mod state;
mod syn_ack;
mod syn_offload;

pub(crate) use actions::Listened;
pub(crate) use fast_open::{CookieCache, FastOpen, Issuer};
pub(crate) use half_open::{Before, HalfOpen, HalfOpens, Options, beyond};
pub(crate) use listen::{Listener, Listeners};
pub(crate) use part::SetupPart;
pub(crate) use ports::{Between, pick_port};
pub(crate) use state::SetupState;
