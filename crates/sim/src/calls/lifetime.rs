//! Ends: `shutdown` and `close`.

use std::time::Duration;

use mtcp_core::{Command, ConnId, Status};

use super::constants::{EINVAL, ENOTCONN, SHUT_RD, SHUT_RDWR, SHUT_WR};
use super::descriptors::{Body, File, Socket};
use super::{Outcome, Process, Reply, fail};

impl Process {
    pub(super) fn shutdown(&mut self, fd: i32, how: i32) -> Outcome {
        let socket = self.table.socket(fd)?;
        let (reads, writes) = match how {
            SHUT_RD => (true, false),
            SHUT_WR => (false, true),
            SHUT_RDWR => (true, true),
            _ => return fail(EINVAL),
        };
        match socket.body {
            Body::Idle => fail(ENOTCONN),
            Body::Listener(..) => {
                if reads {
                    self.stop_listening(fd);
                }
                Ok(Reply::default())
            }
            Body::Stream(conn) => self.shutdown_stream(fd, conn, reads, writes),
        }
    }

    fn shutdown_stream(&mut self, fd: i32, conn: ConnId, reads: bool, writes: bool) -> Outcome {
        let status = self.streams.status(conn.slot);
        let socket = self.table.socket_mut(fd)?;
        let done = socket.shut_write;
        if status.intersects(Status::ERROR | Status::CLOSED) {
            socket.shut_read |= reads;
            socket.shut_write |= writes;
            return fail(ENOTCONN);
        }
        // Linux gives an attempt up, whichever direction is meant.
        if !status.contains(Status::CONNECTED) {
            self.disconnect(fd, conn);
            return Ok(Reply::default());
        }
        socket.shut_read |= reads;
        socket.shut_write |= writes;
        if writes && !done {
            self.execute(Command::Shutdown(conn))?;
        }
        Ok(Reply::default())
    }

    /// The socket stays; nobody can connect any more.
    fn stop_listening(&mut self, fd: i32) {
        let Ok(socket) = self.table.socket_mut(fd) else {
            return;
        };
        if let Body::Listener(listener, queue) = std::mem::replace(&mut socket.body, Body::Idle) {
            let _ = self.execute(Command::Unlisten(listener));
            for accepted in queue {
                self.abort(accepted.conn);
            }
        }
    }

    /// `first`: this is the call; otherwise it lingers.
    pub(super) fn close(&mut self, fd: i32, first: bool) -> Option<Outcome> {
        self.unwatch(fd);
        let conn = match self.table.file(fd) {
            Err(error) => return Some(Err(error)),
            Ok(File::Socket(socket)) => match socket.body {
                Body::Stream(conn) => Some(conn),
                _ => None,
            },
            Ok(_) => None,
        };
        let Some(conn) = conn else {
            self.stop_listening(fd);
            self.close_file(fd);
            return Some(Ok(Reply::default()));
        };
        if self.must_linger(fd, conn, first) {
            return None;
        }
        self.let_go(fd);
        Some(Ok(Reply::default()))
    }

    /// SO_LINGER: waits for the peer to acknowledge everything, FIN included.
    fn must_linger(&mut self, fd: i32, conn: ConnId, first: bool) -> bool {
        let Ok(socket) = self.table.socket(fd) else {
            return false;
        };
        let status = self.streams.status(conn.slot);
        let over = status.intersects(Status::ERROR | Status::CLOSED)
            || !status.contains(Status::CONNECTED);
        let waits = socket.options.linger.is_some_and(|time| !time.is_zero());
        // Unread data means RST: there is nothing to wait for (RFC 2525 §2.17).
        if !waits || over || socket.drained || self.streams.readable(conn.slot) > 0 {
            return false;
        }
        if first && !socket.shut_write {
            let _ = self.execute(Command::Shutdown(conn));
        }
        !self.table.socket(fd).is_ok_and(|socket| socket.drained)
    }

    /// The connection ends in the background, and the descriptor is free.
    pub(super) fn let_go(&mut self, fd: i32) {
        if let Some(File::Socket(socket)) = self.table.remove(fd) {
            let Socket {
                body: Body::Stream(conn),
                ..
            } = *socket
            else {
                return;
            };
            self.streams.release(conn.slot);
            let _ = self.execute(Command::Close(conn));
        }
    }

    /// How long `close` may wait.
    pub(super) fn linger_limit(&self, fd: i32) -> Option<Duration> {
        let socket = self.table.socket(fd).ok();
        Some(
            socket
                .and_then(|socket| socket.options.linger)
                .unwrap_or_default(),
        )
    }
}
