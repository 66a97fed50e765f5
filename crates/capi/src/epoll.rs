//! Readiness.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use libc::O_CLOEXEC;
use mtcp::{Ctl, EpollEvent, Errno, Events, Interest, Result};

use crate::handle::{Handle, with};
use crate::socket::{id, number};
use mtcp::posix::call::{answer, done};
use mtcp::posix::memory;

const CTL_ADD: c_int = 1;
const CTL_DEL: c_int = 2;
const CTL_MOD: c_int = 3;

/// Most entries of one wait: the caller may say any number.
const MAX_EVENTS: usize = 1 << 16;

/// `struct mtcp_epoll_event`. Not packed, unlike that of Linux.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MtcpEpollEvent {
    /// Event bits.
    pub events: u32,
    /// The union, as its widest member.
    pub data: u64,
}

/// See `mtcp_epoll.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_epoll_create(mctx: *mut Handle, size: c_int) -> c_int {
    create(mctx, size >= 1)
}

/// See `mtcp_epoll.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_epoll_create1(mctx: *mut Handle, flags: c_int) -> c_int {
    create(mctx, flags & !O_CLOEXEC == 0)
}

fn create(mctx: *mut Handle, valid: bool) -> c_int {
    answer(|| {
        with(mctx, |inner| {
            if !valid {
                return Err(Errno::EINVAL);
            }
            number(inner.context.epoll_create()?)
        })
    })
}

/// See `mtcp_epoll.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_epoll_ctl(
    mctx: *mut Handle,
    epid: c_int,
    op: c_int,
    sockid: c_int,
    event: *const MtcpEpollEvent,
) -> c_int {
    done(|| {
        with(mctx, |inner| {
            let (ep, id) = (id(epid)?, id(sockid)?);
            let ctl = match op {
                CTL_ADD => Ctl::Add,
                CTL_DEL => Ctl::Del,
                CTL_MOD => Ctl::Mod,
                _ => return inner.context.kind(ep).and(Err(Errno::EINVAL)),
            };
            let interest = if ctl == Ctl::Del {
                Interest::default()
            } else {
                // SAFETY: an event, says the header.
                let event = unsafe { memory::load(event) };
                let event = event.or_else(|errno| inner.context.kind(ep).and(Err(errno)))?;
                Interest {
                    events: Events::from_bits_truncate(event.events),
                    data: event.data,
                }
            };
            inner.context.epoll_ctl(ep, ctl, id, interest)
        })
    })
}

/// See `mtcp_epoll.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_epoll_wait(
    mctx: *mut Handle,
    epid: c_int,
    events: *mut MtcpEpollEvent,
    maxevents: c_int,
    timeout: c_int,
) -> c_int {
    answer(|| {
        with(mctx, |inner| {
            let ep = id(epid)?;
            let room = usize::try_from(maxevents).ok().filter(|&room| room > 0);
            let room = room.filter(|_| !events.is_null()).ok_or(Errno::EINVAL);
            let room = room.or_else(|errno| inner.context.kind(ep).and(Err(errno)))?;
            let room = room.min(MAX_EVENTS);
            if inner.events.len() < room {
                inner.events.resize(room, EpollEvent::default());
            }
            let ready = inner.events.get_mut(..room).unwrap_or_default();
            let n = inner.context.epoll_wait(ep, ready, limit(timeout))?;
            let ready = inner.events.get(..n).unwrap_or_default();
            for (index, event) in ready.iter().enumerate() {
                // SAFETY: room for `maxevents` of them, says the header, and these are no more.
                unsafe { copy(*event, events.add(index)) }?;
            }
            c_int::try_from(ready.len()).map_err(|_| Errno::EINVAL)
        })
    })
}

/// # Safety
/// As [`memory::store`].
unsafe fn copy(event: EpollEvent, to: *mut MtcpEpollEvent) -> Result<()> {
    let event = MtcpEpollEvent {
        events: event.events.bits(),
        data: event.data,
    };
    // SAFETY: the caller's promise.
    unsafe { memory::store(to, event) }
}

/// Milliseconds; negative: no limit.
fn limit(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// See `mtcp_epoll.h`.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn EventToString(event: u32) -> *mut c_char {
    let name = match Events::from_bits_retain(event) {
        Events::IN => c"IN",
        Events::PRI => c"PRI",
        Events::OUT => c"OUT",
        Events::ERR => c"ERR",
        Events::HUP => c"HUP",
        Events::RDHUP => c"RDHUP",
        Events::RDNORM => c"RDNORM",
        Events::WRNORM => c"WRNORM",
        Events::ONESHOT => c"ONESHOT",
        Events::ET => c"ET",
        other => match other.bits() {
            0 => c"NONE",
            0x080 => c"RDBAND",
            0x200 => c"WRBAND",
            0x400 => c"MSG",
            _ => c"UNKNOWN",
        },
    };
    name.as_ptr().cast_mut()
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn events_are_laid_out_as_in_the_header() {
        assert_eq!(size_of::<MtcpEpollEvent>(), 16);
        assert_eq!(offset_of!(MtcpEpollEvent, data), 8);
    }

    #[test]
    fn timeouts_are_milliseconds() {
        assert_eq!(limit(-1), None);
        assert_eq!(limit(c_int::MIN), None);
        assert_eq!(limit(0), Some(Duration::ZERO));
        assert_eq!(limit(20), Some(Duration::from_millis(20)));
    }

    #[test]
    fn single_events_have_names() {
        let name = |event| {
            // SAFETY: the names are strings.
            let name = unsafe { CStr::from_ptr(EventToString(event)) };
            name.to_str().unwrap()
        };
        assert_eq!(name(1), "IN");
        assert_eq!(name(4), "OUT");
        assert_eq!(name(0x2000), "RDHUP");
        assert_eq!(name(0), "NONE");
        assert_eq!(name(5), "UNKNOWN");
        assert_eq!(name(1 << 31), "ET");
    }
}
