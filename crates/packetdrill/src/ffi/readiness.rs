//! `poll` and `epoll`.

use std::ffi::c_int;

use libc::{EINVAL, epoll_event, nfds_t, pollfd};
use mtcp::Errno;
use mtcp::posix::memory;
use pkt::{Kind, Polled, Watch};

use super::user::{User, and_then, call, status};

pub(super) unsafe extern "C" fn poll(
    user: User,
    fds: *mut pollfd,
    count: nfds_t,
    timeout_ms: c_int,
) -> c_int {
    let count = c_int::try_from(count).unwrap_or(-1);
    // SAFETY: the tool's array.
    let entries = unsafe { memory::elements(fds, count, usize::MAX) };
    let kind = |entries: &[pollfd]| Kind::Poll {
        fds: entries.iter().map(polled).collect(),
        timeout_ms,
    };
    let kind = entries.map(kind);
    // SAFETY: the tool's userdata.
    let outcome = kind.and_then(|kind| unsafe { call(user, kind) });
    status(and_then(outcome, |reply| {
        for (at, found) in reply.polled.iter().enumerate() {
            // SAFETY: an element of the tool's array: there are as many as it gave.
            unsafe { (*fds.add(at)).revents = found.revents as i16 };
        }
        Ok(())
    }))
}

fn polled(entry: &pollfd) -> Polled {
    Polled {
        fd: entry.fd,
        events: i32::from(entry.events),
        revents: 0,
    }
}

pub(super) unsafe extern "C" fn epoll_create(user: User, size: c_int) -> c_int {
    if size <= 0 {
        return status(Err(Errno(EINVAL)));
    }
    // SAFETY: the tool's userdata.
    status(unsafe { call(user, Kind::EpollCreate { flags: 0 }) })
}

pub(super) unsafe extern "C" fn epoll_ctl(
    user: User,
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let watch = if event.is_null() {
        Watch { events: 0, data: 0 }
    } else {
        // SAFETY: the tool's event.
        let event = unsafe { event.read_unaligned() };
        Watch {
            events: event.events as i32,
            data: event.u64,
        }
    };
    let kind = Kind::EpollControl {
        epoll,
        operation,
        fd,
        watch,
    };
    // SAFETY: the tool's userdata.
    status(unsafe { call(user, kind) })
}

pub(super) unsafe extern "C" fn epoll_wait(
    user: User,
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout_ms: c_int,
) -> c_int {
    let max = usize::try_from(max).ok().filter(|max| *max > 0);
    let kind = max.ok_or(Errno(EINVAL)).map(|max| Kind::EpollWait {
        epoll,
        max,
        timeout_ms,
    });
    // SAFETY: the tool's userdata.
    let outcome = kind.and_then(|kind| unsafe { call(user, kind) });
    status(and_then(outcome, |reply| {
        for (at, found) in reply.events.iter().enumerate() {
            let event = epoll_event {
                events: found.events as u32,
                u64: found.data,
            };
            // SAFETY: an element of the tool's array: there are at most as many as it has room for.
            unsafe { memory::store(events.add(at), event) }?;
        }
        Ok(())
    }))
}
