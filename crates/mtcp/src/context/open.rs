//! Sockets, their addresses and their connections.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use super::{Context, blocking};
use crate::{Domain, Result, SocketId, SourceRange};

impl Context {
    /// A new stream socket, blocking.
    ///
    /// # Errors
    /// `ENFILE`.
    pub fn socket(&mut self, domain: Domain) -> Result<SocketId> {
        self.sockets.socket(domain)
    }

    /// Source addresses for sockets that connect without being bound, each in turn; `None`: as
    /// routes say. Returns how many there are: those of the range that are not ours are left out.
    ///
    /// # Errors
    /// `EINVAL` (an empty range), `EADDRNOTAVAIL` (none is ours); the sources are then as before.
    pub fn set_source_range(&mut self, range: Option<SourceRange>) -> Result<usize> {
        self.sockets.set_source_range(range)
    }

    /// Gives the socket a local address; port 0 picks one.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (bound already, connected), `EAFNOSUPPORT`, `EADDRINUSE`,
    /// `EADDRNOTAVAIL`.
    pub fn bind(&mut self, id: SocketId, local: SocketAddr) -> Result<()> {
        self.sockets.bind(id, local)
    }

    /// Listens; again: changes nothing. An unbound socket gets a port.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (connected or connecting, backlog 0), `EADDRINUSE`, `ENOMEM`,
    /// `EACCES` (the host's firewall keeps some peers out of that port; the log says so).
    pub fn listen(&mut self, id: SocketId, backlog: u32) -> Result<()> {
        self.sockets.listen(id, backlog)
    }

    /// As [`Context::listen`], of a listener that processes share by the kernel's `socket`, which
    /// listens: at a stack that a daemon has, who comes waits as long as one of them has it, even
    /// while none of them listens there.
    ///
    /// # Errors
    /// As [`Context::listen`]. None for the socket: without it, the listener ends with this
    /// process.
    pub fn listen_behind(
        &mut self,
        id: SocketId,
        backlog: u32,
        socket: BorrowedFd<'_>,
    ) -> Result<()> {
        // A lost link says so when it is listened at.
        let _ = self.sockets.transport.driver.note_kernel_listener(socket);
        self.listen(id, backlog)
    }

    /// Takes the oldest waiting connection: a new blocking socket, and the peer.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (not listening), `EAGAIN`, `EINTR`, `ENFILE` (it stays in the
    /// queue), `ENETDOWN`.
    pub fn accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr)> {
        blocking::accept(self, id)
    }

    /// Connects. Non-blocking: `EINPROGRESS`, then `OUT` when done; asked again, it says how it
    /// ended, once, as Linux does. With [`SocketOption::FastOpenConnect`](crate::SocketOption) and
    /// a cookie of the peer it succeeds at once: the first write opens.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EAFNOSUPPORT`, `EINPROGRESS`, `EALREADY`, `EISCONN`, `ECONNREFUSED`,
    /// `ETIMEDOUT`, `ENETUNREACH`, `EHOSTUNREACH`, `EADDRINUSE`, `EADDRNOTAVAIL`, `EINTR` (it goes
    /// on in the background), `ENETDOWN`.
    pub fn connect(&mut self, id: SocketId, remote: SocketAddr) -> Result<()> {
        blocking::connect(self, id, remote)
    }

    /// For who waits in place of [`connect`](Self::connect), which said `EINPROGRESS`: how the
    /// attempt ended, or `EALREADY`.
    ///
    /// # Errors
    /// As `connect`; `ECONNRESET`: [`shutdown`](Self::shutdown) gave it up.
    pub fn finish_connect(&mut self, id: SocketId, remote: SocketAddr) -> Result<()> {
        blocking::finish_connect(self, id, remote)
    }
}
