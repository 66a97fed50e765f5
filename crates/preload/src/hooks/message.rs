//! `sendmsg`, `recvmsg` and their forms for several messages. A connection has neither addresses
//! nor control messages.

use std::ffi::{c_int, c_uint};

use libc::{MSG_DONTWAIT, MSG_OOB, MSG_WAITFORONE, mmsghdr, msghdr, timespec};
use mtcp::posix::call::answer;
use mtcp::posix::memory;
use mtcp::{Errno, Result};

use super::stream::{receive, transmit};
use super::{hooks, last};
use crate::rules::rules;
use crate::{children, inside, passed, real, slots};

hooks! {
    /// recvmsg(2).
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> isize {
        if slots::is_socket(fd) && !message.is_null() {
            // SAFETY: the caller's promises.
            return answer(|| unsafe { receive_message(fd, &mut *message, flags) });
        }
        // SAFETY: the same arguments.
        let n = unsafe { real::recvmsg(fd, message, flags) };
        if n >= 0 {
            // SAFETY: the kernel has filled it.
            unsafe { take_passed(&*message) };
        }
        n
    }

    /// sendmsg(2).
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> isize {
        if slots::is_socket(fd) && !message.is_null() {
            // SAFETY: the caller's promises.
            return answer(|| unsafe { send_message(fd, &*message, flags) });
        }
        // SAFETY: the same arguments; what the program fills, or NULL.
        unsafe {
            if let Some(message) = message.as_ref() {
                give_passed(message);
            }
            real::sendmsg(fd, message, flags)
        }
    }

    /// recvmmsg(2).
    fn recvmmsg(
        fd: c_int,
        messages: *mut mmsghdr,
        count: c_uint,
        flags: c_int,
        timeout: *mut timespec,
    ) -> c_int {
        if slots::is_socket(fd) && !messages.is_null() {
            return answer(|| each(messages, count, |message, n| {
                let wait = if n > 0 && flags & MSG_WAITFORONE != 0 { MSG_DONTWAIT } else { 0 };
                // SAFETY: the caller's promises.
                unsafe { receive_message(fd, message, flags & !MSG_WAITFORONE | wait) }
            }));
        }
        // SAFETY: the same arguments.
        let n = unsafe { real::recvmmsg(fd, messages, count, flags, timeout) };
        for at in 0..usize::try_from(n).unwrap_or(0) {
            // SAFETY: the kernel has filled so many.
            unsafe { take_passed(&(*messages.add(at)).msg_hdr) };
        }
        n
    }

    /// sendmmsg(2).
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        if slots::is_socket(fd) && !messages.is_null() {
            return answer(|| each(messages, count, |message, _| {
                // SAFETY: the caller's promises.
                unsafe { send_message(fd, message, flags) }
            }));
        }
        // SAFETY: the same arguments; so many that the program fills, or NULL.
        unsafe {
            for at in 0..if messages.is_null() { 0 } else { count.min(1024) } {
                give_passed(&(*messages.add(at as usize)).msg_hdr);
            }
            real::sendmmsg(fd, messages, count, flags)
        }
    }
}

/// Descriptors that came in a message.
///
/// # Safety
/// The kernel has filled `message`.
unsafe fn take_passed(message: &msghdr) {
    // SAFETY: the caller's promise.
    unsafe { each_passed(message, passed::take) };
}

/// Descriptors that go with a message.
///
/// # Safety
/// As for sendmsg(2).
unsafe fn give_passed(message: &msghdr) {
    // SAFETY: the caller's promise.
    unsafe { each_passed(message, children::hand_on_one) };
}

/// # Safety
/// Control messages are where `message` says, one after the other.
unsafe fn each_passed(message: &msghdr, what: impl Fn(c_int)) {
    if message.msg_controllen == 0 || message.msg_control.is_null() || rules().is_none() {
        return;
    }
    let end = message.msg_control.addr() + message.msg_controllen;
    // SAFETY: the caller's promise: each with its length, which is believed as far as there is one.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = control.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let data: *const c_int = libc::CMSG_DATA(control).cast();
                let len = header.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let len = len.min(end.saturating_sub(data.addr()));
                for at in 0..len / size_of::<c_int>() {
                    let fd = data.add(at).read_unaligned();
                    inside::run(|| what(fd));
                }
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
    }
}

/// # Safety
/// As for recvmsg(2).
unsafe fn receive_message(fd: c_int, message: &mut msghdr, flags: c_int) -> Result<isize> {
    let pointer = std::ptr::from_mut(message);
    let mut by_kernel = false;
    let kernel = || {
        by_kernel = true;
        // SAFETY: the caller's promise.
        unsafe { real::recvmsg(fd, pointer, flags) }
    };
    let count = buffers(message)?;
    // SAFETY: the caller's promise.
    let n = unsafe {
        memory::with_buffers_mut(message.msg_iov, count, |bufs| {
            receive(fd, bufs, flags, kernel)
        })
    }?;
    if !by_kernel {
        message.msg_namelen = 0;
        message.msg_controllen = 0;
        message.msg_flags = flags & MSG_OOB;
    }
    Ok(n)
}

/// # Safety
/// As for sendmsg(2).
unsafe fn send_message(fd: c_int, message: &msghdr, flags: c_int) -> Result<isize> {
    // SAFETY: the caller's promise.
    let kernel = || unsafe { real::sendmsg(fd, message, flags) };
    let count = buffers(message)?;
    // SAFETY: the caller's promise.
    unsafe {
        memory::with_buffers(message.msg_iov, count, |bufs| {
            transmit(fd, bufs, flags, kernel)
        })
    }
}

/// How many parts a message has: at most UIO_MAXIOV.
fn buffers(message: &msghdr) -> Result<c_int> {
    let count = c_int::try_from(message.msg_iovlen).ok();
    count
        .filter(|count| *count <= 1024)
        .ok_or(Errno(libc::EMSGSIZE))
}

/// Moves messages until one fails or, sent, does not fit. Returns how many were moved.
fn each(
    messages: *mut mmsghdr,
    count: c_uint,
    mut call: impl FnMut(&mut msghdr, c_uint) -> Result<isize>,
) -> Result<c_int> {
    let mut n = 0;
    for at in 0..count.min(1024) {
        // SAFETY: the program says that there are `count` of them.
        let message = unsafe { &mut *messages.add(at as usize) };
        let moved = match call(&mut message.msg_hdr, at) {
            Ok(-1) => Err(last()),
            other => other,
        };
        match moved {
            Ok(len) => message.msg_len = c_uint::try_from(len).unwrap_or(0),
            Err(error) if n == 0 => return Err(error),
            Err(_) => break,
        }
        n += 1;
        // The end of the stream.
        if message.msg_len == 0 {
            break;
        }
    }
    Ok(n)
}
