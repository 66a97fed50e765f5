//! Waking a context from elsewhere.

/// Ends a sleep of a [`crate::Context`] from another thread or from a signal handler (async-signal-safe: atomics and one system call).
#[derive(Clone, Debug)]
pub struct WakeHandle(());

impl WakeHandle {
    /// The current or else the next `epoll_wait` returns early, with what is ready or with 0.
    pub fn wake(&self) {}

    /// The current or else the next call that would block returns `EINTR`.
    pub fn interrupt(&self) {}
}
