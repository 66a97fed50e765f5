//! What the stack takes of the address space, which is not counted against the limits that the
//! program sets for itself.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{RLIM_INFINITY, RLIMIT_AS, pid_t, rlimit};

use crate::{process, real};

/// What the stack takes, bytes. One that is not there yet makes do with the limit.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// What the limits of this process are higher by than the program said, bytes.
static ADDED: AtomicU64 = AtomicU64::new(0);

/// # Safety
/// As for setrlimit(2).
pub(crate) unsafe fn change(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: the caller's promises.
    unsafe { both(0, resource, limit, std::ptr::null_mut()) }
}

/// # Safety
/// As for getrlimit(2).
pub(crate) unsafe fn look(resource: c_uint, limit: *mut rlimit) -> c_int {
    // SAFETY: the caller's promises.
    unsafe { both(0, resource, std::ptr::null(), limit) }
}

/// # Safety
/// As for prlimit(2).
pub(crate) unsafe fn both(
    pid: pid_t,
    resource: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    let is_own = pid == 0 || pid == process::pid();
    let before = ADDED.load(Ordering::Relaxed);
    if resource != RLIMIT_AS || !is_own || (before == 0 && new.is_null()) {
        // SAFETY: the caller's promises.
        return unsafe { real::prlimit(pid, resource, new, old) };
    }
    // SAFETY: the caller's promises: NULL or a limit.
    let wanted = unsafe { new.as_ref() };
    let raised = wanted.map(|limit| raise(limit, TAKEN.load(Ordering::Relaxed)));
    let at = raised.as_ref().map_or(std::ptr::null(), |(limit, _)| limit);
    // SAFETY: the caller's promises.
    let done = unsafe { real::prlimit(pid, resource, at, old) };
    if done < 0 {
        return done;
    }
    if let Some((_, added)) = raised {
        ADDED.store(added, Ordering::Relaxed);
    }
    // SAFETY: the kernel has written it, unless it is NULL.
    if let Some(old) = unsafe { old.as_mut() } {
        for value in [&mut old.rlim_cur, &mut old.rlim_max] {
            if *value != RLIM_INFINITY {
                *value = value.saturating_sub(before);
            }
        }
    }
    done
}

/// A stack takes so much address space, bytes, in this process and in its children.
pub(crate) fn note_taken(bytes: u64) {
    TAKEN.store(bytes, Ordering::Relaxed);
}

/// The limits with so much more, as far as the hard one allows, and how much that is.
fn raise(limit: &rlimit, more: u64) -> (rlimit, u64) {
    let mut now = rlimit {
        rlim_cur: 0,
        rlim_max: RLIM_INFINITY,
    };
    // SAFETY: room for limits.
    unsafe { real::prlimit(0, RLIMIT_AS, std::ptr::null(), &raw mut now) };
    let finite = [limit.rlim_cur, limit.rlim_max]
        .into_iter()
        .filter(|value| *value != RLIM_INFINITY)
        .max();
    let room = now.rlim_max.saturating_sub(finite.unwrap_or(0));
    let more = if finite.is_some() { more.min(room) } else { 0 };
    let add = |value| match value {
        RLIM_INFINITY => RLIM_INFINITY,
        value => value.saturating_add(more),
    };
    let raised = rlimit {
        rlim_cur: add(limit.rlim_cur),
        rlim_max: add(limit.rlim_max),
    };
    (raised, more)
}
