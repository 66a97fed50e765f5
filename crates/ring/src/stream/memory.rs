//! The bytes of a pool, touched by two threads: raw, so that no reference ever covers a byte the
//! other end may write.

#[cfg(not(loom))]
pub(super) use plain::Memory;
#[cfg(loom)]
pub(super) use tracked::Memory;

#[cfg(not(loom))]
mod plain {
    use std::io;
    use std::ptr::NonNull;

    use crate::pool::descriptors;
    use crate::prefetch::prefetch_write;
    use crate::region::{PagePolicy, Plot, Region};

    #[derive(Debug)]
    pub(crate) struct Memory {
        region: Region,
        limit: u32,
    }

    impl Memory {
        pub(crate) fn new(
            bytes: usize,
            pages: PagePolicy,
            plot: Option<&mut Plot>,
        ) -> io::Result<Self> {
            Ok(Self {
                region: Region::on(plot, bytes, pages)?,
                limit: u32::MAX,
            })
        }

        /// A pool of so many bytes, a power of two up to 2 GiB, in which no descriptor is followed
        /// to a place outside.
        pub(crate) fn bounded(bytes: usize, plot: &mut Plot) -> io::Result<Self> {
            let policy = PagePolicy::Small;
            Ok(Self {
                region: Region::on(Some(plot), bytes, policy)?,
                limit: descriptors(bytes) - 1,
            })
        }

        /// Has the kernel put memory behind so many bytes.
        pub(crate) fn prefault(&mut self, bytes: usize) {
            self.region.prefault(bytes);
        }

        /// Descriptors of its blocks are from 1 to this.
        #[inline(always)]
        pub(crate) fn limit(&self) -> u32 {
            self.limit
        }

        /// Its address, and how many bytes it is.
        #[cfg(test)]
        pub(crate) fn place(&self) -> (usize, usize) {
            (self.region.as_ptr().addr(), self.region.len())
        }

        /// Gives it back to the kernel.
        ///
        /// # Safety
        /// The range is inside, and no one accesses it now.
        pub(crate) unsafe fn give_back(&self, range: std::ops::Range<usize>) {
            // SAFETY: the caller's contract is the same.
            unsafe { self.region.give_back_unused(range) }
        }

        #[inline(always)]
        fn at(&self, offset: usize, len: usize) -> *mut u8 {
            debug_assert!(offset + len <= self.region.len());
            self.region.as_ptr().wrapping_add(offset)
        }

        /// A hint, for any offset.
        #[inline(always)]
        pub(crate) fn prefetch_write(&self, offset: usize) {
            prefetch_write(self.region.as_ptr().wrapping_add(offset));
        }

        /// # Safety
        /// The range is inside, and no one else accesses it now.
        #[inline(always)]
        pub(crate) unsafe fn write(&self, offset: usize, bytes: &[u8]) {
            let into = self.at(offset, bytes.len());
            // SAFETY: inside the region and exclusive (the caller); `bytes` cannot overlap what no
            // one else refers to.
            unsafe { into.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
        }

        /// # Safety
        /// The range is inside, and no one writes it now.
        #[inline(always)]
        pub(crate) unsafe fn read(&self, offset: usize, into: &mut [u8]) {
            let from = self.at(offset, into.len());
            // SAFETY: inside the region (the caller); `into` is exclusive. Nothing is made of what
            // is read but bytes.
            unsafe { from.copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) }
        }

        /// # Safety
        /// Both ranges are inside, no one writes the first or accesses the second now.
        pub(crate) unsafe fn copy(&self, from: usize, into: usize, len: usize) {
            // SAFETY: inside the region, not in use (the caller). They are two blocks, and overlap
            // only where what names them is in disorder.
            unsafe { self.at(into, len).copy_from(self.at(from, len), len) }
        }

        /// The range, readable as long as this lives.
        ///
        /// # Safety
        /// It is inside.
        #[inline(always)]
        pub(crate) unsafe fn piece(&self, offset: usize, len: usize) -> (NonNull<u8>, usize) {
            // SAFETY: inside the region, which does not start at 0.
            (unsafe { NonNull::new_unchecked(self.at(offset, len)) }, len)
        }
    }
}

#[cfg(loom)]
mod tracked {
    use std::io;
    use std::ptr::NonNull;

    use crate::region::{PagePolicy, Plot};
    use crate::sync::Cell;

    /// Every byte a cell of its own, so that loom sees every access.
    #[derive(Debug)]
    pub(crate) struct Memory(Vec<Cell<u8>>);

    // SAFETY: that no access races is what loom checks.
    unsafe impl Sync for Memory {}

    impl Memory {
        pub(crate) fn new(bytes: usize, _: PagePolicy, _: Option<&mut Plot>) -> io::Result<Self> {
            Ok(Self((0..bytes).map(|_| Cell::new(0)).collect()))
        }

        pub(crate) fn bounded(bytes: usize, plot: &mut Plot) -> io::Result<Self> {
            Self::new(bytes, PagePolicy::Small, Some(plot))
        }

        pub(crate) fn prefault(&mut self, _: usize) {}

        pub(crate) fn limit(&self) -> u32 {
            u32::MAX
        }

        pub(crate) unsafe fn give_back(&self, _: std::ops::Range<usize>) {}

        pub(crate) fn prefetch_write(&self, _: usize) {}

        pub(crate) unsafe fn write(&self, offset: usize, bytes: &[u8]) {
            for (cell, &byte) in self.0[offset..].iter().zip(bytes) {
                // SAFETY: loom checks it.
                cell.with_mut(|cell| unsafe { *cell = byte });
            }
        }

        pub(crate) unsafe fn read(&self, offset: usize, into: &mut [u8]) {
            for (cell, byte) in self.0[offset..].iter().zip(into) {
                // SAFETY: loom checks it.
                *byte = cell.with(|cell| unsafe { *cell });
            }
        }

        pub(crate) unsafe fn copy(&self, from: usize, into: usize, len: usize) {
            let mut bytes = vec![0; len];
            // SAFETY: loom checks it.
            unsafe {
                self.read(from, &mut bytes);
                self.write(into, &bytes);
            }
        }

        /// A copy: loom sees the read at the time of the call only.
        pub(crate) unsafe fn piece(&self, offset: usize, len: usize) -> (NonNull<u8>, usize) {
            let mut bytes = vec![0; len];
            // SAFETY: loom checks it.
            unsafe { self.read(offset, &mut bytes) };
            (NonNull::from(bytes.leak()).cast(), len)
        }
    }
}
