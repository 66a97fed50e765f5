//! Reading and writing.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;

use super::{Context, asking, bytes};
use crate::{RecvFlags, Result, SendFlags, SocketId};

impl Context {
    /// A pipe inside this context: `(read end, write end)`. Nobody else can empty or fill it, so
    /// that a read or write that would block for ever says `EDEADLK` on a blocking end, `EAGAIN` on
    /// a non-blocking one.
    ///
    /// # Errors
    /// `ENFILE`.
    pub fn pipe(&mut self) -> Result<(SocketId, SocketId)> {
        self.sockets.pipe()
    }

    /// Reads at most `buf.len()` bytes; 0 is end of file.
    ///
    /// # Errors
    /// `EBADF`, `ENOTCONN`, `EAGAIN`, `ECONNRESET`, `ETIMEDOUT`, `EINTR`, `ENETDOWN`; on a pipe
    /// also `EDEADLK`.
    pub fn read(&mut self, id: SocketId, buf: &mut [u8]) -> Result<usize> {
        self.recv(id, buf, RecvFlags::empty())
    }

    /// [`Context::read`] with flags.
    ///
    /// # Errors
    /// As `read`.
    pub fn recv(&mut self, id: SocketId, buf: &mut [u8], flags: RecvFlags) -> Result<usize> {
        let mut buf = IoSliceMut::new(buf);
        bytes::receive(self, id, std::slice::from_mut(&mut buf), flags)
    }

    /// [`Context::read`] into several buffers.
    ///
    /// # Errors
    /// As `read`.
    pub fn readv(&mut self, id: SocketId, bufs: &mut [IoSliceMut<'_>]) -> Result<usize> {
        bytes::receive(self, id, bufs, RecvFlags::empty())
    }

    /// Writes; non-blocking: what fits. Blocking: all of it.
    ///
    /// # Errors
    /// `EBADF`, `ENOTCONN`, `EAGAIN`, `EPIPE`, `ECONNRESET`, `ETIMEDOUT`, `EINTR`, `ENETDOWN`; on a
    /// pipe also `EDEADLK`.
    pub fn write(&mut self, id: SocketId, bytes: &[u8]) -> Result<usize> {
        self.send(id, bytes, SendFlags::empty())
    }

    /// [`Context::write`] with flags.
    ///
    /// # Errors
    /// As `write`.
    pub fn send(&mut self, id: SocketId, bytes: &[u8], flags: SendFlags) -> Result<usize> {
        self.send_to(id, bytes, flags, None)
    }

    /// [`Context::send`] with the peer to connect to first if `flags` say so
    /// ([`SendFlags::FASTOPEN`]); without, `remote` does not count.
    ///
    /// # Errors
    /// As `write`; with `FASTOPEN` also as [`Context::connect`], `EISCONN`, `EINVAL` (no peer), and
    /// `EINPROGRESS` if there is no cookie: then the socket connects, and took nothing.
    pub fn send_to(
        &mut self,
        id: SocketId,
        bytes: &[u8],
        flags: SendFlags,
        remote: Option<SocketAddr>,
    ) -> Result<usize> {
        bytes::send_to(self, id, bytes, flags, remote)
    }

    /// [`Context::write`] from several buffers.
    ///
    /// # Errors
    /// As `write`.
    pub fn writev(&mut self, id: SocketId, bufs: &[IoSlice<'_>]) -> Result<usize> {
        bytes::writev(self, id, bufs)
    }

    /// Bytes that can be read now (FIONREAD).
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (a listener), `ENOTSOCK` (an epoll instance).
    pub fn available(&mut self, id: SocketId) -> Result<usize> {
        asking::available(self, id)
    }

    /// Bytes written and not acknowledged, and how many of them were not sent at all (SIOCOUTQ,
    /// SIOCOUTQNSD).
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (a listener), `ENOTSOCK`, `ENETDOWN`.
    pub fn unacknowledged(&mut self, id: SocketId) -> Result<(u32, u32)> {
        asking::unacknowledged(self, id)
    }

    /// Bytes that a blocking read waits for (SO_RCVLOWAT).
    pub fn low_water(&self, id: SocketId) -> usize {
        self.sockets.table.low_water(id)
    }

    /// Whether the socket stands at the urgent byte: what is read next came after it (SIOCATMARK,
    /// sockatmark(3)).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK` (an epoll instance or a pipe), `EINVAL` (a listener).
    pub fn at_mark(&mut self, id: SocketId) -> Result<bool> {
        self.sockets.at_mark(id)
    }

    /// Notes from now on which sockets the peer sends urgent data to, for
    /// [`take_urgent`](Self::take_urgent).
    pub fn tell_urgent(&mut self) {
        self.sockets.urgent.begin();
    }

    /// A socket that the peer has announced urgent data for (SIGURG), if
    /// [`tell_urgent`](Self::tell_urgent) asked for it.
    pub fn take_urgent(&mut self) -> Option<SocketId> {
        self.sockets.urgent.take()
    }
}
