//! Calls that make, name and end sockets.

use std::ffi::c_int;

use libc::{sockaddr, socklen_t};
use pkt::Kind;

use super::address;
use super::user::{User, and_then, call, status};

pub(super) unsafe extern "C" fn socket(
    user: User,
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> c_int {
    let kind = Kind::Socket {
        domain,
        kind,
        protocol,
    };
    // SAFETY: the tool's userdata.
    status(unsafe { call(user, kind) })
}

pub(super) unsafe extern "C" fn bind(
    user: User,
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: the tool's address.
    let addr = unsafe { address::parse(addr, len) };
    // SAFETY: the tool's userdata.
    status(addr.and_then(|addr| unsafe { call(user, Kind::Bind { fd, addr }) }))
}

pub(super) unsafe extern "C" fn listen(user: User, fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: the tool's userdata.
    status(unsafe { call(user, Kind::Listen { fd, backlog }) })
}

pub(super) unsafe extern "C" fn accept(
    user: User,
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the tool's userdata.
    let outcome = unsafe { call(user, Kind::Accept { fd, flags: 0 }) };
    status(and_then(outcome, |reply| match reply.addr {
        // SAFETY: the tool's room for an address.
        Some(remote) => unsafe { address::store(remote, addr, len) },
        None => Ok(()),
    }))
}

pub(super) unsafe extern "C" fn connect(
    user: User,
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: the tool's address.
    let addr = unsafe { address::parse(addr, len) };
    // SAFETY: the tool's userdata.
    status(addr.and_then(|addr| unsafe { call(user, Kind::Connect { fd, addr }) }))
}

pub(super) unsafe extern "C" fn shutdown(user: User, fd: c_int, how: c_int) -> c_int {
    // SAFETY: the tool's userdata.
    status(unsafe { call(user, Kind::Shutdown { fd, how }) })
}

pub(super) unsafe extern "C" fn close(user: User, fd: c_int) -> c_int {
    // SAFETY: the tool's userdata.
    status(unsafe { call(user, Kind::Close { fd }) })
}
