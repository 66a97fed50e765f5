//! What a step of the ECN part asks the connection for.

use bitflags::bitflags;

bitflags! {
    /// What the connection has to do after a step of the ECN part.
    #[must_use]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub(crate) struct EcnActions: u8 {
        /// An ACK is due at once: it says what is new.
        const ACK = 1 << 0;
        /// Congestion was met: the congestion window is to be reduced, as if a segment had been
        /// lost.
        const REDUCE = 1 << 1;
    }
}
