//! Sleeping until another thread of the process has work for us, without losing a wake-up and
//! without waking who is awake.
//!
//! The sleeper *announces* its sleep, then looks for work once more, then sleeps. A waker publishes
//! its work, then looks for an announcement. Both put a sequentially consistent fence between the
//! two steps, so at least one of them sees the other. Waking costs a system call only when there is
//! an announcement, and then only for the first waker to see it.
//!
//! ```
//! let (mut sleeper, waker) = ring::park::parker();
//! let (mut sender, mut receiver) = ring::spsc::channel(4);
//! sender.push(7).unwrap();
//! waker.unpark();
//! let value = loop {
//!     if let Some(value) = receiver.pop() {
//!         break value;
//!     }
//!     sleeper.prepare();
//!     if receiver.is_empty() {
//!         sleeper.park(None);
//!     } else {
//!         sleeper.cancel();
//!     }
//! };
//! assert_eq!(value, 7);
//! ```
//!
//! Two kinds: [`parker`] for a thread that only waits for its peer (futex), [`wake_fd`] for one
//! that waits in `ppoll` for descriptors as well (eventfd). The sleeper's end has one owner, the
//! waker's may be cloned. Neither survives `fork`: the memory is the child's own then, and no one
//! is there to wake it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use crate::sync::{Arc, AtomicU32, Padded, fence};

/// Nobody sleeps.
const AWAKE: u32 = 0;
/// The sleeper has announced sleep.
const ASLEEP: u32 = 1;
/// It had, and a waker took the announcement.
const WOKEN: u32 = 2;

/// The word both ends share.
#[derive(Debug)]
struct Announcement(Padded<AtomicU32>);

impl Announcement {
    fn new() -> Self {
        Self(Padded(AtomicU32::new(AWAKE)))
    }

    fn word(&self) -> &AtomicU32 {
        &self.0.0
    }

    /// True when a waker has taken the announcement before, which has not [ended](Self::end).
    fn announce(&self) -> bool {
        let before = self.word().swap(ASLEEP, AcqRel);
        // Pairs with the fence in `take`.
        fence(SeqCst);
        before == WOKEN
    }

    /// Ends the announcement. True when a waker has taken it.
    fn end(&self) -> bool {
        self.word().swap(AWAKE, AcqRel) == WOKEN
    }

    /// Takes the announcement, if there is one: who does must wake the sleeper.
    #[inline]
    fn take(&self) -> bool {
        // Pairs with the fence in `announce`: either we see the announcement, or the sleeper sees
        // our work.
        fence(SeqCst);
        self.word().load(Relaxed) == ASLEEP
            && self
                .word()
                .compare_exchange(ASLEEP, WOKEN, AcqRel, Relaxed)
                .is_ok()
    }
}

/// The kernel's queue of sleepers on a word.
#[cfg(not(loom))]
mod queue {
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::thread::futex::{Flags, Timespec, wait, wake};

    use crate::sync::AtomicU32;

    #[derive(Debug)]
    pub(super) struct Queue;

    impl Queue {
        pub(super) fn new() -> Self {
            Self
        }

        /// Returns at once when the word is not `expected`; may return early. True when a signal
        /// handler ran.
        pub(super) fn wait(
            &self,
            word: &AtomicU32,
            expected: u32,
            timeout: Option<Duration>,
        ) -> bool {
            // What does not fit is longer than anyone will wait.
            let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
            // Errors are the ordinary outcomes: woken before, timed out, interrupted.
            wait(word, Flags::PRIVATE, expected, timeout.as_ref()) == Err(Errno::INTR)
        }

        pub(super) fn wake(&self, word: &AtomicU32) {
            // Fails for bad addresses only.
            let _ = wake(word, Flags::PRIVATE, 1);
        }
    }
}

/// The same for loom, which knows no futex, and no time.
#[cfg(loom)]
mod queue {
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};

    use crate::sync::{AtomicU32, Ordering};

    #[derive(Debug)]
    pub(super) struct Queue(Mutex<()>, Condvar);

    impl Queue {
        pub(super) fn new() -> Self {
            Self(Mutex::new(()), Condvar::new())
        }

        pub(super) fn wait(&self, word: &AtomicU32, expected: u32, _: Option<Duration>) -> bool {
            let Ok(mut guard) = self.0.lock() else {
                return false;
            };
            while word.load(Ordering::Relaxed) == expected {
                guard = match self.1.wait(guard) {
                    Ok(guard) => guard,
                    Err(_) => return false,
                };
            }
            false
        }

        pub(super) fn wake(&self, _: &AtomicU32) {
            drop(self.0.lock());
            self.1.notify_all();
        }
    }
}

#[derive(Debug)]
struct Bed {
    announcement: Announcement,
    queue: queue::Queue,
}

/// A pair for a thread that sleeps on a futex.
pub fn parker() -> (Parker, Unparker) {
    let bed = Arc::new(Bed {
        announcement: Announcement::new(),
        queue: queue::Queue::new(),
    });
    (Parker(Arc::clone(&bed)), Unparker(bed))
}

/// How a sleep of a [`Parker`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    /// A waker took the announcement.
    Woken,
    /// Nobody did, and a signal handler ran.
    Signal,
    /// The time was up, or for no reason.
    Early,
}

/// The sleeper's end of a [`parker`].
#[derive(Debug)]
pub struct Parker(Arc<Bed>);

/// The waker's end of a [`parker`].
#[derive(Debug, Clone)]
pub struct Unparker(Arc<Bed>);

impl Parker {
    /// Announces sleep. Look for work once more after this; then [`Self::park`], or
    /// [`Self::cancel`] if there is some.
    pub fn prepare(&mut self) {
        let _ = self.0.announcement.announce();
    }

    /// Takes the announcement back.
    pub fn cancel(&mut self) {
        self.0.announcement.end();
    }

    /// Sleeps until woken (true), or until `timeout` has passed, a signal came, or for no reason
    /// (false). Returns at once when woken since [`Self::prepare`], or without one. Look for work
    /// either way.
    pub fn park(&mut self, timeout: Option<Duration>) -> bool {
        self.park_or_signal(timeout) == Parked::Woken
    }

    /// As [`Self::park`], for those who want to know of signals. Handlers with `SA_RESTART` end a
    /// sleep only if it has a `timeout`.
    pub fn park_or_signal(&mut self, timeout: Option<Duration>) -> Parked {
        let word = self.0.announcement.word();
        let signal = self.0.queue.wait(word, ASLEEP, timeout);
        match (self.0.announcement.end(), signal) {
            (true, _) => Parked::Woken,
            (false, true) => Parked::Signal,
            (false, false) => Parked::Early,
        }
    }
}

impl Unparker {
    /// Wakes the sleeper if it has announced sleep; call after publishing work for it. True when
    /// that took a system call.
    #[inline]
    pub fn unpark(&self) -> bool {
        let taken = self.0.announcement.take();
        if taken {
            self.0.queue.wake(self.0.announcement.word());
        }
        taken
    }

    /// The sleeper has announced sleep and nobody has woken it: only a hint.
    pub fn is_asleep(&self) -> bool {
        self.0.announcement.word().load(Acquire) == ASLEEP
    }
}

#[derive(Debug)]
struct Doorbell {
    announcement: Announcement,
    fd: OwnedFd,
}

/// A pair for a thread that sleeps in `ppoll` or `epoll_wait`.
///
/// # Errors
/// No descriptor left.
pub fn wake_fd() -> io::Result<(FdSleeper, FdWaker)> {
    let doorbell = Arc::new(Doorbell {
        announcement: Announcement::new(),
        fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
    });
    let sleeper = FdSleeper {
        doorbell: Arc::clone(&doorbell),
        late: false,
    };
    Ok((sleeper, FdWaker(doorbell)))
}

/// The sleeper's end of a [`wake_fd`].
#[derive(Debug)]
pub struct FdSleeper {
    doorbell: Arc<Doorbell>,
    /// A waker took the announcement, and had not yet written when we looked, or nobody has looked.
    late: bool,
}

/// The waker's end of a [`wake_fd`].
#[derive(Debug, Clone)]
pub struct FdWaker(Arc<Doorbell>);

impl FdSleeper {
    /// Announces sleep. Look for work once more after this; then poll [`Self::fd`] (or not, if
    /// there is some), then [`Self::finish`].
    ///
    /// Who has announced it before may do so anew, as a signal handler does that sleeps within a
    /// sleep: the wake-up that there was is taken back by the next `finish`.
    pub fn prepare(&mut self) {
        self.late |= self.doorbell.announcement.announce();
    }

    /// Takes back the announcement, and the wake-up if there was one. True when there was.
    pub fn finish(&mut self) -> bool {
        let woken = self.doorbell.announcement.end();
        if woken || self.late {
            let read = rustix::io::read(&self.doorbell.fd, &mut [0; 8]);
            self.late = read.is_err();
        }
        woken
    }

    /// Readable from a wake-up to [`Self::finish`], and now and then without reason.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.doorbell.fd.as_fd()
    }
}

impl FdWaker {
    /// Wakes the sleeper if it has announced sleep; call after publishing work for it. True when
    /// that took a system call.
    #[inline]
    pub fn wake(&self) -> bool {
        let taken = self.0.announcement.take();
        if taken {
            // Fails only when the counter is full, and then it is readable.
            let _ = rustix::io::write(&self.0.fd, &1u64.to_ne_bytes());
        }
        taken
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
