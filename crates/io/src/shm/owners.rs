//! Which processes have queues of an interface that each of them may open, in a page that all of
//! them have since before they were forked; and a doorbell that is notified when that changes. Who
//! finds no queue sleeps until one of those processes ends, or that.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use ring::region::Shared;

use super::config::PAGE;
use super::doorbells::{eventfds, signal};
use super::process::Process;

/// Processes that are noted at most.
const PLACES: usize = PAGE / size_of::<AtomicU64>();

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
        let own = Process::own();
        let takes = |word: &AtomicU64| {
            let noted = word.load(Ordering::Acquire);
            let process = Process::from_word(noted);
            (process.is_own() || process.is_gone())
                && word
                    .compare_exchange(noted, own.word(), Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        };
        // Of more processes than places the end is not seen.
        self.words().find(|word| takes(word));
        self.notify();
    }

    /// This process has none any more.
    pub fn leave(&self) {
        for word in self.words() {
            let noted = word.load(Ordering::Acquire);
            if Process::from_word(noted).is_own() {
                let _ = word.compare_exchange(noted, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
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
        let lives = |word: &AtomicU64| {
            let noted = word.load(Ordering::Acquire);
            let process = Process::from_word(noted);
            if process.is_none() {
                return None;
            }
            if process.is_gone() {
                let _ = word.compare_exchange(noted, 0, Ordering::AcqRel, Ordering::Relaxed);
                return None;
            }
            Some(process.pid())
        };
        self.words().filter_map(lives).collect()
    }

    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        (0..PLACES).map(|place| {
            let at = place * size_of::<AtomicU64>();
            let word = self.page.as_ptr().wrapping_add(at);
            // SAFETY: in the mapping, which is a page and lives as long as `self`; aligned, and
            // only accessed atomically.
            unsafe { AtomicU64::from_ptr(word.cast()) }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::process::tests as process;
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
        assert!(owners.pids() == [std::process::id()] && is_notified());
        owners.leave();
        assert!(owners.pids().is_empty());
    }

    #[test]
    fn the_place_of_a_process_that_has_ended_is_free() {
        let owners = Owners::new().unwrap();
        let mut child = process::living();
        let word = owners.words().next().unwrap();
        // Of another process that had its PID nothing is noted.
        word.store(process::before(&child).word(), Ordering::Release);
        assert!(owners.pids().is_empty());
        word.store(process::of(&child).word(), Ordering::Release);
        assert_eq!(owners.pids(), [child.id()]);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(owners.pids().is_empty() && word.load(Ordering::Acquire) == 0);
        owners.note();
        assert_eq!(owners.pids(), [std::process::id()]);
    }
}
