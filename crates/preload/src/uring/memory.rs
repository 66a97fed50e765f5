//! Memory of the program that it names in a ring: looked at by the kernel, so that what is not
//! there is `EFAULT`.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use libc::iovec;
use mtcp::{Errno, Result};

const PAGE: u64 = 4096;
/// Pages that one call looks at.
const PAGES: usize = 64;
/// Most bytes of a buffer that are used at a time.
pub(super) const BYTES_MAX: u64 = 1 << 20;

/// Values of which every pattern of bits is one.
///
/// # Safety
/// So it is.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: numbers, and structures of numbers and pointers.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for [u64; 2] {}
// SAFETY: as above.
unsafe impl Plain for [u64; 4] {}
// SAFETY: as above.
unsafe impl Plain for [u64; 5] {}
// SAFETY: as above.
unsafe impl Plain for iovec {}
// SAFETY: as above.
unsafe impl Plain for libc::msghdr {}
// SAFETY: as above.
unsafe impl Plain for libc::epoll_event {}
// SAFETY: as above.
unsafe impl Plain for super::abi::Params {}

/// Memory of that length.
pub(super) fn part(base: u64, len: u64) -> iovec {
    iovec {
        iov_base: base as *mut _,
        iov_len: len as usize,
    }
}

/// Copies between two lists of parts of this process. Where the kernel does not have the call, the
/// program is trusted.
fn copy(from: &[iovec], to: &[iovec]) -> Result<()> {
    let wanted: usize = from.iter().map(|part| part.iov_len).sum();
    let (ours, theirs) = (from.as_ptr(), to.as_ptr());
    // SAFETY: lists of so many parts; the kernel looks at what they name.
    let n = unsafe {
        libc::process_vm_writev(
            libc::getpid(),
            ours,
            from.len() as u64,
            theirs,
            to.len() as u64,
            0,
        )
    };
    match usize::try_from(n) {
        Ok(n) if n == wanted => Ok(()),
        Err(_) if [libc::ENOSYS, libc::EPERM].contains(&mtcp::posix::call::errno()) => {
            for (from, to) in from.iter().zip(to) {
                // SAFETY: the program says that both are there.
                unsafe {
                    std::ptr::copy(from.iov_base.cast::<u8>(), to.iov_base.cast(), from.iov_len);
                };
            }
            Ok(())
        }
        _ => Err(Errno::EFAULT),
    }
}

/// The value at an address of the program.
pub(super) fn get<T: Plain>(at: u64) -> Result<T> {
    let mut value = MaybeUninit::<T>::uninit();
    let size = size_of::<T>() as u64;
    copy(&[part(at, size)], &[part(value.as_mut_ptr() as u64, size)])?;
    // SAFETY: all of it was copied, and every pattern is a value.
    Ok(unsafe { value.assume_init() })
}

/// As many values as there are from an address on.
pub(super) fn list<T: Plain>(at: u64, count: usize) -> Result<Vec<T>> {
    let mut values = Vec::<T>::with_capacity(count);
    if count > 0 {
        let size = (size_of::<T>() * count) as u64;
        copy(&[part(at, size)], &[part(values.as_mut_ptr() as u64, size)])?;
    }
    // SAFETY: all of them were copied.
    unsafe { values.set_len(count) };
    Ok(values)
}

/// Bytes at an address.
pub(super) fn bytes(at: u64, count: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    if count > 0 {
        let size = count as u64;
        copy(&[part(at, size)], &[part(bytes.as_mut_ptr() as u64, size)])?;
    }
    Ok(bytes)
}

/// Puts bytes to an address.
pub(super) fn put_bytes(at: u64, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let size = bytes.len() as u64;
    copy(&[part(bytes.as_ptr() as u64, size)], &[part(at, size)])
}

/// Puts a value to an address.
pub(super) fn put<T: Plain>(at: u64, value: &T) -> Result<()> {
    let size = size_of::<T>() as u64;
    let from = std::ptr::from_ref(value) as u64;
    copy(&[part(from, size)], &[part(at, size)])
}

/// Sees that a buffer can be read, and where `writes` is set, written to: copies a byte of each
/// page, there onto itself.
pub(super) fn check(buffer: &iovec, writes: bool) -> Result<()> {
    let (at, len) = (buffer.iov_base as u64, buffer.iov_len as u64);
    if len == 0 {
        return Ok(());
    }
    let last = at.checked_add(len - 1).ok_or(Errno::EFAULT)?;
    let mut next = Some(at);
    while next.is_some() {
        let mut parts = [part(0, 0); PAGES];
        let mut count = 0;
        while let (Some(byte), Some(slot)) = (next, parts.get_mut(count)) {
            *slot = part(byte, 1);
            count += 1;
            let page = (byte & !(PAGE - 1)).checked_add(PAGE);
            next = page.filter(|page| *page <= last);
        }
        let parts = parts.get(..count).unwrap_or_default();
        if writes {
            copy(parts, parts)?;
        } else {
            let mut seen = [0u8; PAGES];
            copy(parts, &[part(seen.as_mut_ptr() as u64, count as u64)])?;
        }
    }
    Ok(())
}

/// The buffers of a vector.
pub(super) fn vector(at: u64, count: u64) -> Result<Vec<iovec>> {
    const UIO_MAXIOV: u64 = 1024;
    if count > UIO_MAXIOV {
        return Err(Errno::EINVAL);
    }
    list(at, count as usize)
}

/// How many descriptors a program lists at most, where the kernel would have no more either.
pub(super) const MOST_FILES: u64 = 1 << 20;

/// A list of descriptors.
pub(super) fn descriptors(at: u64, count: u64) -> Result<Vec<c_int>> {
    if count > MOST_FILES {
        return Err(Errno::EINVAL);
    }
    list(at, count as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pages, of which the second may not be written to and the third not be read.
    fn pages() -> u64 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let len = 3 * PAGE as usize;
        // SAFETY: new memory, which nothing else uses.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), len, both, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::mprotect(at.byte_add(PAGE as usize), PAGE as usize, libc::PROT_READ);
            libc::mprotect(
                at.byte_add(2 * PAGE as usize),
                PAGE as usize,
                libc::PROT_NONE,
            );
            at as u64
        }
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let at = pages();
        let fault = Err(Errno::EFAULT);
        assert_eq!(check(&part(at, 2 * PAGE), false), Ok(()));
        assert_eq!(check(&part(at, PAGE), true), Ok(()));
        assert_eq!(check(&part(at + PAGE - 1, 2), true), fault);
        assert_eq!(check(&part(at + 1, 2 * PAGE), false), fault);
        for bad in [0, 1, u64::MAX, u64::MAX - 1, 1 << 63] {
            assert_eq!(check(&part(bad, 2), false), fault, "{bad:x}");
            assert_eq!(get::<u64>(bad), fault.map(|()| 0));
            assert_eq!(put(bad, &7u32), fault);
            assert_eq!(bytes(bad, 3), fault.map(|()| Vec::new()));
        }
        assert_eq!(vector(at, 1025).map(|_| ()), Err(Errno::EINVAL));
        assert_eq!(list::<u64>(0, 0), Ok(Vec::new()));
    }

    #[test]
    fn what_is_there_is_copied() {
        let at = pages();
        put(at + 8, &77u64).unwrap();
        assert_eq!(get::<u64>(at + 8), Ok(77));
        put_bytes(at, b"abc").unwrap();
        assert_eq!(bytes(at, 3), Ok(b"abc".to_vec()));
        assert_eq!(list::<u64>(at + 8, 1), Ok(vec![77]));
    }
}
