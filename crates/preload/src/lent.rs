//! Connections in a child of `fork`: the stack stays with the parent, and the child gets a socket
//! of the kernel in their place, which survives `exec` and whose other end the parent pumps
//! (`relay`).
//!
//! The name of that socket says what the connection's ends are, so that any program that comes to
//! have it can be told.

use std::ffi::{c_char, c_int};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, sockaddr, sockaddr_un, socklen_t};
use mtcp::posix::{address, memory};
use mtcp::{Context, Domain, Result, SocketId};

use crate::{private, real};

/// What the name begins with: the first byte says that it is no file's (unix(7)).
const MARK: [u8; 6] = *b"\0mtcp:";
/// The longest name: two addresses with their lengths, a process and a number.
const MOST: usize = MARK.len() + 2 * (1 + size_of::<libc::sockaddr_in6>()) + 8;

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Local,
    Remote,
}

/// A pair of sockets of the kernel: the parent's end and the child's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) ours: c_int,
    pub(crate) theirs: c_int,
    /// Who goes on with the connection when this process does not.
    pub(crate) heir: Heir,
}

/// Whether a daemon has the parent's end, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heir {
    /// The stack is this process's: the connection ends with it.
    Nobody,
    /// The daemon, once it is given the end.
    Daemon,
    /// The daemon has it.
    Given,
}

impl Pair {
    /// Gives the daemon that has the stack its end for the connection `id`. False: it does not take
    /// it.
    #[cold]
    #[inline(never)]
    pub(crate) fn give(&mut self, context: &mut Context, id: SocketId) -> bool {
        // SAFETY: it is open as long as the pair is there.
        let end = unsafe { BorrowedFd::borrow_raw(self.ours) };
        let given = context.pair(id, end).is_ok();
        self.heir = if given { Heir::Given } else { Heir::Nobody };
        given
    }

    /// Whether this is one of the two.
    pub(crate) fn has(self, fd: c_int) -> bool {
        [self.ours, self.theirs].contains(&fd)
    }
}

/// Makes a pair for a connection with these ends. `None`: there are no more descriptors.
pub(crate) fn pair(domain: Domain, ends: [SocketAddr; 2]) -> Option<Pair> {
    let mut fds = [-1; 2];
    let kind = SOCK_STREAM | SOCK_CLOEXEC;
    // SAFETY: room for two descriptors.
    if unsafe { libc::socketpair(AF_UNIX, kind, 0, fds.as_mut_ptr()) } < 0 {
        return None;
    }
    let [ours, theirs] = fds.map(private::own);
    name(theirs, domain, ends);
    // SAFETY: no memory is involved.
    unsafe { real::fcntl64(ours, libc::F_SETFL, libc::O_NONBLOCK as u64) };
    Some(Pair {
        ours,
        theirs,
        heir: Heir::Nobody,
    })
}

/// Without a name, only the addresses are not known.
fn name(fd: c_int, domain: Domain, ends: [SocketAddr; 2]) {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let mut bytes = Vec::with_capacity(MOST);
    bytes.extend(MARK);
    for end in ends {
        let mut room = [0u8; size_of::<libc::sockaddr_in6>()];
        let mut len = room.len() as socklen_t;
        // SAFETY: room for an address.
        let stored = unsafe { address::store(end, domain, room.as_mut_ptr().cast(), &raw mut len) };
        let end = room.get(..len as usize).filter(|_| stored.is_ok());
        let end = end.unwrap_or_default();
        bytes.push(end.len() as u8);
        bytes.extend(end);
    }
    bytes.extend(std::process::id().to_ne_bytes());
    bytes.extend(SERIAL.fetch_add(1, Ordering::Relaxed).to_ne_bytes());
    let mut name = blank();
    for (to, from) in name.sun_path.iter_mut().zip(&bytes) {
        *to = *from as c_char;
    }
    let len = std::mem::offset_of!(sockaddr_un, sun_path) + bytes.len();
    // SAFETY: an address of that length.
    unsafe { real::bind(fd, (&raw const name).cast(), len as socklen_t) };
}

fn blank() -> sockaddr_un {
    sockaddr_un {
        sun_family: AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    }
}

/// The family of a socket; `None`: it is none.
pub(crate) fn domain(fd: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of_val(&value) as socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_DOMAIN);
    // SAFETY: room for a number.
    let told = unsafe { real::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    (told == 0).then_some(value)
}

/// Whether a connection of another process is behind this socket of the kernel.
pub(crate) fn is_lent(fd: c_int) -> bool {
    ends(fd).is_some()
}

/// The addresses that its name says, each as the kernel would give it.
fn ends(fd: c_int) -> Option<[Vec<u8>; 2]> {
    let mut name = blank();
    let mut len = size_of::<sockaddr_un>() as socklen_t;
    // SAFETY: room for a name.
    if unsafe { real::getsockname(fd, (&raw mut name).cast(), &raw mut len) } < 0
        || i32::from(name.sun_family) != AF_UNIX
    {
        return None;
    }
    let bytes = name.sun_path.map(|byte| byte as u8);
    let rest = bytes.strip_prefix(&MARK)?;
    let (local, rest) = word(rest)?;
    let (remote, _) = word(rest)?;
    Some([local.to_vec(), remote.to_vec()])
}

fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*len))
}

/// Tells an end of the connection behind the socket. `None`: there is none.
///
/// # Safety
/// As for getsockname(2).
pub(crate) unsafe fn tell(
    fd: c_int,
    end: End,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> Option<Result<()>> {
    let [local, remote] = ends(fd)?;
    let value = if end == End::Local { local } else { remote };
    let store = || {
        // SAFETY: the caller's promises.
        unsafe {
            let room = memory::room(len)?;
            memory::copy_out(addr.cast(), room, &value)?;
            memory::store(len, value.len() as socklen_t)
        }
    };
    Some(store())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(fd: c_int, end: End) -> Option<SocketAddr> {
        let mut room = [0u8; 28];
        let mut len = 28;
        let at: *mut sockaddr = room.as_mut_ptr().cast();
        // SAFETY: room for an address.
        unsafe {
            tell(fd, end, at, &raw mut len)?.unwrap();
            Some(address::parse(at, len).unwrap())
        }
    }

    #[test]
    fn the_name_says_the_ends() {
        for (domain, ends) in [
            (Domain::V4, ["10.0.0.1:22", "10.0.0.2:5000"]),
            (Domain::V6, ["[fd00::1]:22", "[fd00::2]:5000"]),
            (
                Domain::V6,
                ["[::ffff:10.0.0.1]:22", "[::ffff:10.0.0.2]:5000"],
            ),
        ] {
            let ends = ends.map(|end| end.parse().unwrap());
            let pair = pair(domain, ends).unwrap();
            assert_eq!(told(pair.theirs, End::Local), Some(ends[0]));
            assert_eq!(told(pair.theirs, End::Remote), Some(ends[1]));
            assert_eq!(told(pair.ours, End::Local), None);
            assert!(is_lent(pair.theirs) && !is_lent(0));
        }
    }
}
