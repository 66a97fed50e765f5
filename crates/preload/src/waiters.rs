//! Who waits for the stack, and who of them drives it.
//!
//! One of those that wait, the driver, sleeps on the link, and runs a turn when it wakes. The
//! others sleep on a bell of their own; whoever runs a turn rings for those whose sockets became
//! ready, once it has given the lock back, which they need. Who stops waiting while it drives rings
//! for another to take its place.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use mtcp::{Context, Errno, Events, Result, SocketId};

use crate::kernel::{nanos, now};
use crate::presence::Bunk;
use crate::private;

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

/// A place to sleep in, reused.
#[derive(Debug)]
struct Bed {
    bell: c_int,
    /// Of the sleep there: each has another.
    serial: u64,
    /// `None`: nobody sleeps there.
    want: Option<Want>,
    woken: bool,
    /// The background thread does.
    keeps: bool,
}

/// Sleeps so far. A child counts on where its parent was, whose beds it has not.
static SLEEPS: AtomicU64 = AtomicU64::new(0);

/// Who sleeps on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    Nobody,
    /// Bed of a thread of the program.
    Program(usize),
    /// Bed of the background thread, whom a thread of the program may relieve.
    Background(usize),
}

/// Bells to ring once the lock is given back: who wakes up needs it at once.
#[derive(Debug)]
pub(crate) struct Rings {
    bells: [c_int; MOST_RINGS],
    count: usize,
}

/// How many bells wait to be rung at most. Those before are rung with the lock.
const MOST_RINGS: usize = 32;

impl Rings {
    const fn new() -> Self {
        Self {
            bells: [-1; MOST_RINGS],
            count: 0,
        }
    }

    fn add(&mut self, bell: c_int) {
        if self.count == MOST_RINGS {
            self.ring();
        }
        if let Some(place) = self.bells.get_mut(self.count) {
            *place = bell;
            self.count += 1;
        }
    }

    pub(crate) fn ring(&mut self) {
        for bell in self.bells.iter().take(self.count) {
            let one = 1u64;
            // SAFETY: 8 bytes are there.
            unsafe { libc::syscall(libc::SYS_write, *bell, &raw const one, 8usize) };
        }
        self.count = 0;
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.ring();
    }
}

/// All that wait.
#[derive(Debug)]
pub(crate) struct Waiters {
    beds: Vec<Bed>,
    rings: Rings,
    driver: Driver,
    /// When the driver wakes by itself, in nanoseconds of the monotonic clock.
    until: u64,
    asleep: usize,
    /// What the link gives the driver to sleep on, kept for its room.
    links: Vec<c_int>,
}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self {
            beds: Vec::new(),
            rings: Rings::new(),
            driver: Driver::Nobody,
            until: 0,
            asleep: 0,
            links: Vec::new(),
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

    /// A thread is about to sleep for `want`; the background thread `keeps` the stack.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub(crate) fn lie_down(&mut self, want: Want, keeps: bool) -> Result<Bunk> {
        let free = self.beds.iter().position(|bed| bed.want.is_none());
        let bed = match free {
            Some(bed) => bed,
            None => {
                // SAFETY: makes a descriptor; no memory is involved.
                let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
                if bell < 0 {
                    return Err(Errno(mtcp::posix::call::errno()));
                }
                let bell = private::own(bell);
                self.beds.push(Bed {
                    bell,
                    serial: 0,
                    want: None,
                    woken: false,
                    keeps: false,
                });
                self.beds.len() - 1
            }
        };
        self.asleep += 1;
        let serial = SLEEPS.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(bed) = self.beds.get_mut(bed) {
            (bed.want, bed.woken, bed.serial) = (Some(want), false, serial);
            bed.keeps = keeps;
        }
        Ok(Bunk { bed, serial })
    }

    /// The doorbell of a sleep.
    pub(crate) fn doorbell(&self, bunk: Bunk) -> c_int {
        self.beds.get(bunk.bed).map_or(-1, |bed| bed.bell)
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

    /// What is to be rung after the lock is given back.
    pub(crate) fn take_rings(&mut self) -> Rings {
        std::mem::replace(&mut self.rings, Rings::new())
    }

    /// `rang`: the bell did, for this sleep or, late, for the one before in this bed. Returns
    /// whether it was still the driver's: the background thread may have been relieved, and the
    /// sleep on the link is another's then.
    #[must_use]
    pub(crate) fn get_up(&mut self, bunk: Bunk, rang: bool) -> bool {
        let at = bunk.bed;
        // A handler has made a child of this thread meanwhile, and this is the child: it lay down
        // in a bed of its parent.
        let is_there = |bed: &&mut Bed| bed.want.is_some() && bed.serial == bunk.serial;
        let Some(bed) = self.beds.get_mut(at).filter(is_there) else {
            return false;
        };
        self.asleep -= 1;
        let drove =
            matches!(self.driver, Driver::Program(bed) | Driver::Background(bed) if bed == at);
        if drove {
            self.driver = Driver::Nobody;
        }
        bed.want = None;
        if rang {
            let mut count = 0u64;
            // SAFETY: room for the count.
            unsafe { libc::syscall(libc::SYS_read, bed.bell, &raw mut count, 8usize) };
        }
        drove
    }

    /// Takes the driver's place, if it is free or the background thread's.
    pub(crate) fn drive(&mut self, bunk: Bunk, background: bool) -> bool {
        let bed = bunk.bed;
        match (self.driver, background) {
            (Driver::Nobody, true) => self.driver = Driver::Background(bed),
            (Driver::Nobody | Driver::Background(_), false) => self.driver = Driver::Program(bed),
            _ => return false,
        }
        true
    }

    fn ring(rings: &mut Rings, bed: &mut Bed) {
        bed.woken = true;
        rings.add(bed.bell);
    }

    /// Wakes those whose sockets became ready.
    pub(crate) fn wake_ready(&mut self, context: &mut Context) {
        if self.asleep == 0 {
            return;
        }
        for bed in &mut self.beds {
            let there = !bed.woken && bed.want.as_ref().is_some_and(|want| want.is_there(context));
            if there {
                Self::ring(&mut self.rings, bed);
            }
        }
    }

    /// Wakes the driver if something is due before it would wake.
    pub(crate) fn kick(&mut self, context: &mut Context) {
        let (Driver::Program(bed) | Driver::Background(bed)) = self.driver else {
            return;
        };
        let due = context.due().map(|due| now().saturating_add(nanos(due)));
        if due.is_some_and(|due| due < self.until)
            && let Some(bed) = self.beds.get_mut(bed).filter(|bed| !bed.woken)
        {
            Self::ring(&mut self.rings, bed);
        }
    }

    /// Wakes who sleeps on descriptors of the link that are no more, or are not all of them.
    pub(crate) fn wake_driver(&mut self) {
        if let Driver::Program(bed) | Driver::Background(bed) = self.driver
            && let Some(bed) = self.beds.get_mut(bed).filter(|bed| !bed.woken)
        {
            Self::ring(&mut self.rings, bed);
        }
    }

    /// Whether somebody sleeps until something of the stack is ready.
    pub(crate) fn is_wanted(&self) -> bool {
        let wants = |bed: &Bed| !matches!(bed.want, None | Some(Want::Nothing));
        self.beds.iter().any(wants)
    }

    /// Whether a thread of the program waits for this socket, or may do.
    pub(crate) fn wants(&self, id: SocketId) -> bool {
        self.beds.iter().any(|bed| match &bed.want {
            Some(Want::Socket(own, _)) => *own == id,
            Some(Want::Epoll(_)) => true,
            Some(Want::Many { sockets, epolls }) => {
                !epolls.is_empty() || sockets.iter().any(|(own, _)| *own == id)
            }
            Some(Want::Nothing) | None => false,
        })
    }

    /// Has another drive, if nobody does: the background thread only where no thread of the program
    /// sleeps.
    pub(crate) fn hand_over(&mut self) {
        if self.asleep == 0 || self.is_driven() {
            return;
        }
        let sleeper = |keeps| {
            let fits = move |bed: &Bed| bed.want.is_some() && !bed.woken && bed.keeps == keeps;
            self.beds.iter().position(fits)
        };
        let at = sleeper(false).or_else(|| sleeper(true));
        if let Some(bed) = at.and_then(|at| self.beds.get_mut(at)) {
            Self::ring(&mut self.rings, bed);
        }
    }
}

#[cfg(test)]
impl Waiters {
    /// Ends the sleep in a bed.
    pub(crate) fn wake(&mut self, bed: usize) {
        if let Some(bed) = self.beds.get_mut(bed) {
            Self::ring(&mut self.rings, bed);
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
        let background = waiters.lie_down(Want::Nothing, true).unwrap();
        assert!(waiters.drive(background, true));
        let program = [(); 2].map(|()| waiters.lie_down(Want::Nothing, false).unwrap());
        assert!(waiters.drive(program[0], false), "it relieves that");
        assert!(waiters.get_up(program[0], false), "it drove");
        let woken =
            |waiters: &Waiters| waiters.beds.iter().map(|bed| bed.woken).collect::<Vec<_>>();
        waiters.hand_over();
        assert_eq!(woken(&waiters), [false, false, true]);
        let _ = waiters.get_up(program[1], true);
        waiters.hand_over();
        assert!(woken(&waiters)[background.bed], "nobody else sleeps");
    }
}
