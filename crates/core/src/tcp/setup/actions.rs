//! What the set-up part asks the owner of the connections for, or the connection that opens.

use bitflags::bitflags;

use crate::tcp::setup::half_open::HalfOpen;

/// What is left to be done about a segment for a listener.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listened {
    /// Nothing.
    Done,
    /// This listener takes the SYN.
    Syn(u32),
    /// The ACK completes the handshake of this record.
    Complete(HalfOpen),
}

/// How a SYN is answered, if no connection comes of it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// With a record of it.
    Record,
    /// With a SYN cookie.
    Cookie,
}

/// A SYN that a listener takes.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub record: HalfOpen,
    pub admission: Admission,
    /// Of the way back, bytes.
    pub mtu: u16,
    /// Its ISS may be any, and so a cookie.
    pub is_free: bool,
}

bitflags! {
    /// What a connection has to do after a step of its set-up.
    #[must_use]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub(crate) struct OpenActions: u8 {
        /// The segment is answered with a RST, unless there were too many.
        const RESET = 1 << 0;
        /// It is answered with a RST that no limit holds for.
        const FREE_RESET = 1 << 1;
        /// Our SYN is due, once more.
        const SYN = 1 << 2;
    }
}
