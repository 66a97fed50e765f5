//! Calls that move bytes.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use libc::{EFAULT, ESPIPE, iovec, loff_t, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use mtcp::Errno;
use pkt::{Kind, Outcome};

use super::user::{User, and_then, call, returned, status};
use super::{address, memory};

/// As much as one call moves in Linux (MAX_RW_COUNT).
const MOST: usize = 0x7fff_f000;

fn size(outcome: Outcome) -> ssize_t {
    returned(outcome) as ssize_t
}

/// Makes a call that reads, and puts the bytes into the caller's buffers.
///
/// # Safety
/// As [`call`]; the buffers are writable.
unsafe fn read_into(user: User, buffers: &[iovec], kind: impl FnOnce(usize) -> Kind) -> Outcome {
    // What was read is gone, so that room for it has to be there before.
    if buffers
        .iter()
        .any(|buffer| buffer.iov_base.is_null() && buffer.iov_len > 0)
    {
        return Err(Errno(EFAULT));
    }
    let len = memory::room(buffers).min(MOST);
    // SAFETY: the caller's promise.
    let outcome = unsafe { call(user, kind(len)) };
    // SAFETY: the caller's promise.
    and_then(outcome, |reply| unsafe {
        memory::scatter(buffers, &reply.data)
    })
}

fn one(base: *mut c_void, len: size_t) -> [iovec; 1] {
    [iovec {
        iov_base: base,
        iov_len: len,
    }]
}

pub(super) unsafe extern "C" fn read(
    user: User,
    fd: c_int,
    base: *mut c_void,
    len: size_t,
) -> ssize_t {
    // SAFETY: the tool's userdata and buffer.
    size(unsafe { read_into(user, &one(base, len), |len| Kind::Read { fd, len }) })
}

pub(super) unsafe extern "C" fn readv(
    user: User,
    fd: c_int,
    iov: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: the tool's array.
    let buffers = unsafe { memory::counted(iov, count) };
    size(buffers.and_then(|buffers| {
        // SAFETY: the tool's userdata and buffers.
        unsafe { read_into(user, buffers, |len| Kind::Read { fd, len }) }
    }))
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
    // SAFETY: the tool's userdata and buffer.
    let outcome = unsafe { read_into(user, &one(base, len), kind) };
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
    // SAFETY: the tool's message, whose array of buffers is as long as it says.
    let buffers = unsafe {
        memory::elements(message, 1)
            .and_then(|message| memory::buffers(message[0].msg_iov, message[0].msg_iovlen))
    };
    let kind = |len| Kind::Receive { fd, len, flags };
    // SAFETY: the tool's userdata and buffers.
    let outcome = buffers.and_then(|buffers| unsafe { read_into(user, buffers, kind) });
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
/// As [`call`]; the buffers are readable.
unsafe fn write_from(user: User, buffers: &[iovec], kind: impl FnOnce(Vec<u8>) -> Kind) -> Outcome {
    // SAFETY: the caller's promise.
    let bytes = unsafe { memory::gather(buffers) }?;
    // SAFETY: the caller's promise.
    unsafe { call(user, kind(bytes)) }
}

pub(super) unsafe extern "C" fn write(
    user: User,
    fd: c_int,
    base: *const c_void,
    len: size_t,
) -> ssize_t {
    let buffer = one(base.cast_mut(), len);
    // SAFETY: the tool's userdata and buffer.
    size(unsafe { write_from(user, &buffer, |bytes| Kind::Write { fd, bytes }) })
}

pub(super) unsafe extern "C" fn writev(
    user: User,
    fd: c_int,
    iov: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: the tool's array.
    let buffers = unsafe { memory::counted(iov, count) };
    size(buffers.and_then(|buffers| {
        // SAFETY: the tool's userdata and buffers.
        unsafe { write_from(user, buffers, |bytes| Kind::Write { fd, bytes }) }
    }))
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
    size(unsafe { send_to(user, fd, &buffer, flags, (addr, addr_len)) })
}

/// # Safety
/// As [`call`]; the buffers and the address are readable.
unsafe fn send_to(
    user: User,
    fd: c_int,
    buffers: &[iovec],
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
    let message = unsafe { memory::elements(message, 1) };
    size(message.and_then(|message| {
        let message = &message[0];
        let addr = (message.msg_name.cast_const().cast(), message.msg_namelen);
        // SAFETY: the tool's array.
        let buffers = unsafe { memory::buffers(message.msg_iov, message.msg_iovlen) }?;
        // SAFETY: the tool's userdata, buffers and address.
        unsafe { send_to(user, fd, buffers, flags, addr) }
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
