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
#[derive(Clone, Copy, Debug)]
pub(super) enum Class {
    Failed,
    Stale,
    Incomplete,
    /// Reachable, being confirmed or being probed.
    Live,
}

pub(super) const CLASSES: usize = 4;

/// Who has to go when we need room: first those that do not answer, then those not used lately, then those that have not answered yet
/// (which is what a flood from invented neighbours leaves behind), at last those in use.
pub(super) const ANY: [Class; CLASSES] =
    [Class::Failed, Class::Stale, Class::Incomplete, Class::Live];

/// Who has to go when somebody else wants to be known.
pub(super) const UNUSED: [Class; 2] = [Class::Failed, Class::Stale];

impl State {
    pub(super) fn class(self) -> Class {
        match self {
            Self::Failed => Class::Failed,
            Self::Stale => Class::Stale,
            Self::Incomplete => Class::Incomplete,
            Self::Reachable | Self::Delay | Self::Probe => Class::Live,
        }
    }
}
