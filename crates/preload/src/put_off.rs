//! Signals of a thread that wait until it is in the program again (`handlers`): they are blocked
//! until then.

use std::cell::Cell;

use libc::sigset_t;
use mtcp::signals::{self, Held};

thread_local! {
    /// Whether some wait.
    static WAIT: Cell<bool> = const { Cell::new(false) };
    /// What the kernel keeps of the mask from before: a bit for each signal.
    static BEFORE: Cell<u64> = const { Cell::new(0) };
}

/// From now on some wait; `mask` is the one that is to be again, of the first that does.
pub(crate) fn note(mask: u64) {
    if !WAIT.replace(true) {
        BEFORE.set(mask);
    }
}

/// The thread is in the program again.
#[inline]
pub(crate) fn let_in() {
    if WAIT.get() {
        drop(take());
    }
}

#[cold]
fn take() -> Held {
    WAIT.set(false);
    // SAFETY: all zeros is a set, of none.
    let mut before: sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set of the C library begins as the kernel's and is larger.
    unsafe { (&raw mut before).cast::<u64>().write(BEFORE.get()) };
    Held::since(before)
}

/// Blocks signals on this thread. Those that wait come where those that come meanwhile do.
pub(crate) fn hold() -> Held {
    if WAIT.get() { take() } else { signals::hold() }
}
