//! What the kernel says of the peer of a Unix socket, where no safe wrapper exists. A library that
//! is preloaded stands in front of `getsockopt`, so the calls are raw.

use std::mem::size_of;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::io::Errno;

/// Groups that a peer may have at most (Linux: `NGROUPS_MAX`).
const GROUPS_MAX: usize = 65_536;

/// The supplementary groups of the peer, as they were when it connected (SO_PEERGROUPS, Linux
/// 4.13).
pub(crate) fn peer_groups(socket: BorrowedFd<'_>) -> Result<Vec<u32>, Errno> {
    let mut groups = vec![0u32; 32];
    loop {
        let mut bytes = groups.len() * size_of::<u32>();
        match get(
            socket,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &mut bytes,
        ) {
            Ok(()) => {
                groups.truncate(bytes / size_of::<u32>());
                return Ok(groups);
            }
            // The kernel says how many bytes it has.
            Err(Errno::RANGE) if bytes / size_of::<u32>() <= GROUPS_MAX => {
                let wanted = (bytes / size_of::<u32>()).max(groups.len() + 1);
                groups.resize(wanted, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Process, user and group of the peer, as they were when it connected (SO_PEERCRED). The process
/// is 0 where this PID namespace does not have it.
pub(crate) fn peer_credentials(socket: BorrowedFd<'_>) -> Result<(u32, u32, u32), Errno> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut bytes = size_of::<libc::ucred>();
    get(
        socket,
        libc::SO_PEERCRED,
        (&raw mut peer).cast(),
        &mut bytes,
    )?;
    if bytes != size_of::<libc::ucred>() {
        return Err(Errno::INVAL);
    }
    Ok((peer.pid.unsigned_abs(), peer.uid, peer.gid))
}

/// A descriptor of the process that connected (SO_PEERPIDFD, Linux 6.5).
pub(crate) fn peer_pidfd(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut fd: RawFd = -1;
    let mut bytes = size_of::<RawFd>();
    get(socket, libc::SO_PEERPIDFD, (&raw mut fd).cast(), &mut bytes)?;
    if fd < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: The kernel made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `getsockopt(socket, SOL_SOCKET, option)` into `bytes` bytes at `value`; says how many there are.
fn get(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    value: *mut libc::c_void,
    bytes: &mut usize,
) -> Result<(), Errno> {
    let mut length = libc::socklen_t::try_from(*bytes).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: `value` has room for `length` bytes, which is at most what the caller says, and both
    // pointers live for the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            value,
            &raw mut length,
        )
    };
    *bytes = length as usize;
    if result == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}
/// Closes all descriptors from `first` on. For a process at its start, which has opened none.
pub(crate) fn close_from(first: RawFd) -> Result<(), Errno> {
    // SAFETY: The caller is at its start: no object owns a descriptor from `first` on.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if result == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}
