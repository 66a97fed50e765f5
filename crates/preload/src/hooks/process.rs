//! The process: privileges that it gives up, and an end that does not go through `exit`.

use std::ffi::{c_char, c_int};

use libc::{gid_t, id_t, idtype_t, pid_t, rusage, siginfo_t, uid_t};

use mtcp::posix::call::{errno, set_errno};

use super::hooks;
use crate::cancel;
use crate::engine::{self, Engine};
use crate::inside::keep_errno;
use crate::presence::{self, Note};
use crate::real;
use crate::rights::{self, Header, Sets};
use crate::uring::armed;

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

    /// daemon(3), whose own calls pass no hook.
    fn daemon(keeps_folder: c_int, keeps_files: c_int) -> c_int {
        // SAFETY: the same arguments.
        let result = unsafe { real::daemon(keeps_folder, keeps_files) };
        if result == 0 {
            armed::tell_lost();
        }
        result
    }

    /// wait(2).
    fn wait(status: *mut c_int) -> pid_t {
        // SAFETY: the same argument.
        waiting(true, || unsafe { real::wait(status) })
    }

    /// waitpid(2).
    fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
        // SAFETY: the same arguments.
        waiting(options & libc::WNOHANG == 0, || unsafe { real::waitpid(pid, status, options) })
    }

    /// waitid(2).
    fn waitid(kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int {
        // SAFETY: the same arguments.
        waiting(options & libc::WNOHANG == 0, || unsafe { real::waitid(kind, id, info, options) })
    }

    /// wait3(2).
    fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
        // SAFETY: the same arguments.
        waiting(options & libc::WNOHANG == 0, || unsafe { real::wait3(status, options, usage) })
    }

    /// wait4(2).
    fn wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
        // SAFETY: the same arguments.
        waiting(options & libc::WNOHANG == 0, || unsafe { real::wait4(pid, status, options, usage) })
    }

    /// _exit(2).
    fn _exit(status: c_int) -> () {
        engine::finish();
        real::exit_group(status)
    }

    /// _Exit(3).
    #[allow(non_snake_case)]
    fn _Exit(status: c_int) -> () {
        engine::finish();
        real::exit_group(status)
    }
}

/// setsid(2).
///
/// # Safety
/// None.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn setsid() -> pid_t {
    // SAFETY: no memory is involved.
    let session = unsafe { real::setsid() };
    if session >= 0 {
        keep_errno(armed::tell_lost);
        cancel::end(false);
    }
    session
}

/// Waits for a child, if the call `blocks`: meanwhile it may read what the program here does not.
fn waiting(blocks: bool, call: impl FnOnce() -> c_int) -> c_int {
    let noted = blocks && engine::lock().is_ok_and(|mut engine| begin_waiting(&mut engine));
    // It may be cancelled where it waits.
    cancel::end(false);
    let result = call();
    if noted {
        let errno = errno();
        // Takes back what was noted.
        drop(engine::lock());
        set_errno(errno);
    }
    result
}

fn begin_waiting(engine: &mut Engine) -> bool {
    let waits = !engine.is_borrowed() && engine.pumps.begin_waiting();
    if waits {
        presence::note(Note::ForChild);
        engine.turn();
        engine.staged(true);
    }
    waits
}

/// Opening the link takes privileges.
fn before_drop() {
    if let Ok(mut engine) = engine::lock() {
        engine.arm();
    }
}
