//! How many questions to the link there may be, whoever makes us want to send (see `room`).

use crate::limit::RateLimiter;

/// Questions a second about neighbours that we know nothing of, in the long run.
const RATE: u32 = 512;
/// The same at once.
const BURST: u32 = 2_048;
/// One in so many places of the cache is for those being asked, ...
const SHARE: u32 = 4;
/// ... but not fewer than this.
const LEAST: u32 = 16;
/// How many questions there are and may be.
#[derive(Debug)]
pub(super) struct Questions {
    /// About those that we know nothing of ...
    pub(super) unknown: RateLimiter,
    /// ... and those whose hardware address we knew: a flood of the others takes none from them.
    pub(super) known: RateLimiter,
    /// Places for those being asked.
    pub(super) places: u32,
}

impl Questions {
    pub(super) fn new(max: u32) -> Self {
        Self {
            unknown: RateLimiter::new(RATE, BURST),
            known: RateLimiter::new(RATE, BURST),
            places: (max / SHARE).max(LEAST),
        }
    }
}
