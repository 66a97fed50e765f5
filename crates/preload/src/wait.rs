//! How threads wait for the stack: they run turns, look, and sleep without the lock until something
//! may be ready (`waiters`).

use std::time::Duration;

use libc::{pollfd, sigset_t};
use mtcp::signals::{self, Held};
use mtcp::{Errno, Result};

use crate::cancel;
use crate::engine::Engine;
use crate::kernel::{nanos, now, poll_in, ppoll};
use crate::lock::Guard;
use crate::presence::{self, Note, WaitEntry};
use crate::put_off;
use crate::waiters::Want;

#[cfg(test)]
mod tests;

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

/// Descriptors of a sleep whose room is on the stack: who never comes back from a handler leaves
/// none behind.
const INLINE_DESCRIPTORS: usize = 8;

fn dequeue(engine: &mut Engine, entry: WaitEntry, notified: bool) {
    if engine.waiters.dequeue(entry, notified)
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
        Some(Note::Waits(entry)) => {
            dequeue(engine, entry, false);
            engine.waiters.wake_next_driver();
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
        Note::Waits(_) => return,
        Note::InKernel(index) => {
            let is_ours = engine.epolls.instances(index).next().is_some();
            if let Some(set) = engine.epolls.get_mut(index) {
                set.enter_kernel(is_ours);
            }
        }
        Note::ForChild => engine.pumps.wait_on(),
    }
    presence::note(noted);
}

/// Sleeps, without the lock, until something may be ready: on descriptors of the kernel and for
/// `want`. Fills their `revents`. Returns whether it was notified.
///
/// Its descriptors lie on the stack of nobody who runs a turn.
///
/// # Errors
/// `EINTR`; what ppoll(2) says.
#[inline(never)]
pub(crate) fn sleep(
    engine: &mut Guard<'_, Engine>,
    want: Want,
    kernel: &mut [pollfd],
    (timeout, mask): (Option<Duration>, *const sigset_t),
    background: bool,
) -> Result<bool> {
    let entry = engine.waiters.enqueue(want, background)?;
    let doorbell = engine.waiters.doorbell(entry);
    let drives = engine.waiters.drive(entry, background);
    presence::note(Note::Waits(entry));
    if !drives && let Some((context, waiters)) = engine.parts() {
        // What this thread's turn left to be sent is the driver's now, who knows nothing of it.
        waiters.wake_if_due(context);
    }
    let mut links = engine.waiters.take_room();
    let (most, vigil) = engine.sharing.ends();
    let mut timeout = [timeout, most].into_iter().flatten().min();
    links.extend(vigil);
    if drives && let Some(context) = engine.context() {
        // A link that is gone leaves nothing to sleep on; its sockets say so.
        let most = context.prepare_sleep(&mut links).unwrap_or_default();
        context.set_attended(!background);
        let look = engine.pumps.look_again();
        let patrol = engine.waiters.patrol();
        timeout = [timeout, most, look, patrol].into_iter().flatten().min();
        if engine.pumps.is_busy() {
            timeout = Some(Duration::ZERO);
        }
        links.extend(engine.pumps.descriptor());
        let until = timeout.map_or(u64::MAX, |time| now().saturating_add(nanos(time)));
        engine.waiters.sleep_until(until);
    }
    let (mut few, mut many) = ([poll_in(-1); INLINE_DESCRIPTORS], Vec::new());
    let count = kernel.len() + 1 + links.len();
    if count > INLINE_DESCRIPTORS {
        many.resize(count, poll_in(-1));
    }
    let fds = few.get_mut(..count).unwrap_or(&mut many);
    let links_in = links.iter().copied();
    let own = [doorbell].into_iter().chain(links_in).map(poll_in);
    let all = kernel.iter().copied().chain(own);
    fds.iter_mut().zip(all).for_each(|(to, from)| *to = from);
    engine.waiters.keep_room(links);
    let slept = engine.unlocked(|| cancel::sleeping(|| ppoll(fds, timeout, mask)));
    let notified = fds.get(kernel.len()).is_some_and(|fd| fd.revents != 0);
    // A handler may have taken it back.
    if presence::take() == Some(Note::Waits(entry)) {
        dequeue(engine, entry, notified);
    }
    for (to, from) in kernel.iter_mut().zip(fds.iter()) {
        to.revents = from.revents;
    }
    slept.map(|_| notified)
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
        if cancel::is_used() && engine.waiters.is_cancelled() {
            break Err(Errno::EINTR);
        }
        let left = deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(now())));
        if left == Some(Duration::ZERO) {
            if let Some(context) = engine.context() {
                // What waited for company goes. Sockets say what became of the link.
                let _ = context.settle();
            }
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
    engine.waiters.wake_next_driver();
    engine.background.attend();
    if held.is_some() {
        // Handlers may use our sockets.
        engine.unlocked(|| drop(held));
    }
    result
}
