//! Signals: handlers that are installed on request, and end blocking calls.

use std::ffi::c_int;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{SIG_DFL, SIG_ERR, SIG_IGN, sighandler_t};
use mtcp::{Errno, Result};

use crate::handle;
use mtcp::posix::call::{errno, set_errno};

/// Signals are numbered 1 to 64.
const SIGNALS: usize = 65;

/// The program's handlers, by signal; 0 is SIG_DFL, as in the system.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(SIG_DFL) }; SIGNALS];

/// See `mtcp_api.h`. The type of the handler is a number because SIG_IGN and SIG_ERR are no
/// functions.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_register_signal(signum: c_int, handler: sighandler_t) -> sighandler_t {
    match register(signum, handler) {
        Ok(previous) => previous,
        Err(errno) => {
            set_errno(errno.0);
            SIG_ERR
        }
    }
}

fn register(signum: c_int, handler: sighandler_t) -> Result<sighandler_t> {
    let index = usize::try_from(signum).map_err(|_| Errno::EINVAL)?;
    let entry = HANDLERS.get(index).ok_or(Errno::EINVAL)?;
    if handler == SIG_ERR {
        return Err(Errno::EINVAL);
    }
    // Before the trampoline is there to call it; after it has gone, if the program wants no
    // handler.
    let ours = entry.load(Ordering::Acquire);
    let wanted = if handler == SIG_DFL || handler == SIG_IGN {
        handler
    } else {
        trampoline()
    };
    if wanted == trampoline() {
        entry.store(handler, Ordering::Release);
    }
    match install(signum, wanted) {
        Ok(previous) if previous == trampoline() => Ok(ours),
        Ok(previous) => Ok(previous),
        Err(errno) => {
            entry.store(ours, Ordering::Release);
            Err(errno)
        }
    }
}

fn trampoline() -> sighandler_t {
    on_signal as extern "C" fn(c_int) as sighandler_t
}

fn install(signum: c_int, handler: sighandler_t) -> Result<sighandler_t> {
    let mut old = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: zeros are a valid action; `handler` is the trampoline, which is async-signal-safe, or
    // a disposition of the system.
    let result = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signum, &raw const action, old.as_mut_ptr())
    };
    if result != 0 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the call succeeded and filled it in.
    Ok(unsafe { old.assume_init() }.sa_sigaction)
}

/// Calls the program's handler, then wakes every context. Only atomics and system calls.
extern "C" fn on_signal(signum: c_int) {
    let kept = errno();
    let handler = HANDLERS
        .get(signum as usize)
        .map_or(SIG_DFL, |entry| entry.load(Ordering::Acquire));
    if handler != SIG_DFL && handler != SIG_IGN {
        // SAFETY: `register` was given it as a handler of signals, and it is no disposition of the
        // system.
        let handler: extern "C" fn(c_int) =
            unsafe { mem::transmute(ptr::without_provenance::<()>(handler)) };
        handler(signum);
    }
    handle::interrupt_all();
    set_errno(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn count(_: c_int) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn handlers_are_called_and_returned() {
        let ours = count as extern "C" fn(c_int) as sighandler_t;
        let before = mtcp_register_signal(libc::SIGWINCH, ours);
        assert_eq!(before, SIG_DFL);
        // SAFETY: the signal has a handler.
        unsafe { libc::raise(libc::SIGWINCH) };
        assert_eq!(CALLS.load(Ordering::SeqCst), 1);
        assert_eq!(mtcp_register_signal(libc::SIGWINCH, SIG_IGN), ours);
        assert_eq!(mtcp_register_signal(libc::SIGWINCH, SIG_DFL), SIG_IGN);
    }

    #[test]
    fn wrong_signals_are_refused() {
        for signum in [0, -1, 65, libc::SIGKILL, c_int::MAX] {
            assert_eq!(mtcp_register_signal(signum, SIG_IGN), SIG_ERR);
            assert_eq!(errno(), libc::EINVAL);
        }
    }
}
