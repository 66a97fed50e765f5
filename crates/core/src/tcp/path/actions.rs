//! What a step of the path part asks the connection for.

use bitflags::bitflags;

bitflags! {
    /// What the connection has to do after a step of the path part.
    #[must_use]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub(crate) struct PathActions: u8 {
        /// What is in flight was too big for the path: it counts as lost, and goes again in smaller
        /// segments.
        const GO_BACK = 1 << 0;
    }
}
