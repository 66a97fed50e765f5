//! A descriptor kept for when there are none left: a connection that cannot be accepted would keep
//! the listener readable and the daemon busy.

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

#[derive(Debug)]
pub(super) struct Reserve(Option<OwnedFd>);

impl Reserve {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self(Some(eventfd(0, EventfdFlags::CLOEXEC)?)))
    }

    /// Does `work` with one descriptor more than there were.
    pub(super) fn lend<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.0 = None;
        let result = work();
        self.0 = eventfd(0, EventfdFlags::CLOEXEC).ok();
        result
    }
}
