//! Socket options, with Linux's constants and sizes.

use std::ffi::{CStr, c_int, c_void};
use std::time::Duration;

use libc::{SO_RCVBUF, SO_RCVTIMEO, SO_SNDBUF, SO_SNDTIMEO, SOL_SOCKET, socklen_t, timeval};
use mtcp::posix::call::answer;
use mtcp::posix::{memory, option_table, options};
use mtcp::{Context, Domain, Errno, Result, SocketId};

use super::{duration, hooks};
use crate::engine::{self, Engine};
use crate::lent;
use crate::log::no_effect;
use crate::real;
use crate::rules::rules;
use crate::slots;
use crate::socket::Body;
use crate::sockets::Found;

/// The least that Linux says of SO_RCVBUF and SO_SNDBUF.
const MIN_RCVBUF: c_int = 2304;
const MIN_SNDBUF: c_int = 4608;

/// Options that promise what other calls then do, or that segments are signed. The stack has none
/// of them; programs that hear so do without, or end. Also before it is known whose the connection
/// will be: a socket that changes hands cannot take the promise back.
const PROMISES: [(c_int, c_int); 9] = [
    (SOL_SOCKET, libc::SO_ZEROCOPY),
    (SOL_SOCKET, libc::SO_TXTIME),
    (SOL_SOCKET, libc::SO_TIMESTAMPING),
    (libc::IPPROTO_TCP, libc::TCP_MD5SIG),
    (libc::IPPROTO_TCP, libc::TCP_REPAIR),
    (libc::IPPROTO_TCP, libc::TCP_ULP),
    (libc::IPPROTO_TCP, TCP_MD5SIG_EXT),
    (libc::IPPROTO_TCP, libc::TCP_INQ),
    (libc::IPPROTO_TCP, TCP_AO_ADD_KEY),
];
/// Options that tie a socket to a network interface: with the stack's it says what is so, with
/// another the socket is the kernel's.
const DEVICE: [(c_int, c_int); 2] = [
    (SOL_SOCKET, libc::SO_BINDTODEVICE),
    (SOL_SOCKET, libc::SO_BINDTOIFINDEX),
];

/// Of linux/tcp.h.
const TCP_MD5SIG_EXT: c_int = 32;
const TCP_AO_ADD_KEY: c_int = 38;

hooks! {
    /// setsockopt(2).
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
        if slots::is_socket(fd) {
            // SAFETY: the caller's promises.
            return answer(|| unsafe { set(fd, (level, name), value, len) });
        }
        // SAFETY: the same arguments.
        let result = unsafe { real::setsockopt(fd, level, name, value, len) };
        if result < 0 && level != SOL_SOCKET && lent::is_lent(fd) {
            // The connection is another process's, and stays as it was.
            return 0;
        }
        result
    }

    /// getsockopt(2).
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        if slots::is_socket(fd) {
            // SAFETY: the caller's promises.
            return answer(|| unsafe { ask(fd, (level, name), value, len) });
        }
        // SAFETY: the same arguments.
        unsafe { real::getsockopt(fd, level, name, value, len) }
    }
}

/// # Safety
/// As for setsockopt(2).
unsafe fn set(
    fd: c_int,
    (level, name): (c_int, c_int),
    value: *const c_void,
    len: socklen_t,
) -> Result<c_int> {
    let mut engine = engine::lock()?;
    let found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    let size = c_int::try_from(len).map_err(|_| Errno::EINVAL)?;
    let size = usize::try_from(size)
        .map_err(|_| Errno::EINVAL)?
        .min(options::MAX_LEN);
    // SAFETY: the caller's promise.
    let bytes = unsafe { memory::bytes(value.cast(), size) };
    if PROMISES.contains(&(level, name)) && bytes.is_ok_and(|bytes| bytes.iter().any(|b| *b != 0)) {
        return Err(Errno::EOPNOTSUPP);
    }
    if !matches!(found.body, Body::Stream(_)) {
        // SAFETY: the same arguments.
        let result = unsafe { real::setsockopt(fd, level, name, value, len) };
        if result < 0 {
            return Ok(result);
        }
    }
    if DEVICE.contains(&(level, name)) && !matches!(found.body, Body::Stream(_)) {
        if found.body == Body::Open && is_of_another_device(fd) {
            engine.disown(fd, found.index);
        }
        return Ok(0);
    }
    let bytes = bytes?;
    if PROMISES.contains(&(level, name)) {
        // It is off in any case.
        return Ok(0);
    }
    if matches!(found.body, Body::Open | Body::Listener { .. })
        && let Some(entry) = option_table::find(level, name)
    {
        // What the kernel takes and the stack does not is refused now: there is nobody to tell
        // later.
        (entry.parse)(bytes)?;
    }
    if level == SOL_SOCKET && [SO_RCVTIMEO, SO_SNDTIMEO].contains(&name) {
        return set_timeout(&mut engine, &found, name, bytes).map(|()| 0);
    }
    if let Body::Stream(id) = found.body {
        match set_option(&mut engine, id, (level, name), bytes) {
            Err(Errno::ENOPROTOOPT) if is_unknown(level, name) => {
                // SAFETY: the same arguments.
                return unsafe { remember(&mut engine, (fd, &found), (level, name), (value, len)) };
            }
            result => result?,
        }
    } else {
        keep_option(&mut engine, &found, (level, name), bytes);
    }
    engine.staged(false);
    Ok(0)
}

/// Levels that Linux knows for TCP; of others it says something else for IPv6 than for IPv4, which
/// the placeholder may be of.
const LEVELS: [c_int; 4] = [
    SOL_SOCKET,
    libc::IPPROTO_TCP,
    libc::IPPROTO_IP,
    libc::IPPROTO_IPV6,
];

/// Whether the socket is tied to a network interface that is not the stack's.
fn is_of_another_device(fd: c_int) -> bool {
    let mut name = [0_u8; libc::IFNAMSIZ];
    let mut len = name.len() as socklen_t;
    let room = name.as_mut_ptr().cast();
    // SAFETY: room for `len` bytes.
    let result =
        unsafe { real::getsockopt(fd, SOL_SOCKET, libc::SO_BINDTODEVICE, room, &raw mut len) };
    let own = rules().map(|rules| rules.interface()).unwrap_or_default();
    let device = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    result == 0 && !device.is_empty() && device.to_bytes() != own.as_bytes()
}

fn is_v6(context: &mut Context, id: SocketId) -> bool {
    context.domain(id) == Ok(Domain::V6)
}

/// Whether the stack has no such option.
fn is_unknown(level: c_int, name: c_int) -> bool {
    option_table::find(level, name).is_none()
}

/// An option that the stack has not: the kernel's placeholder says whether its value is one, and it
/// reads as it was set.
///
/// # Safety
/// As for setsockopt(2).
unsafe fn remember(
    engine: &mut Engine,
    (fd, found): (c_int, &Found),
    (level, name): (c_int, c_int),
    (value, len): (*const c_void, socklen_t),
) -> Result<c_int> {
    // SAFETY: the caller's promise.
    let result = unsafe { real::setsockopt(fd, level, name, value, len) };
    if result < 0 {
        return Ok(result);
    }
    if !DEVICE.contains(&(level, name)) || is_of_another_device(fd) {
        no_effect(level, name);
    }
    // SAFETY: the kernel has read them.
    let bytes = unsafe { memory::bytes(value.cast(), (len as usize).min(options::MAX_LEN)) }?;
    if let Some(socket) = engine.sockets.get_mut(found.index) {
        socket.save(level, name, bytes);
    }
    Ok(0)
}

/// An option of a socket that is no connection yet, which the kernel has taken.
fn keep_option(engine: &mut Engine, found: &Found, (level, name): (c_int, c_int), value: &[u8]) {
    if found.body == Body::Lost {
        return;
    }
    if let Some(socket) = engine.sockets.get_mut(found.index) {
        socket.save(level, name, value);
    }
    if let Body::Listener { ours: Some(id), .. } = found.body {
        // What the kernel took and we do not know, we do without.
        let _ = set_option(engine, id, (level, name), value);
    }
}

fn set_option(
    engine: &mut Engine,
    id: SocketId,
    (level, name): (c_int, c_int),
    value: &[u8],
) -> Result<()> {
    let context = engine.context().ok_or(Errno::EBADF)?;
    let entry = options::find(context, id, level, name)?.ok_or(Errno::ENOPROTOOPT)?;
    context.set_option(id, (entry.parse)(value)?)
}

fn option(
    engine: &mut Engine,
    found: &Found,
    id: SocketId,
    (level, name): (c_int, c_int),
    room: usize,
) -> Result<Vec<u8>> {
    let saved = engine
        .sockets
        .get(found.index)
        .and_then(|socket| socket.saved(level, name));
    if is_unknown(level, name)
        && let Some(saved) = saved
    {
        return Ok(saved.to_vec());
    }
    let context = engine.context().ok_or(Errno::EBADF)?;
    let entry = options::known(context, id, level, name)?;
    let value = options::value(context, id, entry, room)?;
    Ok(match (level, name) {
        (SOL_SOCKET, SO_RCVBUF) => twice(&value, MIN_RCVBUF),
        (SOL_SOCKET, SO_SNDBUF) => twice(&value, MIN_SNDBUF),
        _ => value,
    })
}

fn set_timeout(engine: &mut Engine, found: &Found, name: c_int, value: &[u8]) -> Result<()> {
    let (seconds, micros) = value.split_first_chunk::<8>().ok_or(Errno::EINVAL)?;
    let micros = micros.first_chunk::<8>().ok_or(Errno::EINVAL)?;
    let time = duration(
        i64::from_ne_bytes(*seconds),
        i64::from_ne_bytes(*micros),
        1000,
    );
    let time = time.map_err(|_| Errno(libc::EDOM))?;
    let socket = engine.sockets.get_mut(found.index).ok_or(Errno::EBADF)?;
    let time = Some(time).filter(|time| !time.is_zero());
    if name == SO_RCVTIMEO {
        socket.recv_timeout = time;
    } else {
        socket.send_timeout = time;
    }
    Ok(())
}

fn timeout(engine: &Engine, found: &Found, name: c_int) -> Option<Duration> {
    let socket = engine.sockets.get(found.index)?;
    if name == SO_RCVTIMEO {
        socket.recv_timeout
    } else {
        socket.send_timeout
    }
}

/// # Safety
/// As for getsockopt(2).
unsafe fn ask(
    fd: c_int,
    (level, name): (c_int, c_int),
    value: *mut c_void,
    len: *mut socklen_t,
) -> Result<c_int> {
    let mut engine = engine::lock()?;
    let found = engine.sockets.find(fd).ok_or(Errno::EBADF)?;
    let Body::Stream(id) = found.body else {
        drop(engine);
        // SAFETY: the same arguments.
        return Ok(unsafe { real::getsockopt(fd, level, name, value, len) });
    };
    // SAFETY: the caller's promise.
    let room = unsafe { memory::room(len) }?;
    if value.is_null() {
        return Err(Errno::EFAULT);
    }
    let bytes = if level == SOL_SOCKET && [SO_RCVTIMEO, SO_SNDTIMEO].contains(&name) {
        time(timeout(&engine, &found, name).unwrap_or_default())
    } else {
        match option(&mut engine, &found, id, (level, name), room) {
            Err(Errno::ENOPROTOOPT) if is_unknown(level, name) => {
                if !LEVELS.contains(&level) && engine.context().is_some_and(|c| is_v6(c, id)) {
                    return Err(Errno::ENOPROTOOPT);
                }
                // SAFETY: the same arguments.
                return Ok(unsafe { real::getsockopt(fd, level, name, value, len) });
            }
            result => result?,
        }
    };
    // SAFETY: the caller's promise.
    let copied = unsafe { memory::copy_out(value.cast(), room, &bytes) }?;
    // SAFETY: the caller's promise. Values are short.
    unsafe { memory::store(len, copied as socklen_t) }?;
    Ok(0)
}

/// Linux counts what it needs to manage them among the bytes of a buffer, and tells twice what it
/// was told (socket(7)).
fn twice(value: &[u8], least: c_int) -> Vec<u8> {
    let bytes = value.first_chunk().copied().map_or(0, c_int::from_ne_bytes);
    bytes.saturating_mul(2).max(least).to_ne_bytes().to_vec()
}

/// `struct timeval`.
fn time(time: Duration) -> Vec<u8> {
    let time = timeval {
        tv_sec: time.as_secs().cast_signed(),
        tv_usec: time.subsec_micros().into(),
    };
    [time.tv_sec.to_ne_bytes(), time.tv_usec.to_ne_bytes()].concat()
}
