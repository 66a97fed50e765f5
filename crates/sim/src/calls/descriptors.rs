//! What the descriptors of a process stand for.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use mtcp_core::command::{Keepalive, Options};
use mtcp_core::{ConnId, ListenerId, Ready, Token};

use super::constants::{EBADF, EMFILE, ENOTSOCK};
use super::epoll::{Epoll, News};
use super::pipe::{Buffer, PipeEnd};
use super::{Errno, fail};

/// The first descriptor that a socket can have: those below are the terminal's.
const FIRST: usize = 3;
/// Linux's usual limit.
const LIMIT: usize = 1024;
/// Linux: 2 hours, 75 seconds, 9 probes.
const KEEPALIVE: Keepalive = Keepalive {
    idle: Duration::from_secs(7200),
    interval: Duration::from_secs(75),
    count: 9,
};

/// A connection that waits for `accept`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    pub conn: ConnId,
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// What a socket is.
#[derive(Debug)]
pub(super) enum Body {
    /// Neither connected nor listening.
    Idle,
    Listener(ListenerId, VecDeque<Accepted>),
    Stream(ConnId),
}

/// One TCP socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub body: Body,
    /// What the stack calls it.
    pub token: Token,
    pub nonblocking: bool,
    pub v6: bool,
    pub only_v6: bool,
    pub reuse_addr: bool,
    pub reuse_port: bool,
    /// SO_OOBINLINE.
    pub oob_inline: bool,
    pub keepalive: Keepalive,
    pub options: Options,
    /// SO_RCVTIMEO and SO_SNDTIMEO.
    pub recv_timeout: Option<Duration>,
    pub send_timeout: Option<Duration>,
    pub bound: bool,
    pub local: SocketAddr,
    pub remote: Option<SocketAddr>,
    /// `connect` has not said how it ended.
    pub connecting: bool,
    /// The SYN waits for data to take along (TCP Fast Open).
    pub deferred: bool,
    pub shut_read: bool,
    pub shut_write: bool,
    /// The error that ended the connection was reported.
    pub error_taken: bool,
    /// All that was written was acknowledged, FIN included.
    pub drained: bool,
    pub news: News,
}

impl Socket {
    pub fn new(v6: bool, token: Token) -> Self {
        let ip: IpAddr = if v6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        Self {
            body: Body::Idle,
            token,
            nonblocking: false,
            v6,
            only_v6: false,
            reuse_addr: false,
            reuse_port: false,
            oob_inline: false,
            keepalive: KEEPALIVE,
            options: Options::default(),
            recv_timeout: None,
            send_timeout: None,
            bound: false,
            local: SocketAddr::new(ip, 0),
            remote: None,
            connecting: false,
            deferred: false,
            shut_read: false,
            shut_write: false,
            error_taken: false,
            drained: false,
            news: News::default(),
        }
    }

    /// The stack has news.
    pub fn on_ready(&mut self, ready: Ready) {
        let both = Ready::CONNECTED | Ready::ERROR | Ready::CLOSED;
        self.drained |= ready.contains(Ready::DRAINED);
        self.news.reading +=
            u64::from(ready.intersects(Ready::READABLE | Ready::URGENT | Ready::EOF | both));
        self.news.writing += u64::from(ready.intersects(Ready::WRITABLE | both));
    }

    /// The address as a socket of its family shows it: IPv4 mapped into IPv6 where needed.
    pub fn outward(&self, addr: SocketAddr) -> SocketAddr {
        match addr.ip() {
            IpAddr::V4(v4) if self.v6 => SocketAddr::new(v4.to_ipv6_mapped().into(), addr.port()),
            _ => addr,
        }
    }
}

/// What a descriptor stands for.
#[derive(Debug)]
pub(super) enum File {
    Socket(Box<Socket>),
    Epoll(Epoll),
    Pipe(PipeEnd),
}

/// All descriptors of a process.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    files: Vec<Option<File>>,
    tokens: u32,
    /// Of every pipe there ever was.
    pub pipes: Vec<Buffer>,
}

impl Descriptors {
    /// The lowest free descriptor.
    pub fn insert(&mut self, file: File) -> Result<i32, Errno> {
        let free = (FIRST..LIMIT).find(|&fd| self.files.get(fd).is_none_or(Option::is_none));
        let Some(fd) = free else {
            return fail(EMFILE);
        };
        if self.files.len() <= fd {
            self.files.resize_with(fd + 1, || None);
        }
        if let Some(place) = self.files.get_mut(fd) {
            *place = Some(file);
        }
        Ok(fd as i32)
    }

    pub fn remove(&mut self, fd: i32) -> Option<File> {
        self.files.get_mut(usize::try_from(fd).ok()?)?.take()
    }

    pub fn file(&self, fd: i32) -> Result<&File, Errno> {
        let index = usize::try_from(fd).map_err(|_| Errno(EBADF))?;
        let file = self.files.get(index).and_then(Option::as_ref);
        file.ok_or(Errno(EBADF))
    }

    pub fn file_mut(&mut self, fd: i32) -> Result<&mut File, Errno> {
        let index = usize::try_from(fd).map_err(|_| Errno(EBADF))?;
        let file = self.files.get_mut(index).and_then(Option::as_mut);
        file.ok_or(Errno(EBADF))
    }

    pub fn socket(&self, fd: i32) -> Result<&Socket, Errno> {
        match self.file(fd)? {
            File::Socket(socket) => Ok(socket),
            _ => fail(ENOTSOCK),
        }
    }

    pub fn socket_mut(&mut self, fd: i32) -> Result<&mut Socket, Errno> {
        match self.file_mut(fd)? {
            File::Socket(socket) => Ok(socket),
            _ => fail(ENOTSOCK),
        }
    }

    /// A name for the stack that no other socket ever had.
    pub fn new_token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    pub fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.files.iter().flatten().filter_map(|file| match file {
            File::Socket(socket) => Some(&**socket),
            _ => None,
        })
    }

    fn sockets_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        let files = self.files.iter_mut().flatten();
        files.filter_map(|file| match file {
            File::Socket(socket) => Some(&mut **socket),
            _ => None,
        })
    }

    /// The queue of the listener with this name, for a connection that arrived.
    pub fn arrival(&mut self, token: Token) -> Option<&mut VecDeque<Accepted>> {
        let socket = self.sockets_mut().find(|socket| socket.token == token)?;
        socket.news.reading += 1;
        match &mut socket.body {
            Body::Listener(_, queue) => Some(queue),
            _ => None,
        }
    }

    /// The socket of a connection.
    pub fn stream_mut(&mut self, conn: ConnId) -> Option<&mut Socket> {
        self.sockets_mut()
            .find(|socket| matches!(socket.body, Body::Stream(id) if id == conn))
    }

    /// All descriptors in use.
    pub fn all(&self) -> impl Iterator<Item = i32> + use<> {
        let used: Vec<i32> = (0..)
            .zip(&self.files)
            .filter(|(_, file)| file.is_some())
            .map(|(fd, _)| fd)
            .collect();
        used.into_iter()
    }
}
