//! Memory of the caller.

use std::array;
use std::ffi::c_int;
use std::io::{IoSlice, IoSliceMut};
use std::slice;

use crate::{Errno, Result};
use libc::{iovec, socklen_t};

/// Most bytes that one call moves, as in Linux (MAX_RW_COUNT).
const MAX_BYTES: usize = 0x7fff_f000;
/// Most buffers of one call.
const MAX_BUFFERS: usize = libc::UIO_MAXIOV as usize;
/// Buffers for which no memory is allocated.
const FEW_BUFFERS: usize = 8;

/// `len` bytes to read from, of which at most as many as one call moves.
///
/// # Safety
/// `base`, unless NULL, points to `len` readable bytes that nobody changes while the slice lives.
#[inline]
pub unsafe fn bytes<'a>(base: *const u8, len: usize) -> Result<&'a [u8]> {
    match (base.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno::EFAULT),
        // SAFETY: the caller's promise; the length is below isize::MAX.
        (false, _) => Ok(unsafe { slice::from_raw_parts(base, len.min(MAX_BYTES)) }),
    }
}

/// As [`bytes`], to write to.
///
/// # Safety
/// `base`, unless NULL, points to `len` writable bytes that nobody else uses while the slice lives.
#[inline]
pub unsafe fn bytes_mut<'a>(base: *mut u8, len: usize) -> Result<&'a mut [u8]> {
    match (base.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Errno::EFAULT),
        // SAFETY: the caller's promise; the length is below isize::MAX. Bytes that C has not
        // initialised are only written.
        (false, _) => Ok(unsafe { slice::from_raw_parts_mut(base, len.min(MAX_BYTES)) }),
    }
}

/// An array of `count` elements, at `most` so many.
///
/// # Safety
/// `base`, unless NULL, points to `count` initialised elements that nobody changes while the slice
/// lives.
pub unsafe fn elements<'a, T>(base: *const T, count: c_int, most: usize) -> Result<&'a [T]> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    match (base.is_null(), count) {
        (_, 0) => Ok(&[]),
        (_, _) if count > most => Err(Errno::EINVAL),
        (true, _) => Err(Errno::EFAULT),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { slice::from_raw_parts(base, count) }),
    }
}

/// Runs `body` with the buffers of `mtcp_writev`.
///
/// # Safety
/// As [`bytes`], for the array and for each buffer, while `body` runs.
pub unsafe fn with_buffers<R>(
    iov: *const iovec,
    count: c_int,
    body: impl FnOnce(&[IoSlice<'_>]) -> Result<R>,
) -> Result<R> {
    // SAFETY: the caller's promise.
    let iov = unsafe { elements(iov, count, MAX_BUFFERS) }?;
    // SAFETY: the caller's promise.
    let each = |base: *mut u8, len| unsafe { bytes(base, len) }.map(IoSlice::new);
    gather(iov, || IoSlice::new(&[]), each, |slices| body(slices))
}

/// Runs `body` with the buffers of `mtcp_readv`.
///
/// # Safety
/// As [`bytes`] for the array, as [`bytes_mut`] for each buffer, while `body` runs.
pub unsafe fn with_buffers_mut<R>(
    iov: *const iovec,
    count: c_int,
    body: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<R>,
) -> Result<R> {
    // SAFETY: the caller's promise.
    let iov = unsafe { elements(iov, count, MAX_BUFFERS) }?;
    // SAFETY: the caller's promise.
    let each = |base, len| unsafe { bytes_mut(base, len) }.map(IoSliceMut::new);
    gather(iov, || IoSliceMut::new(&mut []), each, body)
}

/// Makes a slice of each buffer: on the stack if there are few, as there usually are.
fn gather<S, R>(
    iov: &[iovec],
    empty: impl Fn() -> S,
    each: impl Fn(*mut u8, usize) -> Result<S>,
    body: impl FnOnce(&mut [S]) -> Result<R>,
) -> Result<R> {
    let mut few: [S; FEW_BUFFERS] = array::from_fn(|_| empty());
    let mut many = Vec::new();
    let slices = match few.get_mut(..iov.len()) {
        Some(slices) => slices,
        None => {
            many.resize_with(iov.len(), empty);
            many.as_mut_slice()
        }
    };
    let mut room = MAX_BYTES;
    for (slice, buffer) in slices.iter_mut().zip(iov) {
        *slice = each(buffer.iov_base.cast(), take(&mut room, buffer.iov_len))?;
    }
    body(slices)
}

/// As much of `len` as there is room for; what comes later has that much less.
fn take(room: &mut usize, len: usize) -> usize {
    let len = len.min(*room);
    *room -= len;
    len
}

/// The value that `pointer` points to.
///
/// # Safety
/// `pointer`, unless NULL, points to a readable `T` for which every pattern of bits is a value;
/// alignment does not matter.
pub unsafe fn load<T: Copy>(pointer: *const T) -> Result<T> {
    if pointer.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { pointer.read_unaligned() })
}

/// Puts `value` where `pointer` points.
///
/// # Safety
/// `pointer`, unless NULL, points to room for a `T`; alignment does not matter.
pub unsafe fn store<T>(pointer: *mut T, value: T) -> Result<()> {
    if pointer.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: the caller's promise.
    unsafe { pointer.write_unaligned(value) };
    Ok(())
}

/// The length that the caller says `*len` has room for.
///
/// # Safety
/// As [`load`].
pub unsafe fn room(len: *const socklen_t) -> Result<usize> {
    // SAFETY: the caller's promise.
    let len = unsafe { load(len) }?;
    // The kernel takes it for an int and refuses negative ones.
    let len = c_int::try_from(len).map_err(|_| Errno::EINVAL)?;
    usize::try_from(len).map_err(|_| Errno::EINVAL)
}

/// Copies as much of `value` as there is room for and says how much that is.
///
/// # Safety
/// `to`, unless NULL, points to `room` writable bytes.
pub unsafe fn copy_out(to: *mut u8, room: usize, value: &[u8]) -> Result<usize> {
    let len = value.len().min(room);
    // SAFETY: the caller's promise.
    unsafe { bytes_mut(to, len) }?.copy_from_slice(&value[..len]);
    Ok(len)
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    fn vector(bytes: &mut [u8]) -> iovec {
        iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        }
    }

    #[test]
    fn null_is_refused_unless_nothing_is_there() {
        // SAFETY: NULL may be given to all of these.
        unsafe {
            assert_eq!(bytes(ptr::null(), 0), Ok(&[][..]));
            assert_eq!(bytes(ptr::null(), 1), Err(Errno::EFAULT));
            assert_eq!(bytes_mut(ptr::null_mut(), 1), Err(Errno::EFAULT));
            assert_eq!(load(ptr::null::<c_int>()), Err(Errno::EFAULT));
            assert_eq!(store(ptr::null_mut(), 1), Err(Errno::EFAULT));
            assert_eq!(with_buffers(ptr::null(), 1, |_| Ok(())), Err(Errno::EFAULT));
            assert_eq!(with_buffers(ptr::null(), 0, |v| Ok(v.len())), Ok(0));
            assert_eq!(
                with_buffers_mut(ptr::null(), -1, |_| Ok(())),
                Err(Errno::EINVAL)
            );
        }
    }

    #[test]
    fn buffers_are_checked_one_by_one() {
        let (mut a, mut b) = ([1, 2], [3]);
        let hole = iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        let fault = iovec {
            iov_base: ptr::null_mut(),
            iov_len: 1,
        };
        let iov = [vector(&mut a), hole, vector(&mut b)];
        let lens = |slices: &[IoSlice<'_>]| Ok(slices.iter().map(|s| s.len()).collect::<Vec<_>>());
        let many = [vector(&mut [0; 3]); 9];
        // SAFETY: the arrays live as long as the slices, whose bytes nobody touches.
        unsafe {
            assert_eq!(with_buffers(iov.as_ptr(), 3, lens), Ok(vec![2, 0, 1]));
            assert_eq!(with_buffers(many.as_ptr(), 9, lens), Ok(vec![3; 9]));
            assert_eq!(with_buffers(iov.as_ptr(), 1025, lens), Err(Errno::EINVAL));
            assert_eq!(with_buffers([fault].as_ptr(), 1, lens), Err(Errno::EFAULT));
            assert_eq!(
                with_buffers_mut([fault].as_ptr(), 1, |_| Ok(())),
                Err(Errno::EFAULT)
            );
        }
    }

    #[test]
    fn a_call_moves_no_more_than_in_linux() {
        let mut room = MAX_BYTES;
        assert_eq!(take(&mut room, MAX_BYTES - 1), MAX_BYTES - 1);
        assert_eq!(take(&mut room, usize::MAX), 1);
        assert_eq!(take(&mut room, 7), 0);
    }

    #[test]
    fn values_are_cut_to_the_room_there_is() {
        let mut to = [0; 2];
        // SAFETY: two bytes are there.
        let len = unsafe { copy_out(to.as_mut_ptr(), 2, &[1, 2, 3, 4]) };
        assert_eq!((len, to), (Ok(2), [1, 2]));
        let negative = socklen_t::MAX;
        // SAFETY: it points to a length.
        assert_eq!(unsafe { room(&raw const negative) }, Err(Errno::EINVAL));
    }
}
