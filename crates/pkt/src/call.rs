//! Calls as values: what a script says, and what the public tool hands over.

use std::net::SocketAddr;

use mtcp::Errno;

/// What a call returns.
pub type Outcome = Result<Reply, Errno>;

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

/// Events with the number that the program gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// EPOLLIN and the like.
    pub events: i32,
    /// `epoll_data`.
    pub data: u64,
}

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
    pub(crate) fn of(value: impl TryInto<i64>) -> Self {
        Self {
            value: value.try_into().unwrap_or(i64::MAX),
            ..Self::default()
        }
    }
}
