//! Ends: `shutdown`, `close`, `abort`.

use std::time::Duration;

use mtcp_core::{Acks, ConnId, Status};

use super::table::{Body, Flags};
use super::{How, SocketId};
use crate::driver::Doorbell;
use crate::epoll::Events;
use crate::{Context, Errno, Result};

impl Context {
    /// Shuts one or both directions down.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOTCONN`.
    pub fn shutdown(&mut self, id: SocketId, how: How) -> Result<()> {
        let (socket, _) = self.table.both(id)?;
        let conn = match socket.body {
            Body::Stream(conn) => conn,
            Body::Listener(index) => {
                self.shutdown_listener(id, index, how);
                return Ok(());
            }
            _ => return Err(Errno::ENOTCONN),
        };
        let status = self.streams.status(conn.slot);
        if !status.contains(Status::CONNECTED) {
            return self.give_up(id, conn, status);
        }
        if how != How::Write {
            socket.flags |= Flags::SHUT_RD;
        }
        if status.intersects(Status::ERROR | Status::CLOSED) {
            // Linux wakes who waits for the end even so.
            self.news(id, Events::all());
            return Err(Errno::ENOTCONN);
        }
        if how != How::Write {
            self.driver.ring(Doorbell::ShutdownRead(conn));
        }
        if how != How::Read && !socket.flags.contains(Flags::SHUT_WR) {
            socket.flags |= Flags::SHUT_WR;
            self.driver.ring(Doorbell::Shutdown(conn));
            self.hand_over(id);
        }
        self.news(id, Events::all());
        Ok(())
    }

    /// As on Linux, shut while the handshake goes on, a socket does not connect any more: it hears
    /// of a reset, and may connect again.
    fn give_up(&mut self, id: SocketId, conn: ConnId, status: Status) -> Result<()> {
        let (socket, _) = self.table.both(id)?;
        let connects = socket.flags.contains(Flags::CONNECTING)
            && !socket.flags.contains(Flags::DEFERRED)
            && !status.intersects(Status::ERROR | Status::CLOSED);
        if !connects || self.settings.legacy_errors {
            return Err(Errno::ENOTCONN);
        }
        self.forget(id, conn);
        self.table.get_mut(id)?.flags |= Flags::GIVEN_UP;
        self.news(id, Events::all());
        self.hand_over(id);
        Ok(())
    }

    /// As on Linux, a listener that is shut for reading does not listen any more: who waits for it
    /// is woken.
    fn shutdown_listener(&mut self, id: SocketId, index: u32, how: How) {
        if how == How::Write {
            return;
        }
        self.close_listener(index);
        if let Ok(socket) = self.table.get_mut(id) {
            socket.body = Body::Idle;
        }
        self.news(id, Events::all());
    }

    /// Closes any kind of socket; the id is free afterwards, whatever is returned. With SO_LINGER
    /// set, waits until all data was acknowledged.
    ///
    /// # Errors
    /// `EBADF`; `EINTR` while lingering.
    pub fn close(&mut self, id: SocketId) -> Result<()> {
        let socket = *self.table.get(id)?;
        self.unwatch(id);
        self.unbind(id);
        let mut lingered = Ok(());
        match socket.body {
            Body::Stream(conn) => {
                lingered = self.linger(id);
                self.disown(conn);
                self.driver.ring(Doorbell::Close(conn));
                self.hand_over(id);
            }
            Body::Listener(index) => self.close_listener(index),
            Body::Epoll(instance) => self.close_epoll(instance),
            Body::Pipe(pipe) => self.close_pipe(pipe, socket.flags),
            Body::Free(_) | Body::Idle => {}
        }
        self.free(id);
        lingered
    }

    /// Resets a connection and closes the socket.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK` (no stream), `ENOTCONN` (closed all the same).
    pub fn abort(&mut self, id: SocketId) -> Result<()> {
        match self.table.get(id)?.body {
            Body::Stream(conn) => {
                self.unwatch(id);
                self.unbind(id);
                self.disown(conn);
                self.driver.ring(Doorbell::Abort(conn));
                self.hand_over(id);
                self.free(id);
                Ok(())
            }
            Body::Idle => self.close(id).and(Err(Errno::ENOTCONN)),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// Frees an id. Where nobody waits for events, it can be used again at once.
    pub(super) fn free(&mut self, id: SocketId) {
        self.table.remove(id);
        if self.watch.is_empty() {
            self.table.rest();
        }
    }

    /// SO_LINGER: waits for the peer to acknowledge everything, FIN included. Linux waits on
    /// non-blocking sockets too.
    fn linger(&mut self, id: SocketId) -> Result<()> {
        let Some(timeout) = self.begin_linger(id)? else {
            return Ok(());
        };
        let done = |context: &mut Self| context.has_lingered(id).then_some(());
        self.wait_until(Some(timeout), false, Acks::Due, done)
            .map(drop)
    }

    /// For who waits in place of [`close`](Self::close): ends our side if SO_LINGER says to wait
    /// for the peer before the socket is closed, until [`has_lingered`](Self::has_lingered) or this
    /// time is over. `None`: there is nothing to wait for.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn begin_linger(&mut self, id: SocketId) -> Result<Option<Duration>> {
        let Body::Stream(conn) = self.table.get(id)?.body else {
            return Ok(None);
        };
        let timeout = self
            .table
            .choices_of(id)?
            .options
            .linger
            .unwrap_or(Duration::ZERO);
        let status = self.streams.status(conn.slot);
        let over = status.intersects(Status::ERROR | Status::CLOSED)
            || !status.contains(Status::CONNECTED);
        // Unread data means RST: there is nothing to wait for (RFC 2525 §2.17).
        if timeout.is_zero()
            || over
            || self.streams.readable(conn.slot) > 0
            || self.driver.failure().is_some()
        {
            return Ok(None);
        }
        if !self.table.get(id)?.flags.contains(Flags::SHUT_WR) {
            self.driver.ring(Doorbell::Shutdown(conn));
        }
        Ok(Some(timeout))
    }

    /// Whether the peer has acknowledged everything, or never will.
    pub fn has_lingered(&mut self, id: SocketId) -> bool {
        let Ok(socket) = self.table.get(id) else {
            return true;
        };
        let Body::Stream(conn) = socket.body else {
            return true;
        };
        let status = self.streams.status(conn.slot);
        socket.flags.contains(Flags::DRAINED) || status.intersects(Status::ERROR | Status::CLOSED)
    }
}
