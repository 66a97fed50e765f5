//! The capabilities that opening a link takes, and threads of the program that have them.

use std::ffi::c_int;

use mtcp::privileges;

/// `__user_cap_header_struct` of linux/capability.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    version: u32,
    pid: c_int,
}

/// `__user_cap_data_struct`: sets of 32 capabilities.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`: of 64 capabilities.
const VERSION: u32 = 0x2008_0522;
const NEEDED: u64 = privileges::NEEDED.bits();
const USEFUL: u64 = privileges::USEFUL.bits();

impl Header {
    /// About this thread.
    const fn new() -> Self {
        Self {
            version: VERSION,
            pid: 0,
        }
    }
}

/// What the sets of a thread permit.
fn permitted([low, high]: &[Sets; 2]) -> u64 {
    u64::from(low.permitted) | u64::from(high.permitted) << 32
}

/// The sets of this thread.
fn own() -> [Sets; 2] {
    let mut sets = [Sets::default(); 2];
    let mut header = Header::new();
    // Where it fails the thread has none that we know of.
    // SAFETY: a header, and room for the sets of its version.
    unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    sets
}

/// Whether this thread may open a link now, and with these sets of capabilities no more.
///
/// # Safety
/// As for capset(2).
pub(crate) unsafe fn gives_up(header: *const Header, data: *const Sets) -> bool {
    // SAFETY: the caller's promise.
    let Some(header) = (unsafe { header.as_ref() }) else {
        return false;
    };
    if header.version != VERSION || data.is_null() {
        return false;
    }
    // SAFETY: the caller's promise: two, of this version.
    let left = unsafe { data.cast::<[Sets; 2]>().read_unaligned() };
    permitted(&own()) & NEEDED == NEEDED && permitted(&left) & NEEDED != NEEDED
}

/// Puts into effect what this thread is permitted of what opening a link takes: a program that
/// became another user and kept its capabilities (`PR_SET_KEEPCAPS`) has them so.
pub(crate) fn take() {
    let mut sets = own();
    let [low, high] = &mut sets;
    low.effective |= low.permitted & USEFUL as u32;
    high.effective |= high.permitted & (USEFUL >> 32) as u32;
    let mut header = Header::new();
    // What it may not have, opening the link says.
    // SAFETY: a header, and the sets of its version.
    unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_what_opening_takes_gives_nothing_up() {
        let all = [Sets {
            permitted: u32::MAX,
            ..Sets::default()
        }; 2];
        let header = Header::new();
        // SAFETY: a header and its sets, or none.
        unsafe {
            assert!(!gives_up(&raw const header, all.as_ptr()));
            assert!(!gives_up(&raw const header, std::ptr::null()));
            assert!(!gives_up(std::ptr::null(), all.as_ptr()));
        }
    }

    #[test]
    fn what_is_permitted_can_be_put_into_effect() {
        take();
        let [low, high] = own();
        assert_eq!(low.permitted & !low.effective & NEEDED as u32, 0);
        assert_eq!(high.permitted & !high.effective & (NEEDED >> 32) as u32, 0);
    }
}
