//! What the library asks of the kernel past the C library, so that no hook is in the way.

use std::ffi::c_int;
use std::time::Duration;

use libc::{POLLIN, pollfd, sigset_t, timespec};
use mtcp::{Errno, Result};

/// Now, in nanoseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    let mut now = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: room for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What waits for a descriptor to become readable.
pub(crate) fn poll_in(fd: c_int) -> pollfd {
    pollfd {
        fd,
        events: POLLIN,
        revents: 0,
    }
}

/// ppoll(2), past the C library, so that no hook is in the way.
pub(crate) fn ppoll(
    fds: &mut [pollfd],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Result<usize> {
    let time = timeout.map(|timeout| timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: descriptors with room for answers, a time and a set of signals (8 bytes for the
    // kernel) or NULL.
    let ready = unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            fds.as_mut_ptr(),
            fds.len(),
            time,
            mask,
            8usize,
        )
    };
    usize::try_from(ready).map_err(|_| Errno(mtcp::posix::call::errno()))
}
