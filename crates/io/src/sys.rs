//! System calls of which rustix has no form. They pass by the C library's functions of their names,
//! which a preloaded library may stand in front of.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_long, c_uint, c_void, iovec, mmsghdr, sock_filter, sock_fprog, socklen_t};
use rustix::io::Errno;

/// What a system call answered.
fn check(result: c_long) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// bind(2), to an address as the kernel has it.
pub(crate) fn bind<T: Copy>(fd: BorrowedFd<'_>, address: &T) -> io::Result<()> {
    let (at, len) = (
        std::ptr::from_ref(address).cast::<c_void>(),
        size_of::<T>() as socklen_t,
    );
    // SAFETY: `at` points to `len` bytes that live during the call; the kernel only reads them.
    check(unsafe { libc::syscall(libc::SYS_bind, fd.as_raw_fd(), at, len) })
}

/// setsockopt(2).
pub(crate) fn set_option<T: Copy>(
    fd: BorrowedFd<'_>,
    (level, name): (c_int, c_int),
    value: &T,
) -> io::Result<()> {
    let (at, len) = (
        std::ptr::from_ref(value).cast::<c_void>(),
        size_of::<T>() as socklen_t,
    );
    let fd = fd.as_raw_fd();
    // SAFETY: `at` points to `len` bytes that live during the call; the kernel only reads them.
    check(unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, at, len) })
}

/// Has a socket receive only what a classic BPF program takes.
pub(crate) fn attach_filter(fd: BorrowedFd<'_>, filter: &[sock_filter]) -> io::Result<()> {
    let program = sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: filter.as_ptr().cast_mut(),
    };
    set_option(fd, (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER), &program)
}

/// getsockopt(2), into `value`. Returns how many bytes of it the kernel filled.
///
/// # Safety
/// Any bytes are a `T`.
pub(crate) unsafe fn option<T: Copy>(
    fd: BorrowedFd<'_>,
    (level, name): (c_int, c_int),
    value: &mut T,
) -> io::Result<usize> {
    let mut len = size_of::<T>() as socklen_t;
    let (at, room) = (
        std::ptr::from_mut(value).cast::<c_void>(),
        std::ptr::from_mut(&mut len),
    );
    let fd = fd.as_raw_fd();
    // SAFETY: `at` is room for `len` bytes, and the caller promises that any are a value.
    check(unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, at, room) })?;
    Ok(len as usize)
}

/// Most messages of [`send_many`].
const MANY: usize = 16;

/// sendmmsg(2), without waiting, of the first of these messages. Returns how many were sent.
///
/// # Errors
/// Why the first was not.
pub(crate) fn send_many<'a>(
    fd: BorrowedFd<'_>,
    messages: impl Iterator<Item = &'a [u8]>,
) -> rustix::io::Result<usize> {
    // SAFETY: zeros are an empty vector and an empty message.
    let (mut vectors, mut headers): ([iovec; MANY], [mmsghdr; MANY]) =
        unsafe { std::mem::zeroed() };
    let mut count: c_uint = 0;
    for ((message, vector), header) in messages.zip(&mut vectors).zip(&mut headers) {
        vector.iov_base = message.as_ptr().cast_mut().cast();
        vector.iov_len = message.len();
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    let (fd, at) = (fd.as_raw_fd(), headers.as_mut_ptr());
    // SAFETY: the first `count` headers name messages that live as long as 'a, and vectors that
    // live during the call; the kernel only reads those.
    let sent = unsafe { libc::syscall(libc::SYS_sendmmsg, fd, at, count, libc::MSG_DONTWAIT) };
    check(sent).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(usize::try_from(sent).unwrap_or(0))
}

/// ioctl(2) with a structure.
///
/// # Safety
/// `request` takes a pointer to a `T`, and leaves one there.
pub(crate) unsafe fn control<T>(
    fd: BorrowedFd<'_>,
    request: libc::Ioctl,
    argument: &mut T,
) -> io::Result<()> {
    let at = std::ptr::from_mut(argument);
    // SAFETY: the caller's promise.
    check(unsafe { libc::syscall(libc::SYS_ioctl, fd.as_raw_fd(), request, at) })
}

/// ioctl(2) with a number.
///
/// # Safety
/// `request` takes a number.
pub(crate) unsafe fn control_number(
    fd: BorrowedFd<'_>,
    request: libc::Ioctl,
    argument: libc::c_ulong,
) -> io::Result<()> {
    // SAFETY: the caller's promise.
    check(unsafe { libc::syscall(libc::SYS_ioctl, fd.as_raw_fd(), request, argument) })
}
