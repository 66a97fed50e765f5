//! The doorbell: a pair of connected sockets, one of which each side has.
//!
//! Whoever has published something and finds that the other side sleeps sends a byte. Sending never
//! waits: a socket that is full has rung. The kernel tells each side when the other is gone.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

/// Bytes taken from the socket at once: each is a ring, and one is as good as all.
const BURST: usize = 64;

/// One end.
#[derive(Debug)]
pub(crate) struct WakeSocket {
    socket: OwnedFd,
}

impl WakeSocket {
    /// Both ends.
    ///
    /// # Errors
    /// No descriptor left.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Self { socket: a }, Self { socket: b }))
    }

    /// The end that a daemon has given to this program.
    pub(crate) fn from_fd(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// Gives it to a program.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.socket
    }

    /// Rings for the other side. Who is gone is not there to hear it, which [`Self::silence`] says.
    pub(crate) fn wake(&self) {
        // Flags of the call: the other side shares the description's and could clear those.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = send(&self.socket, &[0], flags);
    }

    /// Takes what has rung. False: the other side is gone.
    pub(crate) fn drain(&self) -> bool {
        let mut rings = [0; BURST];
        match recv(&self.socket, &mut rings, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => false,
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        }
    }
}

impl AsFd for WakeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_heard_and_an_end_is_noticed() {
        let (a, b) = WakeSocket::pair().unwrap();
        assert!(b.drain(), "nothing has rung");
        a.wake();
        assert!(b.drain());
        // Nobody listens: it never waits.
        for _ in 0..1_000_000 {
            a.wake();
        }
        assert!(b.drain());
        drop(b);
        a.wake();
        assert!(!a.drain());
    }
}
