//! What ends a turn of the server that waits.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Wakes the server from another thread.
#[derive(Clone, Debug)]
pub struct Waker(pub(super) Arc<OwnedFd>);

impl Waker {
    /// The turn that waits ends.
    pub fn wake(&self) {
        // A counter that is full wakes, too.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}
