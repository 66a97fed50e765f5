//! Bytes that are to be sent, where they lie.

use std::marker::PhantomData;
use std::ptr::NonNull;

/// Bytes of a send direction in two pieces: in order, and the second is empty unless the ring wraps
/// in between.
///
/// They are copied out, and never borrowed as a slice, for they may lie in memory that another
/// process writes. What is copied while it does so may be mixed.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    first: Piece,
    second: Piece,
    memory: PhantomData<&'a [u8]>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    start: NonNull<u8>,
    len: usize,
}

impl Piece {
    const EMPTY: Self = Self {
        start: NonNull::dangling(),
        len: 0,
    };

    fn of(bytes: &[u8]) -> Self {
        Self {
            start: NonNull::from(bytes).cast(),
            len: bytes.len(),
        }
    }

    /// # Safety
    /// `into` has as many bytes as this, and this piece is still there.
    #[inline(always)]
    unsafe fn copy_to(self, into: &mut [u8]) {
        debug_assert_eq!(into.len(), self.len);
        let start = self.start.as_ptr();
        // SAFETY: readable (the constructors' contract) and as long as `into`, which is exclusive.
        // Nothing is made of what is read but bytes.
        unsafe { start.copy_to_nonoverlapping(into.as_mut_ptr(), self.len) }
    }
}

impl<'a> Pieces<'a> {
    /// No bytes.
    pub const EMPTY: Self = Self {
        first: Piece::EMPTY,
        second: Piece::EMPTY,
        memory: PhantomData,
    };

    /// Those of two slices.
    pub fn of(first: &'a [u8], second: &'a [u8]) -> Self {
        Self {
            first: Piece::of(first),
            second: Piece::of(second),
            memory: PhantomData,
        }
    }

    /// # Safety
    /// So many bytes from each pointer on can be read as long as `'a`, and nobody in this process
    /// writes them meanwhile.
    #[inline(always)]
    pub(super) unsafe fn at(first: (NonNull<u8>, usize), second: (NonNull<u8>, usize)) -> Self {
        let [first, second] = [first, second].map(|(start, len)| Piece { start, len });
        Self {
            first,
            second,
            memory: PhantomData,
        }
    }

    /// How many bytes they are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.first.len + self.second.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `len` of them, or all if there are fewer.
    #[inline(always)]
    #[must_use]
    pub fn truncated(mut self, len: usize) -> Self {
        self.first.len = self.first.len.min(len);
        self.second.len = self.second.len.min(len - self.first.len);
        self
    }

    /// Copies all of them to the start of `into`. `None`: there is no room, and then some may have
    /// been copied.
    #[inline(always)]
    pub fn copy_to(self, into: &mut [u8]) -> Option<()> {
        let (start, rest) = into.split_at_mut_checked(self.first.len)?;
        if !start.is_empty() {
            // SAFETY: cut to its length; `'a` lasts.
            unsafe { self.first.copy_to(start) };
        }
        if self.second.len > 0 {
            let rest = rest.get_mut(..self.second.len)?;
            // SAFETY: as above.
            unsafe { self.second.copy_to(rest) };
        }
        Some(())
    }

    /// A copy of them.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        // There is room.
        let _ = self.copy_to(&mut bytes);
        bytes
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn they_are_copied_as_far_as_asked_for() {
        let pieces = Pieces::of(b"abc", b"de");
        assert_eq!(pieces.to_vec(), b"abcde");
        assert_eq!((pieces.len(), Pieces::EMPTY.len()), (5, 0));
        for len in 0..7 {
            let cut = pieces.truncated(len);
            assert_eq!(cut.to_vec(), b"abcde"[..len.min(5)]);
            assert_eq!(cut.is_empty(), len == 0);
            let mut into = [b'-'; 7];
            let fits = cut.copy_to(&mut into[..4]).is_some();
            assert_eq!((fits, &into[4..]), (len <= 4, &b"---"[..]));
        }
    }
}
