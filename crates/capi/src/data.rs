//! Bytes.

use std::ffi::{c_char, c_int, c_void};

use libc::{
    FIONBIO, FIONREAD, MSG_DONTWAIT, MSG_FASTOPEN, MSG_MORE, MSG_NOSIGNAL, MSG_OOB, MSG_PEEK,
    MSG_WAITALL, TIOCOUTQ, iovec, sockaddr, socklen_t,
};
use mtcp::{Errno, RecvFlags, Result, SendFlags};

use crate::handle::{Handle, with};
use crate::socket::{id, peer};
use mtcp::posix::call::{answer, done};
use mtcp::posix::memory;

/// linux/sockios.h.
const SIOCOUTQNSD: u64 = 0x894b;
/// asm-generic/sockios.h.
const SIOCATMARK: u64 = 0x8905;

/// A number of bytes as C wants it. No call moves more than [`memory`] lets it, so it fits.
#[inline]
fn count<T: TryFrom<usize>>(n: usize) -> Result<T> {
    T::try_from(n).map_err(|_| Errno::EINVAL)
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_read(
    mctx: *mut Handle,
    sockid: c_int,
    buf: *mut c_char,
    len: usize,
) -> isize {
    // SAFETY: the same promises.
    unsafe { mtcp_recv(mctx, sockid, buf, len, 0) }
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_recv(
    mctx: *mut Handle,
    sockid: c_int,
    buf: *mut c_char,
    len: usize,
    flags: c_int,
) -> isize {
    answer(|| {
        with(mctx, |inner| {
            let id = id(sockid)?;
            let flags = recv_flags(flags)?;
            // SAFETY: a buffer of this length, says the header.
            let buf = unsafe { memory::bytes_mut(buf.cast(), len) };
            // A wrong socket is wrong first.
            let buf = buf.or_else(|errno| inner.context.kind(id).and(Err(errno)))?;
            count(inner.context.recv(id, buf, flags)?)
        })
    })
}

fn recv_flags(flags: c_int) -> Result<RecvFlags> {
    if flags & !(MSG_OOB | MSG_PEEK | MSG_DONTWAIT | MSG_WAITALL | MSG_NOSIGNAL) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut known = RecvFlags::empty();
    known.set(RecvFlags::PEEK, flags & MSG_PEEK != 0);
    known.set(RecvFlags::OOB, flags & MSG_OOB != 0);
    known.set(RecvFlags::DONTWAIT, flags & MSG_DONTWAIT != 0);
    known.set(RecvFlags::WAITALL, flags & MSG_WAITALL != 0);
    Ok(known)
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_readv(
    mctx: *mut Handle,
    sockid: c_int,
    iov: *const iovec,
    num_iov: c_int,
) -> c_int {
    answer(|| {
        with(mctx, |inner| {
            let id = id(sockid)?;
            inner.context.kind(id)?;
            // SAFETY: buffers, says the header.
            unsafe {
                memory::with_buffers_mut(iov, num_iov, |bufs| count(inner.context.readv(id, bufs)?))
            }
        })
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_write(
    mctx: *mut Handle,
    sockid: c_int,
    buf: *const c_char,
    len: usize,
) -> isize {
    // SAFETY: the same promises.
    unsafe { mtcp_send(mctx, sockid, buf, len, 0) }
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_send(
    mctx: *mut Handle,
    sockid: c_int,
    buf: *const c_char,
    len: usize,
    flags: c_int,
) -> isize {
    // SAFETY: the same promises.
    unsafe { mtcp_sendto(mctx, sockid, buf, len, flags, std::ptr::null(), 0) }
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_sendto(
    mctx: *mut Handle,
    sockid: c_int,
    buf: *const c_char,
    len: usize,
    flags: c_int,
    addr: *const sockaddr,
    addrlen: socklen_t,
) -> isize {
    answer(|| {
        with(mctx, |inner| {
            let id = id(sockid)?;
            let flags = send_flags(flags)?;
            // SAFETY: a buffer of this length, says the header.
            let bytes = unsafe { memory::bytes(buf.cast(), len) };
            // A wrong socket is wrong first.
            let bytes = bytes.or_else(|errno| inner.context.kind(id).and(Err(errno)))?;
            let fast = flags.contains(SendFlags::FASTOPEN) && !addr.is_null();
            // SAFETY: an address of this length, says the header.
            let remote = fast.then(|| unsafe { peer(addr, addrlen) }).transpose()?;
            count(inner.context.send_to(id, bytes, flags, remote)?)
        })
    })
}

fn send_flags(flags: c_int) -> Result<SendFlags> {
    if flags & !(MSG_OOB | MSG_DONTWAIT | MSG_FASTOPEN | MSG_MORE | MSG_NOSIGNAL) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut known = SendFlags::empty();
    known.set(SendFlags::OOB, flags & MSG_OOB != 0);
    known.set(SendFlags::DONTWAIT, flags & MSG_DONTWAIT != 0);
    known.set(SendFlags::MORE, flags & MSG_MORE != 0);
    known.set(SendFlags::FASTOPEN, flags & MSG_FASTOPEN != 0);
    Ok(known)
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_writev(
    mctx: *mut Handle,
    sockid: c_int,
    iov: *const iovec,
    num_iov: c_int,
) -> c_int {
    answer(|| {
        with(mctx, |inner| {
            let id = id(sockid)?;
            inner.context.kind(id)?;
            // SAFETY: buffers, says the header.
            unsafe {
                memory::with_buffers(iov, num_iov, |bufs| count(inner.context.writev(id, bufs)?))
            }
        })
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_setsock_nonblock(mctx: *mut Handle, sockid: c_int) -> c_int {
    done(|| {
        with(mctx, |inner| {
            inner.context.set_nonblocking(id(sockid)?, true)
        })
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_socket_ioctl(
    mctx: *mut Handle,
    sockid: c_int,
    request: c_int,
    argp: *mut c_void,
) -> c_int {
    done(|| {
        with(mctx, |inner| {
            let id = id(sockid)?;
            inner.context.kind(id)?;
            let argp = argp.cast::<c_int>();
            if argp.is_null() {
                return Err(Errno::EFAULT);
            }
            // The constants are as wide as libc has the request.
            match u64::from(request.cast_unsigned()) {
                FIONREAD => {
                    let unread = inner.context.available(id)?;
                    let unread = c_int::try_from(unread).unwrap_or(c_int::MAX);
                    // SAFETY: an int, says the header.
                    unsafe { memory::store(argp, unread) }
                }
                TIOCOUTQ | SIOCOUTQNSD => {
                    let (unacked, not_sent) = inner.context.unacknowledged(id)?;
                    let all = u64::from(request.cast_unsigned()) == TIOCOUTQ;
                    let bytes = if all { unacked } else { not_sent };
                    // SAFETY: an int, says the header.
                    unsafe { memory::store(argp, c_int::try_from(bytes).unwrap_or(c_int::MAX)) }
                }
                SIOCATMARK => {
                    let is_there = inner.context.at_mark(id)?;
                    // SAFETY: an int, says the header.
                    unsafe { memory::store(argp, is_there.into()) }
                }
                FIONBIO => {
                    // SAFETY: an int, says the header.
                    let on = unsafe { memory::load(argp) }?;
                    inner.context.set_nonblocking(id, on != 0)
                }
                _ => Err(Errno::EINVAL),
            }
        })
    })
}
