//! Signals of the program, which are its own: the runtime installs no handler and lets none run on
//! its threads.

use std::mem::MaybeUninit;
use std::ptr;

/// Signals that an instruction raises, which come to the thread that executed it, and that of
/// profilers.
const SYNCHRONOUS: [i32; 8] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGPROF,
];

/// Signals are blocked on this thread while it lives: those that come meanwhile come when it is
/// dropped, or where a call lets them in.
#[derive(Debug)]
pub struct Held {
    before: Option<libc::sigset_t>,
}

impl Held {
    /// The mask from before, for a call that is to be interrupted as if nothing were blocked; NULL:
    /// nothing is.
    pub fn before(&self) -> *const libc::sigset_t {
        self.before.as_ref().map_or(ptr::null(), ptr::from_ref)
    }
}

impl Held {
    /// They are blocked already, all that [`hold`] blocks; `before` is the mask from before that.
    pub fn since(before: libc::sigset_t) -> Self {
        Self {
            before: Some(before),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: a set of signals.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
        }
    }
}

/// Whether `signal` is one that [`hold`] leaves alone.
pub fn is_synchronous(signal: i32) -> bool {
    SYNCHRONOUS.contains(&signal)
}

/// Blocks signals on this thread.
pub fn hold() -> Held {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set that the others change and read; the last call
    // initialises `before`.
    let blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for signal in SYNCHRONOUS {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr())
    };
    Held {
        // SAFETY: the call that blocked them succeeded, and initialised `before`.
        before: (blocked == 0).then(|| unsafe { before.assume_init() }),
    }
}

/// Runs `body` with signals blocked: a thread that it starts inherits that, and signals to the
/// process come to the threads of the program, whose calls they interrupt.
pub fn without<T>(body: impl FnOnce() -> T) -> T {
    let _held = hold();
    body()
}

/// Whether a call that a handler interrupted goes on, as after a handler with SA_RESTART. Nobody
/// says which handler ran; so this is the case when all that the program has installed say it.
pub fn restart() -> bool {
    (1..=libc::SIGRTMAX())
        .filter(|signal| !is_synchronous(*signal))
        .all(|signal| {
            let mut action = MaybeUninit::<libc::sigaction>::uninit();
            // SAFETY: it only tells the action, into room for one.
            let told = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
            if told != 0 {
                // One of the C library's own.
                return true;
            }
            // SAFETY: the call succeeded and initialised it.
            let action = unsafe { action.assume_init() };
            matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
                || action.sa_flags & libc::SA_RESTART != 0
        })
}
