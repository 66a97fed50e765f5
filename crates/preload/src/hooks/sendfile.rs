//! `sendfile`.

use std::ffi::c_int;
use std::io::IoSlice;

use libc::off_t;
use mtcp::posix::call::answer;
use mtcp::{Errno, Result, SendFlags, SocketId};

use super::stream::write_out;
use super::{hooks, last};
use crate::engine::{self, Engine};
use crate::lock::Guard;
use crate::socket::Body;
use crate::sockets::Found;
use crate::{real, slots};

/// Bytes of a file per step.
const CHUNK: usize = 128 << 10;

hooks! {
    /// sendfile(2).
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: usize) -> isize {
        // SAFETY: the same arguments.
        unsafe { sendfile64(to, from, offset, count) }
    }

    /// sendfile(2).
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: usize) -> isize {
        if slots::is_socket(to) {
            // SAFETY: the caller's promise.
            return answer(|| unsafe { send(to, from, offset, count) });
        }
        // SAFETY: the same arguments.
        unsafe { real::sendfile64(to, from, offset, count) }
    }
}

/// # Safety
/// `offset` is NULL or points to an offset.
unsafe fn send(to: c_int, from: c_int, offset: *mut off_t, count: usize) -> Result<isize> {
    let mut engine = engine::lock()?;
    let found = engine.sockets.find(to).ok_or(Errno::EBADF)?;
    let Body::Stream(id) = found.body else {
        drop(engine);
        // SAFETY: the same arguments.
        return Ok(unsafe { real::sendfile64(to, from, offset, count) });
    };
    // SAFETY: the caller's promise.
    let start = match unsafe { offset.as_ref() } {
        Some(offset) => *offset,
        // SAFETY: no memory is involved.
        None => unsafe { libc::lseek64(from, 0, libc::SEEK_CUR) },
    };
    if start < 0 {
        return Err(Errno::EINVAL);
    }
    let (sent, result) = copy(&mut engine, &found, id, (from, start), count);
    engine.staged(!found.nonblocking);
    drop(engine);
    if result == Err(Errno::EPIPE) {
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    if sent == 0 {
        result?;
    }
    let end = start + sent;
    // SAFETY: the caller's promise.
    match unsafe { offset.as_mut() } {
        Some(offset) => *offset = end,
        // SAFETY: no memory is involved.
        None => drop(unsafe { libc::lseek64(from, end, libc::SEEK_SET) }),
    }
    isize::try_from(sent).map_err(|_| Errno::EINVAL)
}

/// Copies from a file into the stream: all, or as much as fits now. Says how much, and what ended
/// it early.
fn copy(
    engine: &mut Guard<'_, Engine>,
    found: &Found,
    id: SocketId,
    (file, start): (c_int, off_t),
    count: usize,
) -> (off_t, Result<()>) {
    let waits = if found.nonblocking {
        SendFlags::DONTWAIT
    } else {
        SendFlags::empty()
    };
    let mut buffer = vec![0; CHUNK.min(count)];
    let (mut at, mut left) = (start, count);
    while left > 0 {
        let bytes = match read_at(file, &mut buffer, left, at) {
            Ok([]) => break,
            Ok(bytes) => bytes,
            Err(error) => return (at - start, Err(error)),
        };
        let mut flags = waits;
        // Held back for company of which there is none, the end would be late.
        flags.set(SendFlags::MORE, bytes.len() == CHUNK && bytes.len() < left);
        match write_out(engine, found, id, &[IoSlice::new(bytes)], flags) {
            Ok(n) => {
                at += n.cast_signed() as off_t;
                left -= n;
                if n < bytes.len() {
                    break;
                }
            }
            Err(error) => return (at - start, Err(error)),
        }
    }
    (at - start, Ok(()))
}

/// Bytes of a file.
fn read_at(file: c_int, buffer: &mut [u8], most: usize, at: off_t) -> Result<&[u8]> {
    let len = buffer.len().min(most);
    // SAFETY: room for `len` bytes.
    let n = unsafe { libc::pread64(file, buffer.as_mut_ptr().cast(), len, at) };
    let n = usize::try_from(n).map_err(|_| last())?;
    Ok(buffer.get(..n).unwrap_or_default())
}
