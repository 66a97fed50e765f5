//! Who hears of urgent data by SIGURG (F_SETOWN of fcntl(2)). The placeholders of accepted
//! connections are copies of one descriptor, and the kernel knows one owner of all: each socket has
//! its own here.

use std::ffi::{c_int, c_long};

use libc::pid_t;
use mtcp::{Errno, Result};

/// Of asm-generic/fcntl.h.
const F_OWNER_TID: c_int = 0;
const F_OWNER_PID: c_int = 1;
const F_OWNER_PGRP: c_int = 2;

/// `struct f_owner_ex`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Owner {
    kind: c_int,
    id: pid_t,
}

impl Owner {
    pub(crate) const NOBODY: Self = Self {
        kind: F_OWNER_PID,
        id: 0,
    };

    /// A process or, negative, a group of them, as F_SETOWN has it.
    ///
    /// # Errors
    /// `EINVAL`, `ESRCH`.
    pub(crate) fn of(who: c_int) -> Result<Self> {
        let kind = if who < 0 { F_OWNER_PGRP } else { F_OWNER_PID };
        let id = who.checked_abs().ok_or(Errno::EINVAL)?;
        Self { kind, id }.checked()
    }

    /// # Errors
    /// `EINVAL`, `ESRCH`.
    pub(crate) fn checked(self) -> Result<Self> {
        if !(F_OWNER_TID..=F_OWNER_PGRP).contains(&self.kind) {
            return Err(Errno::EINVAL);
        }
        if self.id != 0 && self.send(0) == Err(Errno(libc::ESRCH)) {
            return Err(Errno(libc::ESRCH));
        }
        Ok(self)
    }

    /// As F_GETOWN has it.
    pub(crate) fn number(self) -> c_int {
        if self.kind == F_OWNER_PGRP {
            -self.id
        } else {
            self.id
        }
    }

    /// Whether anybody hears of it.
    pub(crate) fn is_somebody(self) -> bool {
        self.id != 0
    }

    /// Tells of urgent data. Who is gone hears of nothing.
    pub(crate) fn tell(self) {
        let _ = self.send(libc::SIGURG);
    }

    /// Sends a signal; 0 only asks.
    fn send(self, signal: c_int) -> Result<()> {
        let (call, to) = match self.kind {
            F_OWNER_TID => (libc::SYS_tkill, self.id),
            _ => (libc::SYS_kill, self.number()),
        };
        // SAFETY: no memory is involved.
        let done = unsafe { libc::syscall(call, c_long::from(to), c_long::from(signal)) };
        if done < 0 {
            return Err(Errno(mtcp::posix::call::errno()));
        }
        Ok(())
    }
}
