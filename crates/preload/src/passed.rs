//! Sockets that come otherwise than by `socket`: by `exec` from the program before, or from another
//! process in a message. A listener at an address of ours is one of the stack here, too; a socket
//! that stands for a connection of another stack is nothing, which is told when it is used.

use std::ffi::c_int;
use std::net::IpAddr;

use libc::{IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, tcp_info};
use mtcp::{Domain, Result};

use crate::engine::{self, Engine};
use crate::marks::{ask, has, is_marked, take_over};
use crate::rules::{Place, rules};
use crate::slots::{self, Slot};
use crate::socket::{Body, Socket};
use crate::{inside, lent, real, told};

/// TCP_CLOSE of the kernel: no connection, and none before.
const CLOSED: u8 = 7;
/// Options of a listener that its connections have, too, or that say what it is for.
const KEPT: [(c_int, c_int); 6] = [
    (SOL_SOCKET, libc::SO_REUSEADDR),
    (SOL_SOCKET, libc::SO_REUSEPORT),
    (SOL_SOCKET, libc::SO_KEEPALIVE),
    (IPPROTO_TCP, libc::TCP_NODELAY),
    (IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
    (IPPROTO_IPV6, libc::IPV6_V6ONLY),
];

/// The library is loaded: what the program before has left.
#[cfg(not(test))]
pub(crate) fn take_inherited() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<c_int> = numbers.collect();
    numbers.sort_unstable();
    numbers.into_iter().for_each(take);
}

/// A descriptor has come.
pub(crate) fn take(fd: c_int) {
    let tcp = ask(fd, (SOL_SOCKET, libc::SO_PROTOCOL), 0) == Some(IPPROTO_TCP);
    let domain = match lent::domain(fd) {
        Some(libc::AF_INET) if tcp => Domain::V4,
        Some(libc::AF_INET6) if tcp => Domain::V6,
        _ => return,
    };
    if let Ok(mut engine) = engine::lock()
        && !engine.is_borrowed()
    {
        // A socket without a place stays the kernel's.
        let _ = take_socket(&mut engine, fd, domain);
    }
}

/// A connection of another stack is used here, where nobody can have it.
#[cold]
pub(crate) fn tell_lost(fd: c_int) {
    let text = format!(
        "descriptor {fd} is a connection of another process's stack, which nobody can use here: it was passed by exec, in a message, or to a \
         child without fork(2)"
    );
    inside::run(|| told::tell_always(&text));
}

fn take_socket(engine: &mut Engine, fd: c_int, domain: Domain) -> Result<()> {
    if let Some(twin) = twin(fd) {
        engine.copy_number(twin, fd);
        return Ok(());
    }
    // SAFETY: all zeros are one of no state.
    let blank: tcp_info = unsafe { std::mem::zeroed() };
    let info = ask(fd, (IPPROTO_TCP, libc::TCP_INFO), blank);
    let state = info.map(|info| info.tcpi_state);
    let listens = has(fd, (SOL_SOCKET, libc::SO_ACCEPTCONN));
    let body = match info {
        Some(info) if listens => Body::Listener {
            // As tcp_get_info() of the kernel has it; one more may wait.
            backlog: info.tcpi_sacked.saturating_add(1),
            ours: None,
        },
        _ if state != Some(CLOSED) => return Ok(()),
        _ if is_marked(fd) => Body::Lost,
        _ => Body::Open,
    };
    // SAFETY: no memory is involved.
    let flags = unsafe { real::fcntl64(fd, libc::F_GETFL, 0) };
    let socket = Socket::new(fd, domain, flags & libc::O_NONBLOCK != 0, body);
    let index = engine.insert(socket);
    let noted = engine
        .sockets
        .get_mut(index)
        .map_or(Ok(()), |socket| socket.note_local(fd));
    let local = engine.sockets.get(index).and_then(|socket| socket.local);
    let bound = local.filter(|local| local.port() != 0);
    let ours =
        |rules: &crate::rules::Rules| bound.is_none_or(|local| rules.bind(local) == Place::Ours);
    if noted.is_err() || !rules().is_some_and(ours) || !slots::set(fd, Slot::Socket(index)) {
        engine.sockets.remove(index);
        return noted;
    }
    if let Some(socket) = engine.sockets.get_mut(index) {
        (socket.inherited, socket.shared) = (true, true);
        socket.local = bound;
        if listens {
            socket.nonblocking = take_over(fd);
            keep_options(socket, fd);
        }
    }
    Ok(())
}

/// A descriptor of ours that names the same socket: inetd gives one three numbers.
fn twin(fd: c_int) -> Option<c_int> {
    let cookie = |fd| ask(fd, (SOL_SOCKET, libc::SO_COOKIE), 0_u64);
    let own = cookie(fd)?;
    let sockets = slots::used(0, u32::MAX).filter(|(_, slot)| matches!(slot, Slot::Socket(_)));
    sockets
        .map(|(other, _)| other)
        .find(|other| *other != fd && cookie(*other) == Some(own))
}

fn keep_options(socket: &mut Socket, fd: c_int) {
    for option in KEPT {
        let value = ask(fd, option, 0_i32);
        // An address of IPv6 alone says so itself.
        let needless = option.0 == IPPROTO_IPV6
            && socket
                .local
                .is_some_and(|local| matches!(local.ip(), IpAddr::V4(_)));
        if let Some(value @ 1..) = value
            && !needless
        {
            socket.save(option.0, option.1, &value.to_ne_bytes());
        }
    }
}
