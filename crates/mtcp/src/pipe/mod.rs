//! Pipes between parts of one thread.

mod buffer;

pub(crate) use buffer::Pipe;

use crate::epoll::Events;
use crate::socket::table::{Body, Flags};
use crate::{Context, Domain, Errno, Result, SocketId};

impl Context {
    /// A pipe inside this context: `(read end, write end)`. Nobody else can empty or fill it, so
    /// that a read or write that would block for ever says `EDEADLK` on a blocking end, `EAGAIN` on
    /// a non-blocking one.
    ///
    /// # Errors
    /// `ENFILE`.
    pub fn pipe(&mut self) -> Result<(SocketId, SocketId)> {
        let index = self.pipes.insert(Pipe::new());
        let end = |context: &mut Self, flags| {
            let details = context.table.blank(Domain::V4);
            context.table.insert(Body::Pipe(index), flags, details)
        };
        let reader = end(self, Flags::empty());
        let writer = reader.and_then(|_| end(self, Flags::WRITER));
        match (reader, writer, self.pipes.get_mut(index)) {
            (Ok(reader), Ok(writer), Some(pipe)) => {
                pipe.open(reader, writer);
                Ok((reader, writer))
            }
            _ => {
                if let Ok(reader) = reader {
                    self.table.remove(reader);
                }
                self.pipes.remove(index);
                Err(Errno::ENFILE)
            }
        }
    }

    pub(crate) fn pipe_read(
        &mut self,
        id: SocketId,
        index: u32,
        buf: &mut [u8],
        peek: bool,
    ) -> Result<usize> {
        let flags = self.table.get(id)?.flags;
        let pipe = self.pipes.get_mut(index).ok_or(Errno::EBADF)?;
        if flags.contains(Flags::WRITER) {
            return Err(Errno::EBADF);
        }
        let n = pipe.read(buf, peek);
        if n == 0 && !buf.is_empty() {
            return if pipe.writer().is_none() {
                Ok(0)
            } else {
                Err(would_block(flags))
            };
        }
        if let Some(writer) = pipe.writer() {
            self.news(writer, Events::OUT | Events::WRNORM);
        }
        Ok(n)
    }

    pub(crate) fn pipe_write(&mut self, id: SocketId, index: u32, bytes: &[u8]) -> Result<usize> {
        let flags = self.table.get(id)?.flags;
        let pipe = self.pipes.get_mut(index).ok_or(Errno::EBADF)?;
        if !flags.contains(Flags::WRITER) {
            return Err(Errno::EBADF);
        }
        let Some(reader) = pipe.reader() else {
            return Err(Errno::EPIPE);
        };
        let n = pipe.write(bytes).ok_or_else(|| would_block(flags))?;
        self.news(reader, Events::IN | Events::RDNORM);
        Ok(n)
    }

    /// Closes one end.
    pub(crate) fn close_pipe(&mut self, index: u32, flags: Flags) {
        let Some(pipe) = self.pipes.get_mut(index) else {
            return;
        };
        match pipe.close(flags) {
            Some(other) => self.news(other, Events::all()),
            None => drop(self.pipes.remove(index)),
        }
    }
}

fn would_block(flags: Flags) -> Errno {
    if flags.contains(Flags::NONBLOCKING) {
        Errno::EAGAIN
    } else {
        Errno::EDEADLK
    }
}
