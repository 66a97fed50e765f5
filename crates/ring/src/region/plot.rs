//! Memory of processes that come and go: who takes the place of one that is gone finds what it
//! left.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::mm::{Advice, madvise};

use super::Region;
use super::page::{PAGE, PagePolicy};
use super::plots::{Claim, Plots};

/// A part that this process has for itself. What its last owner left can be read until regions are
/// made in it.
#[derive(Debug)]
pub struct Plot {
    claim: Arc<Claim>,
    start: usize,
    /// Bytes given to regions.
    used: usize,
    bytes: usize,
}

impl Plots {
    /// Takes a part. `None`: there is none, or somebody here has it.
    pub fn take(self: &Arc<Self>, index: usize) -> Option<Plot> {
        let before = self.taken.get(index)?.swap(true, Ordering::Acquire);
        (!before).then(|| Plot {
            claim: Arc::new(Claim {
                plots: Arc::clone(self),
                index,
            }),
            start: index * self.each,
            used: 0,
            bytes: self.each,
        })
    }
}

impl Plot {
    /// Copies bytes out that the last owner left. False, and nothing copied, when they are not all
    /// inside, or regions were made.
    pub fn read_at(&self, offset: usize, into: &mut [u8]) -> bool {
        let end = offset.checked_add(into.len());
        let inside = self.used == 0 && end.is_some_and(|end| end <= self.bytes);
        let memory = &self.claim.plots.memory;
        inside && memory.read_at(self.start + offset, into)
    }

    /// Gives all of it back to the kernel: it is zero again. Before regions are made.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput`: there are regions.
    pub fn clear(&mut self) -> io::Result<()> {
        if self.used > 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let base = self.claim.plots.memory.as_ptr().wrapping_add(self.start);
        // SAFETY: inside the mapping. Nobody here refers to these bytes: the part has one owner,
        // this, and no region was made.
        unsafe { madvise(base.cast(), self.bytes, Advice::LinuxRemove)? };
        Ok(())
    }

    /// The next `bytes` (rounded up to whole pages) as a region.
    ///
    /// # Errors
    /// There is not so much left.
    pub fn region(&mut self, bytes: usize) -> io::Result<Region> {
        let rounded = bytes.max(1).checked_next_multiple_of(PAGE);
        let left = self.bytes - self.used;
        let rounded = rounded.filter(|&rounded| rounded <= left);
        let rounded = rounded.ok_or(io::ErrorKind::OutOfMemory)?;
        let at = self.start + self.used;
        let base = self.claim.plots.memory.as_ptr().wrapping_add(at);
        self.used += rounded;
        Ok(Region {
            base: std::ptr::NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?,
            bytes: rounded,
            kind: PagePolicy::Small,
            home: Some(Arc::clone(&self.claim)),
            owner: None,
        })
    }
}

impl Region {
    /// A region in `plot`, if there is one; else as [`Region::new`].
    ///
    /// # Errors
    /// As [`Plot::region`] or [`Region::new`].
    pub fn on(plot: Option<&mut Plot>, bytes: usize, policy: PagePolicy) -> io::Result<Self> {
        match plot {
            Some(plot) => plot.region(bytes),
            None => Self::new(bytes, policy),
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::region::Shared;

    #[test]
    fn the_next_owner_finds_what_was_left() {
        let plots = Plots::create("plots", 2, 2 * PAGE).unwrap();
        let mut first = plots.take(1).unwrap();
        assert!(plots.take(1).is_none() && plots.take(2).is_none());
        let mut regions = [1, PAGE].map(|bytes| first.region(bytes).unwrap());
        assert!(first.region(1).is_err() && first.clear().is_err());
        regions[1].as_mut_slice()[7] = 9;
        let mut byte = [0];
        assert!(!first.read_at(0, &mut byte), "it has regions");
        drop(first);
        assert!(plots.take(1).is_none(), "they are in use");
        drop(regions);
        let mut second = plots.take(1).unwrap();
        assert!(second.read_at(PAGE + 7, &mut byte) && byte == [9]);
        assert!(!second.read_at(2 * PAGE, &mut byte) && !second.read_at(usize::MAX, &mut byte));
        second.clear().unwrap();
        assert!(second.read_at(PAGE + 7, &mut byte) && byte == [0]);
        assert!(plots.take(0).is_some());
    }

    /// A process that was not forked from theirs has the memory alone.
    #[test]
    fn another_process_finds_what_was_left() {
        let plots = Plots::create("plots", 2, 2 * PAGE).unwrap();
        let mut region = plots.take(1).unwrap().region(PAGE).unwrap();
        region.as_mut_slice()[7] = 9;
        let memory = || {
            let fd = plots.fd().try_clone_to_owned().unwrap();
            Shared::from_fd(fd, usize::MAX).unwrap()
        };
        for (count, bytes) in [(1, 2 * PAGE), (3, 2 * PAGE), (2, 3 * PAGE), (2, usize::MAX)] {
            assert!(Plots::found(memory(), count, bytes).is_err());
        }
        let found = Plots::found(memory(), 2, 2 * PAGE).unwrap();
        let mut byte = [0];
        assert!(found.take(1).unwrap().read_at(7, &mut byte) && byte == [9]);
    }

    #[test]
    fn what_is_given_back_is_gone() {
        let plots = Plots::create("plots", 1, 2 * PAGE).unwrap();
        let mut region = plots.take(0).unwrap().region(2 * PAGE).unwrap();
        region.as_mut_slice().fill(7);
        region.give_back(1..2 * PAGE);
        assert_eq!(
            [region.as_slice()[PAGE - 1], region.as_slice()[PAGE]],
            [7, 0]
        );
    }
}
