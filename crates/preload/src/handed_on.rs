//! Descriptors of the library's own that a program is executed with: a variable of the environment
//! names the number and the file behind it, `15360:5:1234`. A variable that is older than the
//! descriptor names another file.

use std::ffi::{CString, c_int};
use std::mem::MaybeUninit;

use libc::STDERR_FILENO;

#[cfg(not(test))]
use crate::slots::{self, Slot};

/// What of the environment names the descriptor.
pub(crate) fn value(variable: &str, fd: c_int) -> Option<CString> {
    let (device, file) = identity(fd)?;
    CString::new(format!("{variable}={fd}:{device}:{file}")).ok()
}

/// The one that the program before left, if it did: from now on it is the library's.
#[cfg(not(test))]
pub(crate) fn take(variable: &str) -> Option<c_int> {
    let value = std::env::var(variable).ok()?;
    let (fd, named) = parse(&value)?;
    let is_it = identity(fd) == Some(named)
        && slots::look(fd) == Slot::Kernel
        && slots::set(fd, Slot::Private);
    is_it.then_some(fd)
}

/// The device and the number of the file behind a descriptor.
fn identity(fd: c_int) -> Option<(u64, u64)> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for what is told, which is initialised where the call succeeds.
    let status = unsafe {
        if libc::fstat(fd, status.as_mut_ptr()) < 0 {
            return None;
        }
        status.assume_init()
    };
    Some((status.st_dev, status.st_ino))
}

fn parse(value: &str) -> Option<(c_int, (u64, u64))> {
    let (fd, file) = value.split_once(':')?;
    let (device, file) = file.split_once(':')?;
    let fd = fd.parse().ok().filter(|fd| *fd > STDERR_FILENO)?;
    Some((fd, (device.parse().ok()?, file.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_descriptor_is_known_by_its_file() {
        assert_eq!(parse("15360:5:12"), Some((15360, (5, 12))));
        for wrong in ["", "7", "7:8", "2:5:12", "x:5:12", "7:5:12:1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        let file = File::open("/proc/version").unwrap();
        let other = File::open("/proc/self/exe").unwrap();
        let [file, other] = [&file, &other].map(|file| identity(file.as_raw_fd()));
        assert!(file.is_some() && file != other);
    }
}
