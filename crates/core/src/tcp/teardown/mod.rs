//! Teardown: TIME_WAIT, resets, challenges and their limits, and how many connections may end
//! without an application.
//!
//! State: [`TimeWaits`], which is the stack's, and [`Challenges`], which the cold column of the
//! control block embeds. Behaviour: [`TimeWaitPart`].
//!
//! No module of this folder knows `Tcp` or a connection; `docs/internals/teardown.md` says more.

mod challenges;
mod closing;
mod last_ack;
mod orphan_limit;
mod part;
mod reset;
mod time_wait;
mod waiting;

pub(crate) use challenges::Challenges;
pub(crate) use closing::ClosingWithReset;
pub(crate) use orphan_limit::one_too_many;
pub(crate) use part::TimeWaitPart;
pub(crate) use reset::{reset_for, reset_of};
pub(crate) use time_wait::{Facts, Rest, TimeWait, TimeWaits, since};
