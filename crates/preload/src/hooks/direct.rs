//! `syscall`: programs that go past the C library's functions. libuv closes descriptors so.

use std::ffi::{c_int, c_long, c_uint};

use super::descriptor::{close, close_range};
use super::hooks;
use crate::{engine, real, uring};

/// Whether a call of clone(2) with these flags and this stack makes a process as fork(2) does.
fn is_fork(flags: c_long, stack: c_long) -> bool {
    let shared = c_long::from(libc::CLONE_VM | libc::CLONE_FILES);
    flags & shared == 0 && stack == 0
}

hooks! {
    /// syscall(2): what takes descriptors away, which leaves their numbers to others, is seen here
    /// too, and who makes a ring.
    fn syscall(
        number: c_long,
        a: c_long,
        b: c_long,
        c: c_long,
        d: c_long,
        e: c_long,
        f: c_long,
    ) -> c_long {
        // The kernel looks at as many bits as the argument has.
        // SAFETY: the same promises.
        unsafe {
            match number {
                libc::SYS_close => close(a as c_int).into(),
                libc::SYS_close_range => close_range(a as c_uint, b as c_uint, c as c_int).into(),
                libc::SYS_io_uring_setup => {
                    uring::arm();
                    real::syscall(number, a, b, c, d, e, f)
                }
                libc::SYS_clone if is_fork(a, b) => {
                    engine::around(|| real::syscall(number, a, b, c, d, e, f))
                }
                #[cfg(target_arch = "x86_64")]
                libc::SYS_fork => engine::around(|| real::syscall(number, a, b, c, d, e, f)),
                _ => real::syscall(number, a, b, c, d, e, f),
            }
        }
    }
}
