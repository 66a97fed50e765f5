//! What the calls of the program need to know of io_uring: whether this process is served, and how
//! the thread that serves it hears that the program has closed a ring.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::slots::{self, Slot};
use crate::{inside, process, told};

/// `IORING_REGISTER_*` that the kernel has not: asks which rings the program has closed.
pub(super) const SWEEP: u32 = 0x6d74_6370;

/// The process in which it was tried; 0: none.
static ARMED: AtomicI32 = AtomicI32::new(0);

/// Whether it was tried in this process.
pub(super) fn is_armed() -> bool {
    ARMED.load(Ordering::Relaxed) == process::pid()
}

/// It was.
pub(super) fn note() {
    ARMED.store(process::pid(), Ordering::Relaxed);
}

/// The program has become a daemon, perhaps: a ring that its parent made does nothing here.
pub(crate) fn tell_lost() {
    let armed = ARMED.load(Ordering::Relaxed);
    let has_ring = || slots::used(0, u32::MAX).any(|(_, slot)| slot == Slot::Ring);
    if armed != 0 && !is_armed() && has_ring() {
        let text = "io_uring is not there for a child of the process that made the ring (ENOSYS): make it after the fork";
        inside::run(|| told::warn(text, text));
    }
}

/// The program has closed a descriptor that was a ring's, or may have been.
pub(crate) fn sweep() {
    if is_armed() {
        // Whoever hears it does it; the kernel knows of no such thing.
        // SAFETY: no memory is involved.
        inside::run(|| unsafe { libc::syscall(libc::SYS_io_uring_register, -1, SWEEP, 0, 0) });
    }
}
