//! Which process this is: its ID, and whether it is a copy of another that nobody told of.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The ID of this process.
pub(crate) fn pid() -> libc::pid_t {
    // SAFETY: no conditions.
    unsafe { libc::getpid() }
}

/// A word that is 1, and 0 in a copy of this process that was made without a word to the library.
static ORIGINAL: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// Has copies of this process find out that they are some.
pub(crate) fn watch_for_copies() {
    const BYTES: usize = 4096;
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: new memory, which children find wiped.
    let page = unsafe { libc::mmap(ptr::null_mut(), BYTES, protection, flags, -1, 0) };
    // SAFETY: as above.
    if page != libc::MAP_FAILED && unsafe { libc::madvise(page, BYTES, libc::MADV_WIPEONFORK) } == 0
    {
        ORIGINAL.store(page.cast(), Ordering::Release);
        is_no_copy();
    }
}

fn original() -> Option<&'static AtomicU32> {
    // SAFETY: mapped for good, and only accessed atomically.
    unsafe { ORIGINAL.load(Ordering::Acquire).as_ref() }
}

/// The engine belongs to this process.
pub(crate) fn is_no_copy() {
    if let Some(word) = original() {
        word.store(1, Ordering::Relaxed);
    }
}

/// Whether this process is a copy of the one that the engine belongs to, and has not been told.
#[inline]
pub(crate) fn is_copy() -> bool {
    original().is_some_and(|word| word.load(Ordering::Relaxed) == 0)
}
