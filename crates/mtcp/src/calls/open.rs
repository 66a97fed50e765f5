//! How sockets come to be, get their addresses and their connections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mtcp_core::command::Options;
use mtcp_core::{Command, ConnId, Connect, Opened, OptionsId, Reply, Status, Token};

use super::Sockets;
use crate::driver::Doorbell;
use crate::socket::bindings::Binding;
use crate::socket::ends::Ends;
use crate::socket::listener::Waiting;
use crate::socket::sources::Sources;
use crate::socket::table::{Body, Details, Flags};
use crate::transport::OVER;
use crate::{Domain, Errno, Result, SocketId, SourceRange};

/// What a connection has of its listener, as on Linux.
const INHERITED: Flags = Flags::V6
    .union(Flags::ONLY_V6)
    .union(Flags::REUSE_ADDR)
    .union(Flags::REUSE_PORT)
    .union(Flags::KEEPALIVE)
    .union(Flags::LOW_WATER)
    .union(Flags::OOB_INLINE);

impl Sockets {
    pub(crate) fn socket(&mut self, domain: Domain) -> Result<SocketId> {
        let flags = match domain {
            Domain::V4 => Flags::empty(),
            Domain::V6 => Flags::V6,
        };
        self.table.add(Body::Idle, flags)
    }

    pub(crate) fn set_source_range(&mut self, range: Option<SourceRange>) -> Result<usize> {
        let sources = match range {
            Some(SourceRange { count: 0, .. }) => return Err(Errno::EINVAL),
            Some(range) => match Sources::within(range, &self.settings.addresses) {
                none if none.len() == 0 => return Err(Errno::EADDRNOTAVAIL),
                some => some,
            },
            None => Sources::default(),
        };
        let count = sources.len();
        self.sources = sources;
        Ok(count)
    }

    pub(crate) fn bind(&mut self, id: SocketId, local: SocketAddr) -> Result<()> {
        let (socket, _) = self.table.look(id)?;
        if socket.body != Body::Idle || socket.flags.contains(Flags::BOUND) {
            return Err(Errno::EINVAL);
        }
        let inner = inward(socket.domain(), local)?;
        if !inner.ip().is_unspecified() && !self.settings.addresses.contains(&inner.ip()) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        self.take_port(id, inner, local, false)
    }

    /// Notes that `id` has `inner`; `local` is how it sees that.
    fn take_port(
        &mut self,
        id: SocketId,
        inner: SocketAddr,
        local: SocketAddr,
        listening: bool,
    ) -> Result<()> {
        let (socket, details) = self.table.both(id)?;
        let binding = Binding {
            socket: id,
            addr: inner.ip(),
            only_v6: socket.flags.contains(Flags::ONLY_V6),
            reuse_addr: socket.flags.contains(Flags::REUSE_ADDR),
            reuse_port: socket.flags.contains(Flags::REUSE_PORT),
            listening,
        };
        let port = self
            .bindings
            .take(inner.port(), binding)
            .ok_or(Errno::EADDRINUSE)?;
        socket.flags |= Flags::BOUND;
        let local = SocketAddr::new(local.ip(), port);
        details.ends = Ends::new(local, details.ends.remote());
        Ok(())
    }

    pub(crate) fn listen(&mut self, id: SocketId, backlog: u32) -> Result<()> {
        let (socket, details) = self.table.look(id)?;
        let (domain, flags, local) = (socket.domain(), socket.flags, details.ends.local());
        let options = Options {
            reuse_port: flags.contains(Flags::REUSE_PORT),
            ..self.table.choices_of(id)?.options
        };
        match socket.body {
            Body::Listener(_) => return Ok(()),
            Body::Idle if backlog > 0 => {}
            _ => return Err(Errno::EINVAL),
        }
        let inner = inward(domain, local)?;
        self.take_port(id, inner, local, true)?;
        let local = inward(domain, self.table.look(id)?.1.ends.local())?;
        let only_v6 = flags.contains(Flags::ONLY_V6);
        let (wall, addresses) = (&self.settings.wall, &self.settings.addresses);
        wall.admits(local, only_v6, addresses)?;
        let (index, token) = self.listeners.add(id);
        let reply = self.transport.driver.call(Command::Listen {
            token,
            local,
            only_v6,
            backlog,
            options,
        });
        match (reply, self.listeners.get_mut(index)) {
            (Ok(Reply::Listening(listener_id, _)), Some(listener)) => {
                listener.id = listener_id;
                self.table.get_mut(id)?.body = Body::Listener(index);
                Ok(())
            }
            (reply, _) => {
                self.listeners.remove(index);
                Err(reply.err().unwrap_or(Errno::EINVAL))
            }
        }
    }

    /// Takes the oldest connection that waits at a listener. `None`: there is none.
    pub(crate) fn accept(
        &mut self,
        id: SocketId,
        listener: u32,
    ) -> Option<Result<(SocketId, SocketAddr)>> {
        let waiting = loop {
            let waiting = self.listeners.front(listener)?;
            if self.transport.streams.accept(waiting.conn.slot) {
                break waiting;
            }
            // Another program has got it.
            self.listeners.pop(listener);
            self.transport.refuse([waiting.conn]);
        };
        let accepted = self.accept_waiting(id, waiting);
        if accepted.is_ok() {
            self.listeners.pop(listener);
        }
        Some(accepted)
    }

    /// A socket for a connection that waits at the listener `id`.
    fn accept_waiting(
        &mut self,
        id: SocketId,
        Waiting { conn, key }: Waiting,
    ) -> Result<(SocketId, SocketAddr)> {
        let (socket, details) = self.table.look(id)?;
        let flags = socket.flags & INHERITED;
        let v6 = flags.contains(Flags::V6);
        let remote = outward(v6, key.remote());
        let choices = details.choices;
        let details = Details {
            ends: Ends::new(outward(v6, key.local()), remote),
            choices: self.table.choices.inherited(choices),
        };
        let accepted = self.table.insert(Body::Stream(conn), flags, details)?;
        self.owners.own(conn, accepted);
        let news = Doorbell::Accept(conn, Token(accepted.0));
        self.transport.driver.notify(news);
        Ok((accepted, remote))
    }

    /// Opens a connection. `fast`: with Fast Open, whatever the socket's option says.
    pub(crate) fn connect(
        &mut self,
        id: SocketId,
        remote: SocketAddr,
        fast: bool,
    ) -> Result<ConnId> {
        let (socket, details) = self.table.look(id)?;
        let remote_inner = inward(socket.domain(), remote)?;
        let bound = socket.flags.contains(Flags::BOUND);
        let v6 = socket.flags.contains(Flags::V6);
        let choices = details.choices;
        let chosen = &self.table.choices.at(choices).options;
        let mut known = self.table.choices.known(choices);
        let with_fast_open;
        let options = if fast {
            known = OptionsId::NONE;
            with_fast_open = Options {
                fast_open_connect: true,
                ..*chosen
            };
            &with_fast_open
        } else {
            chosen
        };
        let local = if bound {
            Some(source(
                inward(socket.domain(), details.ends.local())?,
                remote_inner,
            )?)
        } else {
            self.sources.next(remote_inner)
        };
        let opened = self.transport.driver.connect(&Connect {
            token: Token(id.0),
            local,
            remote: remote_inner,
            options,
            known,
        })?;
        if !fast {
            self.table.choices.note_known(choices, opened.options);
        }
        let ends = Ends::new(outward(v6, opened.local), remote);
        self.on_opened(id, &opened, ends)?;
        Ok(opened.conn)
    }

    /// The socket has a connection, which is being opened.
    fn on_opened(&mut self, id: SocketId, opened: &Opened, ends: Ends) -> Result<()> {
        let (socket, details) = self.table.both(id)?;
        socket.body = Body::Stream(opened.conn);
        socket.flags |= Flags::CONNECTING;
        socket.flags -=
            Flags::SHUT_RD | Flags::SHUT_WR | Flags::ERROR_TAKEN | Flags::DRAINED | Flags::GIVEN_UP;
        socket.flags.set(Flags::DEFERRED, opened.is_deferred);
        details.ends = ends;
        let is_blocking = !socket.nonblocking();
        self.owners.own(opened.conn, id);
        self.transport.hand_over(is_blocking);
        Ok(())
    }

    /// How an attempt to connect ended, if it has.
    pub(crate) fn connected(&mut self, id: SocketId, conn: ConnId) -> Option<Result<()>> {
        let status = self.transport.status(conn);
        if status.intersects(OVER) {
            let stream = self.stream(id, conn);
            let error = stream.ok().and_then(|mut stream| stream.take_error());
            self.forget(id, conn);
            return Some(Err(error.unwrap_or(Errno::ECONNABORTED)));
        }
        if !status.contains(Status::CONNECTED) {
            return None;
        }
        if let Ok(socket) = self.table.get_mut(id) {
            socket.flags -= Flags::CONNECTING;
        }
        Some(Ok(()))
    }

    /// After a failed attempt the socket may try again.
    pub(super) fn forget(&mut self, id: SocketId, conn: ConnId) {
        self.let_go(conn, Doorbell::Close(conn));
        if let Ok(socket) = self.table.get_mut(id) {
            socket.body = Body::Idle;
            socket.flags -= Flags::CONNECTING | Flags::DEFERRED;
        }
    }
}

/// An address as the stack sees it: an IPv6 socket may name IPv4 hosts (RFC 4291 §2.5.5.2).
fn inward(domain: Domain, addr: SocketAddr) -> Result<SocketAddr> {
    match (domain, addr) {
        (Domain::V4, SocketAddr::V4(_)) => Ok(addr),
        (Domain::V6, SocketAddr::V6(v6)) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => Ok(SocketAddr::new(v4.into(), v6.port())),
            None => Ok(addr),
        },
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// The address of a peer or of ours as a socket of this family sees it.
fn outward(v6: bool, addr: SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V4(v4) if v6 => {
            SocketAddr::new(IpAddr::V6(v4.ip().to_ipv6_mapped()), v4.port())
        }
        _ => addr,
    }
}

/// A bound address as source: the unspecified one leaves the choice of the address to routes.
fn source(local: SocketAddr, remote: SocketAddr) -> Result<SocketAddr> {
    if local.is_ipv4() == remote.is_ipv4() {
        return Ok(local);
    }
    if !local.ip().is_unspecified() {
        return Err(Errno::EAFNOSUPPORT);
    }
    let any = if remote.is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    Ok(SocketAddr::new(any, local.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_wildcard_leaves_the_family_to_the_peer() {
        let v4: SocketAddr = "10.0.0.9:80".parse().unwrap();
        assert_eq!(
            source("[::]:7".parse().unwrap(), v4),
            Ok("0.0.0.0:7".parse().unwrap())
        );
        assert_eq!(
            source("[fd00::1]:7".parse().unwrap(), v4),
            Err(Errno::EAFNOSUPPORT)
        );
    }
}
