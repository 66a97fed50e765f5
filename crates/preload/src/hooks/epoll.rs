//! `epoll`: our sockets and the kernel's descriptors in one wait.

use std::ffi::c_int;
use std::time::Duration;

use libc::{POLLIN, epoll_event, pollfd, sigset_t, timespec};
use mtcp::posix::call::{answer, done};
use mtcp::{Errno, Result};

use super::{hooks, last, limit, millis};
use crate::cancel;
use crate::engine::{self, Engine};
use crate::epolls::Watched;
use crate::lock::Guard;
use crate::presence::{self, Note};
use crate::real;
use crate::rules::rules;
use crate::slots::{self, Slot};
use crate::wait::{self, Look, Pause, wait_until};
use crate::waiters::Want;

hooks! {
    /// epoll_create(2).
    fn epoll_create(size: c_int) -> c_int {
        if size <= 0 {
            return answer(|| Err(Errno::EINVAL));
        }
        // SAFETY: no memory is involved.
        unsafe { epoll_create1(0) }
    }

    /// epoll_create1(2).
    fn epoll_create1(flags: c_int) -> c_int {
        // SAFETY: the same argument.
        let fd = unsafe { real::epoll_create1(flags) };
        if fd >= 0
            && rules().is_some()
            && let Ok(mut engine) = engine::lock()
            && !engine.is_borrowed()
        {
            engine.begin();
            let index = engine.epolls.insert(fd);
            if !slots::set(fd, Slot::Epoll(index)) {
                engine.release_epoll(index, fd);
            }
        }
        fd
    }

    /// epoll_ctl(2).
    fn epoll_ctl(epoll: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        match (slots::look(epoll), slots::look(fd)) {
            (Slot::Epoll(index), Slot::Socket(socket)) => done(|| {
                // SAFETY: the caller's promise.
                let event = unsafe { event.as_ref() };
                let watched = Watched { epoll, index, fd, socket };
                engine::lock()?.watch(op, watched, event)
            }),
            (Slot::Epoll(index), Slot::Epoll(child)) => {
                // SAFETY: the same arguments.
                let result = unsafe { real::epoll_ctl(epoll, op, fd, event) };
                if result == 0 && let Ok(mut engine) = engine::lock() {
                    // SAFETY: the caller's promise.
                    engine.epolls.nest(index, op, (fd, child), unsafe { event.as_ref() });
                }
                result
            }
            // SAFETY: the same arguments.
            _ => unsafe { real::epoll_ctl(epoll, op, fd, event) },
        }
    }

    /// epoll_wait(2).
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
        // SAFETY: the same promises.
        unsafe { epoll_pwait(epoll, events, most, timeout, std::ptr::null()) }
    }

    /// epoll_pwait(2).
    fn epoll_pwait(
        epoll: c_int,
        events: *mut epoll_event,
        most: c_int,
        timeout: c_int,
        mask: *const sigset_t,
    ) -> c_int {
        let Slot::Epoll(index) = slots::look(epoll) else {
            // SAFETY: the same arguments.
            return unsafe { real::epoll_pwait(epoll, events, most, timeout, mask) };
        };
        // SAFETY: the caller's promises.
        answer(|| unsafe { wait((epoll, index), (events, most), millis(timeout), mask) })
    }

    /// epoll_pwait2(2).
    fn epoll_pwait2(
        epoll: c_int,
        events: *mut epoll_event,
        most: c_int,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        let Slot::Epoll(index) = slots::look(epoll) else {
            // SAFETY: the same arguments, past the C library, which need not have it; a set of
            // signals has 8 bytes for the kernel.
            let n = unsafe { libc::syscall(libc::SYS_epoll_pwait2, epoll, events, most, timeout, mask, 8usize) };
            return c_int::try_from(n).unwrap_or(-1);
        };
        // SAFETY: the caller's promises.
        answer(|| unsafe { wait((epoll, index), (events, most), limit(timeout)?, mask) })
    }
}

/// # Safety
/// As for epoll_pwait(2).
unsafe fn wait(
    (epoll, index): (c_int, u32),
    (events, most): (*mut epoll_event, c_int),
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Result<c_int> {
    let room = usize::try_from(most)
        .ok()
        .filter(|room| (1..1 << 24).contains(room));
    let room = room.ok_or(Errno::EINVAL)?;
    if events.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: the caller's promise. What is not initialised is only written.
    let events = unsafe { std::slice::from_raw_parts_mut(events, room) };
    let mut engine = engine::lock()?;
    if engine.has_rest(index) {
        let rest = harvest_both(&mut engine, (epoll, index), events);
        if rest > 0 {
            return c_int::try_from(rest).map_err(|_| Errno::EINVAL);
        }
    }
    if engine.epolls.needs_stack(index, &engine.sockets) {
        engine::serve(&mut engine);
    }
    let mut timeout = timeout;
    // Where threads are cancelled, they sleep on a doorbell.
    while engine.epolls.instances(index).next().is_none()
        && !engine.is_starved()
        && !cancel::is_used()
    {
        let (n, woken) = wait_in_kernel(&mut engine, (epoll, index), events, (timeout, mask))?;
        if n > 0 || !woken {
            return c_int::try_from(n).map_err(|_| Errno::EINVAL);
        }
        // What time has passed is given once more, and only once.
        timeout = timeout.map(|timeout| timeout / 2);
    }
    wait_for_both(&mut engine, (epoll, index), events, (timeout, mask))
}

/// Waits where there is nothing of ours. Returns how many events there are, and whether the stack
/// has something to do with it now.
fn wait_in_kernel(
    engine: &mut Guard<'_, Engine>,
    (epoll, index): (c_int, u32),
    events: &mut [epoll_event],
    (timeout, mask): (Option<Duration>, *const sigset_t),
) -> Result<(usize, bool)> {
    if let Some(set) = engine.epolls.get_mut(index) {
        set.enter_kernel(false);
    }
    presence::note(Note::InKernel(index));
    // Rounded up: not to wake before the time.
    let millis = timeout.map_or(-1, |time| {
        i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
    });
    let most = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
    let n = engine.unlocked(|| {
        let events = events.as_mut_ptr();
        // SAFETY: as many events as there is room for; a set of signals has 8 bytes for the kernel.
        // The C library's function would be left where its thread is cancelled.
        let wait = || unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait,
                epoll,
                events,
                most,
                millis,
                mask,
                8usize,
            )
        };
        usize::try_from(cancel::sleeping(wait)).map_err(|_| last())
    });
    wait::wake_up(engine);
    let n = n?;
    let Some(set) = engine.epolls.get_mut(index) else {
        return Ok((n, false));
    };
    let left = set.sift(events.get_mut(..n).unwrap_or_default());
    Ok((left, left < n))
}

fn wait_for_both(
    engine: &mut Guard<'_, Engine>,
    (epoll, index): (c_int, u32),
    events: &mut [epoll_event],
    (timeout, mask): (Option<Duration>, *const sigset_t),
) -> Result<c_int> {
    // Nobody has asked yet; after a sleep it is known.
    let mut kernel = [pollfd {
        fd: epoll,
        events: POLLIN,
        revents: POLLIN,
    }];
    let pause = Pause {
        timeout,
        mask,
        restarts: false,
    };
    let result = wait_until(engine, pause, &mut kernel, |engine, kernel| {
        let found = if kernel.iter().any(|kernel| kernel.revents != 0) {
            harvest_both(engine, (epoll, index), events)
        } else {
            engine.harvest(index, events)
        };
        match found {
            0 => Look::Sleep(want(engine, index)),
            n => Look::Done(n),
        }
    })?;
    c_int::try_from(result.unwrap_or(0)).map_err(|_| Errno::EINVAL)
}

/// What both have now. Where one of them fills all the room, they take turns at being first.
fn harvest_both(
    engine: &mut Engine,
    (epoll, index): (c_int, u32),
    events: &mut [epoll_event],
) -> usize {
    let kernel_first = engine.epolls.get(index).is_some_and(|set| set.kernel_first);
    let mut n = 0;
    for kernel in [kernel_first, !kernel_first] {
        let rest = events.get_mut(n..).unwrap_or_default();
        n += if kernel {
            harvest_kernel(engine, (epoll, index), rest)
        } else {
            engine.harvest(index, rest)
        };
    }
    if n == events.len()
        && let Some(set) = engine.epolls.get_mut(index)
    {
        set.kernel_first = !kernel_first;
    }
    n
}

fn want(engine: &Engine, index: u32) -> Want {
    let mut all = engine.epolls.instances(index);
    match (all.next(), all.next()) {
        (None, _) => Want::Nothing,
        (Some(one), None) => Want::Epoll(one),
        (Some(one), Some(other)) => Want::Many {
            sockets: Vec::new(),
            epolls: [one, other].into_iter().chain(all).collect(),
        },
    }
}

/// What the kernel has now.
fn harvest_kernel(
    engine: &mut Engine,
    (epoll, index): (c_int, u32),
    events: &mut [epoll_event],
) -> usize {
    let most = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
    if most == 0 {
        return 0;
    }
    // SAFETY: as many events as there is room for.
    let n = unsafe { real::epoll_wait(epoll, events.as_mut_ptr(), most, 0) };
    let n = usize::try_from(n).unwrap_or(0);
    match engine.epolls.get_mut(index) {
        Some(set) => set.sift(events.get_mut(..n).unwrap_or_default()),
        None => n,
    }
}
