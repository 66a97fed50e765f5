//! Pipes between parts of one thread.

use std::collections::VecDeque;

use crate::epoll::Events;
use crate::socket::table::{Body, Flags};
use crate::{Context, Domain, Errno, Result, SocketId};

/// Bytes that a pipe holds, as Linux has it.
const CAPACITY: usize = 65_536;
/// Writes up to this size are done wholly or not at all (PIPE_BUF of Linux).
const ATOMIC: usize = 4096;

/// Bytes on their way, and which ends are open.
#[derive(Debug)]
pub(crate) struct Pipe {
    bytes: VecDeque<u8>,
    reader: Option<SocketId>,
    writer: Option<SocketId>,
}

impl Pipe {
    /// What is true of the end with these flags.
    pub(crate) fn readiness(&self, flags: Flags) -> Events {
        let mut events = Events::empty();
        if flags.contains(Flags::WRITER) {
            if self.room() >= ATOMIC {
                events |= Events::OUT | Events::WRNORM;
            }
            if self.reader.is_none() {
                events |= Events::ERR;
            }
        } else {
            if !self.bytes.is_empty() {
                events |= Events::IN | Events::RDNORM;
            }
            if self.writer.is_none() {
                events |= Events::HUP;
            }
        }
        events
    }

    /// Bytes that can be read.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn room(&self) -> usize {
        CAPACITY - self.bytes.len()
    }

    /// Copies from the front; returns how much.
    fn peek(&self, buf: &mut [u8]) -> usize {
        let (first, second) = self.bytes.as_slices();
        let n = first.len().min(buf.len());
        let m = second.len().min(buf.len() - n);
        let (head, tail) = buf.split_at_mut(n);
        head.copy_from_slice(first.get(..n).unwrap_or_default());
        if let Some(tail) = tail.get_mut(..m) {
            tail.copy_from_slice(second.get(..m).unwrap_or_default());
        }
        n + m
    }
}

impl Context {
    /// A pipe inside this context: `(read end, write end)`. Nobody else can empty or fill it, so that a read or write that would block for
    /// ever says `EDEADLK` on a blocking end, `EAGAIN` on a non-blocking one.
    ///
    /// # Errors
    /// `ENFILE`.
    pub fn pipe(&mut self) -> Result<(SocketId, SocketId)> {
        let index = self.pipes.insert(Pipe {
            bytes: VecDeque::new(),
            reader: None,
            writer: None,
        });
        let end = |context: &mut Self, flags| {
            let details = context.table.blank(Domain::V4);
            context.table.insert(Body::Pipe(index), flags, details)
        };
        let reader = end(self, Flags::empty());
        let writer = reader.and_then(|_| end(self, Flags::WRITER));
        match (reader, writer, self.pipes.get_mut(index)) {
            (Ok(reader), Ok(writer), Some(pipe)) => {
                pipe.reader = Some(reader);
                pipe.writer = Some(writer);
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
        let n = pipe.peek(buf);
        if !peek {
            pipe.bytes.drain(..n);
        }
        if n == 0 && !buf.is_empty() {
            return if pipe.writer.is_none() {
                Ok(0)
            } else {
                Err(would_block(flags))
            };
        }
        if let Some(writer) = pipe.writer {
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
        let Some(reader) = pipe.reader else {
            return Err(Errno::EPIPE);
        };
        let n = bytes.len().min(pipe.room());
        if n < bytes.len() && (n == 0 || bytes.len() <= ATOMIC) {
            return Err(would_block(flags));
        }
        pipe.bytes.extend(bytes.iter().take(n));
        self.news(reader, Events::IN | Events::RDNORM);
        Ok(n)
    }

    /// Closes one end.
    pub(crate) fn close_pipe(&mut self, index: u32, flags: Flags) {
        let Some(pipe) = self.pipes.get_mut(index) else {
            return;
        };
        if flags.contains(Flags::WRITER) {
            pipe.writer = None;
        } else {
            pipe.reader = None;
        }
        match pipe.reader.or(pipe.writer) {
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
