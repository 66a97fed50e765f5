//! One direction: decides about each frame and holds it until it is due.

use wire::frame::BURST;
use wire::impair::{Impairer, Impairments};
use wire::time::Instant;

use super::store::Store;

/// What was done to the frames of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Injected {
    /// Frames that came in.
    pub frames: u64,
    /// Lost on purpose.
    pub lost: u64,
    /// Sent on twice.
    pub duplicated: u64,
    /// Damaged.
    pub corrupted: u64,
    /// Held back for some time.
    pub delayed: u64,
    /// Lost because too many were held back.
    pub overflowed: u64,
}

#[derive(Debug)]
pub(super) struct Lane {
    impairer: Impairer,
    pub(super) store: Store,
    scratch: Vec<u8>,
    pub(super) injected: Injected,
}

impl Lane {
    /// `None` when there is nothing to do in this direction.
    pub(super) fn new(spec: Impairments, seed: u64, slots: u32, frame_len: usize) -> Option<Self> {
        (!spec.is_none()).then(|| Self {
            impairer: Impairer::new(spec, seed),
            // Frames that are lent stay in their slots until the burst ends.
            store: Store::new(slots.max(BURST as u32), frame_len),
            scratch: Vec::with_capacity(frame_len),
            injected: Injected::default(),
        })
    }

    /// Takes a frame in at `now`. `finish` writes the checksum that the frame may lack.
    pub(super) fn admit(&mut self, now: Instant, bytes: &[u8], finish: impl FnOnce(&mut [u8])) {
        let verdict = self.impairer.decide(bytes.len());
        self.injected.frames += 1;
        if verdict.drop {
            self.injected.lost += 1;
            return;
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(bytes);
        finish(&mut self.scratch);
        if let Some((index, mask)) = verdict.corrupt
            && let Some(byte) = self.scratch.get_mut(index)
        {
            *byte ^= mask;
            self.injected.corrupted += 1;
        }
        self.injected.duplicated += u64::from(verdict.copies > 1);
        self.injected.delayed += u64::from(!verdict.delay.is_zero());
        for _ in 0..verdict.copies {
            if !self.store.hold(&self.scratch, now + verdict.delay) {
                self.injected.overflowed += 1;
            }
        }
    }

    /// Frames that came in and will never come out.
    pub(super) const fn losses(&self) -> u64 {
        self.injected.lost + self.injected.overflowed
    }
}
