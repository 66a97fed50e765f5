//! Whether a thread is in the program or in this library, whose own calls, and those of what it
//! uses, no hook may take for the program's.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_uint, c_ulong};
use std::sync::atomic::{AtomicU32, Ordering};

use mtcp::posix::call::{errno, set_errno};

use crate::put_off;
use crate::slots::{self, Slot};

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Program,
    /// Its calls are the library's.
    Library,
    /// As `Library`, with the engine's lock, between the beginning of a `fork` and its end.
    Forks,
    /// As `Library`, with descriptors that are the thread's alone: their numbers say nothing.
    Apart,
}

thread_local! {
    static SIDE: Cell<Side> = const { Cell::new(Side::Program) };
}

/// Where this thread is.
#[inline]
pub(crate) fn side() -> Side {
    SIDE.get()
}

/// A number that no other living thread has; never 0.
#[inline]
pub(crate) fn name() -> usize {
    SIDE.with(|side| std::ptr::from_ref(side).addr())
}

/// This thread is elsewhere from now on. Returns where it was. Signals that were put off come when
/// that is the program.
#[inline]
pub(crate) fn go(to: Side) -> Side {
    let from = SIDE.replace(to);
    if to == Side::Program {
        put_off::let_in();
    }
    from
}

/// Runs `body` as the library's.
pub(crate) fn run<T>(body: impl FnOnce() -> T) -> T {
    let before = go(Side::Library);
    let result = body();
    go(before);
    result
}

/// The first argument of a call, which says what the call is about.
pub(crate) trait Subject: Copy {
    /// Whether it names a socket or an epoll instance of the program. The library has none: if a
    /// thread in it asks about one, a handler of the program interrupted it, and hears `EDEADLK`.
    #[inline]
    fn is_of_program(self) -> bool {
        false
    }
}

impl Subject for c_int {
    #[inline]
    fn is_of_program(self) -> bool {
        matches!(slots::look(self), Slot::Socket(_) | Slot::Epoll(_))
    }
}

impl Subject for c_uint {}
impl Subject for c_long {}
impl Subject for usize {}
impl Subject for c_ulong {}
impl<T> Subject for *mut T {}
impl<T> Subject for *const T {}

/// Whether a call about `subject` is to go on to the C library as it is.
#[inline]
pub(crate) fn passes(subject: impl Subject) -> bool {
    match side() {
        Side::Program => false,
        Side::Library | Side::Forks => !subject.is_of_program(),
        Side::Apart => true,
    }
}

/// What a call returns.
pub(crate) trait Outcome {
    /// Whether errno says why it failed.
    fn failed(&self) -> bool;
}

impl Outcome for c_int {
    #[inline]
    fn failed(&self) -> bool {
        *self < 0
    }
}

impl Outcome for isize {
    #[inline]
    fn failed(&self) -> bool {
        *self < 0
    }
}

impl Outcome for usize {
    fn failed(&self) -> bool {
        *self == libc::SIG_ERR
    }
}

impl Outcome for c_long {
    #[inline]
    fn failed(&self) -> bool {
        *self < 0
    }
}

impl Outcome for () {
    fn failed(&self) -> bool {
        false
    }
}

impl<T> Outcome for *mut T {
    fn failed(&self) -> bool {
        self.is_null()
    }
}

/// How many forks this process is away from the first: a call may begin in a parent and end in a
/// child.
static GENERATION: AtomicU32 = AtomicU32::new(0);

#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// This process is a child now.
pub(crate) fn is_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Whether a call that began in that generation is in a child of it now, where the socket is
/// another.
#[inline]
pub(crate) fn is_lost(began: u32, result: &impl Outcome) -> bool {
    began != generation() && result.failed() && errno() == libc::EBADF
}

/// Runs the body of a hook. A call that succeeds leaves errno as it was, as the kernel's do.
#[inline]
pub(crate) fn keep_errno<T: Outcome>(body: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = body();
    if !result.failed() {
        set_errno(before);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_of_the_program_are_taken() {
        assert!(slots::set(2000, Slot::Socket(1)));
        assert!(!passes(2000) && !passes(2001));
        run(|| assert!(!passes(2000) && passes(2001)));
        assert_eq!(go(Side::Apart), Side::Program);
        assert!(passes(2000));
        assert_eq!(go(Side::Program), Side::Apart);
        slots::set(2000, Slot::Kernel);
    }

    #[test]
    fn success_leaves_errno_alone() {
        set_errno(libc::ENOTTY);
        let change = |result: c_int| {
            keep_errno(|| {
                set_errno(libc::EBADF);
                result
            })
        };
        assert_eq!((change(3), errno()), (3, libc::ENOTTY));
        assert_eq!((change(-1), errno()), (-1, libc::EBADF));
    }
}
