//! What the tool calls.
//!
//! Every function takes `userdata` first, returns -1 with `errno` set when it fails, and trusts the
//! pointers that it gets as the system call of its name does.

// Each pointer is what the manual page of the call of the same name says.
#![allow(clippy::missing_safety_doc)]

mod address;
mod device;
mod names;
mod options;
mod preload;
mod readiness;
mod transfer;
mod user;

use std::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use std::io::Write;

use libc::{
    epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t,
    timeval, useconds_t,
};

use crate::flags;
use crate::world::World;

use user::User;

type ReadInto = unsafe extern "C" fn(User, c_int, *mut c_void, size_t) -> ssize_t;
type WriteFrom = unsafe extern "C" fn(User, c_int, *const c_void, size_t) -> ssize_t;
type Vectored = unsafe extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t;

/// What the tool wants to have filled in: its own data, then 32 functions in its order.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Interface {
    pub userdata: User,
    pub free: unsafe extern "C" fn(User),
    pub socket: unsafe extern "C" fn(User, c_int, c_int, c_int) -> c_int,
    pub bind: unsafe extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int,
    pub listen: unsafe extern "C" fn(User, c_int, c_int) -> c_int,
    pub accept: unsafe extern "C" fn(User, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    pub connect: unsafe extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int,
    pub read: ReadInto,
    pub readv: Vectored,
    pub recv: unsafe extern "C" fn(User, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    pub recvfrom: unsafe extern "C" fn(
        User,
        c_int,
        *mut c_void,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    pub recvmsg: unsafe extern "C" fn(User, c_int, *mut msghdr, c_int) -> ssize_t,
    pub write: WriteFrom,
    pub writev: Vectored,
    pub send: unsafe extern "C" fn(User, c_int, *const c_void, size_t, c_int) -> ssize_t,
    pub sendto: unsafe extern "C" fn(
        User,
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t,
    pub sendmsg: unsafe extern "C" fn(User, c_int, *const msghdr, c_int) -> ssize_t,
    /// Called with a variable number of arguments: a third integer where the command takes one.
    pub fcntl: unsafe extern "C" fn(User, c_int, c_int, c_long) -> c_int,
    /// Called with a variable number of arguments: a third that is a pointer.
    pub ioctl: unsafe extern "C" fn(User, c_int, c_ulong, *mut c_void) -> c_int,
    pub close: unsafe extern "C" fn(User, c_int) -> c_int,
    pub shutdown: unsafe extern "C" fn(User, c_int, c_int) -> c_int,
    pub getsockopt:
        unsafe extern "C" fn(User, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    pub setsockopt:
        unsafe extern "C" fn(User, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    pub poll: unsafe extern "C" fn(User, *mut pollfd, nfds_t, c_int) -> c_int,
    pub netdev_send: unsafe extern "C" fn(User, *const c_void, size_t) -> c_int,
    pub netdev_receive:
        unsafe extern "C" fn(User, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    pub usleep: unsafe extern "C" fn(User, useconds_t) -> c_int,
    pub gettimeofday: unsafe extern "C" fn(User, *mut timeval, *mut c_void) -> c_int,
    pub epoll_create: unsafe extern "C" fn(User, c_int) -> c_int,
    pub epoll_ctl: unsafe extern "C" fn(User, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    pub epoll_wait: unsafe extern "C" fn(User, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pub pipe: unsafe extern "C" fn(User, *mut c_int) -> c_int,
    pub splice: unsafe extern "C" fn(
        User,
        c_int,
        *mut loff_t,
        c_int,
        *mut loff_t,
        size_t,
        c_uint,
    ) -> ssize_t,
}

/// Makes a stack and fills in how to reach it. `flags` is what the tool got as `--so_flags`, or
/// NULL.
///
/// The tool has no way to hear that this failed: if it does, the reason is printed and the process
/// ends.
///
/// # Safety
/// `flags` is NULL or a string that ends with NUL; `interface` points to room for an [`Interface`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut Interface,
) {
    let flags = if flags.is_null() {
        "".into()
    } else {
        // SAFETY: the caller's promise.
        unsafe { CStr::from_ptr(flags) }.to_string_lossy()
    };
    let world = flags::config(&flags)
        .and_then(|config| World::new(config).map_err(|error| error.to_string()));
    match world {
        // SAFETY: the caller's promise.
        Ok(world) => unsafe { interface.write(functions(world)) },
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "libmtcp_packetdrill: {error}");
            std::process::exit(2);
        }
    }
}

fn functions(world: World) -> Interface {
    let world = Box::into_raw(Box::new(world));
    preload::set_current(world);
    Interface {
        userdata: world.cast(),
        free: device::free,
        socket: names::socket,
        bind: names::bind,
        listen: names::listen,
        accept: names::accept,
        connect: names::connect,
        read: transfer::read,
        readv: transfer::readv,
        recv: transfer::recv,
        recvfrom: transfer::recvfrom,
        recvmsg: transfer::recvmsg,
        write: transfer::write,
        writev: transfer::writev,
        send: transfer::send,
        sendto: transfer::sendto,
        sendmsg: transfer::sendmsg,
        fcntl: options::fcntl,
        ioctl: options::ioctl,
        close: names::close,
        shutdown: names::shutdown,
        getsockopt: options::getsockopt,
        setsockopt: options::setsockopt,
        poll: readiness::poll,
        netdev_send: device::netdev_send,
        netdev_receive: device::netdev_receive,
        usleep: device::usleep,
        gettimeofday: device::gettimeofday,
        epoll_create: readiness::epoll_create,
        epoll_ctl: readiness::epoll_ctl,
        epoll_wait: readiness::epoll_wait,
        pipe: transfer::pipe,
        splice: transfer::splice,
    }
}
