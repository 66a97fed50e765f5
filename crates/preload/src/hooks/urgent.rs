//! Urgent data: whom it is told to by SIGURG.

use std::ffi::{c_int, c_ulong, c_void};

use mtcp::Result;
use mtcp::posix::memory;

use crate::engine;
use crate::owner::Owner;
use crate::socket::Body;

/// Of asm-generic/fcntl.h.
const F_SETOWN: c_int = 8;
const F_GETOWN: c_int = 9;
const F_SETOWN_EX: c_int = 15;
const F_GETOWN_EX: c_int = 16;
/// Of asm-generic/sockios.h.
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;
const FIOGETOWN: c_ulong = 0x8903;
const SIOCGPGRP: c_ulong = 0x8904;
pub(super) const SIOCATMARK: c_ulong = 0x8905;

/// Whether an fcntl(2) is about the owner.
pub(super) fn is_about_owner(command: c_int) -> bool {
    [F_SETOWN, F_GETOWN, F_SETOWN_EX, F_GETOWN_EX].contains(&command)
}

/// Whether an ioctl(2) is.
pub(super) fn asks_about_owner(request: c_ulong) -> bool {
    [FIOSETOWN, SIOCSPGRP, FIOGETOWN, SIOCGPGRP].contains(&request)
}

/// fcntl(2) about the owner.
///
/// # Safety
/// As for fcntl(2).
pub(super) unsafe fn control_owner(fd: c_int, command: c_int, argument: c_ulong) -> Result<c_int> {
    let pointer = argument as *mut Owner;
    match command {
        // The argument is an int.
        F_SETOWN => set(fd, Owner::of(argument as c_int)?),
        F_GETOWN => Ok(engine::lock()?.sockets.owner(fd)?.number()),
        // SAFETY: the caller's promise.
        F_SETOWN_EX => set(fd, unsafe { memory::load(pointer) }?.checked()?),
        // SAFETY: the caller's promise.
        _ => unsafe { memory::store(pointer, engine::lock()?.sockets.owner(fd)?) }.map(|()| 0),
    }
}

/// ioctl(2) about the owner.
///
/// # Safety
/// `argument` points to an int, or is NULL.
pub(super) unsafe fn request_owner(
    fd: c_int,
    request: c_ulong,
    argument: *mut c_void,
) -> Result<c_int> {
    let argument = argument.cast::<c_int>();
    if [FIOSETOWN, SIOCSPGRP].contains(&request) {
        // SAFETY: the caller's promise.
        return set(fd, Owner::of(unsafe { memory::load(argument) }?)?);
    }
    let number = engine::lock()?.sockets.owner(fd)?.number();
    // SAFETY: the caller's promise.
    unsafe { memory::store(argument, number) }.map(|()| 0)
}

fn set(fd: c_int, owner: Owner) -> Result<c_int> {
    engine::lock()?.sockets.set_owner(fd, owner).map(|()| 0)
}

/// Whether the kernel is told, too: the connection may become its own.
pub(super) fn is_open(fd: c_int) -> bool {
    let found = engine::lock()
        .ok()
        .and_then(|engine| engine.sockets.find(fd));
    found.is_none_or(|found| !matches!(found.body, Body::Stream(_)))
}
