//! Cancellation of threads (pthreads(7)). It unwinds the stack of a thread from the call that it
//! waits in, and what this library has noted below that call would stay. So a thread cannot be
//! cancelled while it is in the library: one that waits there is woken, its call ends, and it is
//! cancelled in the hook, below which there is the program.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// PTHREAD_CANCEL_ENABLE and PTHREAD_CANCEL_DISABLE of pthread.h.
const ENABLE: c_int = 0;
const DISABLE: c_int = 1;

/// The hooks that are cancellation points.
const POINTS: [&str; 28] = [
    "accept",
    "accept4",
    "connect",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "__read_chk",
    "__recv_chk",
    "__recvfrom_chk",
    "write",
    "writev",
    "send",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "splice",
    "poll",
    "ppoll",
    "__poll_chk",
    "__ppoll_chk",
    "select",
    "pselect",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
];

// Both may unwind.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_testcancel();
}

/// The program has cancelled a thread.
static USED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The state from before, while this thread cannot be cancelled.
    static HELD: Cell<Option<c_int>> = const { Cell::new(None) };
    /// Where its stack ends while it sleeps in the library; 0: it does not.
    static SLEEPS_AT: Cell<usize> = const { Cell::new(0) };
    /// Its call ended because it is cancelled.
    static DUE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the hook of this name is a cancellation point.
pub(crate) const fn is_point(name: &str) -> bool {
    let mut at = 0;
    while at < POINTS.len() {
        if is_same(POINTS[at].as_bytes(), name.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// A thread is about to be cancelled. The caller has the lock: a thread that takes it after that
/// knows.
pub(crate) fn begin() {
    USED.store(true, Ordering::Relaxed);
}

/// Whether threads of this program may be cancelled.
#[inline]
pub(crate) fn is_used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// This thread has the lock: from now on it cannot be cancelled, until its call ends.
#[inline]
pub(crate) fn enter() {
    if is_used() {
        hold();
    }
}

fn hold() {
    if HELD.get().is_none() {
        let mut old = ENABLE;
        // SAFETY: room for the state. It is disabled: nothing unwinds.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut old) };
        HELD.set(Some(old));
    }
}

/// Runs `body`, in which this thread sleeps.
pub(crate) fn sleeping<T>(body: impl FnOnce() -> T) -> T {
    hold();
    SLEEPS_AT.set(here());
    let result = body();
    SLEEPS_AT.set(0);
    result
}

/// About where the stack of this thread ends.
#[inline(never)]
fn here() -> usize {
    let place = 0_u8;
    ptr::from_ref(&place).addr()
}

/// Whether this is a call of a handler, which interrupted a sleep in the library. (A handler on a
/// stack of its own may be taken for none.)
fn is_nested() -> bool {
    let at = SLEEPS_AT.get();
    at != 0 && here() < at
}

/// Whether the program lets this thread be cancelled where it sleeps.
pub(crate) fn is_allowed() -> bool {
    HELD.get() == Some(ENABLE) && !is_nested()
}

/// The call of this thread ends: it is to be cancelled.
pub(crate) fn is_due() {
    DUE.set(true);
}

/// A cancellation point of the program: one that came before the call acts here.
#[inline]
pub(crate) fn point() {
    if is_used() && !is_nested() {
        // SAFETY: no memory is involved; it unwinds hooks, which hold nothing yet.
        unsafe { pthread_testcancel() };
    }
}

/// A hook ends, whose call may have `failed`. Returns whether the call is to be made again: it
/// failed for a thread that had this one's name before, and was cancelled elsewhere.
#[inline]
pub(crate) fn end(failed: bool) -> bool {
    match HELD.get() {
        Some(state) if !is_nested() => leave(state, failed),
        _ => false,
    }
}

fn leave(state: c_int, failed: bool) -> bool {
    HELD.set(None);
    let is_due = DUE.replace(false) && failed;
    // SAFETY: no memory is involved; both unwind hooks, which hold nothing any more.
    unsafe {
        pthread_setcancelstate(state, ptr::null_mut());
        if is_due {
            pthread_testcancel();
        }
    }
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_known_by_their_whole_names() {
        assert!(is_point("read") && is_point("epoll_pwait2") && is_point("epoll_pwait"));
        assert!(!is_point("rea") && !is_point("readx") && !is_point("") && !is_point("close"));
    }
}
