//! What a flood leaves: memory of a pool that nobody has needed for a while goes back to the
//! kernel.

use crate::pool::{Hand, Ledger};

use super::memory::Memory;

/// So many bytes are kept whether they are used or not: to touch memory anew takes longer than to
/// use it again.
const SPARE: usize = 16 << 20;
/// How often it is looked whether more was not needed since the last look, ms.
const EVERY: u64 = 30_000;
/// Between two steps of giving back, ms: each takes about as long as a long turn.
const PAUSE: u64 = 1;

/// When to look, and how far it is.
#[derive(Debug, Default)]
pub(super) struct Thrift {
    /// The next look, or step, ms.
    at: u64,
    /// Giving back goes on here.
    hand: Option<Hand>,
}

impl Thrift {
    /// Whether it is time for a look; `None`: there is so little that there is none.
    #[inline(always)]
    pub(super) fn is_due_to_look(&self, ledger: &Ledger, now: u64) -> Option<bool> {
        let much = ledger.touched() >= SPARE;
        much.then(|| self.hand.is_none() && now >= self.at)
    }

    /// Looks, or takes a step, when it is time: `ledger` is of the pool in `memory`, and its owner
    /// calls. When to ask again, in ms.
    #[inline(never)]
    pub(super) fn economize(
        &mut self,
        ledger: &mut Ledger,
        memory: &Memory,
        now: u64,
    ) -> Option<u64> {
        if now >= self.at {
            self.at = now + EVERY;
            if let Some(hand) = self.hand {
                self.step(ledger, memory, hand);
            } else if ledger.take_unused() >= SPARE {
                self.hand = Some(ledger.begin_giving_back());
            }
            if self.hand.is_some() {
                self.at = now + PAUSE;
            }
        }
        let much = ledger.touched() >= SPARE;
        much.then(|| self.at - now)
    }

    fn step(&mut self, ledger: &mut Ledger, memory: &Memory, hand: Hand) {
        // SAFETY: within the pool, and free: nobody but the producer, who this is, accesses it
        // before it is handed out again.
        let give = |range| unsafe { memory.give_back(range) };
        self.hand = ledger.give_back(hand, give);
    }
}
