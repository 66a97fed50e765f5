//! The socket that programs connect to: one daemon of a name, whatever ones before it left.

use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags, accept_with, bind, listen};

use crate::lock::Lock;
use crate::place::{Place, check_name};
use crate::{Error, socket};

/// Programs that may wait to be accepted.
const BACKLOG: i32 = 128;

/// A listening control socket, and the lock on its name.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    name: String,
    is_linked: bool,
    _lock: Lock,
}

impl Listener {
    /// Listens as `name` in `place`. Another daemon that still ends is waited for for `wait`.
    ///
    /// # Errors
    /// Another daemon has the name, or something else is in the way.
    pub fn open(place: &Place, name: &str, wait: Duration) -> Result<Self, Error> {
        check_name(name)?;
        place.make()?;
        let lock = match Lock::take(&place.lock(name), wait)? {
            Ok(lock) => lock,
            Err(holder) => return Err(taken(name, holder)),
        };
        let path = place.socket(name);
        remove_stale(&path)?;
        let socket = listen_at(&path, place.is_shared())
            .map_err(|error| error_at(&path, "cannot listen at", &error))?;
        Ok(Self {
            socket,
            path,
            name: name.to_owned(),
            is_linked: true,
            _lock: lock,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub(super) fn accept(&self) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        accept_with(&self.socket, flags)
    }

    /// Nobody finds it any more.
    pub(super) fn unlink(&mut self) {
        if self.is_linked {
            // The lock is ours, so the name is.
            let _ = fs::remove_file(&self.path);
            self.is_linked = false;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.unlink();
    }
}

fn taken(name: &str, holder: Option<u32>) -> Error {
    let holder = holder.map_or_else(String::new, |pid| format!(" (process {pid})"));
    Error::new(
        Errno::ADDRINUSE,
        format!("a daemon '{name}' runs already{holder}"),
        "end it, or choose another --name",
    )
}

fn error_at(path: &Path, what: &str, error: &std::io::Error) -> Error {
    Error::new(
        Errno::from_io_error(error).unwrap_or(Errno::IO),
        format!("{what} '{}': {error}", path.display()),
        "check the path, and what its directory allows",
    )
}

/// A daemon that was killed leaves its socket. Nothing else is removed.
fn remove_stale(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error_at(path, "cannot look at", &error)),
        Ok(found) if found.file_type().is_socket() => {
            fs::remove_file(path).map_err(|error| error_at(path, "cannot remove", &error))
        }
        Ok(_) => Err(Error::new(
            Errno::EXIST,
            format!("'{}' is no socket", path.display()),
            "remove it",
        )),
    }
}

fn listen_at(path: &Path, shared: bool) -> std::io::Result<OwnedFd> {
    let socket = socket::open(SocketFlags::NONBLOCK)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    // The policy says who may attach. Nobody can connect before it listens.
    let mode = if shared { 0o666 } else { 0o600 };
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}
