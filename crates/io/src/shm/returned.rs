//! Frames that nobody else took: they come back to who gave them.

use wire::frame::{RxFrame, RxMeta};

/// More are lost.
const ROOM: usize = 64;

/// A few frames, in memory that is allocated once.
#[derive(Debug)]
pub(super) struct Returned {
    bytes: Box<[u8]>,
    each: usize,
    lens: [usize; ROOM],
    count: usize,
}

impl Returned {
    pub(super) fn new(each: usize) -> Self {
        Self {
            bytes: vec![0; each * ROOM].into(),
            each,
            lens: [0; ROOM],
            count: 0,
        }
    }

    /// Lets `fill` write one, which says how long it is. False: there is no room.
    pub(super) fn push(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let start = self.count * self.each;
        let place = self.bytes.get_mut(start..start + self.each);
        match (place, self.lens.get_mut(self.count)) {
            (Some(place), Some(len)) => {
                *len = fill(place);
                self.count += 1;
                true
            }
            _ => false,
        }
    }

    pub(super) fn has_frames(&self) -> bool {
        self.count > 0
    }

    /// Lends all of them, once.
    pub(super) fn lend(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
        let count = std::mem::take(&mut self.count);
        let mut frames = [RxFrame {
            bytes: &[],
            meta: RxMeta::default(),
        }; ROOM];
        for ((frame, bytes), len) in frames
            .iter_mut()
            .zip(self.bytes.chunks(self.each))
            .zip(self.lens)
        {
            frame.bytes = bytes.get(..len).unwrap_or_default();
        }
        each(frames.get(..count).unwrap_or_default());
        count
    }
}
