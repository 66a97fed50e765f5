//! Memory of free blocks that was used once: what the kernel gets back when it is not needed any
//! more.

use std::ops::Range;

use super::{Ledger, class_bytes, class_for};

/// Blocks that are smaller than a page are left.
const SMALLEST: u32 = if cfg!(loom) { 32 } else { 8 << 10 };
/// Split blocks looked at in a step; of the largest blocks, one.
const LOOKS: usize = 256;

/// Where it goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hand {
    class: usize,
    at: usize,
}

impl Ledger {
    /// The most bytes that were handed out at a time since unused ones were last given back: so
    /// many have memory, more or less.
    #[inline(always)]
    pub(crate) fn touched(&self) -> usize {
        self.touched.max(self.recent)
    }

    /// Bytes that have memory and were not needed since this was last asked.
    pub(crate) fn take_unused(&mut self) -> usize {
        self.high_water = self.high_water();
        self.touched = self.touched();
        let recent = std::mem::replace(&mut self.recent, self.in_use);
        self.touched - recent
    }

    /// Begins to give back what is free.
    pub(crate) fn begin_giving_back(&mut self) -> Hand {
        self.join_kept();
        Hand {
            class: class_for(SMALLEST).unwrap_or(0).min(self.levels.len()),
            at: 0,
        }
    }

    /// Names some of the free blocks. `None`: those were the last.
    pub(crate) fn give_back(
        &mut self,
        hand: Hand,
        mut each: impl FnMut(Range<usize>),
    ) -> Option<Hand> {
        let Hand { class, at } = hand;
        let bytes = class_bytes(class) as usize;
        let mut give = |index: usize| each(index * bytes..(index + 1) * bytes);
        let Some(level) = self.levels.get(class) else {
            if let Some(&index) = self.largest.get(at) {
                give(index as usize);
                return Some(Hand { class, at: at + 1 });
            }
            (self.touched, self.recent) = (self.in_use, self.in_use);
            return None;
        };
        let splits = level.splits.iter().enumerate().skip(at).take(LOOKS);
        for (parent, split) in splits {
            for child in (0..super::SPLIT).filter(|child| split.free & 1 << child != 0) {
                give(parent * super::SPLIT as usize + child as usize);
            }
        }
        Some(if at + LOOKS < level.splits.len() {
            Hand {
                class,
                at: at + LOOKS,
            }
        } else {
            Hand {
                class: class + 1,
                at: 0,
            }
        })
    }
}
