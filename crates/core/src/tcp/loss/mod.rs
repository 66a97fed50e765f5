//! The loss part of a connection: it notices what is lost, decides when that is sent again and how
//! much may be in flight, and takes back what it did for a loss that was none.
//!
//! State: [`Hot`] and [`Cold`] are embedded in the columns of the control block; [`Pools`] hold
//! what few connections have at a time (the log of what is in flight, rates, undo states).
//! [`Compact`] is what is left of both while a connection idles.
//!
//! Entry points: the connection borrows the part as [`Loss`] for one step (`begin_ack`, `review`,
//! `on_advance`, `finish_ack`, `on_new_sent`, `on_retransmitted`, `on_timeout`, `on_early_timer` …)
//! and carries out the [`LossActions`] that come back. [`LossView`] answers questions (`pipe`,
//! `next_lost`, `cwnd_allows` …) and changes nothing. [`Loss::congestion`] is what other parts say
//! to congestion control.
//!
//! Invariants: [`LossView::check`] asserts them. At most one of RECOVERY and LOSS is set; the log
//! spans SND.UNA to SND.NXT; the scoreboard lies within it; a timer runs while anything is in
//! flight.
//!
//! No module of this folder knows the connection or another part; `docs/internals/loss.md` says
//! how it is cut.

mod ack;
mod actions;
mod congestion;
mod flight;
mod log;
mod pacing;
mod part;
mod prr;
mod rack;
mod rate;
mod rates;
mod recovery;
mod reordering;
mod rtt;
mod sampler;
mod scoreboard;
mod sent;
mod spurious;
mod state;
mod tail;
mod timers;
mod undo;
mod view;

pub(crate) use actions::LossActions;
pub(crate) use flight::NewData;
pub(crate) use part::Loss;
pub(crate) use rate::Acked;
pub(crate) use rates::Before;
pub(crate) use rtt::{Bounds, Rtt};
pub(crate) use state::{Cold, Compact, Hot, Pools, SavedPools};
pub(crate) use undo::{FRTO_SEGMENTS, Frto};
pub(crate) use view::LossView;
