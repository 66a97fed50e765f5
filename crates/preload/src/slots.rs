//! What each descriptor of the process is: one atomic word, so that calls on descriptors that are
//! none of ours cost one load.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// Descriptors beyond are the kernel's.
const SLOTS: usize = 1 << 20;
const KIND: u32 = 7 << 29;
const SOCKET: u32 = 1 << 29;
const EPOLL: u32 = 2 << 29;
const PRIVATE: u32 = 3 << 29;
const RING: u32 = 4 << 29;

static TABLE: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];

/// No descriptor from here on was ever anything.
static END: AtomicU32 = AtomicU32::new(0);

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The kernel's alone.
    Kernel,
    /// A TCP socket: its index among the engine's.
    Socket(u32),
    /// An epoll instance: its index among the engine's.
    Epoll(u32),
    /// One of the library's own, which the program must not close.
    Private,
    /// A ring of io_uring (`uring`).
    Ring,
}

#[inline]
fn word(fd: c_int) -> Option<&'static AtomicU32> {
    usize::try_from(fd).ok().and_then(|fd| TABLE.get(fd))
}

/// What `fd` is.
#[inline]
pub(crate) fn look(fd: c_int) -> Slot {
    let Some(word) = word(fd) else {
        return Slot::Kernel;
    };
    let value = word.load(Ordering::Acquire);
    match value & KIND {
        SOCKET => Slot::Socket(value & !KIND),
        EPOLL => Slot::Epoll(value & !KIND),
        PRIVATE => Slot::Private,
        RING => Slot::Ring,
        _ => Slot::Kernel,
    }
}

/// A descriptor of the library's own is the program's from now on, or its number is free.
pub(crate) fn disown(fd: c_int) {
    if look(fd) == Slot::Private {
        set(fd, Slot::Kernel);
    }
}

/// Whether `fd` is one of our sockets.
#[inline]
pub(crate) fn is_socket(fd: c_int) -> bool {
    matches!(look(fd), Slot::Socket(_))
}

/// Notes what `fd` is. Returns whether there is room for that.
pub(crate) fn set(fd: c_int, slot: Slot) -> bool {
    let value = match slot {
        Slot::Kernel => 0,
        Slot::Socket(index) => SOCKET | index,
        Slot::Epoll(index) => EPOLL | index,
        Slot::Private => PRIVATE,
        Slot::Ring => RING,
    };
    let Some(word) = word(fd) else {
        return false;
    };
    if value != 0 {
        END.fetch_max(fd.unsigned_abs() + 1, Ordering::Relaxed);
    }
    word.store(value, Ordering::Release);
    true
}

/// All descriptors in `first..=last` that are not the kernel's alone.
pub(crate) fn used(first: u32, last: u32) -> impl Iterator<Item = (c_int, Slot)> {
    let end = END.load(Ordering::Relaxed).min(last.saturating_add(1));
    (first..end)
        .filter_map(|fd| c_int::try_from(fd).ok())
        .map(|fd| (fd, look(fd)))
        .filter(|(_, slot)| *slot != Slot::Kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_what_they_were_said_to_be() {
        for slot in [
            Slot::Socket(7),
            Slot::Epoll(1 << 28),
            Slot::Private,
            Slot::Ring,
        ] {
            assert!(set(100_000, slot));
            assert_eq!(look(100_000), slot);
            assert_eq!(used(99_900, 100_100).collect::<Vec<_>>(), [(100_000, slot)]);
        }
        assert!(set(100_000, Slot::Kernel));
        assert_eq!((look(100_000), look(-1)), (Slot::Kernel, Slot::Kernel));
        assert!(!set(c_int::MAX, Slot::Private));
    }
}
