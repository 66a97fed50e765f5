//! The process: privileges that it gives up, and an end that does not go through `exit`.

use std::ffi::{c_char, c_int};

use libc::{gid_t, uid_t};

use super::hooks;
use crate::rights::{self, Header, Sets};
use crate::{engine, exit, real};

hooks! {
    /// setuid(2).
    fn setuid(uid: uid_t) -> c_int {
        before_drop();
        // SAFETY: the same argument.
        unsafe { real::setuid(uid) }
    }

    /// setgid(2).
    fn setgid(gid: gid_t) -> c_int {
        before_drop();
        // SAFETY: the same argument.
        unsafe { real::setgid(gid) }
    }

    /// setreuid(2).
    fn setreuid(real: uid_t, effective: uid_t) -> c_int {
        before_drop();
        // SAFETY: the same arguments.
        unsafe { real::setreuid(real, effective) }
    }

    /// setregid(2).
    fn setregid(real: gid_t, effective: gid_t) -> c_int {
        before_drop();
        // SAFETY: the same arguments.
        unsafe { real::setregid(real, effective) }
    }

    /// setresuid(2).
    fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int {
        before_drop();
        // SAFETY: the same arguments.
        unsafe { real::setresuid(real, effective, saved) }
    }

    /// setresgid(2).
    fn setresgid(real: gid_t, effective: gid_t, saved: gid_t) -> c_int {
        before_drop();
        // SAFETY: the same arguments.
        unsafe { real::setresgid(real, effective, saved) }
    }

    /// setgroups(2).
    fn setgroups(count: usize, groups: *const gid_t) -> c_int {
        before_drop();
        // SAFETY: the same arguments.
        unsafe { real::setgroups(count, groups) }
    }

    /// initgroups(3).
    fn initgroups(user: *const c_char, group: gid_t) -> c_int {
        before_drop();
        // SAFETY: the same arguments.
        unsafe { real::initgroups(user, group) }
    }

    /// capset(2).
    fn capset(header: *mut Header, data: *const Sets) -> c_int {
        // SAFETY: the caller's promise: a header, and as many sets as its version has, or NULL.
        if unsafe { rights::gives_up(header, data) }
            && let Ok(mut engine) = engine::lock()
        {
            engine.arm_early();
        }
        // SAFETY: the same arguments.
        unsafe { real::capset(header, data) }
    }

    /// _exit(2).
    fn _exit(status: c_int) -> () {
        exit::finish();
        real::exit_group(status)
    }

    /// _Exit(3).
    #[allow(non_snake_case)]
    fn _Exit(status: c_int) -> () {
        exit::finish();
        real::exit_group(status)
    }
}

/// Opening the link takes privileges.
fn before_drop() {
    if let Ok(mut engine) = engine::lock() {
        engine.arm();
    }
}
