//! Who waits for the stack, and who of them drives it.
//!
//! One of those that wait, the driver, sleeps on the link, and runs a turn when it wakes. The
//! others sleep on a bell of their own; whoever runs a turn rings for those whose sockets became
//! ready, once it has given the lock back, which they need. Who stops waiting while it drives rings
//! for another to take its place.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libc::{POLLIN, pollfd, sigset_t, timespec};
use mtcp::signals::{self, Held};
use mtcp::{Context, Errno, Events, Result, SocketId};

use crate::engine::Engine;
use crate::lock::Guard;
use crate::presence::{self, Bunk, Note};
use crate::{private, put_off};

#[cfg(test)]
mod tests;

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

/// For how long, and how signals end it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    /// `None`: for ever.
    pub(crate) timeout: Option<Duration>,
    /// Signals blocked meanwhile, if others than now.
    pub(crate) mask: *const sigset_t,
    /// Goes on after a handler with SA_RESTART.
    pub(crate) restarts: bool,
}

impl Pause {
    /// That of a blocking call on a socket: it restarts only without a time limit (signal(7)).
    fn call(timeout: Option<Duration>) -> Self {
        Self {
            timeout,
            mask: std::ptr::null(),
            restarts: timeout.is_none(),
        }
    }
}

/// What a look brought.
#[derive(Debug)]
pub(crate) enum Look<T> {
    Done(T),
    Sleep(Want),
}

/// Now, in nanoseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    let mut now = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: room for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Descriptors of a sleep whose room is on the stack: who never comes back from a handler leaves
/// none behind.
const FEW: usize = 8;

/// What waits for a descriptor to become readable.
pub(crate) fn poll_in(fd: c_int) -> pollfd {
    pollfd {
        fd,
        events: POLLIN,
        revents: 0,
    }
}

/// ppoll(2), past the C library, so that no hook is in the way.
pub(crate) fn ppoll(
    fds: &mut [pollfd],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Result<usize> {
    let time = timeout.map(|timeout| timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: descriptors with room for answers, a time and a set of signals (8 bytes for the
    // kernel) or NULL.
    let ready = unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            fds.as_mut_ptr(),
            fds.len(),
            time,
            mask,
            8usize,
        )
    };
    usize::try_from(ready).map_err(|_| Errno(mtcp::posix::call::errno()))
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

    fn lie_down(&mut self, want: Want, keeps: bool) -> Result<Bunk> {
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

    /// What is to be rung after the lock is given back.
    pub(crate) fn take_rings(&mut self) -> Rings {
        std::mem::replace(&mut self.rings, Rings::new())
    }

    /// `rang`: the bell did, for this sleep or, late, for the one before in this bed. Returns
    /// whether it was still the driver's: the background thread may have been relieved, and the
    /// sleep on the link is another's then.
    #[must_use]
    fn get_up(&mut self, bunk: Bunk, rang: bool) -> bool {
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
    fn drive(&mut self, bed: usize, background: bool) -> bool {
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
    fn hand_over(&mut self) {
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

fn get_up(engine: &mut Engine, bunk: Bunk, rang: bool) {
    if engine.waiters.get_up(bunk, rang)
        && let Some(context) = engine.context()
    {
        // The next turn says what became of the link.
        let _ = context.end_sleep();
        context.set_attended(false);
    }
}

/// Takes back what this thread has noted. It may not come back: others go on without it.
#[cold]
pub(crate) fn wake_up(engine: &mut Engine) {
    match presence::take() {
        Some(Note::InBed(bunk)) => {
            get_up(engine, bunk, false);
            engine.waiters.hand_over();
            engine.background.attend();
        }
        Some(Note::InKernel(index)) => {
            if let Some(set) = engine.epolls.get_mut(index) {
                set.come_back();
            }
        }
        Some(Note::ForChild) => engine.pumps.end_waiting(),
        None => {}
    }
}

/// Notes again what a handler has interrupted, and what goes on.
#[cold]
pub(crate) fn sleep_on(engine: &mut Engine, noted: Note) {
    match noted {
        // It ends with the handler.
        Note::InBed(_) => return,
        Note::InKernel(index) => {
            let is_ours = engine.instances(index).next().is_some();
            if let Some(set) = engine.epolls.get_mut(index) {
                set.enter_kernel(is_ours);
            }
        }
        Note::ForChild => engine.pumps.wait_on(),
    }
    presence::note(noted);
}

/// Sleeps, without the lock, until something may be ready: on descriptors of the kernel and for
/// `want`. Fills their `revents`. Returns whether it was rung for.
///
/// # Errors
/// `EINTR`; what ppoll(2) says.
pub(crate) fn sleep(
    engine: &mut Guard<'_, Engine>,
    want: Want,
    kernel: &mut [pollfd],
    (timeout, mask): (Option<Duration>, *const sigset_t),
    background: bool,
) -> Result<bool> {
    let bunk = engine.waiters.lie_down(want, background)?;
    let bell = engine.waiters.beds.get(bunk.bed).map_or(-1, |bed| bed.bell);
    let drives = engine.waiters.drive(bunk.bed, background);
    presence::note(Note::InBed(bunk));
    if !drives && let Some((context, waiters)) = engine.parts() {
        // What this thread's turn left to be sent is the driver's now, who knows nothing of it.
        waiters.kick(context);
    }
    let mut links = std::mem::take(&mut engine.waiters.links);
    links.clear();
    let (most, vigil) = engine.sharing.ends();
    let mut timeout = [timeout, most].into_iter().flatten().min();
    links.extend(vigil);
    if drives && let Some(context) = engine.context() {
        // A link that is gone leaves nothing to sleep on; its sockets say so.
        let most = context.prepare_sleep(&mut links).unwrap_or_default();
        context.set_attended(!background);
        let look = engine.pumps.look_again();
        timeout = [timeout, most, look].into_iter().flatten().min();
        if engine.pumps.is_busy() {
            timeout = Some(Duration::ZERO);
        }
        links.extend(engine.pumps.descriptor());
        engine.waiters.until = timeout.map_or(u64::MAX, |time| now().saturating_add(nanos(time)));
    }
    let (mut few, mut many) = ([poll_in(-1); FEW], Vec::new());
    let count = kernel.len() + 1 + links.len();
    if count > FEW {
        many.resize(count, poll_in(-1));
    }
    let fds = few.get_mut(..count).unwrap_or(&mut many);
    let links_in = links.iter().copied();
    let own = [bell].into_iter().chain(links_in).map(poll_in);
    let all = kernel.iter().copied().chain(own);
    fds.iter_mut().zip(all).for_each(|(to, from)| *to = from);
    engine.waiters.links = links;
    let slept = engine.unlocked(|| ppoll(fds, timeout, mask));
    let rang = fds.get(kernel.len()).is_some_and(|fd| fd.revents != 0);
    // A handler may have taken it back.
    if presence::take() == Some(Note::InBed(bunk)) {
        get_up(engine, bunk, rang);
    }
    for (to, from) in kernel.iter_mut().zip(fds.iter()) {
        to.revents = from.revents;
    }
    slept.map(|_| rang)
}

/// What a blocking call on a socket waits for: tries `step` until it has a result, or the socket's
/// time limit is up: `EAGAIN`. Starts and ends with the lock.
///
/// # Errors
/// That of the step; `EINTR`; what ppoll(2) says.
pub(crate) fn wait_for<T>(
    engine: &mut Guard<'_, Engine>,
    timeout: Option<Duration>,
    kernel: &mut [pollfd],
    want: impl Fn(&Engine) -> Want,
    mut step: impl FnMut(&mut Engine) -> Option<Result<T>>,
) -> Result<T> {
    let result = wait_until(
        engine,
        Pause::call(timeout),
        kernel,
        |engine, _| match step(engine) {
            Some(result) => Look::Done(result),
            None => Look::Sleep(want(engine)),
        },
    );
    result?.unwrap_or(Err(Errno::EAGAIN))
}

/// Runs turns and looks until a look is done, or the time is up: `None`. Starts and ends with the
/// lock.
///
/// # Errors
/// `EINTR`; what ppoll(2) says.
pub(crate) fn wait_until<T>(
    engine: &mut Guard<'_, Engine>,
    pause: Pause,
    kernel: &mut [pollfd],
    mut look: impl FnMut(&mut Engine, &mut [pollfd]) -> Look<T>,
) -> Result<Option<T>> {
    let deadline = pause
        .timeout
        .map(|timeout| now().saturating_add(nanos(timeout)));
    let mut interrupted = None;
    // From the first sleep on, a signal comes in a sleep, which it ends: one that came during a
    // turn would not. (A handler before the sleep would end a sleep that is none yet.)
    let mut held: Option<Held> = None;
    let result = loop {
        // Who sleeps on the link runs the turns.
        if !engine.is_attended() {
            engine.turn();
        }
        let want = match look(engine, kernel) {
            Look::Done(result) => break Ok(Some(result)),
            Look::Sleep(want) => want,
        };
        if let Some(error) = interrupted {
            break Err(error);
        }
        let left = deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(now())));
        if left == Some(Duration::ZERO) {
            engine.settle();
            break Ok(None);
        }
        let before = held.get_or_insert_with(put_off::hold).before();
        let mask = if pause.mask.is_null() {
            before
        } else {
            pause.mask
        };
        match sleep(engine, want, kernel, (left, mask), false) {
            Err(Errno::EINTR) if pause.restarts && signals::restart() => {}
            // Looks once more: what came first counts.
            Err(error) => interrupted = Some(error),
            Ok(_) => {}
        }
    };
    engine.waiters.hand_over();
    engine.background.attend();
    if held.is_some() {
        // Handlers may use our sockets.
        engine.unlocked(|| drop(held));
    }
    result
}
