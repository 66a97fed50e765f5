//! Sleeping on descriptors: one `ppoll` for every link.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::Timespec;
pub use rustix::event::{PollFd, PollFlags};

/// Sleeps until one of `fds` is ready, `timeout` has passed (`None`: no limit) or a signal came.
/// Returns how many are ready; 0 after a timeout or a signal.
///
/// # Errors
/// What ppoll(2) says, `EINTR` excepted.
pub fn sleep(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    match sleep_or_signal(fds, timeout) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        result => result,
    }
}

/// As [`sleep`], for those who want to know of signals.
///
/// # Errors
/// What ppoll(2) says: `Interrupted` when a signal handler ran.
pub fn sleep_or_signal(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    let timeout = timeout.map(timespec);
    Ok(rustix::event::poll(fds, timeout.as_ref())?)
}

/// Sleeps until one of `links`, which stay open meanwhile, or `wake` is readable, `timeout` has
/// passed or a signal came.
///
/// # Errors
/// As [`sleep_or_signal`].
pub fn on_all(links: &[RawFd], wake: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<()> {
    let poll_in = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    // SAFETY: nobody closes them meanwhile.
    let link = |fd: &RawFd| poll_in(unsafe { BorrowedFd::borrow_raw(*fd) });
    let mut fds: Vec<PollFd<'_>> = links.iter().map(link).collect();
    fds.push(poll_in(wake));
    sleep_or_signal(&mut fds, timeout).map(drop)
}

/// Sleeps until `link` is readable, has an error or hung up, `wake` is readable, `timeout` has
/// passed or a signal came. Returns what is ready on `link`.
///
/// # Errors
/// As [`sleep_or_signal`].
pub fn readable(
    link: BorrowedFd<'_>,
    wake: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
) -> io::Result<PollFlags> {
    let link = PollFd::from_borrowed_fd(link, PollFlags::IN);
    let ready = match wake {
        Some(wake) => {
            let mut fds = [link, PollFd::from_borrowed_fd(wake, PollFlags::IN)];
            sleep_or_signal(&mut fds, timeout)?;
            fds[0].revents()
        }
        None => {
            let mut fds = [link];
            sleep_or_signal(&mut fds, timeout)?;
            fds[0].revents()
        }
    };
    Ok(ready)
}

/// Sleeps until `wake` is readable, `timeout` has passed or a signal came: for links without a
/// descriptor.
///
/// # Errors
/// As [`sleep_or_signal`].
pub fn woken(wake: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> io::Result<()> {
    let wake = wake.map(|wake| PollFd::from_borrowed_fd(wake, PollFlags::IN));
    let mut fds: Vec<_> = wake.into_iter().collect();
    sleep_or_signal(&mut fds, timeout).map(drop)
}

/// Longer than the kernel can express means for ever, near enough.
fn timespec(timeout: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    }
}

/// For tests: a thread that does this, from when it waits in ppoll(2) on.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) fn asleep<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    let (tell, told) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid()).unwrap();
        work()
    });
    let thread = told.recv().unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    let file = format!("/proc/self/task/{thread}/syscall");
    loop {
        let call = std::fs::read_to_string(&file).unwrap();
        let number = call.split(' ').next().and_then(|word| word.parse().ok());
        if number == Some(libc::SYS_ppoll) {
            return sleeper;
        }
        assert!(std::time::Instant::now() < deadline, "{call}");
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn a_timeout_ends_the_sleep() {
        let fd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let ready = readable(fd.as_fd(), None, Some(Duration::from_millis(1))).unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn a_readable_link_ends_the_sleep() {
        let link = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        let wake = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let ready = readable(link.as_fd(), Some(wake.as_fd()), None).unwrap();
        assert_eq!(ready, PollFlags::IN);
    }

    #[test]
    fn a_wake_ends_the_sleep() {
        let link = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let wake = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        let ready = readable(link.as_fd(), Some(wake.as_fd()), None).unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn the_longest_timeout_is_accepted() {
        let link = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        assert!(readable(link.as_fd(), None, Some(Duration::MAX)).is_ok());
    }
}
