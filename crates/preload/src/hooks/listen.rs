//! Passive opens: `listen`, `accept`. A listener serves the kernel's addresses as well as ours.

use std::ffi::c_int;
use std::fs;
use std::net::SocketAddr;
use std::sync::OnceLock;

use libc::{POLLIN, SOCK_CLOEXEC, SOCK_NONBLOCK, pollfd, sockaddr, socklen_t};
use mtcp::posix::address;
use mtcp::posix::call::{answer, backlog};
use mtcp::{Context, Domain, Errno, Events, Result, SocketId};

use super::{hooks, last};
use crate::engine::{self, Engine};
use crate::rules::{Rules, rules};
use crate::slots::{self, Slot};
use crate::socket::{Body, Socket};
use crate::sockets::Found;
use crate::wait::wait_for;
use crate::waiters::Want;
use crate::{marks, real};

/// SOMAXCONN of Linux, where the host does not say another (`net.core.somaxconn`).
const SOMAXCONN: u32 = 4096;
const SETTING: &str = "/proc/sys/net/core/somaxconn";

hooks! {
    /// listen(2).
    fn listen(fd: c_int, backlog: c_int) -> c_int {
        if slots::is_socket(fd) {
            return answer(|| start(fd, backlog));
        }
        // SAFETY: the same arguments.
        unsafe { real::listen(fd, backlog) }
    }

    /// accept(2).
    fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the same promises.
        unsafe { accept4(fd, addr, len, 0) }
    }

    /// accept4(2).
    fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        if slots::is_socket(fd) {
            // SAFETY: the caller's promises.
            return answer(|| unsafe { take(fd, (addr, len), flags, true) });
        }
        // SAFETY: the same arguments.
        unsafe { real::accept4(fd, addr, len, flags) }
    }
}

/// How many may wait, by what the host allows.
fn backlog_of(asked: c_int) -> u32 {
    static MOST: OnceLock<u32> = OnceLock::new();
    let setting = || fs::read_to_string(SETTING).ok()?.trim().parse().ok();
    let most = *MOST.get_or_init(|| setting().unwrap_or(SOMAXCONN));
    backlog(asked, most)
}

/// Listens on the stack, or sees that it will be possible once the stack runs.
fn listen_on_stack(engine: &mut Engine, fd: c_int, index: u32) -> Result<()> {
    engine.listen(index)?;
    engine.get_ready();
    if engine.parent_serves {
        // Whoever connects to it now is told by its parent's stack that nobody listens.
        engine.start();
    }
    if engine.stack.is_down() {
        return Err(Errno::ENETDOWN);
    }
    let mut only_v6: c_int = 0;
    let mut len = size_of_val(&only_v6) as socklen_t;
    let (level, name) = (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);
    let at = (&raw mut only_v6).cast();
    // SAFETY: room for a number; a socket of IPv4 leaves it.
    unsafe { real::getsockopt(fd, level, name, at, &raw mut len) };
    let local = engine.sockets.get(index).and_then(|socket| socket.local);
    engine.stack.admits(local, only_v6 != 0)
}

fn start(fd: c_int, backlog: c_int) -> Result<c_int> {
    let mut engine = engine::lock()?;
    let found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    if matches!(found.body, Body::Stream(_)) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: no memory is involved.
    if unsafe { real::listen(fd, backlog) } < 0 {
        return Err(last());
    }
    if found.body != Body::Open {
        return Ok(0);
    }
    marks::never_wait(fd);
    marks::mark(fd);
    marks::mark_waiting(fd, !found.nonblocking);
    if rules().is_some_and(Rules::is_attached) {
        // Whoever connects to it now is told by the daemon's stack that nobody listens. It is no
        // listener yet: that it may not be one is for the program.
        engine.start();
    }
    if let Some(socket) = engine.sockets.get_mut(found.index) {
        socket.note_local(fd)?;
        socket.body = Body::Listener {
            backlog: backlog_of(backlog),
            ours: None,
        };
    }
    if let Err(error) = listen_on_stack(&mut engine, fd, found.index) {
        engine.stop_listening(found.index);
        // SAFETY: no memory is involved.
        unsafe { real::shutdown(fd, libc::SHUT_RD) };
        return Err(error);
    }
    engine.staged(true);
    engine.start_deferred();
    Ok(0)
}

/// Accepts; `waits` unless the listener does not.
///
/// # Safety
/// As for accept4(2).
pub(crate) unsafe fn take(
    fd: c_int,
    (addr, len): (*mut sockaddr, *mut socklen_t),
    flags: c_int,
    waits: bool,
) -> Result<c_int> {
    let mut engine = engine::lock()?;
    let found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    if !matches!(found.body, Body::Listener { .. }) {
        drop(engine);
        // SAFETY: the same arguments.
        return Ok(unsafe { real::accept4(fd, addr, len, flags) });
    }
    if flags & !(SOCK_NONBLOCK | SOCK_CLOEXEC) != 0 {
        return Err(Errno::EINVAL);
    }
    engine::serve(&mut engine);
    if engine.stack.is_down() {
        return Err(Errno::ENETDOWN);
    }
    let step = |engine: &mut Engine| -> Option<Result<c_int>> {
        if !engine.sockets.still(&found) {
            return Some(Err(Errno::EBADF));
        }
        // SAFETY: the caller's promises.
        unsafe { next(engine, fd, addr, len, flags) }
    };
    if let Some(result) = step(&mut engine) {
        return result;
    }
    if found.nonblocking || !waits {
        engine.wake_ready();
        return Err(Errno::EAGAIN);
    }
    let timeout = engine.sockets.recv_timeout(&found);
    let mut kernel = [pollfd {
        fd,
        events: POLLIN,
        revents: 0,
    }];
    let want = |engine: &Engine| want(engine, &found);
    wait_for(&mut engine, timeout, &mut kernel, want, step)
}

/// The next connection, ours before the kernel's, if there is one.
///
/// # Safety
/// As for accept4(2).
unsafe fn next(
    engine: &mut Engine,
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Option<Result<c_int>> {
    match accept_ours(engine, fd, flags) {
        Err(Errno::EAGAIN) => {}
        Err(error) => return Some(Err(error)),
        Ok((new, ..)) if addr.is_null() => return Some(Ok(new)),
        Ok((new, remote, domain)) => {
            // SAFETY: the caller's promise.
            let stored = unsafe { address::store(remote, domain, addr, len) };
            if stored.is_err() {
                engine.drop_number(new);
            }
            return Some(stored.map(|()| new));
        }
    }
    // SAFETY: the same arguments; the kernel's listener does not wait.
    match unsafe { real::accept4(fd, addr, len, flags) } {
        new @ 0.. => Some(Ok(new)),
        _ if last() == Errno::EAGAIN => None,
        _ => Some(Err(last())),
    }
}

fn want(engine: &Engine, found: &Found) -> Want {
    let ours = engine.sockets.get(found.index).and_then(Socket::ours);
    ours.map_or(Want::Nothing, |id| Want::Socket(id, Events::IN))
}

/// Takes a connection from our side of a listener.
///
/// # Errors
/// `EAGAIN`: there is none; those of accept(2).
fn accept_ours(
    engine: &mut Engine,
    fd: c_int,
    flags: c_int,
) -> Result<(c_int, SocketAddr, Domain)> {
    let listener = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    let Body::Listener { ours: Some(id), .. } = listener.body else {
        return Err(Errno::EAGAIN);
    };
    if !has_waiting(engine, id) {
        return Err(Errno::EAGAIN);
    }
    let new = engine.stack.placeholder(flags & SOCK_CLOEXEC != 0)?;
    match enter(engine, listener.index, id, new, flags & SOCK_NONBLOCK != 0) {
        Ok((remote, domain)) => Ok((new, remote, domain)),
        Err(error) => {
            // SAFETY: the descriptor was just made, and nobody knows it.
            unsafe { real::close(new) };
            Err(error)
        }
    }
}

/// Whether somebody waits to be accepted. Has run a turn before it says no.
fn has_waiting(engine: &mut Engine, id: SocketId) -> bool {
    let waits = |engine: &mut Engine| {
        let context = engine.context();
        context.is_some_and(|context| !context.ready(id, Events::IN).is_empty())
    };
    if waits(engine) {
        return true;
    }
    // An epoll instance reports what comes later.
    let stands = |context: &mut Context| context.is_watched(id) && context.is_fresh();
    if engine.context().is_some_and(stands) {
        return false;
    }
    engine.turn();
    waits(engine)
}

/// Gives the next connection of a listener the number `new`. What it needs lies on the stack of
/// nobody who runs a turn.
#[inline(never)]
fn enter(
    engine: &mut Engine,
    listener: u32,
    id: SocketId,
    new: c_int,
    nonblocking: bool,
) -> Result<(SocketAddr, Domain)> {
    let context = engine.context().ok_or(Errno::EAGAIN)?;
    let (accepted, remote) = context.accept(id)?;
    context.set_nonblocking(accepted, true)?;
    let listener = engine.sockets.get(listener).ok_or(Errno::EBADF)?;
    let socket = listener.child(new, nonblocking, Body::Stream(accepted));
    let domain = socket.domain;
    let index = engine.insert(socket);
    if !slots::set(new, Slot::Socket(index)) {
        engine.release(index);
        return Err(Errno(libc::EMFILE));
    }
    Ok((remote, domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_are_the_most() {
        let most = backlog_of(c_int::MAX);
        assert!(most >= 128);
        assert_eq!([-1, c_int::MIN, 0, 1].map(backlog_of), [most, most, 1, 2]);
    }
}
