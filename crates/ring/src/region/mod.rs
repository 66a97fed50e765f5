//! Memory mapped from the kernel: anonymous regions, arrays in them, and memory shared with another
//! process.
//!
//! Regions are touched lazily: one costs address space, not memory, until bytes of it are written.
//! They are `Send` and `Sync`. After `fork` an anonymous region is the child's own copy; [`Shared`]
//! memory stays the same, also where a region lies in it ([`Plot`]).

mod column;
mod page;
mod plot;
mod plots;
mod shared;

pub use column::{Column, Zeroable};
pub use page::PagePolicy;
pub use plot::Plot;
pub use plots::Plots;
pub use shared::Shared;

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use page::{HUGE_PAGE, PAGE};
use plots::Claim;

/// A private anonymous mapping, all zero at first, unmapped when dropped; or a part of a [`Plot`],
/// which stays.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    bytes: usize,
    kind: PagePolicy,
    home: Option<Arc<Claim>>,
    /// The only process that has it.
    owner: Option<u32>,
}

// SAFETY: a region is plain memory without a thread; access through shared references is by raw
// pointer only.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `bytes` (rounded up to whole pages, at least one) of zeroed memory.
    ///
    /// # Errors
    /// The kernel has no room for it, with the size asked for in the message.
    pub fn new(bytes: usize, policy: PagePolicy) -> io::Result<Self> {
        let failed = |error: io::Error| {
            let message = format!("cannot map {bytes} bytes of memory: {error}");
            io::Error::new(error.kind(), message)
        };
        let too_large = || failed(io::ErrorKind::OutOfMemory.into());
        if policy == PagePolicy::Huge {
            let rounded = bytes
                .max(1)
                .checked_next_multiple_of(HUGE_PAGE)
                .ok_or_else(too_large)?;
            if let Ok(base) = map::huge(rounded) {
                return Ok(Self {
                    base,
                    bytes: rounded,
                    kind: PagePolicy::Huge,
                    home: None,
                    owner: None,
                });
            }
        }
        let rounded = bytes
            .max(1)
            .checked_next_multiple_of(PAGE)
            .filter(|&rounded| rounded <= isize::MAX as usize - HUGE_PAGE)
            .ok_or_else(too_large)?;
        let small = policy == PagePolicy::Small || rounded < HUGE_PAGE;
        let (base, kind) = map::normal(rounded, !small).map_err(failed)?;
        Ok(Self {
            base,
            bytes: rounded,
            kind,
            home: None,
            owner: None,
        })
    }

    /// What pages it has. `Transparent` means that the kernel was asked to join pages; it does so
    /// when it can.
    pub fn kind(&self) -> PagePolicy {
        self.kind
    }

    /// Size, bytes; never 0.
    #[allow(clippy::len_without_is_empty)] // it never is
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The first byte, aligned to a page, valid for reads and writes of [`Self::len`] bytes as long
    /// as the region lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Gives the kernel back the memory of the whole pages within these bytes, where it can: they
    /// are lost, and zero or as they were when they are looked at again. Costs a system call.
    ///
    /// # Panics
    /// The range is not within the region.
    pub fn give_back(&mut self, range: std::ops::Range<usize>) {
        // SAFETY: `&mut self`: nobody borrows from it.
        unsafe { self.give_back_unused(range) }
    }

    /// The same while others use other parts of it.
    ///
    /// # Safety
    /// Nobody accesses the range now.
    ///
    /// # Panics
    /// The range is not within the region.
    pub unsafe fn give_back_unused(&self, range: std::ops::Range<usize>) {
        assert!(range.end <= self.bytes, "beyond the region");
        let page = match self.kind {
            PagePolicy::Huge => HUGE_PAGE,
            PagePolicy::Transparent | PagePolicy::Small => PAGE,
        };
        let start = range.start.next_multiple_of(page);
        let end = range.end / page * page;
        if start < end {
            // SAFETY: within the mapping, to multiples of its pages, and nobody borrows from it, as
            // the caller vouches.
            unsafe { map::give_back(self.base.add(start), end - start, self.home.is_some()) }
        }
    }

    /// Keeps it from processes that are forked: to them it is not there, and must not be touched. A
    /// fork copies at once what a device may write to (memory that is pinned), so that this is for
    /// such memory, and for what no child needs. Returns whether the kernel does so.
    pub fn keep_from_children(&mut self) -> bool {
        // SAFETY: the whole mapping, which is this process's.
        let kept = self.home.is_none() && unsafe { map::keep_from_children(self.base, self.bytes) };
        if kept {
            self.owner = Some(std::process::id());
        }
        kept
    }

    /// Has the kernel put memory behind the first `bytes`, as far as there are so many: no page
    /// fault delays who touches them later. Their values stay.
    pub fn prefault(&mut self, bytes: usize) {
        for at in (0..bytes.min(self.bytes)).step_by(PAGE) {
            let byte = self.as_ptr().wrapping_add(at);
            // SAFETY: inside the region, and `&mut self` makes it exclusive. Volatile: the page is
            // to be written to.
            unsafe { byte.write_volatile(byte.read_volatile()) }
        }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: mapped, initialised (by the kernel, with zeroes). Whoever writes through `as_ptr`
        // meanwhile vouches for that.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }

    /// The bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes it exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // In another process other memory may lie there.
        let is_here = self.owner.is_none_or(|owner| owner == std::process::id());
        if self.home.is_none() && is_here {
            // SAFETY: mapped by `new` with this length, and nothing borrows from it any more.
            unsafe { map::unmap(self.base, self.bytes) }
        }
    }
}

/// The kernel's mappings.
#[cfg(not(any(miri, loom)))]
mod map {
    use std::io;
    use std::ptr::{NonNull, null_mut};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::{HUGE_PAGE, PagePolicy};

    const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

    fn anonymous(bytes: usize, flags: MapFlags) -> io::Result<NonNull<u8>> {
        // SAFETY: a new mapping at an address the kernel chooses touches nothing that exists.
        let base =
            unsafe { mmap_anonymous(null_mut(), bytes, READ_WRITE, MapFlags::PRIVATE | flags)? };
        NonNull::new(base.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Without NORESERVE: the kernel sets the pages aside now, or fails now, instead of with SIGBUS
    /// at the first touch.
    pub(super) fn huge(bytes: usize) -> io::Result<NonNull<u8>> {
        anonymous(bytes, MapFlags::HUGETLB | MapFlags::HUGE_2MB)
    }

    pub(super) fn normal(bytes: usize, transparent: bool) -> io::Result<(NonNull<u8>, PagePolicy)> {
        if !transparent {
            return Ok((anonymous(bytes, MapFlags::NORESERVE)?, PagePolicy::Small));
        }
        let base = aligned(bytes)?;
        // SAFETY: just mapped with this length. The advice changes no contents.
        let advised = unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        let kind = match advised {
            Ok(()) => PagePolicy::Transparent,
            Err(_) => PagePolicy::Small, // a kernel without them
        };
        Ok((base, kind))
    }

    /// A mapping that starts at a multiple of 2 MB, so that every part of it can be a huge page:
    /// maps more and cuts the ends off.
    fn aligned(bytes: usize) -> io::Result<NonNull<u8>> {
        let whole = anonymous(bytes + HUGE_PAGE, MapFlags::NORESERVE)?;
        let before = whole.as_ptr().align_offset(HUGE_PAGE).min(HUGE_PAGE);
        // SAFETY: `before` is at most what was mapped in excess.
        let base = unsafe { whole.add(before) };
        // SAFETY: `bytes` from `base` on are inside the mapping.
        let end = unsafe { base.add(bytes) };
        // SAFETY: both ends are ours, outside `base..base + bytes`, and nothing refers to them.
        unsafe {
            unmap(whole, before);
            unmap(end, HUGE_PAGE - before);
        }
        Ok(base)
    }

    /// # Safety
    /// The range must be a whole mapping of ours.
    pub(super) unsafe fn keep_from_children(base: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller vouches; it changes no contents.
        unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxDontFork) }.is_ok()
    }

    /// # Safety
    /// The range must be whole pages of a mapping of ours, and nobody may borrow from it.
    pub(super) unsafe fn give_back(base: NonNull<u8>, bytes: usize, shared: bool) {
        // Of shared memory, what nobody needs here is kept for the others.
        let advice = if shared {
            Advice::LinuxRemove
        } else {
            Advice::LinuxDontNeed
        };
        // SAFETY: the caller vouches; the memory reads as zero afterwards. If the kernel cannot,
        // everything stays.
        let _ = unsafe { madvise(base.as_ptr().cast(), bytes, advice) };
    }

    /// # Safety
    /// The range must be mapped (or empty) and nothing may refer to it any more.
    pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        if bytes > 0 {
            // SAFETY: the caller vouches. It fails only for a range that was never mapped.
            let _ = unsafe { munmap(base.as_ptr().cast(), bytes) };
        }
    }
}

/// Miri has no huge pages and no advice, and loom maps too often: the heap must do.
#[cfg(any(miri, loom))]
mod map {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;
    use std::ptr::NonNull;

    use super::{PAGE, PagePolicy};

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, PAGE).unwrap_or(Layout::new::<u8>())
    }

    pub(super) fn huge(_: usize) -> io::Result<NonNull<u8>> {
        Err(io::ErrorKind::OutOfMemory.into())
    }

    pub(super) fn normal(bytes: usize, _: bool) -> io::Result<(NonNull<u8>, PagePolicy)> {
        // SAFETY: `bytes` is not 0.
        let base = NonNull::new(unsafe { alloc_zeroed(layout(bytes)) });
        let base = base.ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok((base, PagePolicy::Small))
    }

    /// # Safety
    /// None is needed: nothing is done.
    pub(super) unsafe fn keep_from_children(_: NonNull<u8>, _: usize) -> bool {
        false
    }

    /// # Safety
    /// None is needed: nothing is done.
    pub(super) unsafe fn give_back(_: NonNull<u8>, _: usize, _: bool) {}

    /// # Safety
    /// Made by `normal` with this length, and nothing may refer to it any more.
    pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller vouches.
        unsafe { dealloc(base.as_ptr(), layout(bytes)) }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
