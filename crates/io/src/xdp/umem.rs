//! The frames of one queue, and where each of them is.

use std::io;

use ring::region::{PagePolicy, Region};

use super::config::Frames;

/// Frame memory shared with the kernel.
#[derive(Debug)]
pub(super) struct Umem {
    region: Region,
    frames: Frames,
}

impl Umem {
    /// Maps the frames, in huge pages when some are reserved.
    pub(super) fn new(frames: Frames) -> io::Result<Self> {
        let bytes = usize::try_from(frames.bytes())
            .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let mut region = Region::new(bytes, PagePolicy::Huge)?;
        if !region.keep_from_children() {
            log::debug!("XDP: a fork copies the frames");
        }
        Ok(Self { region, frames })
    }

    /// How many there are, and of what size.
    pub(super) fn frames(&self) -> Frames {
        self.frames
    }

    /// Where the first frame lies.
    pub(super) fn base(&self) -> *mut u8 {
        self.region.as_ptr()
    }

    /// Address of frame `index`, as in descriptors: bytes from the start.
    pub(super) fn address(&self, index: u32) -> u64 {
        u64::from(index) * u64::from(self.frames.size)
    }

    /// Which frame an address lies in, if any.
    pub(super) fn index(&self, address: u64) -> Option<u32> {
        u32::try_from(address / u64::from(self.frames.size))
            .ok()
            .filter(|index| *index < self.frames.count())
    }

    /// The `len` bytes at `address`, if they lie in one frame.
    ///
    /// # Safety
    /// The frame is in the hands of the caller, who does not write to it meanwhile: not in the fill
    /// ring, the tx ring or the kernel.
    pub(super) unsafe fn bytes_at(&self, address: u64, len: u32) -> Option<&[u8]> {
        let start = self.span(address, len, 1)?;
        // SAFETY: `span` checked the bounds, and the caller has the frame.
        Some(unsafe { std::slice::from_raw_parts(self.region.as_ptr().add(start), len as usize) })
    }

    /// As [`Self::bytes_at`], to write.
    ///
    /// # Safety
    /// As there, and nobody else in this process reads the frame either.
    #[cfg(test)]
    pub(super) unsafe fn bytes_at_mut(&mut self, address: u64, len: u32) -> Option<&mut [u8]> {
        // SAFETY: the caller has the frame alone.
        unsafe { self.parts_at_mut(address, len, 1) }
    }

    /// The `len` bytes at `address`, to write, if they lie in so many frames that lie one behind
    /// the other.
    ///
    /// # Safety
    /// As [`Self::bytes_at`] for each of them, and nobody else in this process reads them either.
    pub(super) unsafe fn parts_at_mut(
        &mut self,
        address: u64,
        len: u32,
        parts: u32,
    ) -> Option<&mut [u8]> {
        let start = self.span(address, len, parts)?;
        // SAFETY: `span` checked the bounds, and the caller has the frame alone.
        Some(unsafe {
            std::slice::from_raw_parts_mut(self.region.as_ptr().add(start), len as usize)
        })
    }

    /// Offset of `address` in the region when the `len` bytes there lie in so many frames.
    fn span(&self, address: u64, len: u32, parts: u32) -> Option<usize> {
        let last = self.index(address)?.checked_add(parts.checked_sub(1)?)?;
        let size = u64::from(self.frames.size);
        let within = address % size;
        if last >= self.frames.count() || within + u64::from(len) > size * u64::from(parts) {
            return None;
        }
        usize::try_from(address).ok()
    }
}

/// Where a frame is. It is in exactly one place at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// With us, ready to be filled and sent.
    Free,
    /// In the fill ring, or being filled by the kernel, or in the rx ring.
    Receiving,
    /// Lent to the stack.
    HandOut,
    /// In the tx ring, or being sent by the kernel, or in the completion ring.
    Sending,
}

/// The place of every frame. Debug builds check each move; release builds know that each move is
/// right, because they have been checked.
#[derive(Debug)]
pub(super) struct Ledger {
    #[cfg(debug_assertions)]
    places: Vec<Place>,
}

impl Ledger {
    /// All `frames` are free.
    pub(super) fn new(frames: u32) -> Self {
        let _ = frames;
        Self {
            #[cfg(debug_assertions)]
            places: vec![Place::Free; frames as usize],
        }
    }

    /// Frame `index` goes from one place to another.
    ///
    /// # Panics
    /// In debug builds when it was not there.
    #[inline]
    pub(super) fn moves(&mut self, index: u32, from: Place, to: Place) {
        #[cfg(debug_assertions)]
        if let Some(place) = self.places.get_mut(index as usize) {
            assert_eq!(
                *place, from,
                "frame {index} goes to {to:?} from where it is not"
            );
            *place = to;
        }
        let _ = (index, from, to);
    }

    /// How many frames are at `place`.
    #[cfg(all(test, debug_assertions))]
    pub(super) fn count(&self, place: Place) -> usize {
        self.places.iter().filter(|at| **at == place).count()
    }
}
