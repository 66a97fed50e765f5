//! A deterministic network of stacks in virtual time.
//!
//! A [`Network`] holds *hosts* (a [`mtcp_core::Stack`] with its byte streams and applications),
//! *peers* (scripted: they send exactly the segments they are told to), *switches*, and *links*
//! with impairments, bandwidth, a bounded queue and a propagation delay. Its clock jumps from one
//! event to the next. Everything that looks random follows from one number, the seed: the same seed
//! gives the same frames at the same nanoseconds, which [`Network::trace_hash`] proves.
//!
//! Nothing here prints or panics: what goes wrong is a [`Failure`], which names the seed and the
//! command that shows it again.
#![forbid(unsafe_code)]

pub mod app;
pub mod bottleneck;
mod calendar;
mod check;
mod end;
mod failure;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod inspect;
mod network;
mod pattern;
mod peer;
mod pipe;
mod random;
mod run;
pub mod scenario;
mod segment;
pub mod settings;
mod sink;
mod switch;
mod trace;
pub mod transactions;

pub use app::{Content, Ending, Expect, ListenPlan, LoadPlan, Plan, Record};
pub use end::{End, HostId, LinkId, PeerId, SwitchId};
pub use failure::Failure;
pub use frame::Frame;
pub use host::{Host, HostConfig, Style};
pub use network::{Direction, LinkConfig, Network};
pub use pattern::Pattern;
pub use peer::{Peer, PeerConfig, Reaction};
pub use pipe::{BurstLoss, Outages, Pipe, PipeConfig, PipeStats};
pub use segment::{Arrival, Segment, ethernet};
pub use wire::impair::{Impairments, Rng};
