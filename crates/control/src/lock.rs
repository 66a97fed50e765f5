//! Locks on files, which the kernel lets go of however their holder ends.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::Error;

/// How often a lock that somebody holds is asked for.
const RETRY: Duration = Duration::from_millis(5);
/// Bytes of a PID in a file.
const PID_MAX: u64 = 10;

/// A lock that is held until this is dropped. The file stays: one that was removed could be locked
/// while another of its name is.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock on `path`, which is made for this user alone, within `wait`, and leaves our
    /// PID there. `Ok(Err(pid))`: that process holds it.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn take(path: &Path, wait: Duration) -> Result<Result<Self, Option<u32>>, Error> {
        let error = |error: &std::io::Error| {
            Error::new(
                Errno::from_io_error(error).unwrap_or(Errno::IO),
                format!("cannot lock '{}': {error}", path.display()),
                "check the permissions of its directory",
            )
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(|cause| error(&cause))?;
        let end = Instant::now() + wait;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if Instant::now() < end => thread::sleep(RETRY),
                Err(Errno::WOULDBLOCK) => return Ok(Err(holder(&mut file))),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(error(&errno.into())),
            }
        }
        // The PID is for people and messages only.
        let _ = file.set_len(0);
        let _ = file.rewind();
        let _ = writeln!(file, "{}", std::process::id());
        Ok(Ok(Self { _file: file }))
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(PID_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder_until_it_is_dropped() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("x.lock");
        let first = Lock::take(&path, Duration::ZERO).unwrap().unwrap();
        let held = Lock::take(&path, Duration::ZERO).unwrap().unwrap_err();
        assert_eq!(held, Some(std::process::id()));
        let waits = thread::spawn({
            let path = path.clone();
            move || Lock::take(&path, Duration::from_secs(60)).unwrap().is_ok()
        });
        drop(first);
        assert!(waits.join().unwrap());
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("x.lock");
        std::os::unix::fs::symlink(base.path().join("other"), &path).unwrap();
        assert!(Lock::take(&path, Duration::ZERO).is_err());
        assert!(!base.path().join("other").exists());
    }
}
