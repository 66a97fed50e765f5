//! Pipes between parts of one thread.

mod buffer;

use std::io::IoSliceMut;

use crate::epoll::Events;
use crate::slab::Slab;
use crate::socket::table::Flags;
use crate::{Errno, Result, SocketId};

use buffer::Pipe;

/// All pipes of a context. An end is known by its index here and its flags.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    pipes: Slab<Pipe>,
}

impl Pipes {
    /// A pipe whose ends are not known yet. Returns its index.
    pub(crate) fn create(&mut self) -> u32 {
        self.pipes.insert(Pipe::new())
    }

    /// Opens both ends.
    pub(crate) fn open(&mut self, index: u32, reader: SocketId, writer: SocketId) {
        if let Some(pipe) = self.pipes.get_mut(index) {
            pipe.open(reader, writer);
        }
    }

    pub(crate) fn remove(&mut self, index: u32) {
        self.pipes.remove(index);
    }

    /// Bytes that can be read.
    pub(crate) fn len(&self, index: u32) -> usize {
        self.pipes.get(index).map_or(0, Pipe::len)
    }

    /// What is true of an end.
    pub(crate) fn readiness(&self, index: u32, flags: Flags) -> Events {
        let pipe = self.pipes.get(index);
        pipe.map_or(Events::empty(), |pipe| pipe.readiness(flags))
    }

    /// Reads. Returns how much, and the other end if that may be written to now.
    pub(crate) fn read(
        &mut self,
        index: u32,
        flags: Flags,
        bufs: &mut [IoSliceMut<'_>],
        peek: bool,
        is_blocking: bool,
    ) -> Result<(usize, Option<SocketId>)> {
        let (mut n, mut told) = (0, None);
        for buf in bufs {
            match self.read_one(index, flags, buf, peek, is_blocking) {
                Ok((got, writer)) => {
                    n += got;
                    told = writer;
                }
                Err(error) if n == 0 => return Err(error),
                Err(_) => break,
            }
            if peek {
                break;
            }
        }
        Ok((n, told))
    }

    fn read_one(
        &mut self,
        index: u32,
        flags: Flags,
        buf: &mut [u8],
        peek: bool,
        is_blocking: bool,
    ) -> Result<(usize, Option<SocketId>)> {
        let pipe = self.pipes.get_mut(index).ok_or(Errno::EBADF)?;
        if flags.contains(Flags::WRITER) {
            return Err(Errno::EBADF);
        }
        let n = pipe.read(buf, peek);
        match pipe.writer() {
            None => Ok((n, None)),
            Some(_) if n == 0 && !buf.is_empty() => Err(would_block(is_blocking)),
            writer => Ok((n, writer)),
        }
    }

    /// Writes. Returns how much, and the other end, which may be read from now.
    pub(crate) fn write(
        &mut self,
        index: u32,
        flags: Flags,
        bytes: &[u8],
        is_blocking: bool,
    ) -> Result<(usize, SocketId)> {
        let pipe = self.pipes.get_mut(index).ok_or(Errno::EBADF)?;
        if !flags.contains(Flags::WRITER) {
            return Err(Errno::EBADF);
        }
        let Some(reader) = pipe.reader() else {
            return Err(Errno::EPIPE);
        };
        let n = pipe.write(bytes);
        n.map(|n| (n, reader))
            .ok_or_else(|| would_block(is_blocking))
    }

    /// Closes an end. Returns the other one, if it is open.
    pub(crate) fn close(&mut self, index: u32, flags: Flags) -> Option<SocketId> {
        let other = self.pipes.get_mut(index)?.close(flags);
        if other.is_none() {
            self.pipes.remove(index);
        }
        other
    }
}

/// Nobody else can empty or fill a pipe: a call that waits would do so for ever.
fn would_block(is_blocking: bool) -> Errno {
    if is_blocking {
        Errno::EDEADLK
    } else {
        Errno::EAGAIN
    }
}
