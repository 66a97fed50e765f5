//! `poll` and `ppoll`, over our sockets and the kernel's descriptors together.

use std::ffi::c_int;
use std::time::Duration;

use libc::{POLLIN, POLLRDNORM, nfds_t, pollfd, sigset_t, timespec};
use mtcp::posix::call::answer;
use mtcp::{Errno, Events, Result, SocketId};

use super::{hooks, limit, millis};
use crate::engine::{self, Engine};
use crate::lock::Guard;
use crate::slots::{self, Slot};
use crate::socket::Body;
use crate::wait::{Look, Pause, wait_until};
use crate::waiters::Want;
use crate::{kernel, real};

hooks! {
    /// poll(2).
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        // SAFETY: the caller's promise.
        match unsafe { ours(fds, count) } {
            Some(fds) => answer(|| poll_all(fds, millis(timeout), std::ptr::null())),
            // SAFETY: the same arguments.
            None => unsafe { real::poll(fds, count, timeout) },
        }
    }

    /// ppoll(2).
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        // SAFETY: the caller's promise.
        match unsafe { ours(fds, count) } {
            // SAFETY: the caller's promise.
            Some(fds) => answer(|| poll_all(fds, unsafe { limit(timeout) }?, mask)),
            // SAFETY: the same arguments.
            None => unsafe { real::ppoll(fds, count, timeout, mask) },
        }
    }

    /// `poll` as `_FORTIFY_SOURCE` calls it.
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, _room: usize) -> c_int {
        // SAFETY: the same promises.
        unsafe { poll(fds, count, timeout) }
    }

    /// `ppoll` as `_FORTIFY_SOURCE` calls it.
    fn __ppoll_chk(
        fds: *mut pollfd,
        count: nfds_t,
        timeout: *const timespec,
        mask: *const sigset_t,
        _room: usize,
    ) -> c_int {
        // SAFETY: the same promises.
        unsafe { ppoll(fds, count, timeout, mask) }
    }
}

/// The descriptors, if the stack may have to do with any of them.
///
/// # Safety
/// `fds`, unless NULL, points to `count` descriptors.
unsafe fn ours<'a>(fds: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    let count = usize::try_from(count)
        .ok()
        .filter(|count| (1..1 << 20).contains(count))?;
    if fds.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count) };
    let ours = fds
        .iter()
        .any(|entry| matches!(slots::look(entry.fd), Slot::Socket(_) | Slot::Epoll(_)));
    ours.then_some(fds)
}

/// What the stack has to do with one of the descriptors.
#[derive(Clone, Copy, Debug)]
enum Side {
    /// Nothing.
    Kernel,
    /// All: the kernel is not asked.
    Stream(SocketId),
    /// The kernel is asked as well.
    Listener(SocketId),
    Epoll(u32),
}

/// The event bits of poll(2) are those of epoll(7).
fn events(bits: i16) -> Events {
    Events::from_bits_truncate(u32::from(bits.cast_unsigned()))
}

/// Polls; fills `revents` and says how many descriptors have any.
pub(super) fn poll_all(
    fds: &mut [pollfd],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Result<c_int> {
    let end = timeout.map(|timeout| kernel::now().saturating_add(kernel::nanos(timeout)));
    loop {
        let mut engine = engine::lock()?;
        serve_if_needed(&mut engine, fds);
        let left = end.map(|end| Duration::from_nanos(end.saturating_sub(kernel::now())));
        // While the stack waits for a queue, it asks again.
        let is_starved = engine.is_starved();
        let n = poll_once(engine, fds, left, mask)?;
        if n > 0 || !is_starved || left == Some(Duration::ZERO) {
            return c_int::try_from(n).map_err(|_| Errno::EINVAL);
        }
    }
}

#[inline(never)]
fn serve_if_needed(engine: &mut Engine, fds: &[pollfd]) {
    if fds.iter().any(|entry| poll_needs_stack(engine, entry.fd)) {
        engine::serve(engine);
    }
}

fn poll_once(
    mut engine: Guard<'_, Engine>,
    fds: &mut [pollfd],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Result<usize> {
    let sides = sides(&engine, fds);
    if sides.iter().all(|side| matches!(side, Side::Kernel)) {
        return leave_to_kernel(engine, fds, timeout, mask);
    }
    let mut kernel: Vec<pollfd> = fds.to_vec();
    for (entry, side) in kernel.iter_mut().zip(&sides) {
        // What an earlier call left there.
        entry.revents = 0;
        if matches!(side, Side::Stream(_)) {
            entry.fd = -1;
        }
    }
    let pause = Pause {
        timeout,
        mask,
        restarts: false,
    };
    wait_mixed(&mut engine, fds, &sides, &mut kernel, pause)
}

#[inline(never)]
fn sides(engine: &Engine, fds: &[pollfd]) -> Vec<Side> {
    fds.iter().map(|entry| side(engine, entry.fd)).collect()
}

/// None of the descriptors is ours. What this takes of the stack, a wait for ours does not.
#[inline(never)]
fn leave_to_kernel(
    engine: Guard<'_, Engine>,
    fds: &mut [pollfd],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Result<usize> {
    let (most, vigil) = engine.sharing.ends();
    drop(engine);
    let timeout = [timeout, most].into_iter().flatten().min();
    poll_kernel(fds, vigil, timeout, mask)
}

/// Polls descriptors of the kernel's, and sleeps no longer than until `vigil` is readable.
fn poll_kernel(
    fds: &mut [pollfd],
    vigil: Option<c_int>,
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Result<usize> {
    let Some(vigil) = vigil else {
        return kernel::ppoll(fds, timeout, mask);
    };
    let mut all = fds.to_vec();
    all.push(kernel::poll_in(vigil));
    kernel::ppoll(&mut all, timeout, mask)?;
    for (to, from) in fds.iter_mut().zip(&all) {
        to.revents = from.revents;
    }
    Ok(fds.iter().filter(|entry| entry.revents != 0).count())
}

fn wait_mixed(
    engine: &mut Guard<'_, Engine>,
    fds: &mut [pollfd],
    sides: &[Side],
    kernel: &mut [pollfd],
    pause: Pause,
) -> Result<usize> {
    let asks_kernel = kernel.iter().any(|entry| entry.fd >= 0);
    let result = wait_until(engine, pause, kernel, |engine, kernel| {
        if asks_kernel && kernel::ppoll(kernel, Some(Duration::ZERO), std::ptr::null()).is_err() {
            kernel.iter_mut().for_each(|entry| entry.revents = 0);
        }
        let mut n = 0;
        for ((entry, side), theirs) in fds.iter_mut().zip(sides).zip(kernel.iter()) {
            entry.revents = theirs.revents | revents(engine, *side, entry.events);
            n += usize::from(entry.revents != 0);
        }
        match n {
            0 => Look::Sleep(want(engine, fds, sides)),
            n => Look::Done(n),
        }
    })?;
    if result.is_none() {
        fds.iter_mut().for_each(|entry| entry.revents = 0);
    }
    Ok(result.unwrap_or(0))
}

fn want(engine: &Engine, fds: &[pollfd], sides: &[Side]) -> Want {
    let mut sockets = Vec::new();
    let mut epolls = Vec::new();
    for (entry, side) in fds.iter().zip(sides) {
        match side {
            Side::Kernel => {}
            Side::Stream(id) | Side::Listener(id) => sockets.push((*id, events(entry.events))),
            Side::Epoll(index) => epolls.extend(engine.epolls.instances(*index)),
        }
    }
    match (&sockets[..], &epolls[..]) {
        ([(id, events)], []) => Want::Socket(*id, *events),
        _ => Want::Many { sockets, epolls },
    }
}

/// Whether only a stack can bring what a wait on `fd` is for.
fn poll_needs_stack(engine: &Engine, fd: c_int) -> bool {
    match slots::look(fd) {
        Slot::Socket(_) => engine
            .sockets
            .find(fd)
            .is_some_and(|found| matches!(found.body, Body::Listener { .. })),
        Slot::Epoll(index) => engine.epolls.needs_stack(index, &engine.sockets),
        Slot::Kernel | Slot::Private | Slot::Ring => false,
    }
}

fn side(engine: &Engine, fd: c_int) -> Side {
    match slots::look(fd) {
        Slot::Socket(_) => match engine.sockets.find(fd).map(|found| found.body) {
            Some(Body::Stream(id)) => Side::Stream(id),
            Some(Body::Listener { ours: Some(id), .. }) => Side::Listener(id),
            _ => Side::Kernel,
        },
        Slot::Epoll(index) if engine.epolls.instances(index).next().is_some() => Side::Epoll(index),
        Slot::Epoll(_) => Side::Kernel,
        Slot::Kernel | Slot::Private | Slot::Ring => Side::Kernel,
    }
}

fn revents(engine: &mut Engine, side: Side, wanted: i16) -> i16 {
    match side {
        Side::Stream(id) | Side::Listener(id) => {
            let ready = engine
                .context()
                .map(|context| context.ready(id, events(wanted)));
            let bits = ready.unwrap_or_default().bits();
            u16::try_from(bits).unwrap_or(0).cast_signed()
        }
        Side::Epoll(index) if engine.is_ready(index) => wanted & (POLLIN | POLLRDNORM),
        Side::Epoll(_) | Side::Kernel => 0,
    }
}
