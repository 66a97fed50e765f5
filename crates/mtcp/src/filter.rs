//! System calls that a program shall do without.

use std::io;

/// `struct sock_filter` of seccomp(2): load a word of the call's data; compare it; return a verdict.
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// `AUDIT_ARCH_*` of linux/audit.h of this machine. 0: not known.
const OURS: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else {
    0
};

const fn step(code: u16, k: u32, (then, otherwise): (u8, u8)) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: then,
        jf: otherwise,
        k,
    }
}

/// From now on, this thread and what it starts or becomes is told that there is no io_uring (`ENOSYS`). Returns whether that took
/// `no_new_privs`: set-user-ID programs that it starts get no rights then.
///
/// # Errors
/// The kernel has no such filters.
pub fn forbid_io_uring() -> io::Result<bool> {
    let refuse = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let mut steps = [
        step(LOAD, ARCHITECTURE, (0, 0)),
        step(EQUAL, OURS, (0, 3)),
        step(LOAD, NUMBER, (0, 0)),
        step(EQUAL, libc::SYS_io_uring_setup as u32, (0, 1)),
        step(RETURN, refuse, (0, 0)),
        step(RETURN, libc::SECCOMP_RET_ALLOW, (0, 0)),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    let set = || {
        // SAFETY: a program of so many steps, which the kernel copies.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                &raw const program,
            )
        };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    match set() {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            // SAFETY: no memory is involved.
            unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            set().map(|()| true)
        }
        result => result.map(|()| false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_io_uring_any_more() {
        // The filter is the thread's.
        let thread = std::thread::spawn(|| {
            forbid_io_uring().unwrap();
            // SAFETY: no memory is involved: no entries, no parameters.
            let made = unsafe { libc::syscall(libc::SYS_io_uring_setup, 0, 0) };
            assert_eq!(
                (made, io::Error::last_os_error().raw_os_error()),
                (-1, Some(libc::ENOSYS))
            );
        });
        thread.join().unwrap();
    }
}
