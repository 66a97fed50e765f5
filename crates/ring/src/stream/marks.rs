//! The marks of urgent data of all slots.

use std::io;

use crate::region::Plot;
#[cfg(not(loom))]
use crate::region::{PagePolicy, Region};
use crate::sync::AtomicU32;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// All zero: no mark.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub(super) struct Mark {
    /// The stack's: how often it has set the mark.
    serial: AtomicU32,
    /// The stack's: index of the urgent byte.
    at: AtomicU32,
    /// The stack's: urgent bytes of marks before this one, where the reader stood when the next
    /// came: not part of the stream any more. From here ...
    gap_start: AtomicU32,
    /// ... to here.
    pub(super) gap_end: AtomicU32,
    /// The application's: the end of the last gap that it has dealt with.
    pub(super) skipped: AtomicU32,
    /// The application's: `serial` of the mark whose byte it has taken apart.
    pub(super) taken: AtomicU32,
    /// The application's: `serial` of the mark that it has passed.
    pub(super) passed: AtomicU32,
}

/// What is ahead of the reader.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ahead {
    /// Bytes from the head on that are to be passed over.
    pub(super) gap: u32,
    /// Bytes from the head to the urgent byte.
    pub(super) mark: Option<u32>,
}

impl Ahead {
    /// Bytes from the head on that no reader gets.
    pub(super) fn left_out(self, inline: bool) -> u32 {
        if inline {
            return 0;
        }
        self.gap + u32::from(self.mark == Some(self.gap))
    }
}

impl Mark {
    /// By the stack, before the application looks.
    pub(super) fn clear(&self) {
        self.set_words(&[0; 7]);
    }

    fn all(&self) -> [&AtomicU32; 7] {
        [
            &self.serial,
            &self.at,
            &self.gap_start,
            &self.gap_end,
            &self.skipped,
            &self.taken,
            &self.passed,
        ]
    }

    /// All that is known of it, while nobody changes it.
    pub(super) fn words(&self) -> [u32; 7] {
        self.all().map(|word| word.load(Relaxed))
    }

    /// The opposite of [`Self::words`].
    pub(super) fn set_words(&self, words: &[u32; 7]) {
        for (word, value) in self.all().into_iter().zip(words) {
            word.store(*value, Relaxed);
        }
    }

    /// By the stack: the byte of index `at` is urgent; the reader stands at `head`, and what has
    /// come ends at `tail`. False: that is not behind the urgent byte that is known.
    pub(super) fn set(&self, at: u32, head: u32, tail: u32) -> bool {
        let serial = self.serial.load(Relaxed);
        let known = self.at.load(Relaxed);
        if serial != self.passed.load(Acquire) && !is_before(known, head) {
            if !is_before(known, at) {
                return false;
            }
            self.leave_out(known, head, tail);
        }
        self.at.store(at, Relaxed);
        // 0 is for none.
        self.serial.store(serial.wrapping_add(1).max(1), Release);
        true
    }

    /// Another mark follows one at which the reader stands: its byte, which was urgent, does not
    /// become one of the stream.
    fn leave_out(&self, known: u32, head: u32, tail: u32) {
        let (start, end) = (self.gap_start.load(Relaxed), self.gap_end.load(Relaxed));
        let grows = start == head && start != end && end != self.skipped.load(Acquire);
        let stands = if grows { end } else { head };
        if stands == known && stands != tail {
            self.gap_start.store(head, Relaxed);
            self.gap_end.store(known.wrapping_add(1), Release);
        }
    }

    /// How often the mark was set; never 0 once it was.
    pub(super) fn serial(&self) -> u32 {
        self.serial.load(Acquire)
    }

    /// By the application.
    pub(super) fn ahead(&self, head: u32) -> Ahead {
        let end = self.gap_end.load(Acquire);
        let is_gap = end != self.skipped.load(Relaxed) && self.gap_start.load(Relaxed) == head;
        let serial = self.serial();
        let distance = self.at.load(Relaxed).wrapping_sub(head);
        let is_ahead = serial != self.passed.load(Relaxed) && distance.cast_signed() >= 0;
        Ahead {
            gap: if is_gap { end.wrapping_sub(head) } else { 0 },
            mark: is_ahead.then_some(distance),
        }
    }

    /// Takes over what the application has written to its mark, which is `seen`.
    pub(super) fn believe(&self, seen: &Self) {
        self.skipped.store(seen.skipped.load(Acquire), Relaxed);
        self.passed.store(seen.passed.load(Acquire), Relaxed);
    }

    /// Shows what the stack has written here to the application. What that has written counts no
    /// more if this is the first mark of the slot's life.
    pub(super) fn show(&self, seen: &Self, is_first: bool) {
        if is_first {
            seen.clear();
        }
        seen.gap_start.store(self.gap_start.load(Relaxed), Relaxed);
        seen.gap_end.store(self.gap_end.load(Relaxed), Release);
        seen.at.store(self.at.load(Relaxed), Relaxed);
        seen.serial.store(self.serial.load(Relaxed), Release);
    }

    pub(super) fn take(&self) {
        self.taken.store(self.serial(), Relaxed);
    }
}

/// Whether index `a` comes before `b`.
fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

/// Those of all slots.
#[cfg(not(loom))]
#[derive(Debug)]
pub(super) struct Marks {
    region: Region,
    slots: u32,
}

#[cfg(not(loom))]
impl Marks {
    /// Small pages: rarely is any of it touched.
    pub(super) fn new(slots: u32, plot: Option<&mut Plot>) -> io::Result<Self> {
        let bytes = (slots as usize)
            .checked_mul(size_of::<Mark>())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            region: Region::on(plot, bytes, PagePolicy::Small)?,
            slots,
        })
    }

    pub(super) fn at(&self, slot: u32) -> Option<&Mark> {
        if slot >= self.slots {
            return None;
        }
        let marks = self.region.as_ptr().cast::<Mark>();
        // SAFETY: inside the region, aligned (to a page); zero is a value of atomics, and all
        // access is by shared reference.
        Some(unsafe { &*marks.add(slot as usize) })
    }
}

#[cfg(loom)]
#[derive(Debug)]
pub(super) struct Marks(Vec<Mark>);

#[cfg(loom)]
impl Marks {
    pub(super) fn new(slots: u32, _: Option<&mut Plot>) -> io::Result<Self> {
        Ok(Self((0..slots).map(|_| Mark::default()).collect()))
    }

    pub(super) fn at(&self, slot: u32) -> Option<&Mark> {
        self.0.get(slot as usize)
    }
}
