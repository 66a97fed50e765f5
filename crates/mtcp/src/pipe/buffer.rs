//! What is in a pipe, and which of its ends are open.

use std::collections::VecDeque;

use crate::SocketId;
use crate::epoll::Events;
use crate::socket::table::Flags;

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

    /// One whose ends are not known yet.
    pub(super) fn new() -> Self {
        Self {
            bytes: VecDeque::new(),
            reader: None,
            writer: None,
        }
    }

    /// Opens both ends.
    pub(super) fn open(&mut self, reader: SocketId, writer: SocketId) {
        self.reader = Some(reader);
        self.writer = Some(writer);
    }

    /// The end that is read from, unless it was closed.
    pub(super) fn reader(&self) -> Option<SocketId> {
        self.reader
    }

    /// The end that is written to, unless it was closed.
    pub(super) fn writer(&self) -> Option<SocketId> {
        self.writer
    }

    /// Copies from the front, and removes that unless it is to `peek` only. Returns how much.
    pub(super) fn read(&mut self, buf: &mut [u8], peek: bool) -> usize {
        let n = self.peek(buf);
        if !peek {
            self.bytes.drain(..n);
        }
        n
    }

    /// Appends as many bytes as have room, and says how many. `None`: that has to wait for room.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Option<usize> {
        let n = bytes.len().min(self.room());
        if n < bytes.len() && (n == 0 || bytes.len() <= ATOMIC) {
            return None;
        }
        self.bytes.extend(bytes.iter().take(n));
        Some(n)
    }

    /// Closes the end with these flags. Returns the other one, if it is open.
    pub(super) fn close(&mut self, flags: Flags) -> Option<SocketId> {
        if flags.contains(Flags::WRITER) {
            self.writer = None;
        } else {
            self.reader = None;
        }
        self.reader.or(self.writer)
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
