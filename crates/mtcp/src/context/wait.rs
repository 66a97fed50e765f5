//! Calls that wait: what runs the stack while a call of a context has no result.

use std::sync::Arc;
use std::time::Duration;

use mtcp_core::Acks;
use wire::time::Instant;

use super::{Context, Waiter};
use crate::calls::Sockets;
use crate::driver::{Driver, Wake};
use crate::socket::table::NONE;
use crate::{Errno, Result, SocketId, signals};

/// How a call waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// `None`: for ever.
    pub(super) timeout: Option<Duration>,
    /// Whether it also ends, without a result, when asked to wake.
    pub(super) wakes: bool,
    /// The ACKs that leave as it begins.
    pub(super) acks: Acks,
}

impl Wait {
    /// A wait for one socket.
    pub(super) fn at_most(timeout: Option<Duration>) -> Self {
        Self {
            timeout,
            wakes: false,
            acks: Acks::Due,
        }
    }

    /// Waits until `ready` answers. Starts by sending what was staged.
    pub(super) fn until<T>(
        self,
        context: &mut Context,
        mut ready: impl FnMut(&mut Sockets) -> Option<T>,
    ) -> Result<Option<T>> {
        let Self {
            timeout,
            wakes,
            acks,
        } = self;
        let transport = &mut context.sockets.transport;
        transport.tells_all();
        let begun = transport.driver.begin_turn(acks);
        let mut quiet = begun == Ok(true);
        let mut link = begun.map(|_| Wake::Look);
        let deadline = timeout.map(|timeout| transport.driver.now() + timeout);
        if !quiet {
            transport.sweep();
        }
        let delays = || transport.driver.delays();
        let mut looks = !quiet && !context.waits.begins_with_delay(wakes, timeout, delays);
        loop {
            let sockets = &mut context.sockets;
            if looks {
                link = link.and_then(|wake| sockets.transport.driver.collect().map(|()| wake));
            }
            if !quiet {
                sockets.dispatch();
            }
            let down = sockets.note_link(link);
            if let Some(result) = ready(sockets) {
                return Ok(Some(result));
            }
            let wake = down?;
            let now = sockets.transport.driver.now();
            if context.waits.ends(now, deadline, wakes)? {
                sockets.transport.driver.settle()?;
                return Ok(None);
            }
            // As in Linux, signals end epoll_wait(2) whatever their handlers say (signal(7)).
            if wake == Wake::Signal && (wakes || !signals::restart()) {
                return Err(Errno::EINTR);
            }
            link = idle(context, deadline, wakes);
            context.waits.first_delay.slept();
            (quiet, looks) = (false, true);
        }
    }
}

fn idle(context: &mut Context, deadline: Option<Instant>, wakes: bool) -> Result<Wake> {
    let transport = &mut context.sockets.transport;
    let delay = transport.delay();
    let delay = delay.map(|delay| transport.driver.now() + delay);
    let deadline = [deadline, delay].into_iter().flatten().min();
    if let Some(waiter) = &context.waiter {
        let waiter = Arc::clone(waiter);
        return pause(context, &*waiter, deadline);
    }
    let requests = &context.waits.requests;
    transport.driver.idle(deadline, || {
        requests.interrupted() || (wakes && requests.woken())
    })
}

/// The sleep of a context that has a waiter.
#[cold]
fn pause(context: &mut Context, waiter: &dyn Waiter, deadline: Option<Instant>) -> Result<Wake> {
    let until = context.sockets.transport.driver.begin_pause(deadline)?;
    waiter.wait(context, until);
    context.sockets.transport.driver.end_pause();
    Ok(Wake::Look)
}

/// A call on `id` would block and must not: runs the stack, unless another thread will, or
/// `epoll_wait` soon will, and either tells of `id` then or would have little to tell. Returns
/// whether it did.
pub(super) fn progress(context: &mut Context, id: SocketId) -> bool {
    let sockets = &mut context.sockets;
    let spares = context.waits.spares(|| {
        let socket = sockets.table.get(id);
        let watched = socket.is_ok_and(|socket| socket.watchers != NONE);
        watched || sockets.transport.driver.is_fresh()
    });
    if spares {
        return false;
    }
    // The call itself says what became of the link.
    let _ = sockets.poll();
    true
}

/// Carries a call on `id` out that is tried by `attempt`. Where it would block: waits, at most
/// `limit`, or else has the stack run once and tries again. `None`: there was nothing to do.
#[inline]
pub(super) fn complete<T>(
    context: &mut Context,
    id: SocketId,
    is_blocking: bool,
    limit: impl FnOnce(&Sockets) -> Option<Duration>,
    mut attempt: impl FnMut(&mut Sockets) -> Option<Result<T>>,
) -> Result<Option<T>> {
    if let Some(done) = attempt(&mut context.sockets) {
        return done.map(Some);
    }
    let done = if is_blocking {
        let limit = limit(&context.sockets);
        Wait::at_most(limit).until(context, attempt)?
    } else if progress(context, id) {
        attempt(&mut context.sockets)
    } else {
        None
    };
    done.transpose()
}

/// How long a call that waits several times still waits: the socket's time-out counts from its
/// first wait.
#[derive(Debug)]
pub(super) enum TimeLeft {
    Unasked,
    Endless,
    Until(Instant),
}

impl TimeLeft {
    pub(super) fn left(
        &mut self,
        driver: &Driver,
        timeout: impl FnOnce() -> Option<Duration>,
    ) -> Option<Duration> {
        if let Self::Unasked = self {
            let until = |timeout| Self::Until(driver.read_clock() + timeout);
            *self = timeout().map_or(Self::Endless, until);
        }
        match self {
            Self::Until(at) => Some(at.since(driver.read_clock())),
            _ => None,
        }
    }
}
