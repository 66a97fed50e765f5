//! Ends of connections and of programs.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use mtcp_core::Undelivered;

use super::{Context, blocking};
use crate::socket::table::Body;
use crate::{Errno, How, Result, SocketId};

impl Context {
    /// A listener of a stack that a daemon has goes on without being accepted from. Other processes
    /// of this user that listen at the same place get its connections, those that wait here, too;
    /// where there are none they wait for this one to [accept again](Self::resume), or for another.
    ///
    /// # Errors
    /// `EBADF`; `EINVAL`: it is no listener, or the stack is this process's own.
    pub fn suspend(&mut self, id: SocketId) -> Result<()> {
        self.sockets.suspend(id)
    }

    /// The listener is accepted from again.
    ///
    /// # Errors
    /// As [`suspend`](Self::suspend).
    pub fn resume(&mut self, id: SocketId) -> Result<()> {
        self.sockets.resume(id)
    }

    /// Shuts one or both directions down.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOTCONN`.
    pub fn shutdown(&mut self, id: SocketId, how: How) -> Result<()> {
        self.sockets.shutdown(id, how)
    }

    /// Closes any kind of socket; the id is free afterwards, whatever is returned. With SO_LINGER
    /// set, waits until all data was acknowledged.
    ///
    /// # Errors
    /// `EBADF`; `EINTR` while lingering.
    pub fn close(&mut self, id: SocketId) -> Result<()> {
        blocking::close(self, id)
    }

    /// For who waits in place of [`close`](Self::close): ends our side if SO_LINGER says to wait
    /// for the peer before the socket is closed, until [`has_lingered`](Self::has_lingered) or this
    /// time is over. `None`: there is nothing to wait for.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn begin_linger(&mut self, id: SocketId) -> Result<Option<Duration>> {
        self.sockets.begin_linger(id)
    }

    /// Whether the peer has acknowledged everything, or never will.
    pub fn has_lingered(&mut self, id: SocketId) -> bool {
        self.sockets.has_lingered(id)
    }

    /// Resets a connection and closes the socket.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK` (no stream), `ENOTCONN` (closed all the same).
    pub fn abort(&mut self, id: SocketId) -> Result<()> {
        self.sockets.abort(id)
    }

    /// Closes a listener where other processes that share the interface listen on: connections that
    /// nobody has accepted are left to them.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (not listening).
    pub fn leave(&mut self, id: SocketId) -> Result<()> {
        self.sockets.leave(id)
    }

    /// Other processes have a connection, too, by the socket at the other end of `end` (unix(7)).
    /// As long as it is not closed here, they have what this process passes on. Once it is, the
    /// daemon that has the stack passes on what comes and what they write.
    ///
    /// # Errors
    /// `EBADF`; `ENOTCONN`; `EOPNOTSUPP`: the stack is in this process; `ENOBUFS`: there are too
    /// many.
    pub fn pair(&mut self, id: SocketId, end: BorrowedFd<'_>) -> Result<()> {
        let Body::Stream(conn) = self.sockets.table.get(id)?.body else {
            return Err(Errno::ENOTCONN);
        };
        self.sockets.transport.driver.pair(conn, end)
    }

    /// Waits until no connection is left but those in TIME_WAIT, at most `timeout`. Returns whether
    /// that is so. For the end of a program, after it closed its sockets.
    ///
    /// # Errors
    /// `EINTR`, `ENETDOWN`.
    pub fn drain(&mut self, timeout: Duration) -> Result<bool> {
        blocking::drain(self, timeout)
    }

    /// Waits until peers have acknowledged all that was written to sockets that are closed now, and
    /// the end of it, as long as they go on doing so: `timeout` passes without, and the wait is
    /// over. Returns what is left. It does not wait for the ends of peers. For the end of a
    /// program, after it closed its sockets.
    ///
    /// # Errors
    /// `EINTR`, `ENETDOWN`.
    pub fn deliver(&mut self, timeout: Duration) -> Result<Undelivered> {
        blocking::deliver(self, timeout)
    }

    /// Runs the stack for so long.
    pub(crate) fn run_for(&mut self, time: Duration) -> Result<()> {
        blocking::run_for(self, time)
    }
}
