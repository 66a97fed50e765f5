//! A word by which a side says that it sleeps, for the other side to wake it.
//!
//! The side that sleeps announces it, looks once more whether something was published, and only
//! then sleeps. The side that has published something looks for an announcement, and rings if it
//! is the one that takes it. So either the first sees what was published, or the second rings.

use crate::sync::Ordering::{AcqRel, Relaxed, SeqCst};
use crate::sync::{AtomicU32, fence};

/// The side sleeps, or looks for the last time before it does.
const SLEEPS: u32 = 1;
/// It did, and the other side has seen that, and rings.
const RUNG: u32 = 2;
/// The bits of a word that say which of these; none is set while the side runs. Above them stands
/// the processor that the side last went to sleep on, plus one.
const STATE: u32 = 0xff;
/// The lowest bit above them.
const PROCESSOR: u32 = STATE + 1;

fn shown(processor: u32) -> u32 {
    processor.wrapping_add(1).wrapping_mul(PROCESSOR)
}

/// Says that this side sleeps, on that processor. It then looks once more at what the other side
/// has published.
pub fn announce(word: &AtomicU32, processor: u32) {
    word.store(SLEEPS | shown(processor), Relaxed);
    // Pairs with the fence in `take`.
    fence(SeqCst);
}

/// That sleep is over. True: the other side has rung, or is about to.
pub fn end(word: &AtomicU32) -> bool {
    word.fetch_and(!STATE, AcqRel) & STATE == RUNG
}

/// The other side sleeps and has to be rung for, which nobody else does. Asked after something was
/// published.
#[inline]
pub fn take(word: &AtomicU32) -> bool {
    // Pairs with the fence in `announce`: either we see the announcement, or the other side sees
    // what we have published.
    fence(SeqCst);
    let seen = word.load(Relaxed);
    let rung = seen & !STATE | RUNG;
    seen & STATE == SLEEPS && word.compare_exchange(seen, rung, AcqRel, Relaxed).is_ok()
}

/// Whether the other side says that it sleeps, and nobody has rung for it: only a hint.
#[inline]
pub fn is_there(word: &AtomicU32) -> bool {
    word.load(Relaxed) & STATE == SLEEPS
}

/// Whether the other side last went to sleep on this processor: only a hint.
pub fn is_beside(word: &AtomicU32, processor: u32) -> bool {
    word.load(Relaxed) & !STATE == shown(processor)
}
