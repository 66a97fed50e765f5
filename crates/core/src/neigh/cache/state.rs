//! The states of a neighbour, and who has to go when there is no room.

/// RFC 4861 §7.3.2, and `Failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Asked; no hardware address yet.
    Incomplete,
    /// It works.
    Reachable,
    /// It worked; nobody has tried lately.
    Stale,
    /// Traffic goes out; a sign of life may come from the layers above.
    Delay,
    /// Being asked by unicast.
    Probe,
    /// Did not answer: not asked again for a while.
    Failed,
}

/// Entries that can be thrown out alike are on one list, longest in that class first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Failed,
    /// Stale, and no connection ever got on with it.
    Stale,
    /// Reachable, being confirmed or being probed; no connection has got on with it yet.
    Live,
    /// Stale, with connections.
    Idle,
    /// Asked, and nothing has come yet.
    Incomplete,
    /// Reachable, being confirmed or being probed, with connections.
    Proven,
}

pub(super) const CLASSES: usize = 6;

/// Who has to go when somebody else wants to be known: first those that do not answer, then those
/// that have not been of use to anybody, at last those whose connections have been silent for long.
/// Who has connections stays; who is being asked does, too, as it would be asked anew.
pub(super) const UNUSED: [Class; 3] = [Class::Failed, Class::Stale, Class::Idle];

/// Who has to go when we want to send: also those in use that no connection has got on with.
pub(super) const UNPROVEN: [Class; 4] = [Class::Failed, Class::Stale, Class::Idle, Class::Live];

impl State {
    pub(super) fn class(self, proven: bool) -> Class {
        match (self, proven) {
            (Self::Failed, _) => Class::Failed,
            (Self::Stale, false) => Class::Stale,
            (Self::Stale, true) => Class::Idle,
            (Self::Incomplete, _) => Class::Incomplete,
            (Self::Reachable | Self::Delay | Self::Probe, false) => Class::Live,
            (Self::Reachable | Self::Delay | Self::Probe, true) => Class::Proven,
        }
    }
}
