//! Why programs are turned away or dropped, and how often.

use rustix::io::Errno;

use crate::Error;
use crate::message::Drops;

/// Why a program was turned away or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// It sent what is no message, or one that it may not send now.
    Malformed,
    /// It sent descriptors where none belong, or too many.
    Descriptors,
    /// It said no hello in time.
    NoHello,
    /// It does not read what it asks for.
    NotReading,
    /// There are too many programs, of all users or of its.
    TooMany,
    /// The policy does not let it attach.
    Forbidden,
    /// Its build or its network namespace is another.
    NoMatch,
    /// The daemon ends.
    Ending,
}

impl DropReason {
    /// All, in the order of [`Drops`].
    pub const ALL: [Self; 8] = [
        Self::Malformed,
        Self::Descriptors,
        Self::NoHello,
        Self::NotReading,
        Self::TooMany,
        Self::Forbidden,
        Self::NoMatch,
        Self::Ending,
    ];

    /// In a few words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Malformed => "it sent what is no request",
            Self::Descriptors => "it sent descriptors that nobody asked for",
            Self::NoHello => "it said no hello within 2 s",
            Self::NotReading => "it does not read what it asked for",
            Self::TooMany => "there are too many programs",
            Self::Forbidden => "it may not attach",
            Self::NoMatch => "its build or its network namespace is another",
            Self::Ending => "the daemon ends",
        }
    }
}

/// What a program of that fate is told.
pub(super) fn refusal(reason: DropReason) -> Error {
    let (errno, cause, remedy) = match reason {
        DropReason::Malformed => (
            Errno::PROTO,
            "a message was no request",
            "use the same build of mTCP",
        ),
        DropReason::Descriptors => (
            Errno::PROTO,
            "descriptors came with a request that takes none",
            "",
        ),
        DropReason::NoHello => (Errno::TIMEDOUT, "no hello came within 2 s", "try again"),
        DropReason::NotReading => (Errno::NOBUFS, "answers were not read", ""),
        DropReason::TooMany => (
            Errno::AGAIN,
            "the daemon has too many programs, of all users or of this one",
            "end some, or raise 'programs' in its settings",
        ),
        DropReason::Forbidden => (
            Errno::ACCESS,
            "this user may not use the daemon",
            "ask its administrator",
        ),
        DropReason::NoMatch => (
            Errno::PROTO,
            "the daemon is of another network namespace than the program",
            "start one there, with another --name",
        ),
        DropReason::Ending => (Errno::SHUTDOWN, "the daemon is ending", "start it again"),
    };
    Error::new(errno, cause, remedy)
}

/// How often.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters(Drops);

impl Counters {
    pub(super) fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    pub(super) fn counts(&self) -> Drops {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_in_their_order() {
        let mut counters = Counters::default();
        for (number, reason) in (1..).zip(DropReason::ALL) {
            for _ in 0..number {
                counters.count(reason);
            }
        }
        assert_eq!(counters.counts(), [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
