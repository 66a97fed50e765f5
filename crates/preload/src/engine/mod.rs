//! The engine of the process: the stack and what belongs to it, under one lock ([`state`]), and
//! what comes to it by itself: forks, the end of the program, and threads of the library.

mod background;
mod epolls;
mod fork;
mod output;
mod paired;
mod start;
pub(crate) mod state;

use std::ffi::{c_int, c_long};
use std::sync::Once;

use libc::pthread_t;
use mtcp::Result;

use crate::inside::{self, Side};
use crate::lock::{Guard, Lock};
use crate::rules::rules;
use crate::{cancel, presence, process, real, streams, wait};
pub(crate) use start::{serve, tell_failing};
use state::Duties;
pub(crate) use state::Engine;

static ENGINE: Lock<Engine> = Lock::new(Engine::new(Duties {
    is_wanted: || ENGINE.is_wanted(),
    background: || background::run(lock),
    start_deferred: || start::run(lock),
    watch_forks,
    watch_end,
}));

/// The engine, alone.
///
/// # Errors
/// `EDEADLK`: this thread has it already, below a signal handler.
pub(crate) fn lock() -> Result<Guard<'static, Engine>> {
    // A handler that the kernel calls in the midst of a call leaves this to the next one.
    if process::is_copy() && !ENGINE.is_mine() {
        become_child();
    }
    let mut engine = ENGINE.lock()?;
    if presence::noted().is_some() {
        wait::wake_up(&mut engine);
    }
    Ok(engine)
}

/// pthread_cancel(3): a thread that waits here hears of it.
pub(crate) fn cancel(thread: pthread_t) -> c_int {
    let engine = lock();
    cancel::begin();
    // SAFETY: a thread of the program. It is cancelled where it is the program's: it cannot take
    // the lock meanwhile.
    let result = unsafe { real::pthread_cancel(thread) };
    if let (0, Ok(mut engine)) = (result, engine) {
        engine.waiters.cancel(thread);
        engine.epolls.wake_all_in_kernel();
    }
    result
}

/// Has `fork` find the engine in order. Once per process image; children inherit it.
fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(process::watch_for_copies);
    static HANDLERS: Once = Once::new();
    // Fails without memory only. SAFETY: the three functions may run before, in the parent after,
    // and in the child after any fork.
    HANDLERS.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(parent), Some(child));
    });
}

extern "C" fn before() {
    // A handler that the kernel called in the midst of a call: what holds there nobody knows.
    if inside::side() != Side::Program {
        return;
    }
    if let Ok(mut engine) = lock() {
        streams::before_fork();
        engine.prepare_fork();
        // Given back by `parent`, made anew by `child`.
        let _ = std::mem::ManuallyDrop::new(engine);
        inside::go(Side::Forks);
    }
}

/// Whether this thread forks, and has the engine. A handler that interrupted the library has not.
fn forks() -> bool {
    inside::side() == Side::Forks
}

extern "C" fn parent() {
    if forks() {
        streams::after_fork();
        // SAFETY: `before` took it in this thread.
        unsafe { ENGINE.held() }.keep_lent();
        cancel::end(false);
    }
}

extern "C" fn child() {
    if !forks() {
        return;
    }
    streams::after_fork();
    inside::is_child();
    process::is_no_copy();
    // SAFETY: a child has one thread, this one.
    unsafe { ENGINE.renew() };
    inside::go(Side::Program);
    if let Ok(mut engine) = lock() {
        engine.leave_to_parent();
        engine.take_lent();
    }
    cancel::end(false);
}

/// Runs a call that makes a process without the C library's `fork`, as if it were that.
pub(crate) fn around(call: impl FnOnce() -> c_long) -> c_long {
    if rules().is_none() {
        return call();
    }
    before();
    let result = call();
    if result == 0 {
        child();
    } else {
        parent();
    }
    result
}

/// It was made by the clone system call, which runs no handlers: the stack stays with the parent.
#[cold]
pub(crate) fn become_child() {
    process::is_no_copy();
    let is_whole = !ENGINE.is_held();
    // SAFETY: such a child has one thread, this one.
    unsafe { ENGINE.renew() };
    if let Ok(mut engine) = lock() {
        if is_whole {
            engine.leave_to_parent();
        } else {
            // Another thread was at it: nobody knows what holds.
            engine.forget_everything();
        }
    }
}

/// Has the end of the program close what is open.
fn watch_end() {
    static ONCE: Once = Once::new();
    // Fails without memory only.
    // SAFETY: the function may run at the end of the program.
    ONCE.call_once(|| unsafe {
        libc::atexit(finish);
    });
}

/// Closes the connections and sees what was written off, within bounds. Peers may end theirs when
/// they like.
pub(crate) extern "C" fn finish() {
    if let Ok(mut engine) = lock() {
        engine.finish();
    }
}
