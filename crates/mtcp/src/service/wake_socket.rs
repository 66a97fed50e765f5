//! The doorbell: a pair of connected sockets, one of which each side has.
//!
//! Whoever has published something and finds that the other side sleeps sends a byte. Sending never
//! waits: a socket that is full has rung. The kernel tells each side when the other is gone.
//!
//! A program passes descriptors to the daemon in the same way.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg,
    socketpair,
};

/// Bytes taken from the socket at once: each is a ring, and one is as good as all.
const BURST: usize = 64;
/// Descriptors that are kept until what they are for is said: one a call.
const PASSED_MAX: usize = 64;
/// Rings taken at most to get at a descriptor: more than any socket has room for.
const LOOKS: usize = 4096;

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

    /// Passes a descriptor to the other side, and rings.
    ///
    /// # Errors
    /// `WouldBlock`: the other side has to take some first.
    pub(crate) fn pass(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd];
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.socket, &[IoSlice::new(&[0])], &mut control, flags)?;
        Ok(())
    }

    /// As [`Self::drain`], with the descriptors that were passed, of which no more than a few are
    /// kept.
    pub(crate) fn take(&self, passed: &mut VecDeque<OwnedFd>) -> bool {
        !matches!(self.take_once(passed), Taken::Gone)
    }

    /// Takes what has rung until a descriptor is among it. False: none was passed.
    pub(crate) fn take_passed(&self, passed: &mut VecDeque<OwnedFd>) -> bool {
        let mut looks = 0..LOOKS;
        while passed.is_empty() && looks.next().is_some() {
            if !matches!(self.take_once(passed), Taken::Some) {
                break;
            }
        }
        !passed.is_empty()
    }

    fn take_once(&self, passed: &mut VecDeque<OwnedFd>) -> Taken {
        let mut rings = [0; BURST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut parts = [IoSliceMut::new(&mut rings)];
        let taken = match recvmsg(&self.socket, &mut parts, &mut control, flags) {
            Ok(message) if message.bytes == 0 => Taken::Gone,
            Ok(_) => Taken::Some,
            Err(Errno::AGAIN | Errno::INTR) => Taken::Nothing,
            Err(_) => Taken::Gone,
        };
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = part {
                passed.extend(rights);
            }
        }
        passed.truncate(PASSED_MAX);
        taken
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

/// What was there to take.
enum Taken {
    Some,
    Nothing,
    /// The other side is gone.
    Gone,
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
    #[test]
    fn descriptors_are_passed_among_rings_and_no_more_are_kept_than_a_few() {
        let (a, b) = WakeSocket::pair().unwrap();
        let mut passed = VecDeque::new();
        assert!(!a.take_passed(&mut passed));
        let (mine, theirs) = WakeSocket::pair().unwrap();
        for _ in 0..100 {
            b.wake();
        }
        b.pass(theirs.as_fd()).unwrap();
        drop(theirs);
        b.wake();
        assert!(a.take_passed(&mut passed));
        WakeSocket::from_fd(passed.pop_front().unwrap()).wake();
        assert!(mine.drain() && !mine.drain(), "it was the other end");
        while b.pass(mine.as_fd()).is_ok() {}
        for _ in 0..1000 {
            assert!(a.take(&mut passed));
        }
        assert_eq!(passed.len(), PASSED_MAX);
        drop(b);
        assert!(!a.take(&mut passed));
    }
}
