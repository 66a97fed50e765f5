//! Bytes: what `read`, `recv`, `write` and `send` do on a stream.

use mtcp_core::{Command, ConnId, Status, Urgent};

use super::constants::{EAGAIN, EINVAL, ENOTCONN, EPIPE, MSG_MORE, MSG_OOB, MSG_PEEK};
use super::descriptors::Body;
use super::{Errno, Outcome, Process, Reply, fail};

/// Nothing more will be received or sent.
const OVER: Status = Status::ERROR.union(Status::CLOSED);

impl Process {
    /// Bytes, end of file or an error, if there is any of them now.
    pub(super) fn recv(&mut self, fd: i32, len: usize, flags: i32) -> Option<Outcome> {
        let socket = match self.table.socket(fd) {
            Ok(socket) => socket,
            Err(error) => return Some(Err(error)),
        };
        let (shut, inline) = (socket.shut_read, socket.oob_inline);
        let conn = match socket.body {
            Body::Stream(conn) => conn,
            Body::Idle if flags & MSG_OOB != 0 => return Some(fail(EINVAL)),
            _ => return Some(fail(ENOTCONN)),
        };
        let peek = flags & MSG_PEEK != 0;
        if flags & MSG_OOB != 0 {
            let urgent = if inline {
                Urgent::None
            } else {
                self.streams.urgent(conn.slot)
            };
            return Some(self.recv_urgent(conn, urgent, len, (peek, shut)));
        }
        let mut data = self.take_bytes(conn, len, peek);
        while data.is_empty() && len > 0 && !peek && self.streams.pass_mark(conn.slot, inline) {
            data = self.take_bytes(conn, len, peek);
        }
        if data.is_empty() && peek {
            data = vec![0; len];
            let n = self.streams.peek_past_mark(conn.slot, inline, &mut data);
            data.truncate(n);
        }
        if !data.is_empty() || len == 0 {
            return Some(Ok(Reply {
                data: data.clone(),
                ..Reply::of(data.len())
            }));
        }
        let status = self.streams.status(conn.slot);
        if status.contains(Status::EOF) {
            return Some(Ok(Reply::default()));
        }
        if status.intersects(OVER) {
            return Some(match self.take_error(fd) {
                Some(error) => Err(error),
                None => Ok(Reply::default()),
            });
        }
        shut.then(|| Ok(Reply::default()))
    }

    /// The urgent byte.
    fn recv_urgent(
        &mut self,
        conn: ConnId,
        urgent: Urgent,
        len: usize,
        (peek, shut): (bool, bool),
    ) -> Outcome {
        let status = self.streams.status(conn.slot);
        match urgent {
            Urgent::None | Urgent::Taken => fail(EINVAL),
            _ if status.intersects(OVER) && !status.contains(Status::EOF) => fail(ENOTCONN),
            Urgent::Announced if shut || status.intersects(OVER | Status::EOF) => {
                Ok(Reply::default())
            }
            Urgent::Announced => fail(EAGAIN),
            Urgent::Here(byte) => {
                if !peek {
                    self.streams.take_urgent(conn.slot);
                }
                let data: Vec<u8> = [byte].into_iter().take(len).collect();
                Ok(Reply {
                    data: data.clone(),
                    ..Reply::of(data.len())
                })
            }
        }
    }

    fn take_bytes(&mut self, conn: ConnId, len: usize, peek: bool) -> Vec<u8> {
        let there = self.streams.readable(conn.slot) as usize;
        let mut data = vec![0; len.min(there)];
        let n = if peek {
            self.streams.peek(conn.slot, &mut data)
        } else {
            self.streams.read(conn.slot, &mut data)
        };
        data.truncate(n);
        if n > 0 && !peek && self.streams.window_update_due(conn.slot) {
            let _ = self.execute(Command::Received(conn));
        }
        data
    }

    /// Takes what fits of `bytes` behind the first `written`; says so when it is all, or when it cannot go on.
    pub(super) fn send(
        &mut self,
        fd: i32,
        bytes: &[u8],
        flags: i32,
        written: &mut usize,
    ) -> Option<Outcome> {
        let socket = match self.table.socket(fd) {
            Ok(socket) => socket,
            Err(error) => return Some(Err(error)),
        };
        let (shut, deferred) = (socket.shut_write, socket.deferred);
        let Body::Stream(conn) = socket.body else {
            return Some(fail(EPIPE));
        };
        let status = self.streams.status(conn.slot);
        if shut || status.intersects(OVER | Status::WRITE_CLOSED) {
            if *written > 0 {
                return Some(Ok(Reply::of(*written)));
            }
            return Some(Err(self.take_error(fd).unwrap_or(Errno(EPIPE))));
        }
        // Linux has writers wait for the handshake too, unless it waits for one.
        if !status.contains(Status::CONNECTED) && !deferred {
            return None;
        }
        let rest = bytes.get(*written..).unwrap_or_default();
        let n = self.streams.write(conn.slot, rest);
        *written += n;
        if let Ok(socket) = self.table.socket_mut(fd) {
            socket.deferred = false;
        }
        if n > 0 || deferred {
            let more = flags & MSG_MORE != 0;
            let _ = self.execute(if flags & MSG_OOB != 0 {
                Command::SendUrgent(conn, self.streams.written(conn.slot))
            } else if more {
                Command::SendMore(conn)
            } else {
                Command::Send(conn)
            });
        }
        (*written >= bytes.len()).then(|| Ok(Reply::of(*written)))
    }

    /// The error that ended the connection, the first time it is asked for.
    pub(super) fn take_error(&mut self, fd: i32) -> Option<Errno> {
        let error = self.pending_error(fd)?;
        self.table.socket_mut(fd).ok()?.error_taken = true;
        Some(error)
    }

    /// The same, and it stays.
    pub(super) fn pending_error(&self, fd: i32) -> Option<Errno> {
        let socket = self.table.socket(fd).ok()?;
        let Body::Stream(conn) = socket.body else {
            return None;
        };
        let status = self.streams.status(conn.slot);
        if !status.contains(Status::ERROR) || socket.error_taken {
            return None;
        }
        let error = Errno(i32::from(status.errno()));
        // Linux: a reset in CLOSE_WAIT says that nobody reads what was written after the peer's FIN.
        let close_wait = status.contains(Status::EOF) && !socket.shut_write;
        let reset = error == Errno::from(mtcp_core::Error::Reset);
        Some(if reset && close_wait {
            Errno(EPIPE)
        } else {
            error
        })
    }
}
