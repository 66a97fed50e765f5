//! What a step of the loss part asks the connection for.

use bitflags::bitflags;

bitflags! {
    /// What the connection has to do after a step of the loss part.
    #[must_use]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub(crate) struct LossActions: u8 {
        /// Something may want to be sent: have `transmit` look.
        const OUTPUT = 1 << 0;
        /// `Hot::rtx_at` or `Hot::early_at` has changed: the wheel must fire no later.
        const TIMER = 1 << 1;
        /// A segment waits for its time to leave: the wheel must fire no later.
        const RELEASE = 1 << 2;
        /// The window was reduced, for whatever reason: the receiver is to know (RFC 3168 §6.1.2).
        const REDUCED = 1 << 3;
    }
}
