//! What a step of the receive part asks the connection for.

use bitflags::bitflags;

bitflags! {
    /// What the connection has to do after a step of the receive part.
    #[must_use]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub(crate) struct ReceiveActions: u8 {
        /// There is something to read: the application is told.
        const READABLE = 1 << 0;
        /// An ACK is due at once.
        const ACK = 1 << 1;
        /// No ACK is due at once any more: the connection leaves the list of those that have one.
        const UNMARK = 1 << 2;
        /// `Hot::ack_at` has changed: the wheel must fire no later.
        const TIMER = 1 << 3;
        /// Urgent data is on its way, or here: the application is told.
        const URGENT = 1 << 4;
    }
}
