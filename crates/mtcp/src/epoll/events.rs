//! What epoll instances are asked for and report.

use bitflags::bitflags;

bitflags! {
    /// Event bits, with the values of Linux (and of `mtcp_epoll.h`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Events: u32 {
        /// Readable, or a connection waits for `accept`.
        const IN = 0x001;
        /// An urgent byte has come, and reading has not passed it.
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

/// What [`Context::epoll_ctl`](crate::Context::epoll_ctl) does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ctl {
    /// Register; `EEXIST` if registered.
    Add,
    /// Replace interest and data, arm again; `ENOENT` if not registered.
    Mod,
    /// Remove; `ENOENT` if not registered.
    Del,
}
