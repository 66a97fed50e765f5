//! The calls that programs make.
//!
//! Each looks at the table first and goes on to the C library when the descriptor is none of ours.

pub mod descriptor;
pub mod direct;
pub mod epoll;
pub mod execute;
pub mod interfaces;
pub mod limits;
pub mod listen;
pub mod message;
pub mod option;
pub mod poll;
pub mod printed;
pub mod process;
pub mod select;
pub mod sendfile;
pub mod signal;
pub mod socket;
pub mod splice;
pub mod stdio;
pub mod stream;
pub mod urgent;
pub mod uring;

use std::time::Duration;

use libc::{timespec, timeval};
use mtcp::{Errno, Result};

/// Exports a C function of this name. Calls of the library itself go on to the C library's
/// function. In the library's own tests it keeps its Rust name only. A call that goes on in a
/// child, which a handler of a signal has made meanwhile, is made once more if it has lost its
/// socket. A thread that is cancelled ends here, before the call or after it (`cancel`).
macro_rules! hooks {
    ($($(#[$doc:meta])* fn $name:ident($first:ident: $kind:ty $(, $argument:ident: $type:ty)* $(,)?) -> $result:ty $body:block)*) => {
        $(
            $(#[$doc])*
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C-unwind" fn $name($first: $kind $(, $argument: $type)*) -> $result {
                if crate::inside::passes($first) {
                    // SAFETY: the same arguments.
                    return unsafe { crate::real::$name($first $(, $argument)*) };
                }
                if const { crate::cancel::is_point(stringify!($name)) } {
                    crate::cancel::point();
                }
                let generation = crate::inside::generation();
                let result = crate::inside::keep_errno(move || $body);
                let failed = crate::inside::Outcome::failed(&result);
                if crate::cancel::end(failed) || crate::inside::is_lost(generation, &result) {
                    // SAFETY: the same promises.
                    return unsafe { $name($first $(, $argument)*) };
                }
                result
            }
        )*
    };
}
pub(crate) use hooks;

/// The result of a call that the C library made: its errno is set already.
pub(crate) fn last() -> Errno {
    Errno(mtcp::posix::call::errno())
}

/// A time limit in milliseconds; negative: none.
fn millis(timeout: i32) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// A time limit; NULL: none.
///
/// # Safety
/// `time` is NULL or points to a time.
unsafe fn limit(time: *const timespec) -> Result<Option<Duration>> {
    // SAFETY: the caller's promise.
    let Some(time) = (unsafe { time.as_ref() }) else {
        return Ok(None);
    };
    duration(time.tv_sec, time.tv_nsec, 1).map(Some)
}

/// A time limit; NULL: none.
///
/// # Safety
/// `time` is NULL or points to a time.
unsafe fn limit_micros(time: *const timeval) -> Result<Option<Duration>> {
    // SAFETY: the caller's promise.
    let Some(time) = (unsafe { time.as_ref() }) else {
        return Ok(None);
    };
    duration(time.tv_sec, time.tv_usec, 1000).map(Some)
}

fn duration(seconds: i64, fraction: i64, unit: u32) -> Result<Duration> {
    let seconds = u64::try_from(seconds).map_err(|_| Errno::EINVAL)?;
    let nanos = u32::try_from(fraction)
        .ok()
        .and_then(|fraction| fraction.checked_mul(unit));
    match nanos {
        Some(nanos @ 0..1_000_000_000) => Ok(Duration::new(seconds, nanos)),
        _ => Err(Errno::EINVAL),
    }
}
