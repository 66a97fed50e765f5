//! `getsockopt` for assertions.
//!
//! The tool asks libc, not this library, for the TCP_INFO of assertions (`%{ }%`). With the library
//! in LD_PRELOAD as well, this function is in front of libc's: it answers for our descriptors and
//! hands everything else on.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{ENOPROTOOPT, SO_MEMINFO, SOL_SOCKET, SOL_TCP, TCP_INFO, socklen_t};
use mtcp::Errno;
use pkt::constants::TCP_CC_INFO;
use pkt::{Kind, Outcome, Reply};

use super::options;
use super::user::{User, world};
use crate::world::World;

/// The one stack of the process, for a function that gets no `userdata`.
static CURRENT: AtomicPtr<World> = AtomicPtr::new(ptr::null_mut());

pub(super) fn set_current(world: *mut World) {
    CURRENT.store(world, Ordering::Release);
}

/// What the tool prints: fields that the stack does not know, and structures that it does not have,
/// are 0.
fn padded(outcome: Outcome, (level, name): (c_int, c_int), room: usize) -> Outcome {
    let mut data = match outcome {
        Ok(reply) => reply.data,
        Err(Errno(ENOPROTOOPT)) => Vec::new(),
        Err(error) => return Err(error),
    };
    if matches!(
        (level, name),
        (SOL_TCP, TCP_INFO | TCP_CC_INFO) | (SOL_SOCKET, SO_MEMINFO)
    ) {
        data.resize(room, 0);
    }
    Ok(Reply {
        data,
        ..Reply::default()
    })
}

/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let user: User = CURRENT.load(Ordering::Acquire).cast();
    // SAFETY: the stack that was made last, until it is freed.
    if user.is_null() || !unsafe { world(user) }.knows(fd) {
        // SAFETY: the arguments of the system call as the caller gave them.
        return unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) }
            as c_int;
    }
    let ask = |room: usize| {
        let kind = Kind::GetOption {
            fd,
            level,
            name,
            len: room,
        };
        // SAFETY: as above.
        padded(unsafe { world(user) }.call(kind), (level, name), room)
    };
    // SAFETY: the caller's length and room for a value.
    unsafe { options::store_option(value, len, ask) }
}
