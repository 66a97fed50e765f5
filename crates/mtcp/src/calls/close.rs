//! How connections and sockets end.

use std::time::Duration;

use mtcp_core::{Command, ConnId, Status};

use super::Sockets;
use crate::driver::Doorbell;
use crate::epoll::Events;
use crate::socket::table::{Body, Flags};
use crate::transport::OVER;
use crate::{Errno, How, Result, SocketId};

impl Sockets {
    pub(crate) fn shutdown(&mut self, id: SocketId, how: How) -> Result<()> {
        let (socket, _) = self.table.both(id)?;
        let conn = match socket.body {
            Body::Stream(conn) => conn,
            Body::Listener(index) => {
                self.shutdown_listener(id, index, how);
                return Ok(());
            }
            _ => return Err(Errno::ENOTCONN),
        };
        let status = self.transport.status(conn);
        if !status.contains(Status::CONNECTED) {
            return self.give_up(id, conn, status);
        }
        let is_over = status.intersects(OVER);
        let stream = self.stream(id, conn)?;
        if how != How::Write {
            stream.socket.flags |= Flags::SHUT_RD;
        }
        if !is_over {
            if how != How::Write {
                let news = Doorbell::ShutdownRead(conn);
                stream.transport.driver.notify(news);
            }
            if how != How::Read && !stream.socket.flags.contains(Flags::SHUT_WR) {
                stream.socket.flags |= Flags::SHUT_WR;
                stream.transport.driver.notify(Doorbell::Shutdown(conn));
                stream.transport.hand_over(!stream.socket.nonblocking());
            }
        }
        // Linux wakes who waits for the end also where it has come already.
        self.news(id, Events::all());
        if is_over {
            return Err(Errno::ENOTCONN);
        }
        Ok(())
    }

    /// As on Linux, shut while the handshake goes on, a socket does not connect any more: it hears
    /// of a reset, and may connect again.
    fn give_up(&mut self, id: SocketId, conn: ConnId, status: Status) -> Result<()> {
        let flags = self.table.get(id)?.flags;
        let connects = flags.contains(Flags::CONNECTING)
            && !flags.contains(Flags::DEFERRED)
            && !status.intersects(OVER);
        if !connects || self.settings.legacy_errors {
            return Err(Errno::ENOTCONN);
        }
        self.forget(id, conn);
        self.table.get_mut(id)?.flags |= Flags::GIVEN_UP;
        self.news(id, Events::all());
        self.transport
            .hand_over(!flags.contains(Flags::NONBLOCKING));
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

    /// Nobody is told any more of a socket that is about to be closed, and its port is free.
    pub(crate) fn begin_close(&mut self, id: SocketId) {
        self.unwatch(id);
        if let Ok((socket, details)) = self.table.look(id)
            && socket.flags.contains(Flags::BOUND)
        {
            self.bindings.release(details.ends.local(), id);
        }
    }

    /// Closes any kind of socket; the id is free afterwards.
    pub(crate) fn close(&mut self, id: SocketId) -> Result<()> {
        let socket = *self.table.get(id)?;
        match socket.body {
            Body::Stream(conn) => {
                self.let_go(conn, Doorbell::Close(conn));
                self.transport.hand_over(!socket.nonblocking());
            }
            Body::Listener(index) => self.close_listener(index),
            Body::Epoll(instance) => self.close_epoll(instance),
            Body::Pipe(pipe) => {
                if let Some(other) = self.pipes.close(pipe, socket.flags) {
                    self.news(other, Events::all());
                }
            }
            Body::Free(_) | Body::Idle => {}
        }
        self.free(id);
        Ok(())
    }

    /// Resets a connection and closes the socket.
    pub(crate) fn abort(&mut self, id: SocketId) -> Result<()> {
        let socket = *self.table.get(id)?;
        match socket.body {
            Body::Stream(conn) => {
                self.begin_close(id);
                self.let_go(conn, Doorbell::Abort(conn));
                self.transport.hand_over(!socket.nonblocking());
                self.free(id);
                Ok(())
            }
            Body::Idle => {
                self.begin_close(id);
                self.close(id).and(Err(Errno::ENOTCONN))
            }
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// Lets go of a connection's stream: the stack hears of it.
    pub(super) fn let_go(&mut self, conn: ConnId, news: Doorbell) {
        self.owners.disown(conn);
        self.transport.release(conn, news);
    }

    /// Frees an id. Where nobody waits for events, it can be used again at once.
    fn free(&mut self, id: SocketId) {
        self.table.remove(id);
        if self.watch.is_empty() {
            self.table.rest();
        }
    }

    /// Stops listening.
    fn close_listener(&mut self, index: u32) {
        let Some(listener) = self.listeners.remove(index) else {
            return;
        };
        // A lost link has no listeners any more.
        let _ = self.transport.driver.call(Command::Unlisten(listener.id));
        // Those that no other program took.
        self.transport.refuse(listener.conns());
    }

    /// A listener of a stack that a daemon has goes on without being accepted from: other processes
    /// that listen at the same place get its connections, and where there are none they wait.
    pub(crate) fn suspend(&mut self, id: SocketId) -> Result<()> {
        let Body::Listener(index) = self.table.get(id)?.body else {
            return Err(Errno::EINVAL);
        };
        let listener = self.listeners.get(index).ok_or(Errno::EINVAL)?;
        self.transport.driver.call(Command::Suspend(listener.id))?;
        let waiting = self.listeners.suspend(index);
        self.transport
            .refuse(waiting.iter().map(|waiting| waiting.conn));
        Ok(())
    }

    /// The listener is accepted from again.
    pub(crate) fn resume(&mut self, id: SocketId) -> Result<()> {
        let Body::Listener(index) = self.table.get(id)?.body else {
            return Err(Errno::EINVAL);
        };
        let (listener, token) = self.listeners.resume(index).ok_or(Errno::EINVAL)?;
        let command = Command::Resume { listener, token };
        self.transport.driver.call(command).map(drop)
    }

    /// Closes a listener where other processes that share the interface listen on.
    pub(crate) fn leave(&mut self, id: SocketId) -> Result<()> {
        let Body::Listener(index) = self.table.get(id)?.body else {
            return Err(Errno::EINVAL);
        };
        self.begin_close(id);
        if let Some(listener) = self.listeners.remove(index) {
            // A lost link has no listeners any more.
            let _ = self.transport.driver.call(Command::Leave(listener.id));
            self.transport.refuse(listener.conns());
        }
        self.free(id);
        Ok(())
    }

    /// Ends our side if SO_LINGER says to wait for the peer before the socket is closed, and says
    /// how long. `None`: there is nothing to wait for.
    pub(crate) fn begin_linger(&mut self, id: SocketId) -> Result<Option<Duration>> {
        let Body::Stream(conn) = self.table.get(id)?.body else {
            return Ok(None);
        };
        let linger = self.table.choices_of(id)?.options.linger;
        let timeout = linger.filter(|timeout| !timeout.is_zero());
        let stream = self.stream(id, conn)?;
        if timeout.is_none() || !stream.may_linger() {
            return Ok(None);
        }
        if !stream.socket.flags.contains(Flags::SHUT_WR) {
            stream.transport.driver.notify(Doorbell::Shutdown(conn));
        }
        Ok(timeout)
    }

    /// Whether the peer has acknowledged everything, or never will.
    pub(crate) fn has_lingered(&mut self, id: SocketId) -> bool {
        match self.table.get(id).map(|socket| socket.body) {
            Ok(Body::Stream(conn)) => {
                let stream = self.stream(id, conn);
                stream.is_ok_and(|stream| stream.has_lingered())
            }
            _ => true,
        }
    }

    /// Closes all sockets at the end of the context, and sends what can be sent at once.
    pub(crate) fn close_all(&mut self) {
        for id in self.table.ids() {
            match self.table.get(id).map(|socket| socket.body) {
                Ok(Body::Stream(conn)) => self.let_go(conn, Doorbell::Close(conn)),
                // Nobody will accept who waits there.
                Ok(Body::Listener(index)) => self.close_listener(index),
                _ => {}
            }
        }
        // Nobody to tell.
        let _ = self.poll();
    }
}
