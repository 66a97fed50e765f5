//! Limits on address space that the program sets for itself: what the stack has taken is not
//! counted against them.

use std::ffi::{c_int, c_uint};

use libc::{pid_t, rlimit};

use super::hooks;
use crate::address_space::{both, change, look};

hooks! {
    /// setrlimit(2).
    fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
        // SAFETY: the caller's promises.
        unsafe { change(resource, limit) }
    }

    /// `setrlimit` with numbers of 64 bits, which all are.
    fn setrlimit64(resource: c_uint, limit: *const rlimit) -> c_int {
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
        // SAFETY: the caller's promises.
        unsafe { both(pid, resource, new, old) }
    }

    /// `prlimit` with numbers of 64 bits, which all are.
    fn prlimit64(pid: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int {
        // SAFETY: the caller's promises.
        unsafe { both(pid, resource, new, old) }
    }
}
