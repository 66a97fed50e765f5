//! Limits that the program sets for itself. What the stack has taken of the address space is not
//! counted against them; where there are to be no more threads, a server starts its stack before.

use std::ffi::{c_int, c_uint};

use libc::{pid_t, rlimit};

use super::hooks;
use crate::address_space::{both, change, look};
use crate::inside::keep_errno;
use crate::{engine, process};

hooks! {
    /// setrlimit(2).
    fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
        before(0, resource, limit);
        // SAFETY: the caller's promises.
        unsafe { change(resource, limit) }
    }

    /// `setrlimit` with numbers of 64 bits, which all are.
    fn setrlimit64(resource: c_uint, limit: *const rlimit) -> c_int {
        before(0, resource, limit);
        // SAFETY: the caller's promises.
        unsafe { change(resource, limit) }
    }

    /// getrlimit(2).
    fn getrlimit(resource: c_uint, limit: *mut rlimit) -> c_int {
        // SAFETY: the caller's promises.
        unsafe { look(resource, limit) }
    }

    /// `getrlimit` with numbers of 64 bits, which all are.
    fn getrlimit64(resource: c_uint, limit: *mut rlimit) -> c_int {
        // SAFETY: the caller's promises.
        unsafe { look(resource, limit) }
    }

    /// prlimit(2).
    fn prlimit(pid: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int {
        before(pid, resource, new);
        // SAFETY: the caller's promises.
        unsafe { both(pid, resource, new, old) }
    }

    /// `prlimit` with numbers of 64 bits, which all are.
    fn prlimit64(pid: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int {
        before(pid, resource, new);
        // SAFETY: the caller's promises.
        unsafe { both(pid, resource, new, old) }
    }
}

/// The stack takes threads when it starts, which the limit on those of its user refuses. Root has
/// none, and is a master that limits its children.
fn before(pid: pid_t, resource: c_uint, new: *const rlimit) {
    let is_own = pid == 0 || pid == process::pid();
    if resource != libc::RLIMIT_NPROC || !is_own || new.is_null() {
        return;
    }
    // SAFETY: no memory is involved.
    let is_root = unsafe { libc::getuid() } == 0;
    if !is_root {
        keep_errno(|| {
            if let Ok(mut engine) = engine::lock() {
                engine.start_server();
            }
        });
    }
}
