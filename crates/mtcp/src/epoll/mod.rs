//! Readiness: several epoll instances per context, with the semantics of Linux.

use std::time::Duration;

use bitflags::bitflags;

use crate::{Context, Errno, Result, SocketId};

bitflags! {
    /// Event bits, with the values of Linux (and of `mtcp_epoll.h`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Events: u32 {
        /// Readable, or a connection waits for `accept`.
        const IN = 0x001;
        /// Urgent data (never delivered: TCP urgent data is read in line, RFC 6093).
        const PRI = 0x002;
        /// Writable, or connected.
        const OUT = 0x004;
        /// Failed; see `take_error`. Always of interest.
        const ERR = 0x008;
        /// Both directions are shut. Always of interest.
        const HUP = 0x010;
        /// As `IN`.
        const RDNORM = 0x040;
        /// As `OUT`.
        const WRNORM = 0x100;
        /// The peer shut its sending side.
        const RDHUP = 0x2000;
        /// Disarm after one report, until `Ctl::Mod`.
        const ONESHOT = 1 << 30;
        /// Edge-triggered: report news, not state.
        const ET = 1 << 31;
    }
}

/// What an entry asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Interest {
    /// Which events, and how (`ET`, `ONESHOT`).
    pub events: Events,
    /// Comes back with every report.
    pub data: u64,
}

/// One report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EpollEvent {
    /// What is true.
    pub events: Events,
    /// From [`Interest::data`].
    pub data: u64,
}

/// What [`Context::epoll_ctl`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ctl {
    /// Register; `EEXIST` if registered.
    Add,
    /// Replace interest and data, arm again; `ENOENT` if not registered.
    Mod,
    /// Remove; `ENOENT` if not registered.
    Del,
}

impl Context {
    /// A new epoll instance, closed with [`Context::close`].
    ///
    /// # Errors
    /// `ENFILE`.
    pub fn epoll_create(&mut self) -> Result<SocketId> {
        Err(Errno::ENOSYS)
    }

    /// Registers, changes or removes `id` in the instance `ep`. `Add` and `Mod` report what is ready already.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (`ep` is no epoll instance, or `id` is one), `EEXIST`, `ENOENT`.
    pub fn epoll_ctl(
        &mut self,
        ep: SocketId,
        ctl: Ctl,
        id: SocketId,
        interest: Interest,
    ) -> Result<()> {
        let _ = (ep, ctl, id, interest);
        Err(Errno::ENOSYS)
    }

    /// Fills `events` with what is ready, at most `timeout` from now (`None`: no limit) if nothing is yet, and says how many. Starts by sending what was written
    /// and closed since.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (no epoll instance, or no room in `events`), `EINTR`.
    pub fn epoll_wait(
        &mut self,
        ep: SocketId,
        events: &mut [EpollEvent],
        timeout: Option<Duration>,
    ) -> Result<usize> {
        let _ = (ep, events, timeout);
        Err(Errno::ENOSYS)
    }

    /// One event bit per reported entry (ERR, then IN, OUT, RDHUP, HUP), as the original mTCP does: a socket with two appears twice, or next time. Starts as configured.
    pub fn set_one_event_per_entry(&mut self, on: bool) {
        let _ = on;
    }
}
