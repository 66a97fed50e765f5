//! The link and the clock.

use std::ffi::{c_int, c_longlong, c_void};
use std::ptr;
use std::time::Duration;

use libc::{size_t, timeval, useconds_t};
use mtcp::posix::memory;
use wire::time::Instant;

use super::preload;
use super::user::{User, status, world};
use crate::world::{Waited, World};

/// A packet that the tool cannot parse. It waits for ever for a packet that never comes; so it
/// hears that none does.
const NO_PACKET: &[u8] = &[0];

pub(super) unsafe extern "C" fn free(user: User) {
    preload::set_current(ptr::null_mut());
    if !user.is_null() {
        // SAFETY: it was made by Box::into_raw, and the tool frees it once, after its last call.
        drop(unsafe { Box::from_raw(user.cast::<World>()) });
    }
}

pub(super) unsafe extern "C" fn netdev_send(
    user: User,
    packet: *const c_void,
    len: size_t,
) -> c_int {
    // SAFETY: the tool's packet.
    match unsafe { memory::bytes(packet.cast(), len) } {
        Ok(packet) => {
            // SAFETY: the tool's userdata.
            unsafe { world(user) }.deliver(packet);
            0
        }
        Err(error) => status(Err(error)),
    }
}

pub(super) unsafe extern "C" fn netdev_receive(
    user: User,
    packet: *mut c_void,
    len: *mut size_t,
    time_usecs: *mut c_longlong,
) -> c_int {
    // SAFETY: the tool's userdata.
    let world = unsafe { world(user) };
    let (at, bytes) = match world.next_packet() {
        Waited::Packet(sent) => (sent.at, sent.frame),
        Waited::Never => (world.now(), NO_PACKET.to_vec()),
        Waited::Nothing => {
            // SAFETY: the tool's length.
            let _ = unsafe { memory::store(len, 0) };
            return -1;
        }
    };
    // SAFETY: the tool's length, its room for a packet that is as long, and its time.
    let stored = unsafe {
        memory::load(len).and_then(|room| {
            let copied = memory::copy_out(packet.cast(), room, &bytes)?;
            memory::store(len, copied)?;
            memory::store(time_usecs, micros(at))
        })
    };
    match stored {
        Ok(()) => 0,
        Err(error) => status(Err(error)),
    }
}

pub(super) unsafe extern "C" fn usleep(user: User, usecs: useconds_t) -> c_int {
    // SAFETY: the tool's userdata.
    unsafe { world(user) }.sleep(Duration::from_micros(usecs.into()));
    0
}

pub(super) unsafe extern "C" fn gettimeofday(
    user: User,
    time: *mut timeval,
    _zone: *mut c_void,
) -> c_int {
    // SAFETY: the tool's userdata.
    let now = micros(unsafe { world(user) }.now());
    let value = timeval {
        tv_sec: now / 1_000_000,
        tv_usec: now % 1_000_000,
    };
    // SAFETY: the tool's room for a time.
    match unsafe { memory::store(time, value) } {
        Ok(()) => 0,
        Err(error) => status(Err(error)),
    }
}

fn micros(at: Instant) -> c_longlong {
    i64::try_from(at.since(Instant::ZERO).as_micros()).unwrap_or(i64::MAX)
}
