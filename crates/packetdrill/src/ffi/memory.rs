//! Memory of the tool.

use std::ffi::c_int;
use std::slice;

use libc::{EFAULT, EINVAL, UIO_MAXIOV, iovec};
use mtcp::Errno;

/// `len` elements to read.
///
/// # Safety
/// `base`, unless NULL, points to `len` initialised elements that nobody changes while the slice
/// lives.
pub(super) unsafe fn elements<'a, T>(base: *const T, len: usize) -> Result<&'a [T], Errno> {
    match (base.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno(EFAULT)),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { slice::from_raw_parts(base, len) }),
    }
}

/// Puts a value where the caller wants it.
///
/// # Safety
/// `to`, unless NULL, points to room for one.
pub(super) unsafe fn store<T>(to: *mut T, value: T) -> Result<(), Errno> {
    if to.is_null() {
        return Err(Errno(EFAULT));
    }
    // SAFETY: the caller's promise, and it is not NULL.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Copies `bytes` to `to`, at most `room` of them.
///
/// # Safety
/// `to`, unless NULL, points to `room` writable bytes.
pub(super) unsafe fn copy_out(to: *mut u8, room: usize, bytes: &[u8]) -> Result<(), Errno> {
    let len = bytes.len().min(room);
    if len == 0 {
        return Ok(());
    }
    if to.is_null() {
        return Err(Errno(EFAULT));
    }
    // SAFETY: the caller's promise; our own memory and the caller's do not overlap.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), len) };
    Ok(())
}

/// An array of buffers.
///
/// # Safety
/// As [`elements`].
pub(super) unsafe fn buffers<'a>(iov: *const iovec, count: usize) -> Result<&'a [iovec], Errno> {
    if count > UIO_MAXIOV as usize {
        return Err(Errno(EINVAL));
    }
    // SAFETY: the caller's promise.
    unsafe { elements(iov, count) }
}

/// The same with the number as `readv` and `writev` get it.
///
/// # Safety
/// As [`elements`].
pub(super) unsafe fn counted<'a>(iov: *const iovec, count: c_int) -> Result<&'a [iovec], Errno> {
    let count = usize::try_from(count).map_err(|_| Errno(EINVAL))?;
    // SAFETY: the caller's promise.
    unsafe { buffers(iov, count) }
}

/// The bytes of all buffers, one after the other.
///
/// # Safety
/// Each buffer is readable.
pub(super) unsafe fn gather(buffers: &[iovec]) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    for buffer in buffers {
        // SAFETY: the caller's promise.
        bytes.extend_from_slice(unsafe { elements(buffer.iov_base.cast(), buffer.iov_len) }?);
    }
    Ok(bytes)
}

/// Spreads bytes over buffers.
///
/// # Safety
/// Each buffer is writable.
pub(super) unsafe fn scatter(buffers: &[iovec], mut bytes: &[u8]) -> Result<(), Errno> {
    for buffer in buffers {
        let (now, later) = bytes.split_at(bytes.len().min(buffer.iov_len));
        // SAFETY: the caller's promise.
        unsafe { copy_out(buffer.iov_base.cast(), buffer.iov_len, now) }?;
        bytes = later;
    }
    Ok(())
}

/// The room in all buffers.
pub(super) fn room(buffers: &[iovec]) -> usize {
    buffers.iter().map(|buffer| buffer.iov_len).sum()
}
