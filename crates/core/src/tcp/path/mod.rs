//! The path part of a connection: it finds the largest packet that the path takes (RFC 4821,
//! RFC 8899) and sets the size of segments accordingly.
//!
//! A smaller size is taken on an ICMP error about a segment in flight, which may be forged
//! (RFC 5927 §7). Once segments of the present size have arrived, the size is only lowered if the
//! segment that the error is about times out as well.
//! Two time-outs in a row of full-sized segments, without any error, may be a black hole (four, if
//! such segments have arrived before), or congestion. A smaller size is taken, and the old one is
//! probed at once. Other connections to the host learn of it only when that fails time and again,
//! and when no other connection gets such segments through.
//! The size goes up by probes: segments of new data that are larger than the others. The loss of a
//! probe is no sign of congestion.
//!
//! State: [`PathSearch`] is embedded in the cold column of the control block; [`Finding`] is what
//! is left of it while a connection idles. The MTU in use is `ip::Path::mtu` of the connection.
//!
//! Entry points: the connection borrows the part as [`PathPart`] for one step (`on_too_big`,
//! `on_timeout`, `confirm`, `plan_probe`, `on_probe_sent`, `on_resent` …) and carries out the
//! [`PathActions`] that come back. On the usual path it asks [`PathSearch`] alone.
//!
//! No module of this folder knows the connection or another part; `docs/internals/path.md` says
//! how it is cut.

mod actions;
mod lower;
mod part;
mod probe;
mod state;

pub(crate) use actions::PathActions;
pub(crate) use part::{PathPart, PathView};
pub(crate) use state::{Finding, PathSearch};
