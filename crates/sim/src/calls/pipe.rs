//! Pipes: bytes between two descriptors of the process.

use std::collections::VecDeque;
use std::time::Duration;

use super::call::nonblocking;
use super::constants::{
    EBADF, EINVAL, EPIPE, POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDNORM, POLLWRNORM,
};
use super::descriptors::File;
use super::epoll::News;
use super::{Outcome, Process, Reply, fail};

/// What a pipe of Linux holds, bytes.
pub(super) const CAPACITY: usize = 64 << 10;

/// What is between the ends.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: VecDeque<u8>,
    reader_closed: bool,
    writer_closed: bool,
    news: News,
}

/// One end.
#[derive(Clone, Copy, Debug)]
pub(super) struct PipeEnd {
    /// Index of its buffer.
    buffer: usize,
    writer: bool,
    nonblocking: bool,
}

impl Process {
    pub(super) fn pipe(&mut self, flags: i32) -> Outcome {
        let buffer = self.table.pipes.len();
        self.table.pipes.push(Buffer::default());
        let end = |writer| {
            File::Pipe(PipeEnd {
                buffer,
                writer,
                nonblocking: nonblocking(flags),
            })
        };
        let reader = self.table.insert(end(false))?;
        let writer = self.table.insert(end(true))?;
        Ok(Reply {
            pipe: Some((reader, writer)),
            ..Reply::default()
        })
    }

    fn end(&mut self, fd: i32) -> Option<(PipeEnd, &mut Buffer)> {
        let Ok(File::Pipe(end)) = self.table.file(fd) else {
            return None;
        };
        let end = *end;
        Some((end, self.table.pipes.get_mut(end.buffer)?))
    }

    /// `read` of what is no socket.
    pub(super) fn read_file(&mut self, fd: i32, len: usize) -> Option<Outcome> {
        if let Err(error) = self.table.file(fd) {
            return Some(Err(error));
        }
        let Some((end, buffer)) = self.end(fd) else {
            return Some(fail(EINVAL));
        };
        if end.writer {
            return Some(fail(EBADF));
        }
        if buffer.bytes.is_empty() && !buffer.writer_closed && len > 0 {
            return None;
        }
        let n = len.min(buffer.bytes.len());
        let data: Vec<u8> = buffer.bytes.drain(..n).collect();
        buffer.news.writing += 1;
        Some(Ok(Reply {
            data,
            ..Reply::of(n)
        }))
    }

    /// `write` to what is no socket.
    pub(super) fn write_file(&mut self, fd: i32, bytes: &[u8]) -> Option<Outcome> {
        if let Err(error) = self.table.file(fd) {
            return Some(Err(error));
        }
        let Some((end, buffer)) = self.end(fd) else {
            return Some(fail(EINVAL));
        };
        if !end.writer {
            return Some(fail(EBADF));
        }
        if buffer.reader_closed {
            return Some(fail(EPIPE));
        }
        let room = CAPACITY - buffer.bytes.len();
        if room == 0 && !bytes.is_empty() {
            return None;
        }
        let n = bytes.len().min(room);
        buffer.bytes.extend(bytes.iter().take(n));
        buffer.news.reading += 1;
        Some(Ok(Reply::of(n)))
    }

    /// How many bytes a pipe holds.
    pub(super) fn pipe_len(&mut self, fd: i32) -> usize {
        self.end(fd).map_or(0, |(_, buffer)| buffer.bytes.len())
    }

    /// Its first bytes, which stay.
    pub(super) fn pipe_front(&mut self, fd: i32, len: usize) -> Vec<u8> {
        self.end(fd)
            .map(|(_, buffer)| buffer.bytes.iter().take(len).copied().collect())
            .unwrap_or_default()
    }

    pub(super) fn pipe_readiness(&self, end: PipeEnd) -> i32 {
        let Some(buffer) = self.table.pipes.get(end.buffer) else {
            return POLLERR;
        };
        let (some, room) = (!buffer.bytes.is_empty(), buffer.bytes.len() < CAPACITY);
        let flag = |is: bool, events: i32| if is { events } else { 0 };
        if end.writer {
            flag(room, POLLOUT | POLLWRNORM) | flag(buffer.reader_closed, POLLERR)
        } else {
            flag(some, POLLIN | POLLRDNORM) | flag(buffer.writer_closed, POLLHUP)
        }
    }

    pub(super) fn pipe_news(&self, end: PipeEnd) -> Option<News> {
        self.table.pipes.get(end.buffer).map(|buffer| buffer.news)
    }

    /// How long a call may wait on what is no socket.
    pub(super) fn pipe_limit(&self, fd: i32) -> Option<Duration> {
        match self.table.file(fd) {
            Ok(File::Pipe(end)) if !end.nonblocking => None,
            _ => Some(Duration::ZERO),
        }
    }

    /// Frees a descriptor that has no connection.
    pub(super) fn close_file(&mut self, fd: i32) {
        if let Some((end, buffer)) = self.end(fd) {
            if end.writer {
                buffer.writer_closed = true;
                buffer.news.reading += 1;
            } else {
                buffer.reader_closed = true;
                buffer.news.writing += 1;
            }
        }
        self.table.remove(fd);
    }

    /// O_NONBLOCK of any descriptor.
    pub(super) fn set_nonblocking(&mut self, fd: i32, on: bool) -> Outcome {
        match self.table.file_mut(fd)? {
            File::Socket(socket) => socket.nonblocking = on,
            File::Pipe(end) => end.nonblocking = on,
            File::Epoll(_) => {}
        }
        Ok(Reply::default())
    }

    pub(super) fn is_nonblocking(&self, fd: i32) -> bool {
        match self.table.file(fd) {
            Ok(File::Socket(socket)) => socket.nonblocking,
            Ok(File::Pipe(end)) => end.nonblocking,
            _ => false,
        }
    }
}
