//! One range of sequence numbers.

use wire::seq::SeqNumber;

/// A range of sequence numbers, the end not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Range {
    pub start: SeqNumber,
    pub end: SeqNumber,
}

impl Range {
    pub fn new(start: SeqNumber, end: SeqNumber) -> Self {
        Self { start, end }
    }

    pub fn len(self) -> u32 {
        self.end - self.start
    }
}
