//! A bad network, made on purpose: which frames to lose, repeat, damage or delay. Pure and
//! deterministic by seed.

mod rng;
mod spec;

use std::time::Duration;

pub use rng::Rng;
pub use spec::{Impairments, SpecError};

/// A reordered frame is held back at least this long ...
const REORDER_MIN: Duration = Duration::from_micros(200);
/// ... and at most this long, or as long as the delay of the spec if that is more.
const REORDER_MAX: Duration = Duration::from_millis(2);

/// What happens to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// The frame is lost; nothing else applies.
    pub drop: bool,
    /// How often the frame arrives: 0 if it is lost, 1, or 2.
    pub copies: u8,
    /// Byte index (less than the frame's length) and the mask (not 0) that is XORed to it.
    pub corrupt: Option<(usize, u8)>,
    /// How long after now the frame arrives. Later frames with less delay overtake it.
    pub delay: Duration,
}

/// Decides frame by frame.
#[derive(Clone, Debug)]
pub struct Impairer {
    spec: Impairments,
    rng: Rng,
}

impl Impairer {
    /// The decisions follow from `spec.seed` and `seed` together, so that the two directions of a
    /// link, say, can share a spec and still differ.
    pub fn new(spec: Impairments, seed: u64) -> Self {
        Self {
            spec,
            rng: Rng::new(spec.seed.rotate_left(32) ^ seed),
        }
    }

    /// The spec.
    pub const fn spec(&self) -> &Impairments {
        &self.spec
    }

    /// What happens to the next frame, which is `len` bytes long.
    pub fn decide(&mut self, len: usize) -> Verdict {
        if self.rng.chance_ppm(self.spec.loss_ppm) {
            return Verdict {
                drop: true,
                copies: 0,
                corrupt: None,
                delay: Duration::ZERO,
            };
        }
        let copies = if self.rng.chance_ppm(self.spec.duplicate_ppm) {
            2
        } else {
            1
        };
        let corrupt = self.corruption(len);
        Verdict {
            drop: false,
            copies,
            corrupt,
            delay: self.delay(),
        }
    }

    fn corruption(&mut self, len: usize) -> Option<(usize, u8)> {
        if !self.rng.chance_ppm(self.spec.corrupt_ppm) || len == 0 {
            return None;
        }
        let index = self.rng.below(len as u64) as usize;
        let mask = 1 + self.rng.below(255) as u8;
        Some((index, mask))
    }

    fn delay(&mut self) -> Duration {
        let mut delay = self.spec.delay + self.rng.duration_up_to(self.spec.jitter);
        if self.rng.chance_ppm(self.spec.reorder_ppm) {
            let longest = REORDER_MAX.max(self.spec.delay);
            delay += REORDER_MIN + self.rng.duration_up_to(longest - REORDER_MIN);
        }
        delay
    }
}

#[cfg(test)]
mod tests;
