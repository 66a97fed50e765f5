//! Descriptors: `close`, `dup`, `fcntl`, `ioctl`, `sockatmark`.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr;

use libc::{F_DUPFD, F_DUPFD_CLOEXEC, F_GETFL, F_SETFL, FIONBIO, FIONREAD, O_NONBLOCK};
use mtcp::posix::call::{answer, done};
use mtcp::posix::memory;
use mtcp::{Errno, Result};

use super::stream::{read, write};
use super::urgent::SIOCATMARK;
use super::{hooks, urgent};
use crate::engine::{self, Engine};
use crate::lock::Guard;
use crate::log::{Unsupported, unsupported};
use crate::rules::rules;
use crate::slots::{self, Slot};
use crate::socket::Body;
use crate::streams::{self, Functions};
use crate::uring::armed;
use crate::{diagnostics, inside, linger, marks, private, real};

/// CLOSE_RANGE_CLOEXEC of linux/close_range.h.
const RANGE_CLOEXEC: c_int = 4;
/// What F_SETFL may change, besides whether calls wait.
const STATUS: c_int = libc::O_APPEND | libc::O_ASYNC | libc::O_DIRECT | libc::O_NOATIME;
/// SIOCOUTQ and SIOCOUTQNSD of linux/sockios.h.
const SIOCOUTQ: c_ulong = 0x5411;
const SIOCOUTQNSD: c_ulong = 0x894b;
/// What ioctl(2) asks of a socket that is ours.
const OURS: [c_ulong; 5] = [FIONREAD, FIONBIO, SIOCOUTQ, SIOCOUTQNSD, SIOCATMARK];

hooks! {
    /// close(2).
    fn close(fd: c_int) -> c_int {
        match slots::look(fd) {
            // SAFETY: the same argument.
            Slot::Kernel => unsafe { real::close(fd) },
            // Programs that close all there is mean theirs.
            Slot::Private => answer(|| Err(Errno::EBADF)),
            Slot::Ring => {
                // SAFETY: the same argument.
                let closed = unsafe { real::close(fd) };
                armed::sweep();
                closed
            }
            slot => {
                let closed = answer(|| {
                    let mut engine = engine::lock()?;
                    linger(&mut engine, fd, slot)?;
                    engine.forget_number(fd, slot);
                    // SAFETY: the same argument.
                    Ok(unsafe { real::close(fd) })
                });
                streams::follow(fd, CALLS);
                closed
            }
        }
    }

    /// close_range(2).
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        if flags & RANGE_CLOEXEC != 0 || first > last || slots::used(first, last).next().is_none() {
            // SAFETY: the same arguments.
            return unsafe { real::close_range(first, last, flags) };
        }
        done(|| close_all(first, last, flags))
    }

    /// closefrom(3).
    fn closefrom(first: c_int) -> () {
        // It tells of no errors.
        // SAFETY: no memory is involved.
        let _ = unsafe { close_range(first.max(0).unsigned_abs(), c_uint::MAX, 0) };
    }

    /// dup(2).
    fn dup(fd: c_int) -> c_int {
        // SAFETY: the same argument.
        let new = unsafe { real::dup(fd) };
        copy(fd, new);
        new
    }

    /// dup2(2).
    fn dup2(fd: c_int, to: c_int) -> c_int {
        // SAFETY: the same arguments.
        replace(fd, to, || unsafe { real::dup2(fd, to) })
    }

    /// dup3(2).
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
        // SAFETY: the same arguments.
        replace(fd, to, || unsafe { real::dup3(fd, to, flags) })
    }

    /// fcntl(2).
    fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
        // SAFETY: the same arguments.
        unsafe { fcntl64(fd, command, argument) }
    }

    /// fcntl(2).
    fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
        // SAFETY: the same arguments.
        let kernel = || unsafe { real::fcntl64(fd, command, argument) };
        match (slots::look(fd), command) {
            (Slot::Socket(_) | Slot::Epoll(_), F_DUPFD | F_DUPFD_CLOEXEC) => {
                let new = kernel();
                copy(fd, new);
                new
            }
            (Slot::Socket(_), _) if urgent::is_about_owner(command) => {
                answer(|| {
                    // SAFETY: the caller's promises.
                    let done = unsafe { urgent::control_owner(fd, command, argument) }?;
                    Ok(if urgent::is_open(fd) { kernel() } else { done })
                })
            }
            (Slot::Socket(_), F_GETFL | F_SETFL) => answer(|| status_flags(fd, command, argument)),
            _ => kernel(),
        }
    }

    /// ioctl(2).
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
        // The request is an int for the kernel.
        let request = request & c_ulong::from(c_uint::MAX);
        if slots::is_socket(fd) && urgent::asks_about_owner(request) {
            return answer(|| {
                // SAFETY: the caller's promise.
                let done = unsafe { urgent::request_owner(fd, request, argument) }?;
                // SAFETY: the same arguments.
                let kernel = || unsafe { real::ioctl(fd, request, argument) };
                Ok(if urgent::is_open(fd) { kernel() } else { done })
            });
        }
        if slots::is_socket(fd) && OURS.contains(&request) {
            // SAFETY: the caller's promise.
            return answer(|| unsafe { control(fd, request, argument.cast()) });
        }
        // SAFETY: the same arguments.
        unsafe { real::ioctl(fd, request, argument) }
    }

    /// sockatmark(3).
    fn sockatmark(fd: c_int) -> c_int {
        if !slots::is_socket(fd) {
            // SAFETY: no memory is involved.
            return unsafe { real::sockatmark(fd) };
        }
        let mut is_there = 0;
        // SAFETY: room for an int.
        let done = unsafe { ioctl(fd, SIOCATMARK, (&raw mut is_there).cast()) };
        if done < 0 { done } else { is_there }
    }
}

/// Closes a descriptor, and does not wait as long as SO_LINGER says for what was sent.
pub(crate) fn close_at_once(fd: c_int) -> c_int {
    done(|| {
        if slots::look(fd) == Slot::Private {
            return Err(Errno::EBADF);
        }
        engine::lock()?.drop_number(fd);
        Ok(())
    })
}

/// A descriptor was duplicated.
fn copy(fd: c_int, new: c_int) {
    if new >= 0
        && matches!(slots::look(fd), Slot::Socket(_) | Slot::Epoll(_))
        && let Ok(mut engine) = engine::lock()
    {
        engine.copy_number(fd, new);
        drop(engine);
        streams::follow(new, CALLS);
    }
}

/// A descriptor takes the number of another.
fn replace(fd: c_int, to: c_int, kernel: impl FnOnce() -> c_int) -> c_int {
    if to == libc::STDERR_FILENO && fd != to && rules().is_some() {
        inside::run(|| keep_stderr(fd));
    }
    match (slots::look(fd), slots::look(to)) {
        (Slot::Kernel, Slot::Kernel) => kernel(),
        // As without the library: the number is beyond the limit of the program.
        (_, Slot::Private) if private::is_beyond(to) => kernel(),
        (_, Slot::Private) => answer(|| Err(Errno(libc::EBUSY))),
        _ if fd == to => kernel(),
        (_, old) => {
            let result = answer(|| {
                let mut engine = engine::lock()?;
                linger(&mut engine, to, old)?;
                let new = kernel();
                if new >= 0 {
                    engine.forget_number(to, old);
                    engine.copy_number(fd, new);
                }
                Ok(new)
            });
            streams::follow(to, CALLS);
            result
        }
    }
}

/// `fd` is about to take the place of stderr.
fn keep_stderr(fd: c_int) {
    // Who shares the memory of its parent, and soon executes a program, must leave this as it is.
    if engine::lock().is_ok_and(|engine| !engine.is_borrowed()) {
        diagnostics::about_to_be(fd);
    }
}

/// Waits as long as SO_LINGER says for a number that is about to be closed.
///
/// # Errors
/// `EBADF`: another thread has closed it meanwhile.
fn linger(engine: &mut Guard<'_, Engine>, fd: c_int, slot: Slot) -> Result<()> {
    if let Slot::Socket(index) = slot {
        linger::wait(engine, index);
        if slots::look(fd) != slot {
            return Err(Errno::EBADF);
        }
    }
    Ok(())
}

/// Closes a range around the library's own.
fn close_all(first: c_uint, last: c_uint, flags: c_int) -> Result<()> {
    let mut engine = engine::lock()?;
    let mut from = first;
    let used: Vec<(c_int, Slot)> = slots::used(first, last).collect();
    let has_ring = used.iter().any(|(_, slot)| *slot == Slot::Ring);
    for (fd, slot) in used {
        if slot != Slot::Private || engine.is_borrowed() {
            engine.forget_number(fd, slot);
            continue;
        }
        let fd = fd.unsigned_abs();
        if fd > from {
            // SAFETY: no memory is involved.
            unsafe { real::close_range(from, fd - 1, flags) };
        }
        from = fd + 1;
    }
    if from <= last {
        // SAFETY: no memory is involved.
        unsafe { real::close_range(from, last, flags) };
    }
    drop(engine);
    if has_ring {
        armed::sweep();
    }
    Ok(())
}

/// Changes whether calls on a socket wait.
fn set_nonblocking(engine: &mut Engine, fd: c_int, on: bool) -> Result<()> {
    let found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    if let Some(socket) = engine.sockets.get_mut(found.index) {
        socket.nonblocking = on;
    }
    if matches!(found.body, Body::Listener { .. }) {
        marks::mark_waiting(fd, !on);
    }
    Ok(())
}

/// F_GETFL and F_SETFL: whether calls wait is ours to know once the socket is.
fn status_flags(fd: c_int, command: c_int, argument: c_ulong) -> Result<c_int> {
    let mut engine = engine::lock()?;
    let found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    if command == F_SETFL {
        let wanted = c_int::try_from(argument & 0x7fff_ffff).unwrap_or(0);
        set_nonblocking(&mut engine, fd, wanted & O_NONBLOCK != 0)?;
        if wanted & libc::O_ASYNC != 0 && matches!(found.body, Body::Stream(_)) {
            unsupported(Unsupported::Async, format_args!("fcntl(F_SETFL, O_ASYNC)"));
        }
        if let Some(socket) = engine.sockets.get_mut(found.index) {
            socket.status = wanted & STATUS;
        }
        return match found.body {
            // SAFETY: the same arguments.
            Body::Open | Body::Lost => Ok(unsafe { real::fcntl64(fd, command, argument) }),
            Body::Listener { .. } | Body::Stream(_) => Ok(0),
        };
    }
    // SAFETY: the same arguments.
    let flags = unsafe { real::fcntl64(fd, command, argument) };
    if flags < 0 {
        return Ok(flags);
    }
    let status = engine
        .sockets
        .get(found.index)
        .map_or(0, |socket| socket.status);
    let wait = if found.nonblocking { O_NONBLOCK } else { 0 };
    Ok(flags & !(O_NONBLOCK | STATUS) | status | wait)
}

/// # Safety
/// `argument` points to an int, or is NULL.
unsafe fn control(fd: c_int, request: c_ulong, argument: *mut c_int) -> Result<c_int> {
    let mut engine = engine::lock()?;
    let found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    if request == FIONBIO {
        // SAFETY: the caller's promise.
        let on = unsafe { memory::load(argument) }? != 0;
        set_nonblocking(&mut engine, fd, on)?;
        if matches!(found.body, Body::Listener { .. } | Body::Stream(_)) {
            return Ok(0);
        }
    }
    let Body::Stream(id) = found.body else {
        drop(engine);
        // SAFETY: the same arguments.
        return Ok(unsafe { real::ioctl(fd, request, argument.cast()) });
    };
    let context = engine.context().ok_or(Errno::EBADF)?;
    let count = match request {
        SIOCOUTQ => context.unacknowledged(id)?.0 as usize,
        SIOCOUTQNSD => context.unacknowledged(id)?.1 as usize,
        SIOCATMARK => context.at_mark(id)?.into(),
        _ => context.available(id)?,
    };
    // SAFETY: the caller's promise.
    unsafe { memory::store(argument, c_int::try_from(count).unwrap_or(c_int::MAX)) }?;
    engine.wake_ready();
    Ok(0)
}

/// What a file of the C library over a socket calls.
pub(super) const CALLS: Functions = Functions {
    read: receive,
    write: transmit,
    seek: ptr::null(),
    close: end,
};

fn number(cookie: *mut c_void) -> c_int {
    c_int::try_from(cookie.addr()).unwrap_or(-1)
}

extern "C" fn receive(cookie: *mut c_void, buffer: *mut c_char, len: usize) -> isize {
    // SAFETY: the C library's buffer.
    unsafe { read(number(cookie), buffer.cast(), len) }
}

extern "C" fn transmit(cookie: *mut c_void, buffer: *const c_char, len: usize) -> isize {
    // SAFETY: the C library's buffer.
    let n = unsafe { write(number(cookie), buffer.cast(), len) };
    // Zero is what fopencookie(3) wants to hear of a failure.
    n.max(0)
}

extern "C" fn end(cookie: *mut c_void) -> c_int {
    let fd = number(cookie);
    streams::forget(fd);
    // SAFETY: no memory is involved.
    unsafe { close(fd) }
}
