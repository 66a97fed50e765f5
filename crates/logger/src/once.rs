//! What was said before.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Different lines that are said.
const LINES: usize = 512;
/// Places for their hashes: never full, so that looking for one ends soon.
const PLACES: usize = 2 * LINES;

/// Whether to say a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    New,
    /// It is new, and no other will be said.
    Last,
    Known,
}

/// The lines of a process. It takes no lock: a thread that holds one may be left behind by `fork`.
#[derive(Debug)]
pub(crate) struct Once {
    hashes: Box<[AtomicU64; PLACES]>,
    lines: AtomicUsize,
}

impl Once {
    pub(crate) fn new() -> Self {
        Self {
            hashes: Box::new([const { AtomicU64::new(0) }; PLACES]),
            lines: AtomicUsize::new(0),
        }
    }

    /// Notes `line`.
    pub(crate) fn tell(&self, line: &[u8]) -> Telling {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        let hash = hasher.finish().max(1);
        let from = hash as usize % PLACES;
        let (before, after) = self.hashes.split_at(from);
        for place in after.iter().chain(before) {
            if place.load(Ordering::Relaxed) == hash {
                return Telling::Known;
            }
            if self.lines.load(Ordering::Relaxed) >= LINES {
                // What is said no more need not be noted either.
                return Telling::Known;
            }
            match place.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return self.count(),
                Err(other) if other == hash => return Telling::Known,
                Err(_) => {}
            }
        }
        Telling::Known
    }

    fn count(&self) -> Telling {
        match self.lines.fetch_add(1, Ordering::Relaxed) + 1 {
            LINES => Telling::Last,
            lines if lines < LINES => Telling::New,
            _ => Telling::Known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_once() {
        let once = Once::new();
        assert_eq!(once.tell(b"a"), Telling::New);
        assert_eq!(once.tell(b"b"), Telling::New);
        assert_eq!(once.tell(b"a"), Telling::Known);
    }

    #[test]
    fn many_lines_end() {
        let once = Once::new();
        let told: Vec<Telling> = (0..2 * LINES)
            .map(|number| once.tell(number.to_string().as_bytes()))
            .collect();
        let new = told.iter().filter(|telling| **telling == Telling::New);
        assert_eq!(new.count(), LINES - 1);
        assert_eq!(told.get(LINES - 1), Some(&Telling::Last));
    }
}
