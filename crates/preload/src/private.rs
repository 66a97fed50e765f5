//! Descriptors of the library's own. They have high numbers: programs count on the low ones.

use std::collections::HashSet;
use std::ffi::c_int;

use crate::real;
use crate::slots::{self, Slot};

/// Where they begin, if the process may have as many.
const FIRST: c_int = 512;

/// Moves a descriptor out of the way of the program's. Returns its number.
pub(crate) fn lift(fd: c_int) -> c_int {
    // SAFETY: duplicates a descriptor; no memory is involved.
    match unsafe { real::fcntl64(fd, libc::F_DUPFD_CLOEXEC, FIRST as u64) } {
        high @ 0.. => {
            // SAFETY: the caller's descriptor, which has another number now.
            unsafe { real::close(fd) };
            high
        }
        _ => fd,
    }
}

/// Makes descriptors that are to be kept from the program. Returns them too.
pub(crate) fn keep<T>(make: impl FnOnce() -> T) -> (T, Vec<c_int>) {
    let before = open();
    let low = fill(&before);
    let made = make();
    for fd in low {
        // SAFETY: made by `fill`, and nobody else knows it.
        unsafe { real::close(fd) };
    }
    let kept: Vec<c_int> = open().difference(&before).copied().collect();
    for fd in &kept {
        slots::set(*fd, Slot::Private);
    }
    (made, kept)
}

/// Whether there can be more descriptors than the low ones.
fn has_room() -> bool {
    const NEEDED: libc::rlim_t = 256;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: room for a limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    known && limit.rlim_cur > libc::rlim_t::from(FIRST.unsigned_abs()) + NEEDED
}

/// Takes all low numbers that are free, for a moment.
fn fill(open: &HashSet<c_int>) -> Vec<c_int> {
    let (Some(&any), true) = (open.iter().next(), has_room()) else {
        return Vec::new();
    };
    let mut taken = Vec::new();
    loop {
        // SAFETY: duplicates a descriptor; no memory is involved.
        match unsafe { real::fcntl64(any, libc::F_DUPFD_CLOEXEC, 0) } {
            fd if (0..FIRST).contains(&fd) => taken.push(fd),
            fd => {
                if fd >= 0 {
                    // SAFETY: just made.
                    unsafe { real::close(fd) };
                }
                return taken;
            }
        }
    }
}

/// The open descriptors of the process.
fn open() -> HashSet<c_int> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return HashSet::new();
    };
    let listed: Vec<c_int> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // The directory itself is among them, and closed by now.
    listed.into_iter().filter(|fd| is_open(*fd)).collect()
}

fn is_open(fd: c_int) -> bool {
    // SAFETY: asks for a flag; no memory is involved.
    unsafe { real::fcntl64(fd, libc::F_GETFD, 0) >= 0 }
}
