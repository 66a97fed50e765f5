//! Calls as values, so that one that waits needs no thread.

use std::net::SocketAddr;
use std::time::Duration;

use wire::time::Instant;

use super::constants::{
    EAGAIN, ECONNABORTED, EINPROGRESS, EISCONN, MSG_DONTWAIT, MSG_WAITALL, O_NONBLOCK,
    SOCK_NONBLOCK,
};
use super::descriptors::File;
use super::epoll::Watch;
use super::poll::Polled;
use super::{Errno, Outcome, Process, fail};

/// A call with its arguments; descriptors, levels, names and flags are Linux's.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Kind {
    Socket {
        domain: i32,
        kind: i32,
        protocol: i32,
    },
    Bind {
        fd: i32,
        addr: SocketAddr,
    },
    Listen {
        fd: i32,
        backlog: i32,
    },
    Accept {
        fd: i32,
        flags: i32,
    },
    Connect {
        fd: i32,
        addr: SocketAddr,
    },
    Receive {
        fd: i32,
        len: usize,
        flags: i32,
    },
    Send {
        fd: i32,
        bytes: Vec<u8>,
        flags: i32,
        /// Where to; only Fast Open needs it.
        to: Option<SocketAddr>,
    },
    /// `read` and `write` of any descriptor.
    Read {
        fd: i32,
        len: usize,
    },
    Write {
        fd: i32,
        bytes: Vec<u8>,
    },
    Shutdown {
        fd: i32,
        how: i32,
    },
    Close {
        fd: i32,
    },
    SetOption {
        fd: i32,
        level: i32,
        name: i32,
        value: Vec<u8>,
    },
    /// `len` is the room for the value, bytes.
    GetOption {
        fd: i32,
        level: i32,
        name: i32,
        len: usize,
    },
    Fcntl {
        fd: i32,
        command: i32,
        argument: i32,
    },
    Ioctl {
        fd: i32,
        request: i32,
        argument: i32,
    },
    Poll {
        fds: Vec<Polled>,
        timeout_ms: i32,
    },
    EpollCreate {
        flags: i32,
    },
    EpollControl {
        epoll: i32,
        operation: i32,
        fd: i32,
        watch: Watch,
    },
    EpollWait {
        epoll: i32,
        max: usize,
        timeout_ms: i32,
    },
    Pipe {
        flags: i32,
    },
    Splice {
        from: i32,
        to: i32,
        len: usize,
        flags: i32,
    },
    LocalName {
        fd: i32,
    },
    PeerName {
        fd: i32,
    },
}

/// What a call that succeeded gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The return value.
    pub value: i64,
    /// Bytes read, or the value of an option.
    pub data: Vec<u8>,
    /// An address: of the peer accepted, of a name asked for.
    pub addr: Option<SocketAddr>,
    /// What `poll` found.
    pub polled: Vec<Polled>,
    /// What `epoll_wait` found.
    pub events: Vec<Watch>,
    /// The two ends of a pipe, for reading and for writing.
    pub pipe: Option<(i32, i32)>,
    /// The number that `ioctl` leaves in its argument.
    pub number: i32,
}

impl Reply {
    pub(super) fn of(value: impl TryInto<i64>) -> Self {
        Self {
            value: value.try_into().unwrap_or(i64::MAX),
            ..Self::default()
        }
    }
}

/// A call under way.
#[derive(Debug)]
pub struct Call {
    kind: Kind,
    /// It gives up waiting then.
    deadline: Option<Instant>,
    started: bool,
    /// Bytes that it moved already.
    done: Vec<u8>,
    written: usize,
    result: Option<Outcome>,
}

impl Call {
    /// The call; nothing happens before it is polled.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            deadline: None,
            started: false,
            done: Vec::new(),
            written: 0,
            result: None,
        }
    }

    /// When it wants to be polled although nothing may have happened: its time-out.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// What it returns; `None`: it waits. Do not poll again after it returned.
    pub fn poll(&mut self, process: &mut Process) -> Option<Outcome> {
        if !self.started {
            self.started = true;
            self.deadline = self.timeout(process).map(|timeout| process.now + timeout);
        }
        let outcome = self.attempt(process);
        if outcome.is_none()
            && self
                .deadline
                .is_some_and(|deadline| deadline <= process.now)
        {
            return Some(self.timed_out(process));
        }
        if outcome.is_some() {
            process.turn();
        }
        outcome
    }

    /// How long it may wait; `None`: for ever. 0 for what never waits.
    fn timeout(&self, process: &Process) -> Option<Duration> {
        match &self.kind {
            Kind::Poll { timeout_ms, .. } | Kind::EpollWait { timeout_ms, .. } => {
                u64::try_from(*timeout_ms).ok().map(Duration::from_millis)
            }
            Kind::Accept { fd, .. } => process.wait_limit(*fd, 0, true),
            Kind::Receive { fd, flags, .. } => process.wait_limit(*fd, *flags, true),
            Kind::Read { fd, .. } => process.wait_limit(*fd, 0, true),
            Kind::Send { fd, flags, .. } => process.wait_limit(*fd, *flags, false),
            Kind::Connect { fd, .. } | Kind::Write { fd, .. } => process.wait_limit(*fd, 0, false),
            Kind::Close { fd } => process.linger_limit(*fd),
            Kind::Splice { from, flags, .. } => process.splice_limit(*from, *flags),
            _ => Some(Duration::ZERO),
        }
    }

    fn attempt(&mut self, process: &mut Process) -> Option<Outcome> {
        let first = self.result.is_none();
        match &self.kind {
            Kind::Accept { fd, flags } => process.accept(*fd, *flags),
            Kind::Connect { fd, addr } => {
                let outcome = process.connect(*fd, *addr, first);
                self.result = Some(Ok(Reply::default()));
                outcome
            }
            Kind::Receive { fd, len, flags } => {
                let (fd, len, flags) = (*fd, *len, *flags);
                self.receive(process, fd, len, flags)
            }
            Kind::Read { fd, len } => {
                let (fd, len) = (*fd, *len);
                match process.table.file(fd) {
                    Ok(File::Socket(_)) => self.receive(process, fd, len, 0),
                    _ => process.read_file(fd, len),
                }
            }
            Kind::Send {
                fd,
                bytes,
                flags,
                to,
            } => {
                if let Err(error) = process.open_fast(*fd, *flags, *to) {
                    return Some(Err(error));
                }
                process.send(*fd, bytes, *flags, &mut self.written)
            }
            Kind::Write { fd, bytes } => match process.table.file(*fd) {
                Ok(File::Socket(_)) => process.send(*fd, bytes, 0, &mut self.written),
                _ => process.write_file(*fd, bytes),
            },
            Kind::Close { fd } => {
                let outcome = process.close(*fd, first);
                self.result = Some(Ok(Reply::default()));
                outcome
            }
            Kind::Splice { from, to, len, .. } => process.splice(*from, *to, *len),
            Kind::Poll { fds, .. } => process.poll(fds),
            Kind::EpollWait { epoll, max, .. } => process.epoll_wait(*epoll, *max),
            _ => Some(self.at_once(process)),
        }
    }

    /// MSG_WAITALL goes on until it has everything, an end or an error.
    fn receive(
        &mut self,
        process: &mut Process,
        fd: i32,
        len: usize,
        flags: i32,
    ) -> Option<Outcome> {
        let reply = match process.recv(fd, len - self.done.len(), flags)? {
            Ok(reply) => reply,
            Err(_) if !self.done.is_empty() => return Some(Ok(self.received())),
            Err(error) => return Some(Err(error)),
        };
        if flags & MSG_WAITALL == 0 || reply.value == 0 || flags & MSG_DONTWAIT != 0 {
            return Some(Ok(if self.done.is_empty() {
                reply
            } else {
                self.received()
            }));
        }
        self.done.extend(reply.data);
        (self.done.len() >= len).then(|| Ok(self.received()))
    }

    fn received(&mut self) -> Reply {
        let data = std::mem::take(&mut self.done);
        Reply {
            data: data.clone(),
            ..Reply::of(data.len())
        }
    }

    /// The calls that never wait.
    fn at_once(&self, process: &mut Process) -> Outcome {
        match &self.kind {
            Kind::Socket {
                domain,
                kind,
                protocol,
            } => process.socket(*domain, *kind, *protocol),
            Kind::Bind { fd, addr } => process.bind(*fd, *addr),
            Kind::Listen { fd, backlog } => process.listen(*fd, *backlog),
            Kind::Shutdown { fd, how } => process.shutdown(*fd, *how),
            Kind::SetOption {
                fd,
                level,
                name,
                value,
            } => process.set_option(*fd, (*level, *name), value),
            Kind::GetOption {
                fd,
                level,
                name,
                len,
            } => process.option(*fd, (*level, *name), *len),
            Kind::Fcntl {
                fd,
                command,
                argument,
            } => process.fcntl(*fd, *command, *argument),
            Kind::Ioctl {
                fd,
                request,
                argument,
            } => process.ioctl(*fd, *request, *argument),
            Kind::EpollCreate { flags } => process.epoll_create(*flags),
            Kind::EpollControl {
                epoll,
                operation,
                fd,
                watch,
            } => process.epoll_control(*epoll, *operation, *fd, *watch),
            Kind::Pipe { flags } => process.pipe(*flags),
            Kind::LocalName { fd } => process.local_name(*fd),
            Kind::PeerName { fd } => process.peer_name(*fd),
            _ => fail(EAGAIN),
        }
    }

    /// What it returns when it may wait no longer.
    fn timed_out(&mut self, process: &mut Process) -> Outcome {
        match &self.kind {
            Kind::Poll { fds, .. } => Ok(Reply {
                polled: fds.clone(),
                ..Reply::default()
            }),
            Kind::EpollWait { .. } | Kind::Close { .. } => {
                if let Kind::Close { fd } = self.kind {
                    process.let_go(fd);
                }
                Ok(Reply::default())
            }
            Kind::Connect { .. } => fail(EINPROGRESS),
            Kind::Send { fd, flags, .. } if process.is_opening_fast(*fd, *flags) => {
                fail(EINPROGRESS)
            }
            _ if self.written > 0 => Ok(Reply::of(self.written)),
            _ if !self.done.is_empty() => Ok(self.received()),
            _ => fail(EAGAIN),
        }
    }
}

impl Process {
    /// How long a call may wait on a socket.
    pub(super) fn wait_limit(&self, fd: i32, flags: i32, reading: bool) -> Option<Duration> {
        let Ok(socket) = self.table.socket(fd) else {
            return self.pipe_limit(fd);
        };
        if socket.nonblocking || flags & MSG_DONTWAIT != 0 {
            return Some(Duration::ZERO);
        }
        if reading {
            socket.recv_timeout
        } else {
            socket.send_timeout
        }
    }
}

/// Whether the flags of `socket` or `accept4` ask for a descriptor that does not wait.
pub(super) const fn nonblocking(flags: i32) -> bool {
    flags & (SOCK_NONBLOCK | O_NONBLOCK) != 0
}

/// What a second `connect` finds.
pub(super) const ALREADY: Errno = Errno(EISCONN);
/// An attempt that ended without a reason.
pub(super) const ABORTED: Errno = Errno(ECONNABORTED);
