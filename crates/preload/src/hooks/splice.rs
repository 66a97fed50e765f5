//! `splice`: between a pipe and a connection. What one side does not take stays where it was.

use std::ffi::{c_int, c_uint};
use std::io::{IoSlice, IoSliceMut};

use libc::{MSG_DONTWAIT, MSG_PEEK, POLLIN, POLLOUT, SPLICE_F_MORE, SPLICE_F_NONBLOCK, loff_t};
use mtcp::posix::call::answer;
use mtcp::{Errno, Result};

use super::socket::stream;
use super::stream::{receive, transmit};
use super::{hooks, last};
use crate::real;

/// Bytes per call at most: what a pipe usually has room for.
const BYTES_MAX: usize = 64 << 10;

hooks! {
    /// splice(2).
    fn splice(
        from: c_int,
        from_offset: *mut loff_t,
        to: c_int,
        to_offset: *mut loff_t,
        len: usize,
        flags: c_uint,
    ) -> isize {
        let (source, target) = (stream(from).is_some(), stream(to).is_some());
        if !source && !target {
            // SAFETY: the same arguments.
            return unsafe { real::splice(from, from_offset, to, to_offset, len, flags) };
        }
        answer(|| {
            if !is_pipe(if source { to } else { from }) {
                return Err(Errno::EINVAL);
            }
            if !from_offset.is_null() || !to_offset.is_null() {
                return Err(Errno(libc::ESPIPE));
            }
            if len == 0 {
                return Ok(0);
            }
            if source {
                into_pipe(from, to, len.min(BYTES_MAX), flags)
            } else {
                from_pipe(from, to, len.min(BYTES_MAX), flags)
            }
        })
    }
}

fn is_pipe(fd: c_int) -> bool {
    // SAFETY: asks for a number; no memory is involved.
    unsafe { real::fcntl64(fd, libc::F_GETPIPE_SZ, 0) >= 0 }
}

/// Bytes in a pipe.
fn waiting(pipe: c_int) -> usize {
    let mut count: c_int = 0;
    // SAFETY: room for the count.
    unsafe { real::ioctl(pipe, libc::FIONREAD, (&raw mut count).cast()) };
    usize::try_from(count).unwrap_or(0)
}

/// Waits, if that may be, until the pipe has something or room. Returns what poll(2) says of it.
fn wait(pipe: c_int, events: i16, flags: c_uint) -> Result<i16> {
    let mut entry = libc::pollfd {
        fd: pipe,
        events,
        revents: 0,
    };
    // SAFETY: asks for flags; no memory is involved.
    let status = unsafe { real::fcntl64(pipe, libc::F_GETFL, 0) };
    let patient = flags & SPLICE_F_NONBLOCK == 0 && status & libc::O_NONBLOCK == 0;
    // SAFETY: one descriptor.
    match unsafe { real::poll(&raw mut entry, 1, if patient { -1 } else { 0 }) } {
        0 => Err(Errno::EAGAIN),
        1.. => Ok(entry.revents),
        _ => Err(last()),
    }
}

/// How many bytes a pipe takes now without making anybody wait (pipe(7)).
fn room(pipe: c_int) -> usize {
    // SAFETY: asks for a number; no memory is involved.
    let size = unsafe { real::fcntl64(pipe, libc::F_GETPIPE_SZ, 0) };
    if waiting(pipe) == 0 {
        usize::try_from(size).unwrap_or(0)
    } else {
        libc::PIPE_BUF
    }
}

fn into_pipe(socket: c_int, pipe: c_int, len: usize, flags: c_uint) -> Result<isize> {
    if wait(pipe, POLLOUT, flags)? & libc::POLLERR != 0 {
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGPIPE) };
        return Err(Errno::EPIPE);
    }
    let mut buffer = vec![0; len.min(room(pipe))];
    let nobody = || -1;
    let seen = receive(
        socket,
        &mut [IoSliceMut::new(&mut buffer)],
        MSG_PEEK,
        nobody,
    )?;
    if seen <= 0 {
        return Ok(seen);
    }
    // SAFETY: as many bytes are there.
    let n = unsafe { real::write(pipe, buffer.as_ptr().cast(), seen.unsigned_abs()) };
    if n < 0 {
        return Err(last());
    }
    let taken = buffer.get_mut(..n.unsigned_abs()).unwrap_or_default();
    receive(socket, &mut [IoSliceMut::new(taken)], MSG_DONTWAIT, nobody)
}

fn from_pipe(pipe: c_int, socket: c_int, len: usize, flags: c_uint) -> Result<isize> {
    if waiting(pipe) == 0 {
        wait(pipe, POLLIN, flags)?;
    }
    let mut buffer = vec![0; len];
    let seen = peek(pipe, &mut buffer)?;
    let bytes = buffer.get(..seen).unwrap_or_default();
    if bytes.is_empty() {
        // Nobody writes to it any more.
        return Ok(0);
    }
    let how = if flags & SPLICE_F_MORE != 0 {
        libc::MSG_MORE
    } else {
        0
    };
    let sent = transmit(socket, &[IoSlice::new(bytes)], how, || -1)?;
    // SAFETY: room for what was seen there.
    unsafe { real::read(pipe, buffer.as_mut_ptr().cast(), sent.unsigned_abs()) };
    Ok(sent)
}

/// What comes next out of a pipe, which keeps it (tee(2)).
fn peek(pipe: c_int, buffer: &mut [u8]) -> Result<usize> {
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } < 0 {
        return Err(last());
    }
    let [read, write] = ends;
    // SAFETY: no memory is involved; then room for as many bytes.
    let n = unsafe {
        match libc::tee(pipe, write, buffer.len(), SPLICE_F_NONBLOCK) {
            copied @ 1.. => real::read(read, buffer.as_mut_ptr().cast(), copied.unsigned_abs()),
            other => other,
        }
    };
    let n = usize::try_from(n).map_err(|_| last());
    for end in ends {
        // SAFETY: made above.
        unsafe { real::close(end) };
    }
    n
}
