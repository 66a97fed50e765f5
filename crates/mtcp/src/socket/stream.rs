//! Reading and writing.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::time::Duration;

use mtcp_core::{Acks, ConnId, Status};
use wire::time::Instant;

use super::table::{Body, Flags};
use super::{RecvFlags, SendFlags, SocketId};
use crate::driver::{Doorbell, Driver};
use crate::{Context, Errno, Result};

/// How long a call that waits several times still waits: the socket's time-out counts from its
/// first wait.
enum TimeLeft {
    Unasked,
    Endless,
    Until(Instant),
}

impl TimeLeft {
    fn left(
        &mut self,
        driver: &Driver,
        timeout: impl FnOnce() -> Option<Duration>,
    ) -> Option<Duration> {
        if let Self::Unasked = self {
            let until = |timeout| Self::Until(driver.read_clock() + timeout);
            *self = timeout().map_or(Self::Endless, until);
        }
        match self {
            Self::Until(at) => Some(at.since(driver.read_clock())),
            _ => None,
        }
    }
}

/// What a pipe says to a call that need not wait, on an end that would.
fn of_pipe(error: Errno, blocking: bool) -> Errno {
    match error {
        Errno::EDEADLK if !blocking => Errno::EAGAIN,
        error => error,
    }
}

/// Nothing more will be received or sent.
const OVER: Status = Status::ERROR.union(Status::CLOSED);

impl Context {
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
        self.receive(id, std::slice::from_mut(&mut buf), flags)
    }

    /// [`Context::read`] into several buffers.
    ///
    /// # Errors
    /// As `read`.
    pub fn readv(&mut self, id: SocketId, bufs: &mut [IoSliceMut<'_>]) -> Result<usize> {
        self.receive(id, bufs, RecvFlags::empty())
    }

    fn receive(
        &mut self,
        id: SocketId,
        bufs: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
    ) -> Result<usize> {
        let peek = flags.contains(RecvFlags::PEEK);
        if flags.contains(RecvFlags::OOB) {
            return self.receive_urgent(id, bufs, peek);
        }
        let socket = self.table.get(id)?;
        let blocking = !socket.nonblocking() && !flags.contains(RecvFlags::DONTWAIT);
        let conn = match socket.body {
            Body::Stream(conn) => conn,
            Body::Pipe(pipe) => {
                let read = self.pipe_readv(id, pipe, bufs, peek);
                return read.map_err(|error| of_pipe(error, blocking));
            }
            Body::Epoll(_) => return Err(Errno::EINVAL),
            Body::Idle => return Err(self.take_given_up(id).unwrap_or(Errno::ENOTCONN)),
            Body::Free(_) | Body::Listener(_) => return Err(Errno::ENOTCONN),
        };
        if self.settings.legacy_errors {
            let is_empty = bufs.iter().all(|buf| buf.is_empty());
            self.check_as_original(conn, is_empty)?;
        }
        let mut limit = TimeLeft::Unasked;
        let mut taken = self.take_bytes(id, conn, bufs, peek);
        if taken.is_none() && blocking {
            let left = limit.left(&self.driver, || self.recv_timeout(id));
            taken = self.wait_until(left, false, Acks::Due, |context| {
                context.take_bytes(id, conn, bufs, peek)
            })?;
        } else if taken.is_none() && self.progress(id) {
            taken = self.take_bytes(id, conn, bufs, peek);
        }
        let Some(taken) = taken else {
            return Err(self.would_block());
        };
        let n = taken?;
        if n == 0 || !blocking || peek {
            return Ok(n);
        }
        let wanted = self.wanted(id, bufs, flags);
        if n >= wanted {
            return Ok(n);
        }
        self.read_rest(id, conn, bufs, n, wanted, &mut limit)
    }

    /// What the original mTCP refuses: calls on a connection that opens, and to move nothing on one
    /// that is open.
    fn check_as_original(&self, conn: ConnId, is_empty: bool) -> Result<()> {
        let status = self.streams.status(conn.slot);
        if !status.intersects(OVER | Status::CONNECTED) {
            return Err(Errno::ENOTCONN);
        }
        if is_empty && !status.intersects(OVER | Status::EOF) {
            return Err(Errno::EAGAIN);
        }
        Ok(())
    }

    /// Bytes without which a blocking call does not return: SO_RCVLOWAT, MSG_WAITALL.
    fn wanted(&self, id: SocketId, bufs: &[IoSliceMut<'_>], flags: RecvFlags) -> usize {
        let room = || bufs.iter().map(|buf| buf.len()).sum::<usize>();
        if flags.contains(RecvFlags::WAITALL) {
            return room();
        }
        match self.low_water(id) {
            1 => 1,
            bytes => room().min(bytes),
        }
    }

    /// Bytes that a blocking read waits for (SO_RCVLOWAT).
    pub fn low_water(&self, id: SocketId) -> usize {
        let socket = self.table.get(id);
        if socket.is_ok_and(|socket| socket.flags.contains(Flags::LOW_WATER)) {
            self.table.recv_low_water(id) as usize
        } else {
            1
        }
    }

    /// How long a reading call may wait.
    pub(super) fn recv_timeout(&self, id: SocketId) -> Option<Duration> {
        self.table.choices_of(id).ok()?.recv_timeout
    }

    fn send_timeout(&self, id: SocketId) -> Option<Duration> {
        self.table.choices_of(id).ok()?.send_timeout
    }

    /// What a call that would block says.
    fn would_block(&self) -> Errno {
        self.driver.check().err().unwrap_or(Errno::EAGAIN)
    }

    /// Reads on after `done` bytes until `wanted` are there; end of file, errors, signals and
    /// time-outs end it early.
    fn read_rest(
        &mut self,
        id: SocketId,
        conn: ConnId,
        bufs: &mut [IoSliceMut<'_>],
        done: usize,
        wanted: usize,
        limit: &mut TimeLeft,
    ) -> Result<usize> {
        let (mut filled, mut skip) = (done, done);
        for buf in bufs {
            let mut at = skip.min(buf.len());
            skip -= at;
            while let Some(rest) = buf.get_mut(at..).filter(|rest| !rest.is_empty()) {
                if filled >= wanted {
                    return Ok(filled);
                }
                let mut rest = [IoSliceMut::new(rest)];
                let left = limit.left(&self.driver, || self.recv_timeout(id));
                let more = self.wait_until(left, false, Acks::Due, |context| {
                    if context.stands_at_mark(conn) {
                        return Some(Ok(0));
                    }
                    context.take_bytes(id, conn, &mut rest, false)
                });
                let Ok(Some(Ok(n @ 1..))) = more else {
                    return Ok(filled);
                };
                at += n;
                filled += n;
            }
        }
        Ok(filled)
    }

    /// Bytes, end of file or an error, if there is any of them now.
    fn take_bytes(
        &mut self,
        id: SocketId,
        conn: ConnId,
        bufs: &mut [IoSliceMut<'_>],
        peek: bool,
    ) -> Option<Result<usize>> {
        let n = self.copy_out(id, conn, bufs, peek);
        if n > 0 || bufs.iter().all(|buf| buf.is_empty()) {
            return Some(Ok(n));
        }
        let status = self.streams.status(conn.slot);
        if status.intersects(OVER | Status::EOF | Status::URGENT) {
            // The status is published after the bytes before it: what came between the two looks is
            // there now.
            let mut n = self.copy_out(id, conn, bufs, peek);
            if n == 0 && status.contains(Status::URGENT) {
                n = self.copy_past_mark(id, conn, bufs, peek);
            }
            if n > 0 {
                return Some(Ok(n));
            }
        }
        if status.intersects(OVER | Status::EOF) {
            // After the peer's FIN there is nothing to miss: as on Linux, an error is left for
            // others to find.
            if status.contains(Status::EOF) {
                return Some(Ok(0));
            }
            return Some(match self.take_stream_error(id, conn) {
                Some(Errno::ECONNRESET) if self.settings.legacy_errors => Ok(0),
                Some(error) => Err(error),
                None => Ok(0),
            });
        }
        let shut = self
            .table
            .get(id)
            .is_ok_and(|socket| socket.flags.contains(Flags::SHUT_RD));
        if shut {
            return Some(Ok(0));
        }
        None
    }

    #[inline]
    pub(super) fn copy_out(
        &mut self,
        id: SocketId,
        conn: ConnId,
        bufs: &mut [IoSliceMut<'_>],
        peek: bool,
    ) -> usize {
        if peek {
            // Looking does not advance: only the first buffer can be filled, and more than it holds
            // is never asked for.
            return bufs
                .first_mut()
                .map_or(0, |buf| self.streams.peek(conn.slot, buf));
        }
        let mut n = 0;
        for buf in bufs {
            let got = self.streams.read(conn.slot, buf);
            n += got;
            if got < buf.len() {
                break;
            }
        }
        if n > 0 && self.streams.window_update_due(conn.slot) {
            self.driver.ring(Doorbell::Received(conn));
            self.hand_over(id);
        }
        n
    }

    fn pipe_readv(
        &mut self,
        id: SocketId,
        pipe: u32,
        bufs: &mut [IoSliceMut<'_>],
        peek: bool,
    ) -> Result<usize> {
        let mut n = 0;
        for buf in bufs {
            match self.pipe_read(id, pipe, buf, peek) {
                Ok(got) => n += got,
                Err(error) if n == 0 => return Err(error),
                Err(_) => break,
            }
            if peek {
                break;
            }
        }
        Ok(n)
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
        if flags.contains(SendFlags::FASTOPEN) {
            let blocking =
                !self.table.get(id)?.nonblocking() && !flags.contains(SendFlags::DONTWAIT);
            self.open_fast(id, remote, blocking)?;
        }
        let sent = self.put(id, bytes, flags);
        self.hand_over(id);
        sent
    }

    /// Writes; what it stages is not handed over.
    fn put(&mut self, id: SocketId, bytes: &[u8], flags: SendFlags) -> Result<usize> {
        let socket = self.table.get(id)?;
        let blocking = !socket.nonblocking() && !flags.contains(SendFlags::DONTWAIT);
        let conn = match socket.body {
            Body::Stream(conn) => conn,
            Body::Pipe(pipe) => {
                let written = self.pipe_write(id, pipe, bytes);
                return written.map_err(|error| of_pipe(error, blocking));
            }
            Body::Epoll(_) => return Err(Errno::EINVAL),
            Body::Idle => return Err(self.take_given_up(id).unwrap_or(Errno::ENOTCONN)),
            Body::Free(_) | Body::Listener(_) => return Err(Errno::ENOTCONN),
        };
        if self.settings.legacy_errors && !socket.flags.contains(Flags::DEFERRED) {
            self.check_as_original(conn, bytes.is_empty() && !blocking)?;
        }
        let mut written = 0;
        match self.put_bytes(id, conn, bytes, flags) {
            Some(result) => written += result?,
            None if blocking => {}
            None => {
                let again = if self.progress(id) {
                    self.put_bytes(id, conn, bytes, flags)
                } else {
                    None
                };
                return again.unwrap_or(Err(self.would_block()));
            }
        }
        if blocking && written < bytes.len() {
            return self.write_rest(id, conn, bytes, written, flags);
        }
        Ok(written)
    }

    /// Blocks until all is written; an error after the first bytes is left for the next call.
    fn write_rest(
        &mut self,
        id: SocketId,
        conn: ConnId,
        bytes: &[u8],
        mut written: usize,
        flags: SendFlags,
    ) -> Result<usize> {
        let mut limit = TimeLeft::Unasked;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            let left = limit.left(&self.driver, || self.send_timeout(id));
            let put = self.wait_until(left, false, Acks::Due, |context| {
                context.put_bytes(id, conn, rest, flags)
            });
            match put.and_then(|put| put.unwrap_or(Err(Errno::EAGAIN))) {
                Ok(n) => written += n,
                Err(error) if written == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    /// [`Context::write`] from several buffers.
    ///
    /// # Errors
    /// As `write`.
    pub fn writev(&mut self, id: SocketId, bufs: &[IoSlice<'_>]) -> Result<usize> {
        let written = self.put_all(id, bufs);
        self.hand_over(id);
        written
    }

    fn put_all(&mut self, id: SocketId, bufs: &[IoSlice<'_>]) -> Result<usize> {
        let mut written = 0;
        let mut bufs = bufs.iter().filter(|buf| !buf.is_empty()).peekable();
        if bufs.peek().is_none() {
            return self.put(id, &[], SendFlags::empty());
        }
        for buf in bufs {
            match self.put(id, buf, SendFlags::empty()) {
                Ok(n) => {
                    written += n;
                    if n < buf.len() {
                        break;
                    }
                }
                Err(error) if written == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    /// What fits, or an error, if there is any of them now.
    fn put_bytes(
        &mut self,
        id: SocketId,
        conn: ConnId,
        bytes: &[u8],
        send: SendFlags,
    ) -> Option<Result<usize>> {
        let flags = match self.table.get(id) {
            Ok(socket) => socket.flags,
            Err(error) => return Some(Err(error)),
        };
        let status = self.streams.status(conn.slot);
        if flags.contains(Flags::SHUT_WR) || status.intersects(OVER | Status::WRITE_CLOSED) {
            return Some(Err(self.write_error(id, conn)));
        }
        if self.driver.failure().is_some() {
            return Some(Err(Errno::ENETDOWN));
        }
        if flags.contains(Flags::DEFERRED) {
            return Some(Ok(self.put_first(id, conn, bytes)));
        }
        if bytes.is_empty() {
            return Some(Ok(0));
        }
        // Linux has writers wait for the handshake too.
        if !status.contains(Status::CONNECTED) {
            return None;
        }
        let n = self.streams.write(conn.slot, bytes);
        if n == 0 {
            return None;
        }
        self.ahead += n;
        // What did not fit all the same goes on its way: nobody knows when the rest comes.
        self.driver.ring(if send.contains(SendFlags::OOB) {
            // As on Linux, the end of what was taken is the urgent byte.
            Doorbell::SendUrgent(conn, self.streams.written(conn.slot))
        } else if send.contains(SendFlags::MORE) && n == bytes.len() {
            Doorbell::SendMore(conn)
        } else {
            Doorbell::Send(conn)
        });
        Some(Ok(n))
    }

    /// Bytes for the SYN to take along: as Linux, it goes with the first write, whatever there is
    /// in it.
    fn put_first(&mut self, id: SocketId, conn: ConnId, bytes: &[u8]) -> usize {
        let n = self.streams.write(conn.slot, bytes);
        if let Ok(socket) = self.table.get_mut(id) {
            socket.flags -= Flags::DEFERRED;
        }
        self.driver.ring(Doorbell::Send(conn));
        n
    }

    fn write_error(&mut self, id: SocketId, conn: ConnId) -> Errno {
        let error = self.take_stream_error(id, conn).unwrap_or(Errno::EPIPE);
        if self.settings.legacy_errors {
            Errno::ENOTCONN
        } else {
            error
        }
    }

    /// The error that ended the connection, the first time it is asked for.
    pub(super) fn take_stream_error(&mut self, id: SocketId, conn: ConnId) -> Option<Errno> {
        let status = self.streams.status(conn.slot);
        let socket = self.table.get_mut(id).ok()?;
        if !status.contains(Status::ERROR) || socket.flags.contains(Flags::ERROR_TAKEN) {
            return None;
        }
        socket.flags |= Flags::ERROR_TAKEN;
        let error = Errno(i32::from(status.errno()));
        // Linux: a reset in CLOSE_WAIT says that nobody reads what was written after the peer's
        // FIN.
        let close_wait = status.contains(Status::EOF) && !socket.flags.contains(Flags::SHUT_WR);
        Some(if error == Errno::ECONNRESET && close_wait {
            Errno::EPIPE
        } else {
            error
        })
    }

    /// Bytes written and not acknowledged, and how many of them were not sent at all (SIOCOUTQ,
    /// SIOCOUTQNSD).
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (a listener), `ENOTSOCK`, `ENETDOWN`.
    pub fn unacknowledged(&mut self, id: SocketId) -> Result<(u32, u32)> {
        // Who asks waits for it to change.
        self.progress(id);
        match self.info(id) {
            Ok(info) => Ok((info.unacked, info.not_sent)),
            Err(Errno::ENOTCONN) => Ok((0, 0)),
            Err(error) => Err(error),
        }
    }

    /// Bytes that can be read now (FIONREAD).
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (a listener), `ENOTSOCK` (an epoll instance).
    pub fn available(&mut self, id: SocketId) -> Result<usize> {
        match self.table.get(id)?.body {
            Body::Stream(conn) => {
                let mut n = self.readable_to_mark(id, conn);
                if n == 0 && self.progress(id) {
                    n = self.readable_to_mark(id, conn);
                }
                Ok(n as usize)
            }
            Body::Pipe(pipe) => Ok(self.pipes.get(pipe).map_or(0, crate::pipe::Pipe::len)),
            Body::Listener(_) => Err(Errno::EINVAL),
            Body::Epoll(_) => Err(Errno::ENOTSOCK),
            Body::Free(_) | Body::Idle => Ok(0),
        }
    }
}
