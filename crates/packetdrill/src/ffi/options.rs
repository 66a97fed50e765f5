//! Options of sockets and descriptors.

use std::ffi::{c_int, c_long, c_ulong, c_void};

use libc::socklen_t;
use mtcp::Errno;
use mtcp::posix::memory;
use pkt::constants::FIONBIO;
use pkt::{Kind, Outcome};

use super::user::{User, and_then, call, status};

/// C declares it with a variable number of arguments; on x86-64 and arm64 Linux an integer among
/// them is passed like a named one.
pub(super) unsafe extern "C" fn fcntl(
    user: User,
    fd: c_int,
    command: c_int,
    argument: c_long,
) -> c_int {
    let kind = Kind::Fcntl {
        fd,
        command,
        // An int is all that these commands take; above it the register holds anything.
        argument: argument as i32,
    };
    // SAFETY: the tool's userdata.
    status(unsafe { call(user, kind) })
}

/// As [`fcntl`], with a pointer.
pub(super) unsafe extern "C" fn ioctl(
    user: User,
    fd: c_int,
    request: c_ulong,
    argument: *mut c_void,
) -> c_int {
    let argument: *mut c_int = argument.cast();
    let request = request as i32;
    let value = if request == FIONBIO {
        // SAFETY: this request has a pointer to a number.
        match unsafe { memory::load(argument) } {
            Ok(value) => value,
            Err(error) => return status(Err(error)),
        }
    } else {
        0
    };
    let kind = Kind::Ioctl {
        fd,
        request,
        argument: value,
    };
    // SAFETY: the tool's userdata.
    let outcome = unsafe { call(user, kind) };
    status(and_then(outcome, |reply| {
        if request == FIONBIO {
            return Ok(());
        }
        // SAFETY: requests that succeed have room for a number.
        unsafe { memory::store(argument, reply.number) }
    }))
}

pub(super) unsafe extern "C" fn getsockopt(
    user: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let ask = |room| {
        let kind = Kind::GetOption {
            fd,
            level,
            name,
            len: room,
        };
        // SAFETY: the tool's userdata.
        unsafe { call(user, kind) }
    };
    // SAFETY: the tool's length and room for a value.
    unsafe { store_option(value, len, ask) }
}

/// Asks for an option with the caller's room, and puts there what it is.
///
/// # Safety
/// `len`, unless NULL, points to a length, and `value`, unless NULL, to as many writable bytes as
/// it says.
pub(super) unsafe fn store_option(
    value: *mut c_void,
    len: *mut socklen_t,
    ask: impl FnOnce(usize) -> Outcome,
) -> c_int {
    // SAFETY: the caller's promise.
    let room = unsafe { memory::room(len) };
    let outcome = room.and_then(|room| {
        and_then(ask(room), |reply| {
            // SAFETY: the caller's promise.
            let copied = unsafe { memory::copy_out(value.cast(), room, &reply.data) }?;
            // SAFETY: the caller's promise.
            unsafe { memory::store(len, copied as socklen_t) }
        })
    });
    status(outcome)
}

pub(super) unsafe extern "C" fn setsockopt(
    user: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: the tool's value.
    let value = unsafe { memory::bytes(value.cast(), len as usize) };
    let kind = |value: &[u8]| Kind::SetOption {
        fd,
        level,
        name,
        value: value.to_vec(),
    };
    let outcome: Result<_, Errno> = value.map(kind);
    // SAFETY: the tool's userdata.
    status(outcome.and_then(|kind| unsafe { call(user, kind) }))
}
