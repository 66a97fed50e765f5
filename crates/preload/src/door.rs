//! The connection to the daemon that all processes which came of one `mtcp run` share: by it each
//! makes one of its own, in whatever root directory and as whichever user it is by then. A private
//! daemon stays as long as one of them has it.

use std::ffi::c_int;
#[cfg(not(test))]
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// What names it: its number, and the file behind it.
pub(crate) const VARIABLE: &str = "MTCP_RUN_DOOR";

/// -1: there is none.
static NUMBER: AtomicI32 = AtomicI32::new(-1);

/// Its number, which children and programs that are executed have too.
pub(crate) fn number() -> Option<c_int> {
    Some(NUMBER.load(Ordering::Relaxed)).filter(|fd| *fd >= 0)
}

/// The library is loaded: takes the one that came with the program.
#[cfg(not(test))]
pub(crate) fn take_over() {
    if let Some(fd) = crate::handed_on::take(VARIABLE) {
        NUMBER.store(fd, Ordering::Relaxed);
        // SAFETY: it is the library's from now on, which never closes it.
        mtcp::use_door(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}
