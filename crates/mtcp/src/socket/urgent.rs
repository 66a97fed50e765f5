//! Urgent data, as Linux has it (tcp(7), RFC 6093): the last byte of what is urgent is taken out of
//! the stream, or is left there with SO_OOBINLINE; reading stops at it.

use std::io::IoSliceMut;

use mtcp_core::{Command, Status, Urgent};

use super::SocketId;
use super::stream::Stream;
use super::table::Flags;
use crate::transport::{OVER, Transport};
use crate::{Errno, Result};

/// Sockets with news of urgent data, if somebody wants to know.
#[derive(Debug, Default)]
pub(crate) struct UrgentNews(Option<Vec<SocketId>>);

impl UrgentNews {
    /// Notes them from now on.
    pub(crate) fn begin(&mut self) {
        self.0.get_or_insert_default();
    }

    /// One of them.
    pub(crate) fn take(&mut self) -> Option<SocketId> {
        self.0.as_mut()?.pop()
    }

    /// The peer has announced urgent data.
    #[cold]
    pub(crate) fn note(&mut self, id: SocketId) {
        if let Some(sockets) = self.0.as_mut()
            && !sockets.contains(&id)
        {
            sockets.push(id);
        }
    }
}

impl Stream<'_> {
    /// Whether what is read next came after the urgent byte.
    pub(crate) fn stands_at_mark(&self) -> bool {
        self.transport.streams.at_mark(self.conn.slot)
    }

    /// SO_OOBINLINE.
    fn is_inline(&self) -> bool {
        self.socket.flags.contains(Flags::OOB_INLINE)
    }

    /// Bytes of a stream that can be read before the urgent one.
    pub(crate) fn readable_to_mark(&self) -> u32 {
        let streams = &self.transport.streams;
        streams.readable_to_mark(self.conn.slot, self.is_inline())
    }

    /// Reading stopped at the urgent byte, and nothing was read: goes on behind it, as far as
    /// something is there.
    #[cold]
    pub(super) fn copy_past_mark(&mut self, bufs: &mut [IoSliceMut<'_>], peek: bool) -> usize {
        let (slot, inline) = (self.conn.slot, self.is_inline());
        if peek {
            let streams = &self.transport.streams;
            let first = bufs.first_mut();
            return first.map_or(0, |buf| streams.peek_past_mark(slot, inline, buf));
        }
        while self.transport.streams.pass_mark(slot, inline) {
            let n = self.copy_out(bufs, false);
            if n > 0 {
                return n;
            }
        }
        0
    }

    /// Whether the urgent byte is here.
    pub(crate) fn has_urgent(&self) -> bool {
        matches!(
            self.transport.streams.urgent(self.conn.slot),
            Urgent::Here(_)
        )
    }

    /// MSG_OOB: writes what fits, the end of which is the urgent byte, as on Linux. The stack may
    /// send at any time what it sees, so it has to know of the mark before the byte is there.
    #[cold]
    pub(super) fn put_urgent(&mut self, bytes: &[u8]) -> usize {
        let Transport {
            streams, driver, ..
        } = &mut *self.transport;
        let slot = self.conn.slot;
        if !streams.want_space(slot) {
            return 0;
        }
        let room = streams.writable(slot) as usize;
        let bytes = bytes.get(..room).unwrap_or(bytes);
        let mut mark = |end| {
            // Where the connection is gone, its own event says so.
            let _ = driver.call(Command::SendUrgent(self.conn, end));
        };
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        mark(streams.written(slot).wrapping_add(len));
        let n = streams.write(slot, bytes);
        if n < bytes.len() {
            // The memory was less than the room.
            mark(streams.written(slot));
        }
        n
    }

    /// MSG_OOB: takes the urgent byte apart. It never waits.
    pub(crate) fn take_urgent(&mut self, bufs: &mut [IoSliceMut<'_>], peek: bool) -> Result<usize> {
        if self.is_inline() {
            return Err(Errno::EINVAL);
        }
        let status = self.status();
        let failed = status.intersects(OVER);
        match self.transport.streams.urgent(self.conn.slot) {
            Urgent::None | Urgent::Taken => Err(Errno::EINVAL),
            _ if failed && !status.contains(Status::EOF) => Err(Errno::ENOTCONN),
            Urgent::Announced => {
                let shut = self.socket.flags.contains(Flags::SHUT_RD);
                let over = shut || failed || status.contains(Status::EOF);
                if over { Ok(0) } else { Err(Errno::EAGAIN) }
            }
            Urgent::Here(byte) => {
                if !peek {
                    self.transport.streams.take_urgent(self.conn.slot);
                }
                let place = bufs.iter_mut().find_map(|buf| buf.first_mut());
                Ok(place.map(|place| *place = byte).map_or(0, |()| 1))
            }
        }
    }
}
