//! What is noted on sockets of the kernel that stand for ours, for whoever comes to have them.
//!
//! They are known by an option that means nothing to them (IP_FREEBIND), and listeners that are to
//! wait by the absence of another (IP_RECVTTL): the kernel's own never do.

use std::ffi::{c_int, c_void};

use libc::{IPPROTO_IP, socklen_t};

use crate::real;

/// What the kernel says of a socket.
pub(crate) fn ask<T: Copy>(fd: c_int, (level, name): (c_int, c_int), blank: T) -> Option<T> {
    let mut value = blank;
    let mut len = size_of::<T>() as socklen_t;
    let at: *mut c_void = (&raw mut value).cast();
    // SAFETY: room for a value of that size, of any bits.
    let told = unsafe { real::getsockopt(fd, level, name, at, &raw mut len) };
    (told == 0).then_some(value)
}

/// Whether an option of a socket is on.
pub(crate) fn has(fd: c_int, option: (c_int, c_int)) -> bool {
    ask(fd, option, 0).is_some_and(|value| value != 0)
}

fn set(fd: c_int, (level, name): (c_int, c_int), on: bool) {
    let on = c_int::from(on);
    // Where the kernel refuses, others take it for one of its own.
    // SAFETY: an int.
    unsafe { real::setsockopt(fd, level, name, (&raw const on).cast(), 4) };
}

/// Notes, for whoever comes to have it, that this socket of the kernel stands for one of the stack.
pub(crate) fn mark(fd: c_int) {
    set(fd, (IPPROTO_IP, libc::IP_FREEBIND), true);
}

/// Notes, for whoever comes to have this listener, whether calls on it wait: for the kernel they
/// never do.
pub(crate) fn mark_waiting(fd: c_int, waits: bool) {
    set(fd, (IPPROTO_IP, libc::IP_RECVTTL), !waits);
}

/// Whether this socket of the kernel stands for one of the stack.
pub(crate) fn is_marked(fd: c_int) -> bool {
    has(fd, (IPPROTO_IP, libc::IP_FREEBIND))
}

/// Whether calls on a listener do not wait, as its owner said. The kernel's own are told not to
/// from now on.
pub(crate) fn take_over(fd: c_int) -> bool {
    // SAFETY: no memory is involved.
    let flags = unsafe { real::fcntl64(fd, libc::F_GETFL, 0) };
    let nonblocking = if is_marked(fd) {
        has(fd, (IPPROTO_IP, libc::IP_RECVTTL))
    } else {
        flags & libc::O_NONBLOCK != 0
    };
    mark(fd);
    mark_waiting(fd, !nonblocking);
    never_wait(fd);
    nonblocking
}

/// Accepting from the kernel never waits: the wait is for both.
pub(crate) fn never_wait(fd: c_int) {
    // SAFETY: no memory is involved.
    unsafe {
        let flags = real::fcntl64(fd, libc::F_GETFL, 0) | libc::O_NONBLOCK;
        real::fcntl64(fd, libc::F_SETFL, flags.cast_unsigned().into());
    }
}
