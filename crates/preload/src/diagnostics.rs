//! Where lines of the library go: to stderr, unless a client reads what is written there (inetd,
//! FTP servers). Then they go to the stderr from before, which is kept for that, and passed on to
//! programs that are executed.

use std::ffi::{CStr, CString, c_int, c_ulong};
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{AF_INET, AF_INET6, AF_UNIX, F_DUPFD_CLOEXEC, F_SETFD, FD_CLOEXEC, STDERR_FILENO};

use crate::slots;
use crate::{handed_on, lent, private, real};

/// What names the descriptor, and the file behind it, for a program that is executed:
/// `15360:5:1234`.
pub(crate) const VARIABLE: &str = "MTCP_RUN_STDERR";

/// The stderr from before; -1: stderr is the program's still.
static KEPT: AtomicI32 = AtomicI32::new(-1);

/// The kept one, which children share.
pub(crate) fn kept() -> Option<c_int> {
    Some(KEPT.load(Ordering::Relaxed)).filter(|fd| *fd >= 0)
}

/// Whether a peer reads what is written there.
fn is_clients(fd: c_int) -> bool {
    slots::is_socket(fd)
        || match lent::domain(fd) {
            Some(AF_INET | AF_INET6) => true,
            Some(AF_UNIX) => lent::is_lent(fd),
            _ => false,
        }
}

/// Where a line may be written now. `None`: nowhere.
pub(crate) fn place() -> Option<c_int> {
    if is_clients(STDERR_FILENO) {
        kept()
    } else {
        Some(STDERR_FILENO)
    }
}

/// Writes a line, in one call.
pub(crate) fn write(line: &[u8]) {
    if let Some(fd) = place() {
        // Nobody may be reading.
        // SAFETY: the bytes of the line.
        unsafe { real::write(fd, line.as_ptr().cast(), line.len()) };
    }
}

/// Another file is about to take the place of stderr: it is kept if that one is a client's, and as
/// long as one is.
pub(crate) fn about_to_be(with: c_int) {
    match (is_clients(with), is_clients(STDERR_FILENO)) {
        (true, false) => {
            // SAFETY: duplicates a descriptor; no memory is involved.
            let copy = unsafe { real::fcntl64(STDERR_FILENO, F_DUPFD_CLOEXEC, 3) };
            replace_kept(private::own(copy));
        }
        (true, true) => {}
        (false, _) => replace_kept(-1),
    }
}

fn replace_kept(with: c_int) {
    let before = KEPT.swap(with, Ordering::Relaxed);
    if before >= 0 {
        slots::disown(before);
        // SAFETY: a descriptor of the library's own.
        unsafe { real::close(before) };
    }
}

/// Its way into a program that is about to be executed. If it is not executed, it is dropped.
#[derive(Debug)]
pub(crate) struct Carried(c_int);

impl Carried {
    /// Opens the way. Returns what is to be in the environment, too.
    pub(crate) fn new() -> Option<(Self, CString)> {
        let fd = kept()?;
        let value = handed_on::value(VARIABLE, fd)?;
        set_flags(fd, 0);
        Some((Self(fd), value))
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        set_flags(self.0, FD_CLOEXEC);
    }
}

fn set_flags(fd: c_int, flags: c_int) {
    // SAFETY: no memory is involved.
    unsafe { real::fcntl64(fd, F_SETFD, flags.unsigned_abs() as c_ulong) };
}

/// The library is loaded: the program before may have left one. A variable that is older than that
/// names another file.
#[cfg(not(test))]
pub(crate) fn take_over() {
    if let Some(fd) = handed_on::take(VARIABLE) {
        set_flags(fd, FD_CLOEXEC);
        KEPT.store(fd, Ordering::Relaxed);
    }
}

/// Whether a text of an environment is of this variable.
pub(crate) fn is_variable(value: &CStr) -> bool {
    let rest = value.to_bytes().strip_prefix(VARIABLE.as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn clients_are_told_from_files() {
        let file = File::open("/proc/version").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!is_clients(file.as_raw_fd()) && !is_clients(one.as_raw_fd()));
        assert!(is_clients(listener.as_raw_fd()));
    }

    #[test]
    fn the_variable_is_known_in_an_environment() {
        assert!(is_variable(c"MTCP_RUN_STDERR=7:5:12"));
        assert!(!is_variable(c"MTCP_RUN_STDERR_TOO=7"));
    }
}
