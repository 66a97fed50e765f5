//! One stream: what a call reads, writes or finds out of it now, without waiting.

use std::io::IoSliceMut;

use mtcp_core::{ConnId, Status};

use super::SendFlags;
use super::table::{Flags, Socket};
use crate::driver::Doorbell;
use crate::transport::{OVER, Transport};
use crate::{Errno, Result};

/// A stream, borrowed for one step of a call.
#[derive(Debug)]
pub(crate) struct Stream<'a> {
    pub(crate) conn: ConnId,
    pub(crate) socket: &'a mut Socket,
    pub(crate) transport: &'a mut Transport,
    /// Calls return what the original mTCP does.
    pub(crate) legacy_errors: bool,
}

impl Stream<'_> {
    #[inline]
    pub(crate) fn status(&self) -> Status {
        self.transport.status(self.conn)
    }

    /// What the original mTCP refuses: calls on a connection that opens, and to move nothing on one
    /// that is open.
    pub(crate) fn check_as_original(&self, is_empty: bool) -> Result<()> {
        let status = self.status();
        if !status.intersects(OVER | Status::CONNECTED) {
            return Err(Errno::ENOTCONN);
        }
        if is_empty && !status.intersects(OVER | Status::EOF) {
            return Err(Errno::EAGAIN);
        }
        Ok(())
    }

    /// Bytes, end of file or an error, if there is any of them now.
    pub(crate) fn take_bytes(
        &mut self,
        bufs: &mut [IoSliceMut<'_>],
        peek: bool,
    ) -> Option<Result<usize>> {
        let n = self.copy_out(bufs, peek);
        if n > 0 || bufs.iter().all(|buf| buf.is_empty()) {
            return Some(Ok(n));
        }
        let status = self.status();
        if status.intersects(OVER | Status::EOF | Status::URGENT) {
            // The status is published after the bytes before it: what came between the two looks is
            // there now.
            let mut n = self.copy_out(bufs, peek);
            if n == 0 && status.contains(Status::URGENT) {
                n = self.copy_past_mark(bufs, peek);
            }
            if n > 0 {
                return Some(Ok(n));
            }
        }
        if status.intersects(OVER | Status::EOF) {
            return Some(self.read_end(status));
        }
        self.socket.flags.contains(Flags::SHUT_RD).then_some(Ok(0))
    }

    /// What a read says where nothing more will come.
    fn read_end(&mut self, status: Status) -> Result<usize> {
        // After the peer's FIN there is nothing to miss: as on Linux, an error is left for others
        // to find.
        if status.contains(Status::EOF) {
            return Ok(0);
        }
        match self.take_error() {
            Some(Errno::ECONNRESET) if self.legacy_errors => Ok(0),
            Some(error) => Err(error),
            None => Ok(0),
        }
    }

    #[inline]
    pub(super) fn copy_out(&mut self, bufs: &mut [IoSliceMut<'_>], peek: bool) -> usize {
        let streams = &mut self.transport.streams;
        if peek {
            // Looking does not advance: only the first buffer can be filled, and more than it holds
            // is never asked for.
            return bufs
                .first_mut()
                .map_or(0, |buf| streams.peek(self.conn.slot, buf));
        }
        let mut n = 0;
        for buf in bufs {
            let got = streams.read(self.conn.slot, buf);
            n += got;
            if got < buf.len() {
                break;
            }
        }
        if n > 0 && streams.window_update_due(self.conn.slot) {
            self.transport.driver.notify(Doorbell::Received(self.conn));
            self.transport.hand_over(!self.socket.nonblocking());
        }
        n
    }

    /// What fits, or an error, if there is any of them now.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8], send: SendFlags) -> Option<Result<usize>> {
        let flags = self.socket.flags;
        let status = self.status();
        if flags.contains(Flags::SHUT_WR) || status.intersects(OVER | Status::WRITE_CLOSED) {
            return Some(Err(self.write_error()));
        }
        if self.transport.is_down() {
            return Some(Err(Errno::ENETDOWN));
        }
        if flags.contains(Flags::DEFERRED) {
            return Some(Ok(self.put_first(bytes)));
        }
        if bytes.is_empty() {
            return Some(Ok(0));
        }
        // Linux has writers wait for the handshake too.
        if !status.contains(Status::CONNECTED) {
            return None;
        }
        let n = match send.contains(SendFlags::OOB) {
            true => self.put_urgent(bytes),
            false => self.transport.write(self.conn, bytes),
        };
        if n == 0 {
            return None;
        }
        let follows = send.contains(SendFlags::MORE) && !send.contains(SendFlags::OOB);
        // What did not fit all the same goes on its way: nobody knows when the rest comes.
        self.transport.driver.notify(match follows {
            true if n == bytes.len() => Doorbell::SendMore(self.conn),
            _ => Doorbell::Send(self.conn),
        });
        Some(Ok(n))
    }

    /// Bytes for the SYN to take along: as Linux, it goes with the first write, whatever there is
    /// in it.
    fn put_first(&mut self, bytes: &[u8]) -> usize {
        let n = self.transport.streams.write(self.conn.slot, bytes);
        self.socket.flags -= Flags::DEFERRED;
        self.transport.driver.notify(Doorbell::Send(self.conn));
        n
    }

    fn write_error(&mut self) -> Errno {
        let error = self.take_error().unwrap_or(Errno::EPIPE);
        if self.legacy_errors {
            Errno::ENOTCONN
        } else {
            error
        }
    }

    /// The error that ended the connection, the first time it is asked for.
    pub(crate) fn take_error(&mut self) -> Option<Errno> {
        let status = self.status();
        let flags = &mut self.socket.flags;
        if !status.contains(Status::ERROR) || flags.contains(Flags::ERROR_TAKEN) {
            return None;
        }
        *flags |= Flags::ERROR_TAKEN;
        let error = Errno(i32::from(status.errno()));
        // Linux: a reset in CLOSE_WAIT says that nobody reads what was written after the peer's
        // FIN.
        let close_wait = status.contains(Status::EOF) && !flags.contains(Flags::SHUT_WR);
        Some(if error == Errno::ECONNRESET && close_wait {
            Errno::EPIPE
        } else {
            error
        })
    }

    /// Whether SO_LINGER has something to wait for: data, or the FIN, that the peer has not
    /// acknowledged.
    pub(crate) fn may_linger(&self) -> bool {
        // Unread data means RST: there is nothing to wait for (RFC 2525 §2.17).
        self.transport.is_connected(self.conn)
            && self.transport.streams.readable(self.conn.slot) == 0
            && !self.transport.is_down()
    }

    /// Whether the peer has acknowledged everything, or never will.
    pub(crate) fn has_lingered(&self) -> bool {
        self.socket.flags.contains(Flags::DRAINED) || self.status().intersects(OVER)
    }
}
