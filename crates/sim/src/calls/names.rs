//! Sockets get addresses: `socket`, `bind`, `listen`, `accept`, `connect`.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use mtcp_core::command::Options;
use mtcp_core::{Command, ConnId, Reply as Answer, Status};

use super::call::{ABORTED, ALREADY, nonblocking};
use super::constants::{
    AF_INET, AF_INET6, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EALREADY, EINVAL, ENOTCONN,
    EPROTONOSUPPORT, ESOCKTNOSUPPORT, IPPROTO_IP, IPPROTO_TCP, MSG_FASTOPEN, SOCK_CLOEXEC,
    SOCK_NONBLOCK, SOCK_STREAM,
};
use super::descriptors::{Accepted, Body, File, Socket};
use super::{Errno, Outcome, Process, Reply, fail};

impl Process {
    pub(super) fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Outcome {
        let v6 = match domain {
            AF_INET => false,
            AF_INET6 => true,
            _ => return fail(EAFNOSUPPORT),
        };
        if kind & !(SOCK_NONBLOCK | SOCK_CLOEXEC) != SOCK_STREAM {
            return fail(ESOCKTNOSUPPORT);
        }
        if protocol != IPPROTO_IP && protocol != IPPROTO_TCP {
            return fail(EPROTONOSUPPORT);
        }
        let mut socket = Socket::new(v6, self.table.new_token());
        socket.nonblocking = nonblocking(kind);
        self.table
            .insert(File::Socket(Box::new(socket)))
            .map(Reply::of)
    }

    pub(super) fn bind(&mut self, fd: i32, addr: SocketAddr) -> Outcome {
        let socket = self.table.socket(fd)?;
        if socket.v6 != addr.is_ipv6() {
            return fail(if socket.v6 { EINVAL } else { EAFNOSUPPORT });
        }
        if socket.bound || !matches!(socket.body, Body::Idle) {
            return fail(EINVAL);
        }
        let ip = addr.ip().to_canonical();
        let interfaces = &self.config.interfaces;
        let mut ours = interfaces.iter().flat_map(|interface| &interface.addresses);
        if !ip.is_unspecified() && !ours.any(|address| address.addr == ip) {
            return fail(EADDRNOTAVAIL);
        }
        let port = match addr.port() {
            0 => self.free_port().ok_or(Errno(EADDRINUSE))?,
            port => port,
        };
        let addr = SocketAddr::new(addr.ip(), port);
        if self.is_taken(fd, addr) {
            return fail(EADDRINUSE);
        }
        let socket = self.table.socket_mut(fd)?;
        socket.local = addr;
        socket.bound = true;
        Ok(Reply::default())
    }

    fn free_port(&self) -> Option<u16> {
        let (first, last) = self.config.ephemeral;
        (first..=last).find(|port| {
            self.table
                .sockets()
                .all(|other| other.local.port() != *port)
        })
    }

    /// Whether another socket keeps this one from the address: Linux's rules for SO_REUSEADDR and SO_REUSEPORT.
    fn is_taken(&self, fd: i32, addr: SocketAddr) -> bool {
        let Ok(socket) = self.table.socket(fd) else {
            return false;
        };
        let others = self.table.sockets();
        let mut others = others.filter(|other| other.bound && other.token != socket.token);
        others.any(|other| {
            let listening = matches!(other.body, Body::Listener(..));
            let shared = (socket.reuse_addr && other.reuse_addr && !listening)
                || (socket.reuse_port && other.reuse_port);
            other.local.port() == addr.port() && overlap(other, socket, addr.ip()) && !shared
        })
    }

    pub(super) fn listen(&mut self, fd: i32, backlog: i32) -> Outcome {
        // Linux: one more may wait than the backlog says; a negative one is as large as can be.
        let backlog = u32::try_from(backlog).map_or(4096, |backlog| backlog.min(4096) + 1);
        let socket = self.table.socket(fd)?;
        match socket.body {
            Body::Listener(..) => return Ok(Reply::default()),
            Body::Stream(_) => return fail(EINVAL),
            Body::Idle => {}
        }
        let command = Command::Listen {
            token: socket.token,
            local: socket.local,
            only_v6: socket.only_v6,
            backlog,
            options: Options {
                reuse_port: socket.reuse_port,
                ..socket.options
            },
        };
        let Answer::Listening(listener, local) = self.execute(command)? else {
            return fail(EINVAL);
        };
        let socket = self.table.socket_mut(fd)?;
        socket.body = Body::Listener(listener, VecDeque::new());
        socket.local = local;
        socket.bound = true;
        Ok(Reply::default())
    }

    pub(super) fn accept(&mut self, fd: i32, flags: i32) -> Option<Outcome> {
        let socket = match self.table.socket_mut(fd) {
            Ok(socket) => socket,
            Err(error) => return Some(Err(error)),
        };
        let (v6, listening) = (socket.v6, (socket.local, socket.options, socket.keepalive));
        let Body::Listener(_, queue) = &mut socket.body else {
            return Some(fail(EINVAL));
        };
        let accepted = queue.pop_front()?;
        let mut new = Socket::new(v6, self.table.new_token());
        (new.local, new.options, new.keepalive) = listening;
        new.nonblocking = nonblocking(flags);
        Some(self.take_accepted(accepted, new))
    }

    fn take_accepted(&mut self, accepted: Accepted, mut new: Socket) -> Outcome {
        let Accepted {
            conn,
            local,
            remote,
        } = accepted;
        new.body = Body::Stream(conn);
        new.local = new.outward(local);
        let shown = new.outward(remote);
        new.remote = Some(shown);
        let token = new.token;
        let fd = self.table.insert(File::Socket(Box::new(new)))?;
        self.execute(Command::Accept { conn, token })?;
        Ok(Reply {
            addr: Some(shown),
            ..Reply::of(fd)
        })
    }

    /// `first`: this is the call; otherwise it is waiting.
    pub(super) fn connect(&mut self, fd: i32, addr: SocketAddr, first: bool) -> Option<Outcome> {
        let socket = match self.table.socket(fd) {
            Ok(socket) => socket,
            Err(error) => return Some(Err(error)),
        };
        let (connecting, nonblocking) = (socket.connecting, socket.nonblocking);
        match socket.body {
            Body::Idle => match self.start_connect(fd, addr) {
                // Linux: connected as far as the program is concerned.
                Ok(()) => self.is_deferred(fd).then(|| Ok(Reply::default())),
                Err(error) => Some(Err(error)),
            },
            Body::Stream(_) if self.is_deferred(fd) => Some(Err(ALREADY)),
            Body::Stream(conn) if connecting => {
                let ended = self.connected(fd, conn);
                ended.or_else(|| (first && nonblocking).then(|| fail(EALREADY)))
            }
            _ => Some(Err(ALREADY)),
        }
    }

    pub(super) fn is_deferred(&self, fd: i32) -> bool {
        self.table.socket(fd).is_ok_and(|socket| socket.deferred)
    }

    /// MSG_FASTOPEN: `connect` and `send` in one.
    pub(super) fn open_fast(
        &mut self,
        fd: i32,
        flags: i32,
        to: Option<SocketAddr>,
    ) -> Result<(), Errno> {
        let socket = self.table.socket_mut(fd)?;
        if flags & MSG_FASTOPEN == 0 || !matches!(socket.body, Body::Idle) {
            return Ok(());
        }
        let Some(to) = to else {
            return fail(EINVAL);
        };
        let before = std::mem::replace(&mut socket.options.fast_open_connect, true);
        let started = self.start_connect(fd, to);
        self.table.socket_mut(fd)?.options.fast_open_connect = before;
        started
    }

    /// Whether a `send` that would have to wait waits for the connection that it opened.
    pub(super) fn is_opening_fast(&self, fd: i32, flags: i32) -> bool {
        let connecting = self.table.socket(fd).is_ok_and(|socket| socket.connecting);
        flags & MSG_FASTOPEN != 0 && connecting
    }

    fn start_connect(&mut self, fd: i32, addr: SocketAddr) -> Result<(), Errno> {
        let socket = self.table.socket(fd)?;
        if !socket.v6 && addr.is_ipv6() {
            return fail(EAFNOSUPPORT);
        }
        let remote = inward(addr);
        let local = socket
            .bound
            .then(|| source(inward(socket.local), remote))
            .transpose()?;
        let command = Command::Connect {
            token: socket.token,
            local,
            remote,
            options: socket.options,
        };
        // Its events come with a turn: the socket has to be known by then.
        let reply = self.stack.execute(self.now, command)?;
        let (conn, local, deferred) = match reply {
            Answer::Connecting(conn, local) => (conn, local, false),
            Answer::Deferred(conn, local) => (conn, local, true),
            _ => return fail(EINVAL),
        };
        let socket = self.table.socket_mut(fd)?;
        socket.body = Body::Stream(conn);
        socket.connecting = true;
        socket.deferred = deferred;
        socket.local = socket.outward(local);
        socket.remote = Some(addr);
        socket.error_taken = false;
        socket.drained = false;
        self.turn();
        Ok(())
    }

    /// How an attempt ended, if it has.
    fn connected(&mut self, fd: i32, conn: ConnId) -> Option<Outcome> {
        let status = self.streams.status(conn.slot);
        if status.intersects(Status::ERROR | Status::CLOSED) {
            let error = self.take_error(fd).unwrap_or(ABORTED);
            self.disconnect(fd, conn);
            return Some(Err(error));
        }
        if !status.contains(Status::CONNECTED) {
            return None;
        }
        if let Ok(socket) = self.table.socket_mut(fd) {
            socket.connecting = false;
        }
        Some(Ok(Reply::default()))
    }

    /// The socket is as new, but for its options and what it was bound to.
    pub(super) fn disconnect(&mut self, fd: i32, conn: ConnId) {
        self.streams.release(conn.slot);
        let _ = self.execute(Command::Close(conn));
        if let Ok(socket) = self.table.socket_mut(fd) {
            socket.body = Body::Idle;
            socket.connecting = false;
            socket.remote = None;
        }
    }

    pub(super) fn local_name(&self, fd: i32) -> Outcome {
        let socket = self.table.socket(fd)?;
        Ok(Reply {
            addr: Some(socket.local),
            ..Reply::default()
        })
    }

    pub(super) fn peer_name(&self, fd: i32) -> Outcome {
        let socket = self.table.socket(fd)?;
        match (&socket.body, socket.connecting) {
            (Body::Stream(_), false) => Ok(Reply {
                addr: socket.remote,
                ..Reply::default()
            }),
            _ => fail(ENOTCONN),
        }
    }
}

fn overlap(other: &Socket, new: &Socket, ip: IpAddr) -> bool {
    let takes_all = |ip: IpAddr, only_v6: bool, against: IpAddr| {
        ip.is_unspecified() && (ip.is_ipv4() == against.is_ipv4() || (ip.is_ipv6() && !only_v6))
    };
    let there = other.local.ip();
    there == ip || takes_all(there, other.only_v6, ip) || takes_all(ip, new.only_v6, there)
}

/// An address as the stack knows it.
fn inward(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

/// A bound address as source; the unspecified one leaves the choice to routes.
fn source(local: SocketAddr, remote: SocketAddr) -> Result<SocketAddr, Errno> {
    if local.is_ipv4() == remote.is_ipv4() {
        return Ok(local);
    }
    if local.ip().is_unspecified() && remote.is_ipv4() {
        return Ok(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), local.port()));
    }
    fail(EAFNOSUPPORT)
}
