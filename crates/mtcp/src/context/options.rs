//! Socket options and what can be asked of a socket.

use std::net::SocketAddr;

use mtcp_core::TcpInfo;

use super::{Context, asking};
use crate::socket::table::Flags;
use crate::{Domain, Errno, Kind, OptionName, Result, SocketId, SocketOption};

impl Context {
    /// Whether calls on the socket return `EAGAIN` where they would block.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn set_nonblocking(&mut self, id: SocketId, on: bool) -> Result<()> {
        let flags = &mut self.sockets.table.get_mut(id)?.flags;
        flags.set(Flags::NONBLOCKING, on);
        Ok(())
    }

    /// See [`Context::set_nonblocking`].
    ///
    /// # Errors
    /// `EBADF`.
    pub fn nonblocking(&self, id: SocketId) -> Result<bool> {
        Ok(self.sockets.table.get(id)?.nonblocking())
    }

    /// What the socket is.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn kind(&self, id: SocketId) -> Result<Kind> {
        Ok(self.sockets.table.get(id)?.kind())
    }

    /// The family that the socket's addresses have.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn domain(&self, id: SocketId) -> Result<Domain> {
        Ok(self.sockets.table.look(id)?.0.domain())
    }

    /// The local address; unspecified while there is none.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn local_addr(&self, id: SocketId) -> Result<SocketAddr> {
        Ok(self.sockets.table.look(id)?.1.ends.local())
    }

    /// The peer.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOTCONN`.
    pub fn peer_addr(&self, id: SocketId) -> Result<SocketAddr> {
        self.sockets.peer_addr(id)
    }

    /// The pending error, which is cleared (SO_ERROR).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn take_error(&mut self, id: SocketId) -> Result<Option<Errno>> {
        asking::take_error(self, id)
    }

    /// What TCP knows of the connection (TCP_INFO).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOTCONN`, `EINVAL` (a listener), `ENETDOWN`.
    pub fn info(&mut self, id: SocketId) -> Result<TcpInfo> {
        self.sockets.info(id)
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (out of range, or too late), `ENOPROTOOPT` (only to read).
    pub fn set_option(&mut self, id: SocketId, option: SocketOption) -> Result<()> {
        self.sockets.set_option(id, option)
    }

    /// Has sockets begin with an option that is a value: those that are made from now on.
    ///
    /// # Errors
    /// As [`Context::set_option`]; `ENOPROTOOPT` also for what is not a value alone (SO_REUSEADDR,
    /// SO_KEEPALIVE and the like).
    pub fn begin_with(&mut self, option: SocketOption) -> Result<()> {
        self.sockets.begin_with(option)
    }

    /// Reads an option.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOTCONN` (what only connections have).
    pub fn option(&mut self, id: SocketId, name: OptionName) -> Result<SocketOption> {
        asking::option(self, id, name)
    }
}
