//! One core's sockets and the stack below them.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::{Errno, Result, WakeHandle};

/// Sockets, epoll instances and pipes of one thread. `Send`, so that it can be made elsewhere; not `Sync`: one thread at a time uses it.
#[derive(Debug)]
pub struct Context {
    not_sync: PhantomData<Cell<()>>,
}

impl Context {
    /// The logical core it was made for.
    pub fn core(&self) -> usize {
        0
    }

    /// Does what is due without waiting: receives, fires timers, sends. Calls that wait or would have to do this by themselves.
    ///
    /// # Errors
    /// `ENETDOWN` when the link is gone.
    pub fn poll(&mut self) -> Result<()> {
        Err(Errno::ENOSYS)
    }

    /// A handle that ends this context's sleep from elsewhere.
    pub fn wake_handle(&self) -> WakeHandle {
        unreachable!()
    }

    /// Why the link went down, once it has.
    pub fn link_error(&self) -> Option<&str> {
        None
    }
}
