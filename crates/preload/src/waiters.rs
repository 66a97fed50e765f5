//! Who waits for the stack, and who of them drives it.
//!
//! One of those that wait, the driver, sleeps on the link, and runs a turn when it wakes. The
//! others sleep on a doorbell of their own. The thread that runs a turn notes those whose sockets
//! became ready. They are notified once the lock, which they need, is given back, a few at a time
//! (`wakes`). A driver that stops waiting notifies another thread to take its place.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libc::pthread_t;
use mtcp::{Context, Errno, Events, Result, SocketId};

use crate::cancel;
use crate::kernel::{nanos, now};
use crate::presence::WaitEntry;
use crate::private;

mod wakes;

pub(crate) use wakes::Doorbells;
use wakes::{OVERDUE, Wakes};

/// What a sleeper sleeps for, besides descriptors of the kernel.
#[derive(Debug)]
pub(crate) enum Want {
    /// To drive.
    Nothing,
    Socket(SocketId, Events),
    Epoll(SocketId),
    Many {
        sockets: Vec<(SocketId, Events)>,
        epolls: Vec<SocketId>,
    },
}

impl Want {
    fn is_there(&self, context: &mut Context) -> bool {
        match self {
            Self::Nothing => false,
            Self::Socket(id, events) => !context.ready(*id, *events).is_empty(),
            Self::Epoll(id) => context.epoll_pending(*id).unwrap_or(true),
            Self::Many { sockets, epolls } => {
                sockets
                    .iter()
                    .any(|(id, events)| !context.ready(*id, *events).is_empty())
                    || epolls
                        .iter()
                        .any(|id| context.epoll_pending(*id).unwrap_or(true))
            }
        }
    }
}

/// The place of a thread that waits, reused.
#[derive(Debug)]
struct Waiter {
    doorbell: c_int,
    /// Of the wait there: each has another.
    serial: u64,
    /// `None`: nobody waits there.
    want: Option<Want>,
    woken: Woken,
    /// The background thread does.
    is_background: bool,
    thread: pthread_t,
}

/// Whether a thread that waits was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    No,
    /// It will be, after others.
    Soon,
    Yes,
}

/// Waits so far. A child counts on where its parent was, whose waiters it has not.
static WAITS: AtomicU64 = AtomicU64::new(0);

/// Who sleeps on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    Nobody,
    /// A thread of the program.
    Program(usize),
    /// The background thread, which a thread of the program may relieve.
    Background(usize),
}

/// All that wait.
#[derive(Debug)]
pub(crate) struct Waiters {
    list: Vec<Waiter>,
    wakes: Wakes,
    driver: Driver,
    /// When the driver wakes by itself, in nanoseconds of the monotonic clock.
    until: u64,
    waiting: usize,
    /// What the link gives the driver to sleep on, kept for its room.
    links: Vec<c_int>,
    /// Threads that are to be cancelled when they wait here.
    cancelled: Vec<pthread_t>,
}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self {
            list: Vec::new(),
            wakes: Wakes::new(),
            driver: Driver::Nobody,
            until: 0,
            waiting: 0,
            links: Vec::new(),
            cancelled: Vec::new(),
        }
    }

    /// Whether someone sleeps on the link.
    pub(crate) fn is_driven(&self) -> bool {
        self.driver != Driver::Nobody
    }

    /// Whether a thread of the program does.
    pub(crate) fn is_driven_by_program(&self) -> bool {
        matches!(self.driver, Driver::Program(_))
    }

    /// A thread is about to wait for `want`, the background thread or one of the program.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub(crate) fn enqueue(&mut self, want: Want, is_background: bool) -> Result<WaitEntry> {
        let free = self.list.iter().position(|waiter| waiter.want.is_none());
        let waiter = match free {
            Some(waiter) => waiter,
            None => {
                // SAFETY: makes a descriptor; no memory is involved.
                let doorbell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
                if doorbell < 0 {
                    return Err(Errno(mtcp::posix::call::errno()));
                }
                let doorbell = private::own(doorbell);
                self.list.push(Waiter {
                    doorbell,
                    serial: 0,
                    want: None,
                    woken: Woken::No,
                    is_background: false,
                    thread: 0,
                });
                self.list.len() - 1
            }
        };
        self.waiting += 1;
        let serial = WAITS.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(waiter) = self.list.get_mut(waiter) {
            (waiter.want, waiter.woken, waiter.serial) = (Some(want), Woken::No, serial);
            waiter.is_background = is_background;
            // SAFETY: no memory is involved.
            waiter.thread = unsafe { libc::pthread_self() };
        }
        Ok(WaitEntry { waiter, serial })
    }

    /// The doorbell of a waiter.
    pub(crate) fn doorbell(&self, entry: WaitEntry) -> c_int {
        self.list
            .get(entry.waiter)
            .map_or(-1, |waiter| waiter.doorbell)
    }

    /// The driver wakes by itself then, in nanoseconds of the monotonic clock.
    pub(crate) fn sleep_until(&mut self, time: u64) {
        self.until = time;
    }

    /// Room for what the link gives the driver to sleep on.
    pub(crate) fn take_room(&mut self) -> Vec<c_int> {
        let mut links = std::mem::take(&mut self.links);
        links.clear();
        links
    }

    /// Keeps it for the next sleep.
    pub(crate) fn keep_room(&mut self, links: Vec<c_int>) {
        self.links = links;
    }

    /// What is to be notified after the lock is given back.
    pub(crate) fn take_doorbells(&mut self) -> Doorbells {
        while let Some(entry) = self.wakes.next() {
            self.wake_entry(entry);
        }
        self.wakes.take_doorbells()
    }

    /// Whether threads were woken a moment ago, and will soon have the lock.
    pub(crate) fn are_coming(&self) -> bool {
        self.wakes.are_coming(now)
    }

    /// Some that were woken may not come: others wait for a moment only.
    pub(crate) fn go_on(&mut self) {
        self.wakes.go_on(now);
    }

    /// How long the driver may sleep: it looks whether those come who were woken, if others wait
    /// for that.
    pub(crate) fn patrol(&self) -> Option<Duration> {
        self.wakes.some_stay().then_some(OVERDUE)
    }

    fn wake_entry(&mut self, entry: WaitEntry) {
        let is_there = |waiter: &&mut Waiter| {
            waiter.woken == Woken::Soon && waiter.want.is_some() && waiter.serial == entry.serial
        };
        if let Some(waiter) = self.list.get_mut(entry.waiter).filter(is_there) {
            Self::notify(&mut self.wakes, waiter);
        }
    }

    /// The wait is over. `notified`: the doorbell was, for this wait or, late, for the one before.
    /// Returns whether it was still the driver's: the background thread may have been relieved, and
    /// another thread sleeps on the link then.
    #[must_use]
    pub(crate) fn dequeue(&mut self, entry: WaitEntry, notified: bool) -> bool {
        let at = entry.waiter;
        // A handler has made a child of this thread meanwhile, and this is the child: it began to
        // wait in its parent.
        let is_there =
            |waiter: &&mut Waiter| waiter.want.is_some() && waiter.serial == entry.serial;
        let Some(waiter) = self.list.get_mut(at).filter(is_there) else {
            return false;
        };
        self.waiting -= 1;
        let drove = matches!(self.driver, Driver::Program(by) | Driver::Background(by) if by == at);
        if drove {
            self.driver = Driver::Nobody;
        }
        waiter.want = None;
        if waiter.woken == Woken::Yes {
            self.wakes.came();
        }
        if notified {
            let mut count = 0u64;
            // SAFETY: room for the count.
            unsafe { libc::syscall(libc::SYS_read, waiter.doorbell, &raw mut count, 8usize) };
        }
        drove
    }

    /// Takes the driver's place, if it is free or the background thread's.
    pub(crate) fn drive(&mut self, entry: WaitEntry, background: bool) -> bool {
        let waiter = entry.waiter;
        match (self.driver, background) {
            (Driver::Nobody, true) => self.driver = Driver::Background(waiter),
            (Driver::Nobody | Driver::Background(_), false) => {
                self.driver = Driver::Program(waiter)
            }
            _ => return false,
        }
        true
    }

    fn notify(wakes: &mut Wakes, waiter: &mut Waiter) {
        if waiter.woken != Woken::Yes {
            waiter.woken = Woken::Yes;
            wakes.ring(waiter.doorbell, now);
        }
    }

    /// Wakes those whose sockets became ready.
    pub(crate) fn wake_ready(&mut self, context: &mut Context) {
        if self.waiting == 0 {
            return;
        }
        for (at, waiter) in self.list.iter_mut().enumerate() {
            let there = waiter.woken == Woken::No
                && waiter
                    .want
                    .as_ref()
                    .is_some_and(|want| want.is_there(context));
            if there {
                waiter.woken = Woken::Soon;
                self.wakes.add(WaitEntry {
                    waiter: at,
                    serial: waiter.serial,
                });
            }
        }
    }

    /// Wakes the driver if something is due before it would wake.
    pub(crate) fn wake_if_due(&mut self, context: &mut Context) {
        let (Driver::Program(waiter) | Driver::Background(waiter)) = self.driver else {
            return;
        };
        let due = [context.due(), self.patrol()].into_iter().flatten().min();
        let due = due.map(|due| now().saturating_add(nanos(due)));
        if due.is_some_and(|due| due < self.until)
            && let Some(waiter) = self.list.get_mut(waiter)
        {
            Self::notify(&mut self.wakes, waiter);
        }
    }

    /// Wakes who sleeps on descriptors of the link that are no more, or are not all of them.
    pub(crate) fn wake_driver(&mut self) {
        if let Driver::Program(waiter) | Driver::Background(waiter) = self.driver
            && let Some(waiter) = self.list.get_mut(waiter)
        {
            Self::notify(&mut self.wakes, waiter);
        }
    }

    /// Whether somebody sleeps until something of the stack is ready.
    pub(crate) fn is_wanted(&self) -> bool {
        let wants = |waiter: &Waiter| !matches!(waiter.want, None | Some(Want::Nothing));
        self.list.iter().any(wants)
    }

    /// Whether a thread of the program waits for this socket, or may do.
    pub(crate) fn wants(&self, id: SocketId) -> bool {
        self.list.iter().any(|waiter| match &waiter.want {
            Some(Want::Socket(own, _)) => *own == id,
            Some(Want::Epoll(_)) => true,
            Some(Want::Many { sockets, epolls }) => {
                !epolls.is_empty() || sockets.iter().any(|(own, _)| *own == id)
            }
            Some(Want::Nothing) | None => false,
        })
    }

    /// A thread is cancelled: it wakes if it waits here.
    pub(crate) fn cancel(&mut self, thread: pthread_t) {
        if !self.cancelled.contains(&thread) {
            self.cancelled.push(thread);
        }
        let waits = |waiter: &&mut Waiter| waiter.want.is_some() && waiter.thread == thread;
        for waiter in self.list.iter_mut().filter(waits) {
            Self::notify(&mut self.wakes, waiter);
        }
    }

    /// Whether this thread is to be cancelled, which is so when its call ends.
    #[cold]
    pub(crate) fn is_cancelled(&mut self) -> bool {
        // SAFETY: no memory is involved.
        let thread = unsafe { libc::pthread_self() };
        let at = self.cancelled.iter().position(|other| *other == thread);
        let Some(at) = at.filter(|_| cancel::is_allowed()) else {
            return false;
        };
        self.cancelled.swap_remove(at);
        cancel::is_due();
        true
    }

    /// Has another drive, if nobody does: the background thread only where no thread of the program
    /// sleeps.
    pub(crate) fn wake_next_driver(&mut self) {
        if self.waiting == 0 || self.is_driven() {
            return;
        }
        let sleeper = |is_background| {
            let fits = move |waiter: &Waiter| {
                waiter.want.is_some()
                    && waiter.woken == Woken::No
                    && waiter.is_background == is_background
            };
            self.list.iter().position(fits)
        };
        let at = sleeper(false).or_else(|| sleeper(true));
        if let Some(waiter) = at.and_then(|at| self.list.get_mut(at)) {
            Self::notify(&mut self.wakes, waiter);
        }
    }
}

#[cfg(test)]
impl Waiters {
    /// Ends the wait of a waiter.
    pub(crate) fn wake(&mut self, waiter: usize) {
        if let Some(waiter) = self.list.get_mut(waiter) {
            Self::notify(&mut self.wakes, waiter);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests

    use super::*;

    /// A thread of the program that sleeps is there at once, the background thread may look first
    /// whether others run the stack.
    #[test]
    fn who_leaves_the_link_rings_for_a_thread_of_the_program() {
        let mut waiters = Waiters::new();
        let background = waiters.enqueue(Want::Nothing, true).unwrap();
        assert!(waiters.drive(background, true));
        let program = [(); 2].map(|()| waiters.enqueue(Want::Nothing, false).unwrap());
        assert!(waiters.drive(program[0], false), "it relieves that");
        assert!(waiters.dequeue(program[0], false), "it drove");
        let woken = |waiters: &Waiters| {
            waiters
                .list
                .iter()
                .map(|waiter| waiter.woken == Woken::Yes)
                .collect::<Vec<_>>()
        };
        waiters.wake_next_driver();
        assert_eq!(woken(&waiters), [false, false, true]);
        let _ = waiters.dequeue(program[1], true);
        waiters.wake_next_driver();
        assert!(woken(&waiters)[background.waiter], "nobody else sleeps");
    }
}
