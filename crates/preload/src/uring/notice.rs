//! Calls that wait for an answer (seccomp_unotify(2)).

use std::ffi::c_int;
use std::os::fd::{IntoRawFd as _, OwnedFd};

use mtcp::Errno;

use crate::{private, real};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`: who waits and who answers take turns (Linux 6.6).
const SYNC_WAKE_UP: libc::c_ulong = 1;

/// A call of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    id: u64,
    thread: libc::pid_t,
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
}

impl Notice {
    /// Whether a thread of this process made it.
    pub(super) fn is_own(&self) -> bool {
        // SAFETY: asks whether the thread is there; no memory is involved.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.thread, 0) == 0 }
    }
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The kernel does it.
    GoOn,
    Value(u32),
    Error(Errno),
}

/// Where calls are heard.
#[derive(Debug)]
pub(super) struct Listener(c_int);

impl Listener {
    pub(super) fn new(fd: OwnedFd) -> Self {
        let fd = private::own(fd.into_raw_fd());
        // Where the kernel does not know it, nothing is missing.
        // SAFETY: no memory is involved.
        unsafe {
            real::ioctl(
                fd,
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                SYNC_WAKE_UP as *mut _,
            )
        };
        Self(fd)
    }

    pub(super) fn descriptor(&self) -> c_int {
        self.0
    }

    /// The next call. `None`: who made it is gone.
    pub(super) fn receive(&self) -> Option<Notice> {
        // SAFETY: numbers, all zeros as the kernel wants them.
        let mut got: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        let at = (&raw mut got).cast();
        // SAFETY: room for a notification.
        let done = unsafe { real::ioctl(self.0, libc::SECCOMP_IOCTL_NOTIF_RECV, at) };
        (done == 0).then_some(Notice {
            id: got.id,
            thread: got.pid.cast_signed(),
            number: got.data.nr.into(),
            arguments: got.data.args,
        })
    }

    pub(super) fn answer(&self, notice: &Notice, answer: Answer) {
        let (value, error, flags) = match answer {
            Answer::GoOn => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Answer::Value(value) => (value.into(), 0, 0),
            Answer::Error(error) => (0, -error.0, 0),
        };
        let mut response = libc::seccomp_notif_resp {
            id: notice.id,
            val: value,
            error,
            flags,
        };
        // Who is gone needs none.
        // SAFETY: a response.
        unsafe {
            real::ioctl(
                self.0,
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                (&raw mut response).cast(),
            )
        };
    }
}
