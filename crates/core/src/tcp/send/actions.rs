//! What a step of the send part asks the connection for.

use bitflags::bitflags;

bitflags! {
    /// What the connection has to do after a step of the send part.
    #[must_use]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub(crate) struct SendActions: u8 {
        /// There is room to write: the application is told.
        const WRITABLE = 1 << 0;
        /// `Cold::held_until` has changed: the wheel must fire no later.
        const TIMER = 1 << 1;
    }
}
