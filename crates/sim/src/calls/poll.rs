//! Readiness, as `poll` and `epoll` see it.

use mtcp_core::{Status, Urgent};

use super::constants::{
    POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM,
};
use super::descriptors::{Body, File, Socket};
use super::{Outcome, Process, Reply};

/// One entry of `poll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// The descriptor; negative ones are skipped.
    pub fd: i32,
    /// What is asked for.
    pub events: i32,
    /// What is so.
    pub revents: i32,
}

const READABLE: i32 = POLLIN | POLLRDNORM;
const WRITABLE: i32 = POLLOUT | POLLWRNORM;

impl Process {
    /// What is true of a descriptor.
    pub(super) fn readiness(&mut self, fd: i32) -> i32 {
        match self.table.file(fd) {
            Err(_) => POLLNVAL,
            Ok(File::Epoll(_)) => self.epoll_readiness(fd),
            Ok(File::Pipe(end)) => self.pipe_readiness(*end),
            Ok(File::Socket(socket)) => match &socket.body {
                Body::Listener(_, queue) if queue.is_empty() => 0,
                Body::Listener(..) => READABLE,
                Body::Idle => WRITABLE | POLLHUP,
                Body::Stream(conn) => self.stream_readiness(fd, socket, conn.slot),
            },
        }
    }

    fn stream_readiness(&self, fd: i32, socket: &Socket, slot: u32) -> i32 {
        let status = self.streams.status(slot);
        let over = status.intersects(Status::ERROR | Status::CLOSED);
        let no_reads = over || socket.shut_read || status.contains(Status::EOF);
        let no_writes = over || socket.shut_write || status.contains(Status::WRITE_CLOSED);
        let mut events = 0;
        if no_reads && no_writes {
            events |= POLLHUP;
        }
        if no_reads {
            events |= READABLE | POLLRDHUP;
        }
        if socket.deferred {
            events |= WRITABLE;
        }
        if status.contains(Status::CONNECTED) || over {
            if self.streams.readable_past_mark(slot, socket.oob_inline) > 0 {
                events |= READABLE;
            }
            if matches!(self.streams.urgent(slot), Urgent::Here(_)) {
                events |= POLLPRI;
            }
            if no_writes || self.has_room(slot) {
                events |= WRITABLE;
            }
        }
        if self.pending_error(fd).is_some() {
            events |= POLLERR;
        }
        events
    }

    /// Linux: a third of the buffer is free.
    fn has_room(&self, slot: u32) -> bool {
        self.streams.writable(slot) >= self.streams.unsent(slot) / 2
            && self.streams.writable(slot) > 0
    }

    pub(super) fn poll(&mut self, fds: &[Polled]) -> Option<Outcome> {
        let mut polled = fds.to_vec();
        for entry in &mut polled {
            entry.revents = if entry.fd < 0 {
                0
            } else {
                self.readiness(entry.fd) & (entry.events | POLLERR | POLLHUP | POLLNVAL)
            };
        }
        let ready = polled.iter().filter(|entry| entry.revents != 0).count();
        (ready > 0).then(|| {
            Ok(Reply {
                polled,
                ..Reply::of(ready)
            })
        })
    }
}
