//! Urgent data, as Linux has it (tcp(7), RFC 6093): the last byte of what is urgent is taken out of
//! the stream, or is left there with SO_OOBINLINE; reading stops at it.

use std::io::IoSliceMut;

use mtcp_core::{ConnId, Status, Urgent};

use super::SocketId;
use super::table::{Body, Flags};
use crate::{Context, Errno, Result};

impl Context {
    /// Whether the socket stands at the urgent byte: what is read next came after it (SIOCATMARK,
    /// sockatmark(3)).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK` (an epoll instance or a pipe), `EINVAL` (a listener).
    pub fn at_mark(&mut self, id: SocketId) -> Result<bool> {
        match self.table.look(id)?.0.body {
            Body::Stream(conn) => Ok(self.stands_at_mark(conn)),
            Body::Listener(_) => Err(Errno::EINVAL),
            _ => Ok(false),
        }
    }

    /// Notes from now on which sockets the peer sends urgent data to, for
    /// [`take_urgent`](Self::take_urgent).
    pub fn tell_urgent(&mut self) {
        self.urgent.get_or_insert_default();
    }

    /// A socket that the peer has announced urgent data for (SIGURG), if
    /// [`tell_urgent`](Self::tell_urgent) asked for it.
    pub fn take_urgent(&mut self) -> Option<SocketId> {
        self.urgent.as_mut()?.pop()
    }

    /// The peer has announced urgent data.
    #[cold]
    pub(crate) fn note_urgent(&mut self, id: SocketId) {
        if let Some(urgent) = self.urgent.as_mut()
            && !urgent.contains(&id)
        {
            urgent.push(id);
        }
    }

    pub(super) fn stands_at_mark(&self, conn: ConnId) -> bool {
        self.streams.at_mark(conn.slot)
    }

    /// SO_OOBINLINE.
    fn is_inline(&self, id: SocketId) -> bool {
        let socket = self.table.get(id);
        socket.is_ok_and(|socket| socket.flags.contains(Flags::OOB_INLINE))
    }

    /// Bytes of a stream that can be read before the urgent one.
    pub(super) fn readable_to_mark(&self, id: SocketId, conn: ConnId) -> u32 {
        self.streams.readable_to_mark(conn.slot, self.is_inline(id))
    }

    /// Reading stopped at the urgent byte, and nothing was read: goes on behind it, as far as
    /// something is there.
    #[cold]
    pub(super) fn copy_past_mark(
        &mut self,
        id: SocketId,
        conn: ConnId,
        bufs: &mut [IoSliceMut<'_>],
        peek: bool,
    ) -> usize {
        let inline = self.is_inline(id);
        if peek {
            let first = bufs.first_mut();
            return first.map_or(0, |buf| self.streams.peek_past_mark(conn.slot, inline, buf));
        }
        while self.streams.pass_mark(conn.slot, inline) {
            let n = self.copy_out(id, conn, bufs, false);
            if n > 0 {
                return n;
            }
        }
        0
    }

    /// MSG_OOB: takes the urgent byte apart. It never waits.
    pub(super) fn receive_urgent(
        &mut self,
        id: SocketId,
        bufs: &mut [IoSliceMut<'_>],
        peek: bool,
    ) -> Result<usize> {
        let conn = match self.table.get(id)?.body {
            Body::Stream(conn) => conn,
            Body::Idle => return Err(Errno::EINVAL),
            Body::Pipe(_) | Body::Epoll(_) => return Err(Errno::ENOTSOCK),
            Body::Free(_) | Body::Listener(_) => return Err(Errno::ENOTCONN),
        };
        let mut urgent = self.streams.urgent(conn.slot);
        if !matches!(urgent, Urgent::Here(_)) && self.progress(id) {
            urgent = self.streams.urgent(conn.slot);
        }
        if self.is_inline(id) {
            return Err(Errno::EINVAL);
        }
        let status = self.streams.status(conn.slot);
        let failed = status.intersects(Status::ERROR | Status::CLOSED);
        match urgent {
            Urgent::None | Urgent::Taken => Err(Errno::EINVAL),
            _ if failed && !status.contains(Status::EOF) => Err(Errno::ENOTCONN),
            Urgent::Announced => {
                let shut = self.table.get(id)?.flags.contains(Flags::SHUT_RD);
                let over = shut || failed || status.contains(Status::EOF);
                if over { Ok(0) } else { Err(Errno::EAGAIN) }
            }
            Urgent::Here(byte) => {
                if !peek {
                    self.streams.take_urgent(conn.slot);
                }
                let place = bufs.iter_mut().find_map(|buf| buf.first_mut());
                Ok(place.map(|place| *place = byte).map_or(0, |()| 1))
            }
        }
    }
}
