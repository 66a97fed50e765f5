//! The boundary: results become return values and errno.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::{Errno, Result};

/// What a call of the C API returns when it fails.
pub trait Answer {
    /// What it returns.
    const FAILURE: Self;
}

impl Answer for c_int {
    const FAILURE: Self = -1;
}

impl Answer for isize {
    const FAILURE: Self = -1;
}

impl<T> Answer for *mut T {
    const FAILURE: Self = ptr::null_mut();
}

/// Runs the body of a C function.
#[inline]
pub fn answer<T: Answer>(body: impl FnOnce() -> Result<T>) -> T {
    let errno = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return value,
        Ok(Err(errno)) => errno,
        Err(_) => Errno(libc::ENOTRECOVERABLE),
    };
    set_errno(errno.0);
    T::FAILURE
}

/// The same for functions that return 0.
#[inline]
pub fn done(body: impl FnOnce() -> Result<()>) -> c_int {
    answer(|| body().map(|()| 0))
}

/// How many connections may wait for `accept` after `listen(fd, asked)`, where `most` may be asked
/// for. As in Linux, what is negative or more is that, and one more may wait than was asked for.
pub fn backlog(asked: c_int, most: u32) -> u32 {
    asked.cast_unsigned().min(most).saturating_add(1)
}

/// This thread's errno.
pub fn errno() -> c_int {
    // SAFETY: the address is that of this thread's errno, valid as long as the thread.
    unsafe { *libc::__errno_location() }
}

/// Changes this thread's errno.
pub fn set_errno(errno: c_int) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = errno }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_set_errno() {
        assert_eq!(answer(|| Err::<c_int, _>(Errno::EBADF)), -1);
        assert_eq!(errno(), libc::EBADF);
        assert_eq!(done(|| Ok(())), 0);
        assert_eq!(errno(), libc::EBADF);
        assert!(answer(|| Err::<*mut u8, _>(Errno::EINVAL)).is_null());
    }

    #[test]
    fn one_more_may_wait_than_was_asked_for() {
        let asked = [0, 1, 128, c_int::MAX, -1, c_int::MIN];
        let waiting = asked.map(|asked| backlog(asked, 4096));
        assert_eq!(waiting, [1, 2, 129, 4097, 4097, 4097]);
    }

    #[test]
    fn panics_end_here() {
        assert_eq!(
            answer(|| -> Result<isize> { panic!("a test of panics") }),
            -1
        );
        assert_eq!(errno(), libc::ENOTRECOVERABLE);
    }
}
