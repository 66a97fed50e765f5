//! What a process sleeps on that found no queue: the ends of the processes that have them, and the
//! doorbell that is notified when one leaves some.

use std::ffi::c_int;
use std::ptr;

use libc::{EPOLL_CTL_ADD, EPOLLET, EPOLLIN, epoll_event};

use crate::{private, real};

/// See the module.
#[derive(Debug)]
pub(crate) struct Vigil {
    /// Watches all of it; -1: nothing is watched.
    epoll: c_int,
    processes: Vec<c_int>,
}

impl Vigil {
    pub(crate) const fn new() -> Self {
        Self {
            epoll: -1,
            processes: Vec::new(),
        }
    }

    /// Watches `doorbell` from now on, and these processes in place of those before. Returns
    /// whether nothing will be missed.
    pub(crate) fn watch(&mut self, doorbell: c_int, pids: &[u32]) -> bool {
        if self.epoll < 0 {
            // SAFETY: makes a descriptor; no memory is involved.
            let made = unsafe { real::epoll_create1(libc::EPOLL_CLOEXEC) };
            if made < 0 {
                return false;
            }
            self.epoll = private::own(made);
            if !self.add(doorbell, EPOLLIN | EPOLLET) {
                self.end();
                return false;
            }
            // It may have been notified before.
            self.notified();
        }
        self.forget_processes();
        pids.iter().all(|pid| self.add_process(*pid))
    }

    fn add_process(&mut self, pid: u32) -> bool {
        // SAFETY: pidfd_open(2) makes a descriptor; no memory is involved.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let Ok(fd @ 0..) = c_int::try_from(fd) else {
            // ESRCH: it has ended, and the next look finds what it had.
            return false;
        };
        let fd = private::own(fd);
        self.processes.push(fd);
        self.add(fd, EPOLLIN)
    }

    fn add(&self, fd: c_int, events: c_int) -> bool {
        let mut event = epoll_event {
            events: events.cast_unsigned(),
            u64: 0,
        };
        // SAFETY: an event.
        unsafe { real::epoll_ctl(self.epoll, EPOLL_CTL_ADD, fd, ptr::from_mut(&mut event)) == 0 }
    }

    /// What becomes readable when something is to be looked at.
    pub(crate) fn descriptor(&self) -> Option<c_int> {
        (self.epoll >= 0).then_some(self.epoll)
    }

    /// Whether something happened since the last time.
    pub(crate) fn notified(&self) -> bool {
        let mut event = epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event.
        self.epoll >= 0
            && unsafe { real::epoll_wait(self.epoll, ptr::from_mut(&mut event), 1, 0) > 0 }
    }

    /// Watches nothing any more.
    pub(crate) fn end(&mut self) {
        self.forget_processes();
        if self.epoll >= 0 {
            close(self.epoll);
            self.epoll = -1;
        }
    }

    fn forget_processes(&mut self) {
        self.processes.drain(..).for_each(close);
    }
}

fn close(fd: c_int) {
    // SAFETY: the library's own descriptor, which nothing uses any more.
    unsafe { real::close(fd) };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kernel;

    fn doorbell() -> c_int {
        // SAFETY: makes a descriptor.
        unsafe { libc::eventfd(0, libc::EFD_NONBLOCK) }
    }

    fn notify(doorbell: c_int) {
        let one = 1u64;
        // SAFETY: eight bytes are there.
        let wrote = unsafe { libc::syscall(libc::SYS_write, doorbell, &raw const one, 8usize) };
        assert_eq!(wrote, 8);
    }

    #[test]
    fn each_notification_is_seen_once_by_each() {
        let doorbell = doorbell();
        notify(doorbell);
        let mut both = [Vigil::new(), Vigil::new()];
        for one in &mut both {
            assert!(
                one.watch(doorbell, &[]) && !one.notified(),
                "it was notified before"
            );
        }
        for _ in 0..2 {
            notify(doorbell);
            assert!(both.iter().all(|one| one.notified() && !one.notified()));
        }
        both.iter_mut().for_each(Vigil::end);
        assert_eq!(both[0].descriptor(), None);
    }

    #[test]
    fn the_end_of_a_process_is_seen() {
        let mut vigil = Vigil::new();
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(vigil.watch(doorbell(), &[child.id()]) && !vigil.notified());
        drop(child.stdin.take());
        let mut fds = [kernel::poll_in(vigil.descriptor().unwrap())];
        let seconds = Some(Duration::from_secs(10));
        assert_eq!(kernel::ppoll(&mut fds, seconds, ptr::null()), Ok(1));
        assert!(
            vigil.notified() && vigil.notified(),
            "until others are watched"
        );
        child.wait().unwrap();
        assert!(!vigil.watch(doorbell(), &[child.id()]), "it is gone");
        assert!(vigil.watch(doorbell(), &[]) && !vigil.notified());
    }
}
