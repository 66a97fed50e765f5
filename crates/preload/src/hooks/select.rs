//! `select` and `pselect`, as polls.

use std::ffi::c_int;
use std::time::Duration;

use libc::{
    FD_CLR, FD_ISSET, FD_SET, FD_SETSIZE, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI,
    fd_set, pollfd, sigset_t, timespec, timeval,
};
use mtcp::posix::call::answer;
use mtcp::{Errno, Result};

use super::poll::poll_all;
use super::{hooks, limit, limit_micros};
use crate::slots::{self, Slot};
use crate::{kernel, real};

hooks! {
    /// select(2). As in Linux, `timeout` is what is left of it afterwards.
    fn select(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int {
        let sets = Sets { read, write, except };
        // SAFETY: the caller's promises.
        if !unsafe { sets.has_ours(count) } {
            // SAFETY: the same arguments.
            return unsafe { real::select(count, read, write, except, timeout) };
        }
        answer(|| {
            // SAFETY: the caller's promise.
            let time = unsafe { limit_micros(timeout) }?;
            let started = kernel::now();
            // SAFETY: the caller's promises.
            let result = unsafe { sets.wait(count, time, std::ptr::null()) };
            if let Some(time) = time {
                let left = time.saturating_sub(Duration::from_nanos(kernel::now() - started));
                // SAFETY: the caller's promise.
                unsafe {
                    (*timeout).tv_sec = left.as_secs().cast_signed();
                    (*timeout).tv_usec = left.subsec_micros().into();
                }
            }
            result
        })
    }

    /// pselect(2).
    fn pselect(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        let sets = Sets { read, write, except };
        // SAFETY: the caller's promises.
        if !unsafe { sets.has_ours(count) } {
            // SAFETY: the same arguments.
            return unsafe { real::pselect(count, read, write, except, timeout, mask) };
        }
        // SAFETY: the caller's promises.
        answer(|| unsafe { sets.wait(count, limit(timeout)?, mask) })
    }
}

/// The three sets, each of which may be NULL.
#[derive(Clone, Copy, Debug)]
struct Sets {
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
}

/// What makes a descriptor readable, writable, exceptional (select(2)).
const READ: i16 = POLLIN | POLLHUP | POLLERR;
const WRITE: i16 = POLLOUT | POLLERR;
const EXCEPT: i16 = POLLPRI;

impl Sets {
    fn each(self) -> [(*mut fd_set, i16, i16); 3] {
        [
            (self.read, POLLIN, READ),
            (self.write, POLLOUT, WRITE),
            (self.except, POLLPRI, EXCEPT),
        ]
    }

    /// What is asked of a descriptor.
    ///
    /// # Safety
    /// The sets are NULL or sets.
    unsafe fn asked(self, fd: c_int) -> i16 {
        let mut asked = 0;
        for (set, bits, _) in self.each() {
            // SAFETY: the caller's promise; `fd` is below FD_SETSIZE.
            if !set.is_null() && unsafe { FD_ISSET(fd, set) } {
                asked |= bits;
            }
        }
        asked
    }

    /// Whether any of the descriptors is none of the kernel's alone.
    ///
    /// # Safety
    /// The sets are NULL or sets.
    unsafe fn has_ours(self, count: c_int) -> bool {
        // Larger sets than the C library has are the kernel's.
        let count = if count > FD_SETSIZE as c_int {
            0
        } else {
            count
        };
        (0..count).any(|fd| {
            // SAFETY: the caller's promise.
            matches!(slots::look(fd), Slot::Socket(_) | Slot::Epoll(_))
                && unsafe { self.asked(fd) } != 0
        })
    }

    /// # Safety
    /// The sets are NULL or sets, the mask NULL or a mask.
    unsafe fn wait(
        self,
        count: c_int,
        timeout: Option<Duration>,
        mask: *const sigset_t,
    ) -> Result<c_int> {
        let mut fds = Vec::new();
        for fd in 0..count {
            // SAFETY: the caller's promise.
            let events = unsafe { self.asked(fd) };
            if events != 0 {
                fds.push(pollfd {
                    fd,
                    events,
                    revents: 0,
                });
            }
        }
        poll_all(&mut fds, timeout, mask)?;
        if fds.iter().any(|entry| entry.revents & POLLNVAL != 0) {
            return Err(Errno::EBADF);
        }
        let mut n = 0;
        for entry in &fds {
            for (set, asks, bits) in self.each() {
                if set.is_null() || entry.events & asks == 0 {
                    continue;
                }
                // SAFETY: the caller's promise.
                unsafe { FD_CLR(entry.fd, set) };
                if entry.revents & bits != 0 {
                    // SAFETY: the caller's promise.
                    unsafe { FD_SET(entry.fd, set) };
                    n += 1;
                }
            }
        }
        Ok(n)
    }
}
