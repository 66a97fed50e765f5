//! Waking a context from elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ring::park::FdWaker;

/// What others asked of a context; it looks before and after each sleep.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    wake: AtomicBool,
    interrupt: AtomicBool,
}

impl Requests {
    /// Whether a wake-up was asked for since last asked.
    pub(crate) fn take_wake(&self) -> bool {
        take(&self.wake)
    }

    /// Whether an interruption was asked for since last asked.
    pub(crate) fn take_interrupt(&self) -> bool {
        take(&self.interrupt)
    }

    /// Whether a wake-up is asked for.
    pub(crate) fn woken(&self) -> bool {
        self.wake.load(Ordering::Acquire)
    }

    /// Whether an interruption is asked for.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Acquire)
    }
}

/// Reads first: a plain load in the usual case.
fn take(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Acquire) && flag.swap(false, Ordering::AcqRel)
}

/// Ends a sleep of a [`crate::Context`] from another thread or from a signal handler
/// (async-signal-safe: atomics and one system call).
#[derive(Clone, Debug)]
pub struct WakeHandle {
    requests: Arc<Requests>,
    waker: FdWaker,
}

impl WakeHandle {
    pub(crate) fn new(requests: Arc<Requests>, waker: FdWaker) -> Self {
        Self { requests, waker }
    }

    /// The current or else the next `epoll_wait` returns early, with what is ready or with 0.
    pub fn wake(&self) {
        self.requests.wake.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// The current or else the next call that would block returns `EINTR`.
    pub fn interrupt(&self) {
        self.requests.interrupt.store(true, Ordering::Release);
        self.waker.wake();
    }
}
