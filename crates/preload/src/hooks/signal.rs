//! Handlers of signals and cancellation of threads, which are kept out of calls of the library
//! (`handlers`, `cancel`).

use std::ffi::c_int;

use libc::{SA_NODEFER, SA_RESETHAND, pthread_t, sighandler_t};

use super::hooks;
use crate::rules::rules;
use crate::{cancel, engine, handlers, real};

hooks! {
    /// sigaction(2).
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        // SAFETY: the same arguments.
        unsafe {
            if rules().is_none() {
                return real::sigaction(signal, new, old);
            }
            handlers::sigaction(signal, new, old)
        }
    }

    /// pthread_cancel(3).
    fn pthread_cancel(thread: pthread_t) -> c_int {
        // SAFETY: no memory is involved.
        if rules().is_none() || thread == unsafe { libc::pthread_self() } {
            cancel::begin();
            // SAFETY: the same argument.
            return unsafe { real::pthread_cancel(thread) };
        }
        engine::cancel(thread)
    }

    /// signal(2).
    fn signal(number: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the same arguments.
        installed(number, handler, |handler| unsafe { real::signal(number, handler) })
    }

    /// signal(2).
    fn bsd_signal(number: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the same arguments.
        unsafe { signal(number, handler) }
    }

    /// signal(2).
    fn ssignal(number: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the same arguments.
        unsafe { signal(number, handler) }
    }

    /// sigset(3).
    fn sigset(number: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the same arguments.
        installed(number, handler, |handler| unsafe { real::sigset(number, handler) })
    }

    /// sysv_signal(3): a handler that is called once, and may interrupt itself.
    fn sysv_signal(number: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: all zeros is an action.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut before: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = SA_RESETHAND | SA_NODEFER;
            if sigaction(number, &raw const action, &raw mut before) < 0 {
                return libc::SIG_ERR;
            }
            before.sa_sigaction
        }
    }

    /// sysv_signal(3).
    fn __sysv_signal(number: c_int, handler: sighandler_t) -> sighandler_t {
        // SAFETY: the same arguments.
        unsafe { sysv_signal(number, handler) }
    }
}

fn installed(
    number: c_int,
    handler: sighandler_t,
    install: impl FnOnce(sighandler_t) -> sighandler_t,
) -> sighandler_t {
    if rules().is_none() {
        return install(handler);
    }
    handlers::install(number, handler, install)
}
