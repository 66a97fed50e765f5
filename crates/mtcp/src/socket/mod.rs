//! Sockets: small numbers, each a stream, a listener, an epoll instance or an end of a pipe.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bitflags::bitflags;

use crate::{CongestionControl, Context, Errno, Result, TcpInfo};

/// A socket of one context: `0..max_concurrency`, reused after `close`. The same number in another context is another socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u32);

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// AF_INET.
    V4,
    /// AF_INET6.
    V6,
}

/// What a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A TCP connection, or what may become one.
    Stream,
    /// After `listen`.
    Listener,
    /// An epoll instance.
    Epoll,
    /// An end of a pipe.
    Pipe,
}

/// Which directions to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// SHUT_RD.
    Read,
    /// SHUT_WR: sends FIN.
    Write,
    /// SHUT_RDWR.
    Both,
}

bitflags! {
    /// For [`Context::recv`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct RecvFlags: u32 {
        /// Leave the bytes there.
        const PEEK = 1;
        /// As if non-blocking.
        const DONTWAIT = 2;
        /// Block until the buffer is full, or end of file or an error.
        const WAITALL = 4;
    }
}

bitflags! {
    /// For [`Context::send`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct SendFlags: u32 {
        /// As if non-blocking.
        const DONTWAIT = 2;
        /// More follows: this write need not leave now.
        const MORE = 4;
    }
}

/// A socket option with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// SO_REUSEADDR.
    ReuseAddr(bool),
    /// SO_REUSEPORT.
    ReusePort(bool),
    /// SO_LINGER.
    Linger(Option<Duration>),
    /// SO_KEEPALIVE.
    KeepAlive(bool),
    /// SO_RCVBUF, bytes.
    RecvBuffer(u32),
    /// SO_SNDBUF, bytes.
    SendBuffer(u32),
    /// IPV6_V6ONLY.
    OnlyV6(bool),
    /// TCP_NODELAY.
    NoDelay(bool),
    /// TCP_MAXSEG, bytes; 0 if unknown or not set.
    MaxSegment(u16),
    /// TCP_KEEPIDLE.
    KeepIdle(Duration),
    /// TCP_KEEPINTVL.
    KeepInterval(Duration),
    /// TCP_KEEPCNT.
    KeepCount(u8),
    /// TCP_USER_TIMEOUT; zero: none.
    UserTimeout(Duration),
    /// TCP_CONGESTION.
    Congestion(CongestionControl),
    /// SO_ERROR, taken by reading; only to read.
    Error(Option<Errno>),
    /// SO_ACCEPTCONN; only to read.
    AcceptConn(bool),
    /// SO_DOMAIN; only to read.
    Domain(Domain),
}

/// Which option to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum OptionName {
    ReuseAddr,
    ReusePort,
    Linger,
    KeepAlive,
    RecvBuffer,
    SendBuffer,
    OnlyV6,
    NoDelay,
    MaxSegment,
    KeepIdle,
    KeepInterval,
    KeepCount,
    UserTimeout,
    Congestion,
    Error,
    AcceptConn,
    Domain,
}

/// Local addresses that `connect` takes in turn for sockets that are not bound, for more flows to one destination than one address has
/// ports (`mtcp_init_rss`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRange {
    /// The first.
    pub base: IpAddr,
    /// How many, one after the other; each must be an address of ours.
    pub count: u32,
}

impl Context {
    /// A new stream socket, blocking.
    ///
    /// # Errors
    /// `ENFILE`.
    pub fn socket(&mut self, domain: Domain) -> Result<SocketId> {
        let _ = domain;
        Err(Errno::ENOSYS)
    }

    /// Gives the socket a local address; port 0 picks one.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (bound already, wrong family), `EADDRINUSE`, `EADDRNOTAVAIL`.
    pub fn bind(&mut self, id: SocketId, local: SocketAddr) -> Result<()> {
        let _ = (id, local);
        Err(Errno::ENOSYS)
    }

    /// Listens; again: changes nothing. An unbound socket gets a port.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (connected or connecting, backlog 0), `EADDRINUSE`, `ENOMEM`.
    pub fn listen(&mut self, id: SocketId, backlog: u32) -> Result<()> {
        let _ = (id, backlog);
        Err(Errno::ENOSYS)
    }

    /// Takes the oldest waiting connection: a new blocking socket, and the peer.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (not listening), `EAGAIN`, `EINTR`, `ENFILE`, `ENETDOWN`.
    pub fn accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr)> {
        let _ = id;
        Err(Errno::ENOSYS)
    }

    /// Connects. Non-blocking: `EINPROGRESS`, then `OUT` when done.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EAFNOSUPPORT`, `EINPROGRESS`, `EALREADY`, `EISCONN`, `ECONNREFUSED`, `ETIMEDOUT`, `ENETUNREACH`,
    /// `EHOSTUNREACH`, `EADDRINUSE`, `EADDRNOTAVAIL`, `EINTR` (it goes on in the background), `ENETDOWN`.
    pub fn connect(&mut self, id: SocketId, remote: SocketAddr) -> Result<()> {
        let _ = (id, remote);
        Err(Errno::ENOSYS)
    }

    /// Reads at most `buf.len()` bytes; 0 is end of file.
    ///
    /// # Errors
    /// `EBADF`, `ENOTCONN`, `EAGAIN`, `ECONNRESET`, `ETIMEDOUT`, `EINTR`, `ENETDOWN`.
    pub fn read(&mut self, id: SocketId, buf: &mut [u8]) -> Result<usize> {
        self.recv(id, buf, RecvFlags::empty())
    }

    /// [`Context::read`] with flags.
    ///
    /// # Errors
    /// As `read`.
    pub fn recv(&mut self, id: SocketId, buf: &mut [u8], flags: RecvFlags) -> Result<usize> {
        let _ = (id, buf, flags);
        Err(Errno::ENOSYS)
    }

    /// [`Context::read`] into several buffers.
    ///
    /// # Errors
    /// As `read`.
    pub fn readv(&mut self, id: SocketId, bufs: &mut [IoSliceMut<'_>]) -> Result<usize> {
        let _ = (id, bufs);
        Err(Errno::ENOSYS)
    }

    /// Writes; non-blocking: what fits. Blocking: all of it.
    ///
    /// # Errors
    /// `EBADF`, `ENOTCONN`, `EAGAIN`, `EPIPE`, `ECONNRESET`, `ETIMEDOUT`, `EINTR`, `ENETDOWN`.
    pub fn write(&mut self, id: SocketId, bytes: &[u8]) -> Result<usize> {
        self.send(id, bytes, SendFlags::empty())
    }

    /// [`Context::write`] with flags.
    ///
    /// # Errors
    /// As `write`.
    pub fn send(&mut self, id: SocketId, bytes: &[u8], flags: SendFlags) -> Result<usize> {
        let _ = (id, bytes, flags);
        Err(Errno::ENOSYS)
    }

    /// [`Context::write`] from several buffers.
    ///
    /// # Errors
    /// As `write`.
    pub fn writev(&mut self, id: SocketId, bufs: &[IoSlice<'_>]) -> Result<usize> {
        let _ = (id, bufs);
        Err(Errno::ENOSYS)
    }

    /// Shuts one or both directions down.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOTCONN`.
    pub fn shutdown(&mut self, id: SocketId, how: How) -> Result<()> {
        let _ = (id, how);
        Err(Errno::ENOSYS)
    }

    /// Closes any kind of socket; the id is free afterwards, whatever is returned. With SO_LINGER set, waits until all data was
    /// acknowledged.
    ///
    /// # Errors
    /// `EBADF`; `EINTR` while lingering.
    pub fn close(&mut self, id: SocketId) -> Result<()> {
        let _ = id;
        Err(Errno::ENOSYS)
    }

    /// Resets a connection and closes the socket.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOTCONN` (closed all the same).
    pub fn abort(&mut self, id: SocketId) -> Result<()> {
        let _ = id;
        Err(Errno::ENOSYS)
    }

    /// Whether calls on the socket return `EAGAIN` where they would block.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn set_nonblocking(&mut self, id: SocketId, on: bool) -> Result<()> {
        let _ = (id, on);
        Err(Errno::ENOSYS)
    }

    /// See [`Context::set_nonblocking`].
    ///
    /// # Errors
    /// `EBADF`.
    pub fn nonblocking(&self, id: SocketId) -> Result<bool> {
        let _ = id;
        Err(Errno::ENOSYS)
    }

    /// What the socket is.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn kind(&self, id: SocketId) -> Result<Kind> {
        let _ = id;
        Err(Errno::ENOSYS)
    }

    /// The local address; unspecified while there is none.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn local_addr(&self, id: SocketId) -> Result<SocketAddr> {
        let _ = id;
        Err(Errno::ENOSYS)
    }

    /// The peer.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOTCONN`.
    pub fn peer_addr(&self, id: SocketId) -> Result<SocketAddr> {
        let _ = id;
        Err(Errno::ENOSYS)
    }

    /// Bytes that can be read now (FIONREAD).
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (a listener), `ENOTSOCK` (an epoll instance).
    pub fn available(&mut self, id: SocketId) -> Result<usize> {
        let _ = id;
        Err(Errno::ENOSYS)
    }

    /// The pending error, which is cleared (SO_ERROR).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn take_error(&mut self, id: SocketId) -> Result<Option<Errno>> {
        let _ = id;
        Err(Errno::ENOSYS)
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (out of range), `ENOPROTOOPT` (only to read).
    pub fn set_option(&mut self, id: SocketId, option: SocketOption) -> Result<()> {
        let _ = (id, option);
        Err(Errno::ENOSYS)
    }

    /// Reads an option.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn option(&mut self, id: SocketId, name: OptionName) -> Result<SocketOption> {
        let _ = (id, name);
        Err(Errno::ENOSYS)
    }

    /// What TCP knows of the connection (TCP_INFO).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (a listener).
    pub fn info(&mut self, id: SocketId) -> Result<TcpInfo> {
        let _ = id;
        Err(Errno::ENOSYS)
    }

    /// A pipe inside this context: `(read end, write end)`, blocking.
    ///
    /// # Errors
    /// `ENFILE`, `ENOMEM`.
    pub fn pipe(&mut self) -> Result<(SocketId, SocketId)> {
        Err(Errno::ENOSYS)
    }

    /// Source addresses for sockets that connect without being bound; `None`: as routes say.
    ///
    /// # Errors
    /// `EINVAL` (none, or past the end of the address space), `EADDRNOTAVAIL` (not ours).
    pub fn set_source_range(&mut self, range: Option<SourceRange>) -> Result<()> {
        let _ = range;
        Err(Errno::ENOSYS)
    }
}
