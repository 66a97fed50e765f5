//! From the tool's pointer to calls, and from what they give to C.

use std::ffi::{c_int, c_long, c_void};

use mtcp::Errno;
use pkt::{Kind, Outcome, Reply};

use crate::world::World;

/// What the tool passes with every call.
pub(super) type User = *mut c_void;

/// The stack behind `userdata`.
///
/// # Safety
/// It is from [`packetdrill_interface_init`](super::packetdrill_interface_init) and not freed.
pub(super) unsafe fn world<'a>(userdata: User) -> &'a World {
    // SAFETY: the caller's promise; a World is only ever shared.
    unsafe { &*userdata.cast::<World>() }
}

/// Makes a call.
///
/// # Safety
/// As [`world`].
pub(super) unsafe fn call(userdata: User, kind: Kind) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { world(userdata) }.call(kind)
}

/// The value that a call returns in C, `errno` set if it failed.
pub(super) fn returned(outcome: Outcome) -> c_long {
    match outcome {
        Ok(reply) => reply.value,
        Err(Errno(errno)) => {
            // SAFETY: the errno of this thread is always there.
            unsafe { *libc::__errno_location() = errno };
            -1
        }
    }
}

/// The same for calls that return an `int`.
pub(super) fn status(outcome: Outcome) -> c_int {
    c_int::try_from(returned(outcome)).unwrap_or(c_int::MAX)
}

/// Runs `store` on what a call gave, if it succeeded.
pub(super) fn and_then(
    outcome: Outcome,
    store: impl FnOnce(&Reply) -> Result<(), Errno>,
) -> Outcome {
    let reply = outcome?;
    store(&reply)?;
    Ok(reply)
}
