//! Calls that move bytes.

use std::ffi::{c_int, c_uint, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::ptr;

use libc::{ESPIPE, iovec, loff_t, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use mtcp::Errno;
use mtcp::posix::memory;
use pkt::{Kind, Outcome};

use super::address;
use super::user::{User, and_then, call, returned, status};

fn size(outcome: Outcome) -> ssize_t {
    returned(outcome) as ssize_t
}

/// Makes a call that reads, and puts the bytes into the caller's buffers.
///
/// # Safety
/// As [`call`]; the array is readable, and its buffers are writable.
unsafe fn read_into(
    user: User,
    (iov, count): (*const iovec, c_int),
    kind: impl FnOnce(usize) -> Kind,
) -> Outcome {
    let body = |buffers: &mut [IoSliceMut<'_>]| {
        let room = buffers.iter().map(|buffer| buffer.len()).sum();
        // SAFETY: the caller's promise.
        let reply = unsafe { call(user, kind(room)) }?;
        let mut left = reply.data.as_slice();
        for buffer in buffers {
            let (now, later) = left.split_at(left.len().min(buffer.len()));
            buffer[..now.len()].copy_from_slice(now);
            left = later;
        }
        Ok(reply)
    };
    // SAFETY: the caller's promise.
    unsafe { memory::with_buffers_mut(iov, count, body) }
}

fn one(base: *mut c_void, len: size_t) -> iovec {
    iovec {
        iov_base: base,
        iov_len: len,
    }
}

/// The array of a message, which says how long it is.
fn array(message: &msghdr) -> (*const iovec, c_int) {
    let count = c_int::try_from(message.msg_iovlen).unwrap_or(c_int::MAX);
    (message.msg_iov, count)
}

pub(super) unsafe extern "C" fn read(
    user: User,
    fd: c_int,
    base: *mut c_void,
    len: size_t,
) -> ssize_t {
    let buffer = one(base, len);
    // SAFETY: the tool's userdata and buffer.
    size(unsafe { read_into(user, (&raw const buffer, 1), |len| Kind::Read { fd, len }) })
}

pub(super) unsafe extern "C" fn readv(
    user: User,
    fd: c_int,
    iov: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: the tool's userdata, array and buffers.
    size(unsafe { read_into(user, (iov, count), |len| Kind::Read { fd, len }) })
}

pub(super) unsafe extern "C" fn recv(
    user: User,
    fd: c_int,
    base: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the tool's userdata and buffer; it asks for no address.
    unsafe { recvfrom(user, fd, base, len, flags, ptr::null_mut(), ptr::null_mut()) }
}

/// A connected TCP socket gives no address (POSIX recvfrom; Linux says that its length is 0).
pub(super) unsafe extern "C" fn recvfrom(
    user: User,
    fd: c_int,
    base: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    let kind = |len| Kind::Receive { fd, len, flags };
    let buffer = one(base, len);
    // SAFETY: the tool's userdata and buffer.
    let outcome = unsafe { read_into(user, (&raw const buffer, 1), kind) };
    size(and_then(outcome, |_| {
        if addr.is_null() || addr_len.is_null() {
            return Ok(());
        }
        // SAFETY: the tool's room for a length.
        unsafe { memory::store(addr_len, 0) }
    }))
}

pub(super) unsafe extern "C" fn recvmsg(
    user: User,
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the tool's message.
    let header = unsafe { memory::load(message) };
    let kind = |len| Kind::Receive { fd, len, flags };
    // SAFETY: the tool's userdata, array and buffers.
    let outcome = header.and_then(|header| unsafe { read_into(user, array(&header), kind) });
    size(and_then(outcome, |_| {
        // SAFETY: the tool's message; it was read above. Nothing comes with the bytes.
        unsafe {
            (*message).msg_flags = 0;
            (*message).msg_namelen = 0;
            (*message).msg_controllen = 0;
        }
        Ok(())
    }))
}

/// Copies what is to be written, and makes the call.
///
/// # Safety
/// As [`call`]; the array and its buffers are readable.
unsafe fn write_from(
    user: User,
    (iov, count): (*const iovec, c_int),
    kind: impl FnOnce(Vec<u8>) -> Kind,
) -> Outcome {
    // SAFETY: the caller's promise.
    let bytes = unsafe { memory::with_buffers(iov, count, |buffers| Ok(gathered(buffers))) }?;
    // SAFETY: the caller's promise.
    unsafe { call(user, kind(bytes)) }
}

/// The bytes of all buffers, one after the other.
fn gathered(buffers: &[IoSlice<'_>]) -> Vec<u8> {
    buffers
        .iter()
        .flat_map(|buffer| buffer.iter().copied())
        .collect()
}

pub(super) unsafe extern "C" fn write(
    user: User,
    fd: c_int,
    base: *const c_void,
    len: size_t,
) -> ssize_t {
    let buffer = one(base.cast_mut(), len);
    // SAFETY: the tool's userdata and buffer.
    size(unsafe {
        write_from(user, (&raw const buffer, 1), |bytes| Kind::Write {
            fd,
            bytes,
        })
    })
}

pub(super) unsafe extern "C" fn writev(
    user: User,
    fd: c_int,
    iov: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: the tool's userdata, array and buffers.
    size(unsafe { write_from(user, (iov, count), |bytes| Kind::Write { fd, bytes }) })
}

pub(super) unsafe extern "C" fn send(
    user: User,
    fd: c_int,
    base: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the tool's userdata and buffer; there is no address.
    unsafe { sendto(user, fd, base, len, flags, ptr::null(), 0) }
}

pub(super) unsafe extern "C" fn sendto(
    user: User,
    fd: c_int,
    base: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> ssize_t {
    let buffer = one(base.cast_mut(), len);
    // SAFETY: the tool's userdata, buffer and address.
    size(unsafe { send_to(user, fd, (&raw const buffer, 1), flags, (addr, addr_len)) })
}

/// # Safety
/// As [`call`]; the array, its buffers and the address are readable.
unsafe fn send_to(
    user: User,
    fd: c_int,
    buffers: (*const iovec, c_int),
    flags: c_int,
    (addr, len): (*const sockaddr, socklen_t),
) -> Outcome {
    let to = if addr.is_null() || len == 0 {
        None
    } else {
        // SAFETY: the caller's promise.
        Some(unsafe { address::parse(addr, len) }?)
    };
    let kind = |bytes| Kind::Send {
        fd,
        bytes,
        flags,
        to,
    };
    // SAFETY: the caller's promise.
    unsafe { write_from(user, buffers, kind) }
}

pub(super) unsafe extern "C" fn sendmsg(
    user: User,
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the tool's message.
    let header = unsafe { memory::load(message) };
    size(header.and_then(|header| {
        let addr = (header.msg_name.cast_const().cast(), header.msg_namelen);
        // SAFETY: the tool's userdata, array, buffers and address.
        unsafe { send_to(user, fd, array(&header), flags, addr) }
    }))
}

pub(super) unsafe extern "C" fn pipe(user: User, ends: *mut c_int) -> c_int {
    // SAFETY: the tool's userdata.
    let outcome = unsafe { call(user, Kind::Pipe { flags: 0 }) };
    status(and_then(outcome, |reply| match reply.pipe {
        // SAFETY: the tool's room for two descriptors.
        Some((reader, writer)) => unsafe { memory::store(ends.cast(), [reader, writer]) },
        None => Ok(()),
    }))
}

/// Neither a connection nor a pipe has a place to read from.
pub(super) unsafe extern "C" fn splice(
    user: User,
    from: c_int,
    from_at: *mut loff_t,
    to: c_int,
    to_at: *mut loff_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if !from_at.is_null() || !to_at.is_null() {
        return size(Err(Errno(ESPIPE)));
    }
    let kind = Kind::Splice {
        from,
        to,
        len,
        flags: flags as i32,
    };
    // SAFETY: the tool's userdata.
    size(unsafe { call(user, kind) })
}
