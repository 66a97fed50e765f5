//! System calls of io_uring, which pass no library: a program shall do without them, or have them
//! heard.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// `struct sock_filter` of seccomp(2): load a word of the call's data; compare it; return a
/// verdict.
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Offsets in `struct seccomp_data`, of machines whose words begin with their low half.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// The half of the first argument that the kernel does not look at: a descriptor, or a count.
const MARK_AT: u32 = 20;
/// The second argument: how many entries to submit.
const TO_SUBMIT: u32 = 24;
/// `AUDIT_ARCH_*` of linux/audit.h of this machine. 0: not known.
const OURS: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else {
    0
};
const SETUP: u32 = libc::SYS_io_uring_setup as u32;
const ENTER: u32 = libc::SYS_io_uring_enter as u32;
const REGISTER: u32 = libc::SYS_io_uring_register as u32;
/// `SECCOMP_FILTER_FLAG_*` of linux/seccomp.h: all threads; tell of one that has filters of its own
/// by an error; who was heard waits for the answer, whatever signals come (Linux 5.19).
const ALL_THREADS: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_TSYNC;
const NEW_LISTENER: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
const OTHERS_FAIL: libc::c_ulong = 1 << 4;
const WAITS: libc::c_ulong = 1 << 5;
/// What a filter of `forbid_io_uring` and of `hear_io_uring` says.
const HEARD: u32 = libc::SECCOMP_RET_USER_NOTIF;
const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;

/// Calls that have this in the upper half of their first argument are the library's own, and go to
/// the kernel.
pub const MARK: u32 = 0x6d74_6370;

const fn step(code: u16, k: u32, (then, otherwise): (u8, u8)) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: then,
        jf: otherwise,
        k,
    }
}

/// Adds a filter. Returns what seccomp(2) does: 0 or a descriptor.
fn add(steps: &mut [libc::sock_filter], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    let (call, mode) = (libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER);
    // SAFETY: a program of so many steps, which the kernel copies.
    let result = unsafe { libc::syscall(call, mode, flags, &raw const program) };
    match result {
        0.. => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The same, where the process has not the right to, with `no_new_privs`. Returns whether that was
/// taken.
fn add_or_give_up(
    steps: &mut [libc::sock_filter],
    flags: libc::c_ulong,
) -> io::Result<(libc::c_long, bool)> {
    match add(steps, flags) {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            // SAFETY: no memory is involved.
            unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            add(steps, flags).map(|result| (result, true))
        }
        result => result.map(|result| (result, false)),
    }
}

/// Whether the kernel knows filters that a process can listen to.
fn can_be_heard() -> bool {
    let (call, ask) = (libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL);
    let action = HEARD;
    // SAFETY: a word to read.
    unsafe { libc::syscall(call, ask, 0, &raw const action) == 0 }
}

/// From now on, this thread and what it starts or becomes is told that there is no io_uring
/// (`ENOSYS`), unless a process hears of it ([`hear_io_uring`]). Returns whether that took
/// `no_new_privs`: set-user-ID programs that it starts get no rights then.
///
/// # Errors
/// The kernel has no such filters.
pub fn forbid_io_uring() -> io::Result<bool> {
    // To be heard where nobody listens is `ENOSYS`; but a filter that says so itself goes before
    // one that is heard.
    let refuse = if can_be_heard() {
        HEARD
    } else {
        libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32
    };
    let mut steps = [
        step(LOAD, ARCHITECTURE, (0, 0)),
        step(EQUAL, OURS, (0, 5)),
        step(LOAD, NUMBER, (0, 0)),
        step(EQUAL, SETUP, (0, 3)),
        step(LOAD, MARK_AT, (0, 0)),
        step(EQUAL, MARK, (1, 0)),
        step(RETURN, refuse, (0, 0)),
        step(RETURN, ALLOWED, (0, 0)),
    ];
    add_or_give_up(&mut steps, 0).map(|(_, gave_up)| gave_up)
}

/// From now on, io_uring's calls of all threads of this process wait until who has the descriptor
/// has answered (seccomp_unotify(2)), but those that submit nothing. With the descriptor closed, as
/// by `exec`, they are told that there is no io_uring. Returns whether that took `no_new_privs`,
/// too.
///
/// # Errors
/// `EBUSY`: a process that this one comes from hears of them. `ESRCH`: a thread has filters of its
/// own. What seccomp(2) says.
pub fn hear_io_uring() -> io::Result<(OwnedFd, bool)> {
    let mut steps = [
        step(LOAD, ARCHITECTURE, (0, 0)),
        step(EQUAL, OURS, (0, 9)),
        step(LOAD, NUMBER, (0, 0)),
        step(EQUAL, SETUP, (4, 0)),
        step(EQUAL, REGISTER, (3, 0)),
        step(EQUAL, ENTER, (0, 5)),
        step(LOAD, TO_SUBMIT, (0, 0)),
        step(EQUAL, 0, (3, 0)),
        step(LOAD, MARK_AT, (0, 0)),
        step(EQUAL, MARK, (1, 0)),
        step(RETURN, HEARD, (0, 0)),
        step(RETURN, ALLOWED, (0, 0)),
    ];
    let flags = NEW_LISTENER | ALL_THREADS | OTHERS_FAIL;
    let listener = match add_or_give_up(&mut steps, flags | WAITS) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            add_or_give_up(&mut steps, flags)
        }
        result => result,
    };
    let (fd, gave_up) = listener?;
    let fd = libc::c_int::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: just made.
    Ok((unsafe { OwnedFd::from_raw_fd(fd) }, gave_up))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_io_uring_any_more() {
        // The filter is the thread's.
        let thread = std::thread::spawn(|| {
            let setup = |mark: u32| {
                let entries = i64::from(mark) << 32;
                // SAFETY: no memory is involved: no entries, no parameters.
                let made = unsafe { libc::syscall(libc::SYS_io_uring_setup, entries, 0) };
                (made, io::Error::last_os_error().raw_os_error())
            };
            let before = setup(0);
            forbid_io_uring().unwrap();
            assert_eq!(setup(0), (-1, Some(libc::ENOSYS)));
            assert_eq!(setup(MARK), before);
        });
        thread.join().unwrap();
    }
}
