//! A ring that the kernel lends to us.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A shared mapping of a socket, removed when dropped. Children that are forked do not have it: the
/// kernel would copy tables of pages.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// The only process that has it; `None`: children have it, too.
    owner: Option<u32>,
}

// SAFETY: a mapping belongs to the process, not to a thread, and `Mapping` has no interior state.
unsafe impl Send for Mapping {}

impl Mapping {
    /// The first `len` bytes of `file` at `offset` (for an AF_XDP socket one of `XDP_PGOFF_*`).
    pub(crate) fn of(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
                file,
                offset,
            )
        }?;
        let base: NonNull<u8> =
            NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap answered address 0"))?;
        // SAFETY: the whole mapping; it changes no contents.
        let advised = unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxDontFork) };
        let owner = advised.is_ok().then(std::process::id);
        Ok(Self { base, len, owner })
    }

    /// The first of `count` values of type `T` at `offset`, if all lie inside and are aligned.
    pub(crate) fn at<T>(&self, offset: usize, count: usize) -> Option<NonNull<T>> {
        let end = size_of::<T>().checked_mul(count)?.checked_add(offset)?;
        if end > self.len {
            return None;
        }
        // SAFETY: `offset` is not beyond the end of the mapping, so the sum is in it or one past
        // it.
        let pointer = unsafe { self.base.add(offset) }.cast::<T>();
        pointer.is_aligned().then_some(pointer)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.owner.is_some_and(|owner| owner != std::process::id()) {
            // Other memory may lie there.
            return;
        }
        // SAFETY: this is the mapping that we made, and every borrow of it has ended.
        if let Err(error) = unsafe { munmap(self.base.as_ptr().cast(), self.len) } {
            log::debug!("munmap: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn only_what_lies_inside_and_is_aligned_is_handed_out() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let mapping = Mapping::of(file.as_fd(), 0, 4096).unwrap();
        assert!(mapping.at::<u32>(0, 1024).is_some());
        assert!(mapping.at::<u32>(0, 1025).is_none());
        assert!(mapping.at::<u32>(1, 1).is_none());
        assert!(mapping.at::<u32>(4092, 1).is_some());
        assert!(mapping.at::<u32>(4096, 1).is_none());
        assert!(mapping.at::<u64>(usize::MAX - 7, 1).is_none());
        assert!(mapping.at::<u64>(8, usize::MAX).is_none());
        // SAFETY: inside, aligned, and nobody else has it.
        assert_eq!(unsafe { mapping.at::<u64>(8, 1).unwrap().read() }, 0);
    }
}
