//! The Unix socket over which two processes find each other: bind with takeover of what the dead
//! left, connect, hang-up.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Access, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt};
use rustix::process::geteuid;

use crate::{context, poll};

/// Longest wait for another process that is between looking for a dead socket and taking its place.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// A bound, listening socket; its file goes when this does.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) fd: OwnedFd,
    path: PathBuf,
    /// Device and inode of the file that we made: never remove another's.
    file: (u64, u64),
}

impl Listener {
    /// Binds to `path`, which may be a file that a dead process left. The file is only for its
    /// owner.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        let explain = |errno| context::error(format_args!("shm link {}", path.display()), errno);
        let address = SocketAddrUnix::new(path).map_err(explain)?;
        let _lock = lock_directory(path)?;
        if is_alive(path)? {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                format!(
                    "shm link {}: address in use: another process listens there",
                    path.display()
                ),
            ));
        }
        remove_stale(path)?;
        let fd = socket(SocketType::SEQPACKET).map_err(explain)?;
        // The mode of the descriptor is the mode the file gets, as far as the umask allows: no
        // moment at which others may connect.
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR).map_err(explain)?;
        rustix::net::bind(&fd, &address).map_err(explain)?;
        rustix::net::listen(&fd, 16).map_err(explain)?;
        let stat = rustix::fs::lstat(path).map_err(explain)?;
        Ok(Self {
            fd,
            path: path.to_owned(),
            file: (stat.st_dev, stat.st_ino),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The next peer that wants in, if any.
    pub(super) fn accept(&self) -> io::Result<Option<OwnedFd>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::accept_with(&self.fd, flags) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(errno) => Err(context::error(
                format_args!("shm link {}: cannot accept", self.path.display()),
                errno,
            )),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Ok(stat) = rustix::fs::lstat(&self.path)
            && (stat.st_dev, stat.st_ino) == self.file
        {
            // A file that stays behind is taken over by the next listener.
            let _ = rustix::fs::unlink(&self.path);
        }
    }
}

/// Connects to the listener at `path`; `None` if nobody listens there.
pub(super) fn connect(path: &Path) -> io::Result<Option<OwnedFd>> {
    let explain = |errno| context::error(format_args!("shm link {}", path.display()), errno);
    let address = SocketAddrUnix::new(path).map_err(explain)?;
    let fd = socket(SocketType::SEQPACKET).map_err(explain)?;
    match rustix::net::connect(&fd, &address) {
        Ok(()) => check_listener(path, &fd).map(|()| Some(fd)),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(None),
        Err(Errno::AGAIN) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!(
                "shm link {}: too many are waiting to connect",
                path.display()
            ),
        )),
        Err(errno) => Err(explain(errno)),
    }
}

/// Where others may make files, the name may be another user's, who would see and make all that
/// passes.
///
/// # Errors
/// Neither this user nor root listens there.
fn check_listener(path: &Path, fd: &OwnedFd) -> io::Result<()> {
    let explain = |errno| context::error(format_args!("shm link {}", path.display()), errno);
    let listener = sockopt::socket_peercred(fd).map_err(explain)?;
    if listener.uid.is_root() || listener.uid == geteuid() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "shm link {}: user {} listens there: run as that user, or take a name in a directory of your own",
            path.display(),
            listener.uid.as_raw()
        ),
    ))
}

/// Whether the other end has closed, or has broken the silence that it owes after the handshake.
pub(super) fn has_hung_up(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
    !matches!(poll::sleep(&mut fds, Some(Duration::ZERO)), Ok(0))
}

fn socket(kind: SocketType) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, kind, flags, None)
}

/// Whether a process listens at `path`, found out without disturbing it: a datagram socket is
/// refused for being of the wrong type if somebody is there, and for nobody being there otherwise.
fn is_alive(path: &Path) -> io::Result<bool> {
    let explain = |errno| context::error(format_args!("shm link {}", path.display()), errno);
    let address = SocketAddrUnix::new(path).map_err(explain)?;
    let probe = socket(SocketType::DGRAM).map_err(explain)?;
    match rustix::net::connect(&probe, &address) {
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        Ok(()) | Err(Errno::PROTOTYPE) => Ok(true),
        Err(errno) => Err(explain(errno)),
    }
}

/// Whether a link of that name could be opened, by listening or by connecting; nobody notices.
pub(super) fn check(path: &Path) -> io::Result<()> {
    let explain = |errno| context::error(format_args!("shm link {}", path.display()), errno);
    if is_alive(path)? {
        return Ok(());
    }
    if is_there(path)? {
        return Ok(());
    }
    let access = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::access(directory(path), access).map_err(explain)
}

/// Whether a socket file is there.
fn is_there(path: &Path) -> io::Result<bool> {
    let explain = |errno| context::error(format_args!("shm link {}", path.display()), errno);
    match rustix::fs::lstat(path) {
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(explain(errno)),
        Ok(stat) if stat.st_mode & libc::S_IFMT == libc::S_IFSOCK => Ok(true),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!(
                "shm link {}: is a file and no socket: take another name",
                path.display()
            ),
        )),
    }
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Removes the socket file of a dead process; leaves anything that is not a socket.
fn remove_stale(path: &Path) -> io::Result<()> {
    let explain = |errno| context::error(format_args!("shm link {}", path.display()), errno);
    if is_there(path)? {
        rustix::fs::unlink(path).map_err(explain)?;
    }
    Ok(())
}

/// Two processes that find the same dead socket must not both remove it: the second would remove
/// the first one's new socket. `None`: somebody keeps the lock, which anybody may take who can read
/// the directory; whoever starts at the same moment is not kept away then.
fn lock_directory(path: &Path) -> io::Result<Option<OwnedFd>> {
    let directory = directory(path);
    let explain = |errno| context::error(format_args!("shm link {}", path.display()), errno);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(directory, flags, Mode::empty()).map_err(explain)?;
    let give_up = Instant::now() + LOCK_TIMEOUT;
    loop {
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(fd)),
            Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < give_up => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => {
                let directory = directory.display();
                log::warn!(
                    "shm link {}: another process keeps {directory} locked: going on without",
                    path.display()
                );
                return Ok(None);
            }
            Err(errno) => return Err(explain(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_there_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(connect(&dir.path().join("none")).unwrap().is_none());
    }

    #[test]
    fn a_live_listener_keeps_its_address_and_is_not_disturbed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        let first = Listener::bind(&path).unwrap();
        let error = Listener::bind(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(first.accept().unwrap().is_none());
        assert!(connect(&path).unwrap().is_some());
        assert!(first.accept().unwrap().is_some());
    }

    #[test]
    fn a_dead_processes_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        assert!(connect(&path).unwrap().is_none());
        let listener = Listener::bind(&path).unwrap();
        assert!(connect(&path).unwrap().is_some());
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes");
        std::fs::write(&path, "keep").unwrap();
        assert!(Listener::bind(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"keep");
    }

    #[test]
    fn only_the_owner_may_connect() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        let _listener = Listener::bind(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }

    /// Privileges are a thread's own.
    #[test]
    fn who_listens_must_be_this_user_or_root() {
        use std::os::unix::fs::PermissionsExt;
        if !geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let path = dir.path().join("link");
        let bind = || {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            Listener::bind(&path).unwrap()
        };
        let listener = thread::scope(|scope| scope.spawn(bind).join().unwrap());
        let error = connect(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("65534"), "{error}");
        drop(listener);
    }

    #[test]
    fn a_lock_that_somebody_keeps_keeps_nobody_away() {
        let dir = tempfile::tempdir().unwrap();
        let lock = std::fs::File::open(dir.path()).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        let path = dir.path().join("link");
        let _listener = Listener::bind(&path).unwrap();
        assert!(connect(&path).unwrap().is_some());
    }

    #[test]
    fn a_closed_peer_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        let listener = Listener::bind(&path).unwrap();
        let near = connect(&path).unwrap().unwrap();
        let far = listener.accept().unwrap().unwrap();
        assert!(!has_hung_up(&near));
        drop(far);
        assert!(has_hung_up(&near));
    }
}
