//! Making sockets and deciding whose they are: `socket`, `bind`, `connect`, `shutdown`, and what
//! their addresses are.

use std::ffi::c_int;
use std::net::SocketAddr;

use libc::{AF_INET, AF_INET6, IPPROTO_TCP, SOCK_NONBLOCK, SOCK_STREAM, sockaddr, socklen_t};
use mtcp::posix::address;
use mtcp::posix::call::{answer, done};
use mtcp::{Context, Domain, Errno, Events, How, Result, SocketId, SocketOption, State};

use super::{hooks, last};
use crate::engine::{self, Engine};
use crate::lent::{self, End};
use crate::lock::Guard;
use crate::ourselves::{Way, way_to_ourselves};
use crate::rules::{Place, Rules, rules};
use crate::slots::{self, Slot};
use crate::socket::{Body, Socket};
use crate::sockets::Found;
use crate::wait::wait_for;
use crate::waiters::Want;
use crate::{log, real};

/// `IPV6_FREEBIND` of linux/in6.h.
const IPV6_FREEBIND: c_int = 78;
/// The bits of a socket's type that are no flags.
const TYPE: c_int = 0xf;

hooks! {
    /// socket(2).
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        if protocol == libc::IPPROTO_MPTCP && [AF_INET, AF_INET6].contains(&domain) && rules().is_some() {
            // Programs take TCP instead, which may be the stack's.
            return answer(|| Err(Errno(libc::EPROTONOSUPPORT)));
        }
        // SAFETY: the same arguments.
        let fd = unsafe { real::socket(domain, kind, protocol) };
        let family = match domain {
            AF_INET => Domain::V4,
            AF_INET6 => Domain::V6,
            _ => return fd,
        };
        let tcp = kind & TYPE == SOCK_STREAM && [0, IPPROTO_TCP].contains(&protocol);
        if fd >= 0 && tcp && rules().is_some() {
            note(fd, Socket::new(fd, family, kind & SOCK_NONBLOCK != 0, Body::Open));
        }
        fd
    }

    /// bind(2).
    fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        if slots::is_socket(fd)
            // SAFETY: the caller's promise.
            && let Ok(local) = unsafe { address::parse(addr, len) }
        {
            return done(|| bind_to(fd, local, addr, len));
        }
        // SAFETY: the same arguments.
        let result = unsafe { real::bind(fd, addr, len) };
        // SAFETY: the caller's promise.
        if result < 0 && last() == Errno::EADDRNOTAVAIL && unsafe { is_datagrams(fd, addr, len) } {
            // SAFETY: the same arguments.
            return unsafe { bind_deaf(fd, addr, len) };
        }
        result
    }

    /// connect(2).
    fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        if slots::is_socket(fd)
            // SAFETY: the caller's promise.
            && let Ok(remote) = unsafe { address::parse(addr, len) }
        {
            return answer(|| connect_to(fd, remote, true, || {
                // SAFETY: the same arguments.
                unsafe { real::connect(fd, addr, len) }
            }));
        }
        // SAFETY: the same arguments.
        unsafe { real::connect(fd, addr, len) }
    }

    /// shutdown(2).
    fn shutdown(fd: c_int, how: c_int) -> c_int {
        if slots::is_socket(fd) {
            return answer(|| shut(fd, how));
        }
        // SAFETY: the same arguments.
        unsafe { real::shutdown(fd, how) }
    }

    /// getsockname(2).
    fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        if let Some(id) = stream(fd) {
            // SAFETY: the caller's promise.
            return unsafe { name(id, Context::local_addr, addr, len) };
        }
        // SAFETY: the same arguments.
        unsafe { lent_or(fd, End::Local, addr, len, real::getsockname) }
    }

    /// getpeername(2).
    fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        if let Some(id) = stream(fd) {
            // SAFETY: the caller's promise.
            return unsafe { name(id, Context::peer_addr, addr, len) };
        }
        // SAFETY: the same arguments.
        unsafe { lent_or(fd, End::Remote, addr, len, real::getpeername) }
    }
}

/// An end of a connection that another process has, or what the kernel says.
///
/// # Safety
/// As for getsockname(2).
unsafe fn lent_or(
    fd: c_int,
    end: End,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    kernel: unsafe fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int,
) -> c_int {
    if rules().is_some()
        // SAFETY: the caller's promises.
        && let Some(told) = unsafe { lent::tell(fd, end, addr, len) }
    {
        return done(|| told);
    }
    // SAFETY: the same arguments.
    unsafe { kernel(fd, addr, len) }
}

/// Stores one end of a connection.
///
/// # Safety
/// As for getsockname(2).
unsafe fn name(
    id: SocketId,
    end: impl FnOnce(&Context, SocketId) -> Result<SocketAddr>,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    done(|| {
        let mut engine = engine::lock()?;
        let context = engine.context().ok_or(Errno::EBADF)?;
        let (end, domain) = (end(context, id)?, context.domain(id)?);
        // SAFETY: the caller's promise.
        unsafe { address::store(end, domain, addr, len) }
    })
}

/// The connection of ours that `fd` names.
pub(super) fn stream(fd: c_int) -> Option<SocketId> {
    if !slots::is_socket(fd) {
        return None;
    }
    match engine::lock().ok()?.sockets.find(fd)?.body {
        Body::Stream(id) => Some(id),
        _ => None,
    }
}

/// Enters a new socket into the table.
fn note(fd: c_int, socket: Socket) {
    let Ok(mut engine) = engine::lock() else {
        return;
    };
    if engine.is_borrowed() {
        return;
    }
    let index = engine.insert(socket);
    if !slots::set(fd, Slot::Socket(index)) {
        engine.release(index);
    }
}

/// Whether a socket of the kernel for datagrams is to have an address of the stack.
///
/// # Safety
/// As for bind(2).
unsafe fn is_datagrams(fd: c_int, addr: *const sockaddr, len: socklen_t) -> bool {
    let (mut kind, mut room) = (0, size_of::<c_int>() as socklen_t);
    // SAFETY: room for an int.
    let told = unsafe {
        let value = (&raw mut kind).cast();
        real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, value, &raw mut room)
    };
    // SAFETY: the caller's promise.
    let local = unsafe { address::parse(addr, len) };
    // One without a port is a client's, which fails better.
    let ours = |local: SocketAddr| {
        local.port() != 0 && rules().is_some_and(|rules| rules.is_ours(local.ip()))
    };
    told == 0 && kind == libc::SOCK_DGRAM && local.is_ok_and(ours)
}

/// Servers of both kinds of sockets (DNS) end, or leave an address out, where one of them cannot
/// have it: the kernel's socket has it, and hears nothing there, which is told.
///
/// # Safety
/// As for bind(2).
unsafe fn bind_deaf(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    let Ok(local) = (unsafe { address::parse(addr, len) }) else {
        return -1;
    };
    free_bind(fd, local, true);
    // SAFETY: the same arguments.
    let result = unsafe { real::bind(fd, addr, len) };
    if result == 0 {
        log::line(format_args!(
            "UDP at {local} hears nothing: the stack has the address and speaks TCP only; take UDP to an address of the kernel's"
        ));
    }
    result
}

fn bind_to(fd: c_int, local: SocketAddr, addr: *const sockaddr, len: socklen_t) -> Result<()> {
    let mut engine = engine::lock()?;
    let found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    let place = rules().map_or(Place::Kernel, |rules| rules.bind(local));
    if matches!(found.body, Body::Stream(_)) {
        return Err(Errno::EINVAL);
    }
    let foreign = place == Place::Ours && found.body == Body::Open && !local.ip().is_unspecified();
    if foreign {
        free_bind(fd, local, true);
    }
    // The kernel's socket holds the address too: it says who else has it, chooses a port, and
    // serves the addresses that are not ours. SAFETY: the same arguments as the program's.
    let bound = unsafe { real::bind(fd, addr, len) };
    let error = last();
    if foreign {
        free_bind(fd, local, false);
    }
    if bound < 0 {
        return Err(error);
    }
    match place {
        Place::Kernel => engine.disown(fd, found.index),
        Place::Ours => engine
            .sockets
            .get_mut(found.index)
            .map_or(Ok(()), |socket| socket.note_local(fd))?,
    }
    Ok(())
}

/// Has the kernel take an address that is ours and not its own.
fn free_bind(fd: c_int, local: SocketAddr, on: bool) {
    let (level, name) = match local {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_FREEBIND),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, IPV6_FREEBIND),
    };
    let on = c_int::from(on);
    // Where that fails, so does `bind`, and says why.
    // SAFETY: an int.
    unsafe { real::setsockopt(fd, level, name, (&raw const on).cast(), 4) };
}

/// Connects, and waits for that unless the socket does not or `waits` is unset; `kernel` does when
/// the connection is not ours.
pub(crate) fn connect_to(
    fd: c_int,
    remote: SocketAddr,
    waits: bool,
    kernel: impl FnOnce() -> c_int,
) -> Result<c_int> {
    let mut engine = engine::lock()?;
    let mut found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    found.nonblocking |= !waits;
    let way = match found.body {
        Body::Open => way_to_ourselves(&engine, remote),
        _ => None,
    };
    let id = match (found.body, way) {
        (Body::Stream(id), _) => id,
        (_, Some(Way::Stack)) if engine.start() => engine.adopt(found.index)?,
        // It waits for a queue, or never had one.
        (_, Some(Way::Stack)) => {
            engine::tell_failing(&engine);
            return Err(Errno::ENETDOWN);
        }
        (_, Some(Way::Kernel(there))) => {
            let domain = domain(&engine, found.index);
            engine.disown(fd, found.index);
            drop(engine);
            return connect_by_kernel(fd, there, domain);
        }
        (Body::Open, None) if takes(&mut engine, found.index, remote)? => {
            engine.adopt(found.index)?
        }
        (body, None) => {
            if body == Body::Open {
                engine.disown(fd, found.index);
            }
            drop(engine);
            return Ok(kernel());
        }
    };
    let result = start_connect(&mut engine, &found, id, remote);
    engine.staged(true);
    result.map(|()| 0)
}

/// Connects a socket of the kernel to `there`.
fn connect_by_kernel(fd: c_int, there: SocketAddr, domain: Domain) -> Result<c_int> {
    // SAFETY: all zeros are an address of no family.
    let mut room: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&room) as socklen_t;
    let at = (&raw mut room).cast();
    // SAFETY: room for any address, and what it holds then.
    unsafe {
        address::store(there, domain, at, &raw mut len)?;
        Ok(real::connect(fd, at, len))
    }
}

/// MSG_FASTOPEN: connects, so that what is sent next can go along with the SYN. Says whose the
/// connection is.
///
/// # Errors
/// Those of connect(2).
///
/// # Safety
/// `addr`, unless NULL, points to `len` bytes.
pub(super) unsafe fn open_fast(
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
    flags: c_int,
) -> Result<Place> {
    let mut engine = engine::lock()?;
    let mut found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    if matches!(found.body, Body::Stream(_)) {
        return Err(Errno(libc::EISCONN));
    }
    // SAFETY: the caller's promise.
    let remote = unsafe { address::parse(addr, len) };
    let ours = |remote| place(&engine, found.index, remote) == Place::Ours;
    let Some(remote) = remote.ok().filter(|remote| ours(*remote)) else {
        return Ok(Place::Kernel);
    };
    if found.body != Body::Open || !takes(&mut engine, found.index, remote)? {
        return Ok(Place::Kernel);
    }
    let id = engine.adopt(found.index)?;
    found.nonblocking |= flags & libc::MSG_DONTWAIT != 0;
    if let Some(context) = engine.context() {
        // Without it the SYN goes alone.
        let _ = context.set_option(id, SocketOption::FastOpenConnect(true));
    }
    let result = start_connect(&mut engine, &found, id, remote);
    engine.staged(true);
    result.map(|()| Place::Ours)
}

/// Whose the connection is.
fn place(engine: &Engine, index: u32, remote: SocketAddr) -> Place {
    let Some(rules) = rules() else {
        return Place::Kernel;
    };
    let local = engine.sockets.get(index).and_then(|socket| socket.local);
    match local.map(|local| (rules.bind(local), local.ip().is_unspecified())) {
        Some((Place::Kernel, _)) => Place::Kernel,
        // An address of ours leads nowhere else.
        Some((Place::Ours, false)) if !remote.ip().is_loopback() => Place::Ours,
        _ => rules.connect(remote),
    }
}

fn start_connect(
    engine: &mut Guard<'_, Engine>,
    found: &Found,
    id: SocketId,
    remote: SocketAddr,
) -> Result<()> {
    let first = engine.context().ok_or(Errno::ENETDOWN)?.connect(id, remote);
    if found.nonblocking || !matches!(first, Err(Errno::EINPROGRESS | Errno::EALREADY)) {
        return first;
    }
    let step = |engine: &mut Engine| -> Option<Result<()>> {
        if !engine.sockets.still(found) {
            return Some(Err(Errno::EBADF));
        }
        let context = engine.context().ok_or(Errno::ENETDOWN);
        match context.and_then(|context| context.finish_connect(id, remote)) {
            Err(Errno::EINPROGRESS | Errno::EALREADY) => None,
            // Nothing else than the time limit says so here.
            result => Some(result),
        }
    };
    let want = |_: &Engine| Want::Socket(id, Events::OUT);
    let timeout = engine.sockets.send_timeout(found);
    match wait_for(engine, timeout, &mut [], want, step) {
        Err(Errno::EAGAIN) => Err(Errno::EINPROGRESS),
        result => result,
    }
}

/// Whether the stack has the connection to `remote`: it runs, then.
///
/// # Errors
/// `ENETDOWN`: it should, and cannot be started, or has to wait for a queue.
fn takes(engine: &mut Engine, index: u32, remote: SocketAddr) -> Result<bool> {
    if place(engine, index, remote) == Place::Kernel {
        return Ok(false);
    }
    if engine.start() {
        return Ok(true);
    }
    let without = rules().map_or(Ok(Place::Kernel), Rules::without_stack);
    if without.is_err() {
        engine::tell_failing(engine);
    }
    without.map(|place| place == Place::Ours)
}

fn domain(engine: &Engine, index: u32) -> Domain {
    let socket = engine.sockets.get(index);
    socket.map_or(Domain::V4, |socket| socket.domain)
}

/// Whether the handshake of a connection of ours has begun and not ended.
pub(super) fn is_connecting(engine: &mut Engine, id: SocketId) -> bool {
    let context = engine.context();
    let info = context.and_then(|context| context.info(id).ok());
    info.is_some_and(|info| info.state == State::SynSent)
}

fn shut(fd: c_int, how: c_int) -> Result<c_int> {
    let mut engine = engine::lock()?;
    let found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    let Body::Stream(id) = found.body else {
        // SAFETY: no memory is involved.
        let result = unsafe { real::shutdown(fd, how) };
        if result == 0 && how != libc::SHUT_WR {
            engine.stop_listening(found.index);
        }
        return Ok(result);
    };
    let how = match how {
        libc::SHUT_RD => How::Read,
        libc::SHUT_WR => How::Write,
        libc::SHUT_RDWR => How::Both,
        _ => return Err(Errno::EINVAL),
    };
    let result = engine.context().ok_or(Errno::EBADF)?.shutdown(id, how);
    engine.wake_ready();
    engine.staged(!found.nonblocking);
    result.map(|()| 0)
}
