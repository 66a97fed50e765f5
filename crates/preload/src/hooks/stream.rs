//! Bytes: `read`, `write`, `send`, `recv` and their vector forms.

use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};

use libc::{
    MSG_CMSG_CLOEXEC, MSG_CONFIRM, MSG_DONTROUTE, MSG_DONTWAIT, MSG_EOR, MSG_FASTOPEN, MSG_MORE,
    MSG_NOSIGNAL, MSG_OOB, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, iovec, sockaddr, socklen_t,
};
use mtcp::posix::call::answer;
use mtcp::posix::memory;
use mtcp::{Errno, Events, RecvFlags, Result, SendFlags, SocketId};

use super::hooks;
use super::socket::is_connecting;
use crate::engine::{self, Engine};
use crate::lock::Guard;
use crate::log::{Unsupported, unsupported};
use crate::rules::Place;
use crate::socket::Body;
use crate::sockets::Found;
use crate::wait::wait_for;
use crate::waiters::Want;
use crate::{passed, real, slots};

/// Bytes that are taken away at a time. They lie on the stack of the program's thread, which may be
/// small.
const SCRATCH: usize = 256;

hooks! {
    /// read(2). Nothing can always be read.
    fn read(fd: c_int, buf: *mut c_void, len: usize) -> isize {
        if len > 0 && slots::is_socket(fd) {
            // SAFETY: the caller's promises.
            return unsafe { one_in(fd, buf, len, 0, || real::read(fd, buf, len)) };
        }
        // SAFETY: the same arguments.
        unsafe { real::read(fd, buf, len) }
    }

    /// recv(2).
    fn recv(fd: c_int, buf: *mut c_void, len: usize, flags: c_int) -> isize {
        if slots::is_socket(fd) {
            // SAFETY: the caller's promises.
            return unsafe { one_in(fd, buf, len, flags, || real::recv(fd, buf, len, flags)) };
        }
        // SAFETY: the same arguments.
        unsafe { real::recv(fd, buf, len, flags) }
    }

    /// recvfrom(2).
    fn recvfrom(
        fd: c_int,
        buf: *mut c_void,
        len: usize,
        flags: c_int,
        addr: *mut sockaddr,
        addr_len: *mut socklen_t,
    ) -> isize {
        // SAFETY: the same arguments.
        let kernel = || unsafe { real::recvfrom(fd, buf, len, flags, addr, addr_len) };
        if !slots::is_socket(fd) {
            return kernel();
        }
        // SAFETY: the caller's promises.
        let n = unsafe { one_in(fd, buf, len, flags, kernel) };
        if n >= 0 && !addr.is_null() && !addr_len.is_null() {
            // A connection has no sender per read.
            // SAFETY: the caller's promise.
            unsafe { addr_len.write_unaligned(0) };
        }
        n
    }

    /// readv(2).
    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> isize {
        // SAFETY: the same arguments.
        let kernel = || unsafe { real::readv(fd, iov, count) };
        if !slots::is_socket(fd) {
            return kernel();
        }
        answer(|| {
            // SAFETY: the caller's promises.
            unsafe {
                memory::with_buffers_mut(iov, count, |bufs| {
                    if bufs.iter().all(|buf| buf.is_empty()) {
                        return Ok(kernel());
                    }
                    receive(fd, bufs, 0, kernel)
                })
            }
        })
    }

    /// `read` as `_FORTIFY_SOURCE` calls it.
    fn __read_chk(fd: c_int, buf: *mut c_void, len: usize, room: usize) -> isize {
        // SAFETY: the same promises.
        unsafe { read(fd, buf, len.min(room)) }
    }

    /// `recv` as `_FORTIFY_SOURCE` calls it.
    fn __recv_chk(fd: c_int, buf: *mut c_void, len: usize, room: usize, flags: c_int) -> isize {
        // SAFETY: the same promises.
        unsafe { recv(fd, buf, len.min(room), flags) }
    }

    /// `recvfrom` as `_FORTIFY_SOURCE` calls it.
    fn __recvfrom_chk(
        fd: c_int,
        buf: *mut c_void,
        len: usize,
        room: usize,
        flags: c_int,
        addr: *mut sockaddr,
        addr_len: *mut socklen_t,
    ) -> isize {
        // SAFETY: the same promises.
        unsafe { recvfrom(fd, buf, len.min(room), flags, addr, addr_len) }
    }

    /// write(2).
    fn write(fd: c_int, buf: *const c_void, len: usize) -> isize {
        if slots::is_socket(fd) {
            // SAFETY: the caller's promises.
            return unsafe { one_out(fd, buf, len, 0, || real::write(fd, buf, len)) };
        }
        // SAFETY: the same arguments.
        unsafe { real::write(fd, buf, len) }
    }

    /// send(2).
    fn send(fd: c_int, buf: *const c_void, len: usize, flags: c_int) -> isize {
        if slots::is_socket(fd) {
            // SAFETY: the caller's promises.
            return unsafe { one_out(fd, buf, len, flags, || real::send(fd, buf, len, flags)) };
        }
        // SAFETY: the same arguments.
        unsafe { real::send(fd, buf, len, flags) }
    }

    /// sendto(2). A connection ignores the address.
    fn sendto(
        fd: c_int,
        buf: *const c_void,
        len: usize,
        flags: c_int,
        addr: *const sockaddr,
        addr_len: socklen_t,
    ) -> isize {
        // SAFETY: the same arguments.
        let kernel = || unsafe { real::sendto(fd, buf, len, flags, addr, addr_len) };
        if !slots::is_socket(fd) {
            return kernel();
        }
        let mut flags = flags;
        if flags & MSG_FASTOPEN != 0 {
            // SAFETY: the caller's promise.
            match unsafe { super::socket::open_fast(fd, addr, addr_len, flags) } {
                Ok(Place::Kernel) => return kernel(),
                Ok(Place::Ours) => flags &= !MSG_FASTOPEN,
                Err(error) => return answer(|| Err(error)),
            }
        }
        // SAFETY: the caller's promises.
        unsafe { one_out(fd, buf, len, flags, kernel) }
    }

    /// writev(2).
    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> isize {
        // SAFETY: the same arguments.
        let kernel = || unsafe { real::writev(fd, iov, count) };
        if !slots::is_socket(fd) {
            return kernel();
        }
        answer(|| {
            // SAFETY: the caller's promises.
            unsafe { memory::with_buffers(iov, count, |bufs| transmit(fd, bufs, 0, kernel)) }
        })
    }
}

/// # Safety
/// As for recv(2).
unsafe fn one_in(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    kernel: impl FnOnce() -> isize,
) -> isize {
    answer(|| {
        if flags & (MSG_TRUNC | MSG_PEEK | MSG_OOB) == MSG_TRUNC
            && super::socket::stream(fd).is_some()
        {
            return discard(fd, len, flags);
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { memory::bytes_mut(buf.cast(), len) }?;
        receive(fd, &mut [IoSliceMut::new(bytes)], flags, kernel)
    })
}

/// # Safety
/// As for send(2).
unsafe fn one_out(
    fd: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    kernel: impl FnOnce() -> isize,
) -> isize {
    answer(|| {
        // SAFETY: the caller's promise.
        let bytes = unsafe { memory::bytes(buf.cast(), len) }?;
        transmit(fd, &[IoSlice::new(bytes)], flags, kernel)
    })
}

fn count(n: usize) -> Result<isize> {
    isize::try_from(n).map_err(|_| Errno::EINVAL)
}

/// Receives; `kernel` does when the socket is no connection of ours.
pub(crate) fn receive(
    fd: c_int,
    bufs: &mut [IoSliceMut<'_>],
    flags: c_int,
    kernel: impl FnOnce() -> isize,
) -> Result<isize> {
    let mut engine = engine::lock()?;
    let found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    let Body::Stream(id) = found.body else {
        drop(engine);
        return elsewhere(fd, found.body, kernel);
    };
    engine.pumps.read(id);
    let known = recv_flags(flags)?;
    let blocking = !found.nonblocking && flags & (MSG_DONTWAIT | MSG_OOB) == 0;
    let wanted = wanted(&mut engine, id, bufs, (flags, blocking));
    let mut done = 0;
    let mut step = |engine: &mut Engine| -> Option<Result<usize>> {
        if !engine.sockets.still(&found) {
            return Some(Err(Errno::EBADF));
        }
        // All that is there, the end of the stream too: who sleeps is woken for what comes later.
        loop {
            if done > 0 && is_at_mark(engine, id) {
                return Some(Ok(done));
            }
            match take(engine, id, bufs, done, known) {
                Ok(n) => {
                    done += n;
                    if n == 0 || done >= wanted {
                        return Some(Ok(done));
                    }
                }
                Err(Errno::EAGAIN) => return None,
                Err(_) if done > 0 => return Some(Ok(done)),
                Err(error) => return Some(Err(error)),
            }
        }
    };
    let result = match step(&mut engine) {
        Some(result) => result,
        None if !blocking => {
            engine.wake_ready();
            return Err(Errno::EAGAIN);
        }
        None => {
            let want = |_: &Engine| Want::Socket(id, Events::IN | Events::RDHUP);
            let timeout = engine.sockets.recv_timeout(&found);
            wait_for(&mut engine, timeout, &mut [], want, step)
        }
    };
    engine.staged(false);
    match result {
        // What there was by then of what the call waits for.
        Err(Errno::EAGAIN | Errno::EINTR) if done > 0 => count(done),
        result => count(result?),
    }
}

/// Does with a socket that is no connection of ours what `kernel` does, unless it is another
/// stack's.
fn elsewhere(fd: c_int, body: Body, kernel: impl FnOnce() -> isize) -> Result<isize> {
    if body == Body::Lost {
        passed::tell_lost(fd);
        return Err(Errno(libc::ENOTCONN));
    }
    Ok(kernel())
}

/// Bytes that a call waits for.
fn wanted(
    engine: &mut Engine,
    id: SocketId,
    bufs: &[IoSliceMut<'_>],
    (flags, blocking): (c_int, bool),
) -> usize {
    let room: usize = bufs.iter().map(|buf| buf.len()).sum();
    if !blocking || flags & MSG_PEEK != 0 {
        1
    } else if flags & MSG_WAITALL != 0 {
        room
    } else {
        // SO_RCVLOWAT.
        let context = engine.context();
        room.min(context.map_or(1, |context| context.low_water(id)))
    }
}

/// MSG_TRUNC: takes bytes away without giving them to anyone (tcp(7)).
fn discard(fd: c_int, len: usize, flags: c_int) -> Result<isize> {
    let mut total = 0;
    let mut scratch = [0; SCRATCH];
    let mut wait = flags & !MSG_TRUNC;
    while total < len {
        let room = scratch.len().min(len - total);
        let rest = scratch.get_mut(..room).unwrap_or_default();
        match receive(fd, &mut [IoSliceMut::new(rest)], wait, || -1) {
            Ok(n @ 1..) => total += n.unsigned_abs(),
            Ok(_) => break,
            Err(error) if total == 0 => return Err(error),
            Err(_) => break,
        }
        wait |= MSG_DONTWAIT;
    }
    count(total)
}

/// Takes what is there into the buffers, past their first `skip` bytes.
fn take(
    engine: &mut Engine,
    id: SocketId,
    bufs: &mut [IoSliceMut<'_>],
    mut skip: usize,
    flags: RecvFlags,
) -> Result<usize> {
    let context = engine.context().ok_or(Errno::ENETDOWN)?;
    let mut total = 0;
    let mut asked = false;
    for buf in bufs {
        let at = skip.min(buf.len());
        skip -= at;
        let Some(rest) = buf.get_mut(at..).filter(|rest| !rest.is_empty()) else {
            continue;
        };
        asked = true;
        match context.recv(id, rest, flags) {
            Ok(n) => {
                total += n;
                if n < rest.len() || flags.contains(RecvFlags::PEEK) || context.at_mark(id)? {
                    break;
                }
            }
            Err(_) if total > 0 => break,
            Err(error) => return Err(error),
        }
    }
    if asked {
        return Ok(total);
    }
    // As in Linux, to receive nothing takes that something is there.
    context
        .recv(id, &mut [0], flags | RecvFlags::PEEK)
        .map(|_| 0)
}

/// Whether what is read next came after the urgent byte: what has been read before is not read with
/// it.
fn is_at_mark(engine: &mut Engine, id: SocketId) -> bool {
    let context = engine.context();
    context.is_some_and(|context| context.at_mark(id) == Ok(true))
}

fn recv_flags(flags: c_int) -> Result<RecvFlags> {
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Err(Errno::EAGAIN);
    }
    let known = MSG_OOB | MSG_PEEK | MSG_DONTWAIT | MSG_WAITALL | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC;
    if flags & !known != 0 {
        unsupported(
            Unsupported::Flags,
            format_args!("recv with flags {flags:#x}"),
        );
        return Err(Errno::EOPNOTSUPP);
    }
    let mut wanted = RecvFlags::DONTWAIT;
    wanted.set(RecvFlags::PEEK, flags & MSG_PEEK != 0);
    wanted.set(RecvFlags::OOB, flags & MSG_OOB != 0);
    Ok(wanted)
}

/// Sends; `kernel` does when the socket is no connection of ours.
pub(crate) fn transmit(
    fd: c_int,
    bufs: &[IoSlice<'_>],
    flags: c_int,
    kernel: impl FnOnce() -> isize,
) -> Result<isize> {
    let mut engine = engine::lock()?;
    let found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    let Body::Stream(id) = found.body else {
        drop(engine);
        return elsewhere(fd, found.body, kernel);
    };
    let known = send_flags(flags)?;
    let result = write_out(
        &mut engine,
        &found,
        id,
        bufs,
        known | blocking(&found, flags),
    );
    drop(engine);
    // Linux: nobody reads what goes to a socket without a connection.
    let result = match result {
        Err(Errno::ENOTCONN) => Err(Errno::EPIPE),
        result => result,
    };
    if result == Err(Errno::EPIPE) && flags & MSG_NOSIGNAL == 0 {
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    count(result?)
}

fn blocking(found: &Found, flags: c_int) -> SendFlags {
    if found.nonblocking || flags & MSG_DONTWAIT != 0 {
        SendFlags::DONTWAIT
    } else {
        SendFlags::empty()
    }
}

fn send_flags(flags: c_int) -> Result<SendFlags> {
    let known =
        MSG_OOB | MSG_DONTWAIT | MSG_MORE | MSG_NOSIGNAL | MSG_EOR | MSG_CONFIRM | MSG_DONTROUTE;
    if flags & !known != 0 {
        unsupported(
            Unsupported::Flags,
            format_args!("send with flags {flags:#x}"),
        );
        return Err(Errno::EOPNOTSUPP);
    }
    let mut wanted = SendFlags::empty();
    wanted.set(SendFlags::MORE, flags & MSG_MORE != 0);
    wanted.set(SendFlags::OOB, flags & MSG_OOB != 0);
    Ok(wanted)
}

/// Writes all of it, or as much as fits now.
pub(super) fn write_out(
    engine: &mut Guard<'_, Engine>,
    found: &Found,
    id: SocketId,
    bufs: &[IoSlice<'_>],
    flags: SendFlags,
) -> Result<usize> {
    let wanted: usize = bufs.iter().map(|buf| buf.len()).sum();
    let waits = !flags.contains(SendFlags::DONTWAIT);
    let mut done = 0;
    let mut step = |engine: &mut Engine| -> Option<Result<usize>> {
        if !engine.sockets.still(found) {
            return Some(Err(Errno::EBADF));
        }
        engine.children_first(id);
        match put(engine, id, bufs, done, flags | SendFlags::DONTWAIT) {
            Ok(n) => {
                done += n;
                (done == wanted).then_some(Ok(done))
            }
            Err(Errno::EAGAIN) => None,
            Err(_) if done > 0 => Some(Ok(done)),
            Err(error) => Some(Err(error)),
        }
    };
    let first = step(engine);
    let result = match first {
        Some(result) => result,
        None if waits => {
            let want = |_: &Engine| Want::Socket(id, Events::OUT);
            let timeout = engine.sockets.send_timeout(found);
            wait_for(engine, timeout, &mut [], want, &mut step)
        }
        None => Err(Errno::EAGAIN),
    };
    let result = match result {
        Err(Errno::EAGAIN | Errno::EINTR) if done > 0 => Ok(done),
        result => result,
    };
    if !flags.contains(SendFlags::MORE) || result != Ok(wanted) {
        engine.staged(waits);
    }
    result
}

/// Puts what fits of the buffers, past their first `skip` bytes, into the stream.
fn put(
    engine: &mut Engine,
    id: SocketId,
    bufs: &[IoSlice<'_>],
    mut skip: usize,
    flags: SendFlags,
) -> Result<usize> {
    let context = engine.context().ok_or(Errno::ENETDOWN)?;
    let mut total = 0;
    let mut asked = false;
    for buf in bufs {
        let at = skip.min(buf.len());
        skip -= at;
        let Some(rest) = buf.get(at..).filter(|rest| !rest.is_empty()) else {
            continue;
        };
        asked = true;
        match context.send(id, rest, flags) {
            Ok(n) => {
                total += n;
                if n < rest.len() {
                    break;
                }
            }
            Err(_) if total > 0 => break,
            Err(error) => return Err(error),
        }
    }
    if asked {
        return Ok(total);
    }
    // As in Linux, to send nothing takes that the connection is made.
    if is_connecting(engine, id) {
        return Err(Errno::EAGAIN);
    }
    let context = engine.context().ok_or(Errno::ENETDOWN)?;
    context.send(id, &[], flags)
}
