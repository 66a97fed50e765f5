//! How a step of processing a segment ends (RFC 9293 §3.10.7).

use crate::drops::DropReason;

/// Why processing of a segment ends before its last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The segment is dropped.
    Drop(DropReason),
    /// The segment belongs to nothing here. It is dropped, if no other stack knows it either.
    UnknownFlow(DropReason),
    /// The segment did what it had to do.
    Done,
}

impl From<DropReason> for Stop {
    fn from(reason: DropReason) -> Self {
        Self::Drop(reason)
    }
}

/// What a step of RFC 9293 §3.10.7 says: go on, or not.
pub(crate) type Step = Result<(), Stop>;
