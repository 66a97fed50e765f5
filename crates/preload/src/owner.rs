//! Who hears of urgent data by SIGURG (F_SETOWN of fcntl(2)). The placeholders of accepted
//! connections are copies of one descriptor, and the kernel knows one owner of all: each socket has
//! its own here.

use std::ffi::{c_int, c_long};

use libc::pid_t;
use mtcp::{Errno, Result, SocketId};

use crate::engine::Engine;
use crate::slots::{self, Slot};
use crate::wait::Rings;

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

/// What is left to do when the lock is given back.
#[derive(Debug)]
pub(crate) struct After {
    rings: Rings,
    owners: Vec<Owner>,
}

impl Drop for After {
    fn drop(&mut self) {
        self.rings.ring();
        for owner in self.owners.drain(..) {
            // Who is gone hears of nothing.
            let _ = owner.send(libc::SIGURG);
        }
    }
}

impl Engine {
    pub(crate) fn after(&mut self) -> After {
        let mut owners = Vec::new();
        while let Some(id) = self.context().and_then(mtcp::Context::take_urgent) {
            owners.extend(self.owner_of(id));
        }
        After {
            rings: self.waiters.take_rings(),
            owners,
        }
    }

    #[cold]
    fn owner_of(&self, id: SocketId) -> Option<Owner> {
        let (_, socket) = self
            .sockets
            .iter()
            .find(|(_, socket)| socket.ours() == Some(id))?;
        Some(socket.owner).filter(|owner| owner.id != 0)
    }

    /// Sets the owner of the socket that `fd` names.
    pub(crate) fn set_owner(&mut self, fd: c_int, owner: Owner) -> Result<()> {
        let Slot::Socket(index) = slots::look(fd) else {
            return Err(Errno::EBADF);
        };
        self.sockets.get_mut(index).ok_or(Errno::EBADF)?.owner = owner;
        Ok(())
    }

    pub(crate) fn owner(&self, fd: c_int) -> Result<Owner> {
        let index = self.find(fd).ok_or(Errno::EBADF)?.index;
        Ok(self.sockets.get(index).ok_or(Errno::EBADF)?.owner)
    }
}
