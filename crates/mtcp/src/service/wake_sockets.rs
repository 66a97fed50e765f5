//! What the daemon's thread sleeps on: the doorbells of all programs, that of its own process, and
//! the sockets of pairs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// Stands for what is not a program's: who has it looks by himself.
const OWN: u64 = u64::MAX;
/// Doorbells asked for at once.
const BURST: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct WakeSockets {
    epoll: OwnedFd,
    /// Which have rung.
    rung: Vec<u64>,
}

impl WakeSockets {
    /// # Errors
    /// No descriptor left.
    pub(super) fn new(own: [BorrowedFd<'_>; 2]) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for fd in own {
            epoll::add(&epoll, fd, EventData::new_u64(OWN), EventFlags::IN)?;
        }
        Ok(Self {
            epoll,
            rung: Vec::with_capacity(BURST),
        })
    }

    /// Watches the doorbell of the channel at `at`.
    ///
    /// # Errors
    /// The kernel has no room.
    pub(super) fn watch(&self, wake: BorrowedFd<'_>, at: usize) -> io::Result<()> {
        let data = EventData::new_u64(at as u64);
        Ok(epoll::add(&self.epoll, wake, data, EventFlags::IN)?)
    }

    /// Watches it no more: others may have its descriptor still.
    pub(super) fn forget(&self, wake: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, wake);
    }

    /// Looks which doorbells have rung. Each that [`Self::next`] gives then is silenced by whoever
    /// asks.
    pub(super) fn look(&mut self) {
        self.rung.clear();
        let now = Timespec::default();
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(OWN),
        }; BURST];
        // What fails is tried again after the next sleep.
        let n = epoll::wait(&self.epoll, &mut events, Some(&now)).unwrap_or(0);
        self.rung
            .extend(events.iter().take(n).map(|event| event.data.u64()));
    }

    /// The next channel whose doorbell had rung, or whose program was gone.
    pub(super) fn next(&mut self) -> Option<usize> {
        loop {
            let at = self.rung.pop()?;
            if at != OWN {
                return usize::try_from(at).ok();
            }
        }
    }

    /// Readable when one has rung.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
