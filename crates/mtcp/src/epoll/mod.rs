//! Readiness: several epoll instances per context, with the semantics of Linux.

mod events;
mod original;
mod ready;
mod report;
mod watch;

pub use events::{Ctl, EpollEvent, Events, Interest};
pub(crate) use ready::Levels;
pub(crate) use watch::Watch;
