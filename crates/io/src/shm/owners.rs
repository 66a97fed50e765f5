//! Which processes have queues of an interface that each of them may open, in a page that all of
//! them have since before they were forked; and a doorbell that is notified when that changes. Who
//! finds no queue sleeps until one of those processes ends, or that.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use ring::region::Shared;

use super::config::PAGE;
use super::doorbells::{eventfds, signal};
use super::seats::{is_gone, own_pid};

/// Processes that are noted at most.
const PLACES: usize = PAGE / size_of::<AtomicU32>();

/// See the module.
#[derive(Debug)]
pub struct Owners {
    page: Shared,
    doorbell: OwnedFd,
}

impl Owners {
    /// None.
    ///
    /// # Errors
    /// No memory or descriptors.
    pub fn new() -> io::Result<Self> {
        let doorbell = eventfds(1)?.pop();
        Ok(Self {
            page: Shared::create("mtcp-owners", PAGE)?,
            doorbell: doorbell.ok_or(io::ErrorKind::InvalidData)?,
        })
    }

    /// This process has queues.
    pub fn note(&self) {
        let own = own_pid();
        let is_free = |pid: u32| pid == 0 || pid == own || is_gone(pid);
        let takes = |word: &AtomicU32| {
            let pid = word.load(Ordering::Acquire);
            is_free(pid)
                && word
                    .compare_exchange(pid, own, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        };
        // Of more processes than places the end is not seen.
        self.words().find(|word| takes(word));
        self.notify();
    }

    /// This process has none any more.
    pub fn leave(&self) {
        let own = own_pid();
        for word in self.words() {
            let _ = word.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
        self.notify();
    }

    /// Has those look again that found none.
    pub fn notify(&self) {
        signal(&self.doorbell);
    }

    /// Becomes readable each time that it is notified, and stays so.
    pub fn doorbell(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// The processes. Those that have ended are noted no longer.
    pub fn pids(&self) -> Vec<u32> {
        let lives = |word: &AtomicU32| {
            let pid = word.load(Ordering::Acquire);
            if pid != 0 && is_gone(pid) {
                let _ = word.compare_exchange(pid, 0, Ordering::AcqRel, Ordering::Relaxed);
                return None;
            }
            (pid != 0).then_some(pid)
        };
        self.words().filter_map(lives).collect()
    }

    fn words(&self) -> impl Iterator<Item = &AtomicU32> {
        (0..PLACES).map(|place| {
            let at = place * size_of::<AtomicU32>();
            let word = self.page.as_ptr().wrapping_add(at);
            // SAFETY: in the mapping, which is a page and lives as long as `self`; aligned, and
            // only accessed atomically.
            unsafe { AtomicU32::from_ptr(word.cast()) }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::poll::{self, PollFd, PollFlags};

    #[test]
    fn a_process_is_noted_once_until_it_leaves() {
        let owners = Owners::new().unwrap();
        let is_notified = || {
            let mut fds = [PollFd::from_borrowed_fd(owners.doorbell(), PollFlags::IN)];
            poll::sleep(&mut fds, Some(Duration::ZERO)).unwrap() > 0
        };
        assert!(owners.pids().is_empty() && !is_notified());
        owners.note();
        owners.note();
        assert!(owners.pids() == [own_pid()] && is_notified());
        owners.leave();
        assert!(owners.pids().is_empty());
    }

    #[test]
    fn the_place_of_a_process_that_has_ended_is_free() {
        let owners = Owners::new().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let word = owners.words().next().unwrap();
        word.store(child.id(), Ordering::Release);
        child.wait().unwrap();
        assert!(owners.pids().is_empty() && word.load(Ordering::Acquire) == 0);
        owners.note();
        assert_eq!(owners.pids(), [own_pid()]);
    }
}
