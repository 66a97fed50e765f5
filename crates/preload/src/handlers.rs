//! Handlers of the program's signals run where the program is. One that comes while its thread is
//! in the library would find half of a call done: a `fork` there would copy that, and a call on a
//! socket would wait for itself. So each handler that the program installs is called by one of the
//! library's, which in that case blocks signals where it came and sends this one again: it comes
//! when the thread is back in the program, or goes to sleep.
//!
//! Signals that an instruction raises cannot wait (`signals::is_synchronous`). Handlers that a
//! program installs without the C library (Go) are called by the kernel: calls on sockets there
//! fail with `EDEADLK` while their thread is in the library.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{SA_RESETHAND, SA_SIGINFO, sighandler_t, siginfo_t, ucontext_t};
use mtcp::posix::call::{errno, set_errno};
use mtcp::signals;

use crate::inside::{self, Side};
use crate::presence::{self, Note};
use crate::{engine, put_off, real, wait};

/// As many as the kernel has.
const SIGNALS: usize = 64;
/// Bits of a word of the table that no address has: what the program said of its handler, which the
/// kernel is not told.
const TAKES_INFO: usize = 1 << 62;
const ONCE: usize = 1 << 61;
const ADDRESS: usize = ONCE - 1;
/// Of signal.h: SIG_DFL, SIG_IGN and this one are no functions; nor is SIG_ERR, which is no
/// address.
const SIG_HOLD: sighandler_t = 2;

/// The program's handlers of signals whose handler is ours.
static TABLE: [AtomicUsize; SIGNALS + 1] = [const { AtomicUsize::new(0) }; SIGNALS + 1];

fn entry(signal: c_int) -> Option<&'static AtomicUsize> {
    usize::try_from(signal)
        .ok()
        .and_then(|signal| TABLE.get(signal))
}

/// Our handler, as sigaction(2) has it.
fn ours() -> sighandler_t {
    arrive as *const () as sighandler_t
}

/// Whether `handler` is a function, which is to be called by ours.
fn is_called_by_us(signal: c_int, handler: sighandler_t) -> bool {
    handler > SIG_HOLD && handler <= ADDRESS && !signals::is_synchronous(signal)
}

/// The program's handler of a signal, and what it said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Handler(usize);

impl Handler {
    fn new(address: sighandler_t, flags: c_int) -> Self {
        let bit = |flag, bit| if flags & flag != 0 { bit } else { 0 };
        Self(address | bit(SA_SIGINFO, TAKES_INFO) | bit(SA_RESETHAND, ONCE))
    }

    fn address(self) -> sighandler_t {
        self.0 & ADDRESS
    }

    fn has(self, bit: usize) -> bool {
        self.0 & bit != 0
    }
}

/// sigaction(2).
///
/// # Safety
/// As for that.
pub(crate) unsafe fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's promise.
    let wanted = unsafe { new.as_ref() };
    let wraps = wanted.filter(|new| is_called_by_us(signal, new.sa_sigaction));
    let (Some(entry), Some(wanted)) = (entry(signal), wraps) else {
        let known = entry(signal).map(|entry| entry.load(Ordering::Relaxed));
        // SAFETY: the same arguments.
        let done = unsafe { real::sigaction(signal, new, old) };
        // SAFETY: the caller's promise, and the kernel filled it.
        unsafe { tell(done, known, old) };
        return done;
    };
    let mut action = *wanted;
    action.sa_sigaction = ours();
    action.sa_flags = action.sa_flags & !SA_RESETHAND | SA_SIGINFO;
    let handler = Handler::new(wanted.sa_sigaction, wanted.sa_flags);
    let known = entry.swap(handler.0, Ordering::Relaxed);
    // SAFETY: an action, and the caller's promise.
    let done = unsafe { real::sigaction(signal, &raw const action, old) };
    if done < 0 {
        entry.store(known, Ordering::Relaxed);
    }
    // SAFETY: the caller's promise, and the kernel filled it.
    unsafe { tell(done, Some(known), old) };
    done
}

/// Puts the program's handler where the kernel has told ours.
///
/// # Safety
/// `old` is NULL or points to an action, if the call was `done`.
unsafe fn tell(done: c_int, known: Option<usize>, old: *mut libc::sigaction) {
    // SAFETY: the caller's promise.
    let old = unsafe { old.as_mut() }.filter(|_| done == 0);
    if let (Some(old), Some(known)) = (old, known.map(Handler))
        && old.sa_sigaction == ours()
    {
        old.sa_sigaction = known.address();
        if !known.has(TAKES_INFO) {
            old.sa_flags &= !SA_SIGINFO;
        }
        if known.has(ONCE) {
            old.sa_flags |= SA_RESETHAND;
        }
    }
}

/// signal(3) and its like: `install` is the C library's.
pub(crate) fn install(
    signal: c_int,
    handler: sighandler_t,
    install: impl FnOnce(sighandler_t) -> sighandler_t,
) -> sighandler_t {
    let wraps = is_called_by_us(signal, handler);
    let Some(entry) = entry(signal) else {
        return install(handler);
    };
    let known = entry.load(Ordering::Relaxed);
    if wraps {
        entry.store(handler, Ordering::Relaxed);
    }
    let before = install(if wraps { ours() } else { handler });
    if wraps && before == libc::SIG_ERR {
        entry.store(known, Ordering::Relaxed);
    }
    if before == ours() {
        Handler(known).address()
    } else {
        before
    }
}

/// What the kernel calls.
extern "C" fn arrive(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if inside::side() == Side::Program {
        run(signal, info, context);
        return;
    }
    // SAFETY: the kernel's, for this handler.
    past_errno(|| unsafe { put_off(signal, info, context.cast()) });
}

fn run(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(entry) = entry(signal) else {
        return;
    };
    let handler = Handler(entry.load(Ordering::Relaxed));
    if handler.address() == 0 {
        return;
    }
    if handler.has(ONCE) {
        // SAFETY: all zeros is the default action.
        unsafe {
            let usual: libc::sigaction = std::mem::zeroed();
            real::sigaction(signal, &raw const usual, ptr::null_mut());
        }
    }
    // SAFETY: the program's handler; one that takes the signal alone leaves the others where they
    // are.
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
        unsafe { std::mem::transmute(handler.address()) };
    // It may not return.
    let noted = past_errno(leave);
    handler(signal, info, context);
    past_errno(|| come_back(noted));
}

/// A handler of the program is about to run, and may not return. Returns what is to be noted when
/// it does.
fn leave() -> Option<Note> {
    let noted = presence::noted()?;
    // Who has the lock does not sleep.
    engine::lock().is_ok().then_some(noted)
}

/// It has returned, and the call goes on.
fn come_back(noted: Option<Note>) {
    if let Some(noted) = noted
        && let Ok(mut engine) = engine::lock()
    {
        wait::sleep_on(&mut engine, noted);
    }
}

/// Runs `body`, which leaves errno as it was.
fn past_errno<T>(body: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = body();
    set_errno(before);
    result
}

/// Blocks signals where this one came, and sends it again.
///
/// # Safety
/// What the kernel calls a handler with.
unsafe fn put_off(signal: c_int, info: *const siginfo_t, context: *mut ucontext_t) {
    let held = signals::hold();
    // The kernel's set has a bit for each signal, and ends there.
    // SAFETY: the kernel's.
    let mask = unsafe { (&raw mut (*context).uc_sigmask).cast::<u64>() };
    // SAFETY: as above.
    unsafe {
        put_off::note(mask.read());
        mask.write(mask.read() | blocked_now());
        let (process, thread) = (libc::getpid(), libc::gettid());
        let again = libc::SYS_rt_tgsigqueueinfo;
        if libc::syscall(again, process, thread, signal, info) < 0 {
            // No more may be queued: now is better than never.
            run(signal, info.cast_mut(), context.cast());
        }
    }
    // The end of the handler sets the mask.
    let _ = std::mem::ManuallyDrop::new(held);
}

/// The mask of this thread.
fn blocked_now() -> u64 {
    let mut mask = 0_u64;
    let none: *const u64 = ptr::null();
    let how = libc::SIG_BLOCK;
    // SAFETY: room for a set of the kernel.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            none,
            &raw mut mask,
            size_of::<u64>(),
        )
    };
    mask
}
