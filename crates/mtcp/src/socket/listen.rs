//! Passive opens: `socket`, `bind`, `listen`, `accept`.

use std::collections::VecDeque;
use std::net::SocketAddr;

use mtcp_core::command::Options;
use mtcp_core::{Acks, Command, ListenerId, Reply, Token};

use super::bindings::Binding;
use super::choices::ChoicesId;
use super::ends::Ends;
use super::listener::{Listener, Waiting};
use super::table::{Body, Details, Flags};
use super::{Domain, SocketId};
use crate::driver::Doorbell;
use crate::{Context, Errno, Result};

/// What a connection has of its listener, as on Linux.
const INHERITED: Flags = Flags::V6
    .union(Flags::ONLY_V6)
    .union(Flags::REUSE_ADDR)
    .union(Flags::REUSE_PORT)
    .union(Flags::KEEPALIVE)
    .union(Flags::LOW_WATER)
    .union(Flags::OOB_INLINE);

impl Context {
    /// A new stream socket, blocking.
    ///
    /// # Errors
    /// `ENFILE`.
    pub fn socket(&mut self, domain: Domain) -> Result<SocketId> {
        let flags = if domain == Domain::V6 {
            Flags::V6
        } else {
            Flags::empty()
        };
        let details = self.table.blank(domain);
        self.table.insert(Body::Idle, flags, details)
    }

    /// Gives the socket a local address; port 0 picks one.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (bound already, connected), `EAFNOSUPPORT`, `EADDRINUSE`,
    /// `EADDRNOTAVAIL`.
    pub fn bind(&mut self, id: SocketId, local: SocketAddr) -> Result<()> {
        let (socket, _) = self.table.both(id)?;
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

    /// Listens; again: changes nothing. An unbound socket gets a port.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (connected or connecting, backlog 0), `EADDRINUSE`, `ENOMEM`,
    /// `EACCES` (the host's firewall keeps some peers out of that port; the log says so).
    pub fn listen(&mut self, id: SocketId, backlog: u32) -> Result<()> {
        let (socket, details) = self.table.look(id)?;
        let (body, flags, local) = (socket.body, socket.flags, details.ends.local());
        let options = Options {
            reuse_port: flags.contains(Flags::REUSE_PORT),
            ..self.table.choices_of(id)?.options
        };
        match body {
            Body::Listener(_) => return Ok(()),
            Body::Idle if backlog > 0 => {}
            _ => return Err(Errno::EINVAL),
        }
        let inner = inward(socket.domain(), local)?;
        self.take_port(id, inner, local, true)?;
        let local = self.table.look(id)?.1.ends.local();
        let local = inward(self.table.get(id)?.domain(), local)?;
        let only_v6 = flags.contains(Flags::ONLY_V6);
        let (wall, addresses) = (&self.settings.wall, &self.settings.addresses);
        wall.admits(local, only_v6, addresses)?;
        let listener = Listener {
            id: ListenerId {
                slot: 0,
                generation: 0,
            },
            token: Token::NONE,
            socket: id,
            queue: VecDeque::new(),
        };
        let index = self.listeners.insert(listener);
        self.serial = self.serial.wrapping_add(1);
        let token = Listener::token(index, self.serial);
        let reply = self.driver.call(Command::Listen {
            token,
            local,
            only_v6,
            backlog,
            options,
        });
        match (reply, self.listeners.get_mut(index)) {
            (Ok(Reply::Listening(listener_id, _)), Some(listener)) => {
                listener.id = listener_id;
                listener.token = token;
                self.table.get_mut(id)?.body = Body::Listener(index);
                Ok(())
            }
            (reply, _) => {
                self.listeners.remove(index);
                Err(reply.err().unwrap_or(Errno::EINVAL))
            }
        }
    }

    /// Takes the oldest waiting connection: a new blocking socket, and the peer.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (not listening), `EAGAIN`, `EINTR`, `ENFILE` (it stays in the
    /// queue), `ENETDOWN`.
    pub fn accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr)> {
        let (socket, _) = self.table.look(id)?;
        let Body::Listener(index) = socket.body else {
            return Err(Errno::EINVAL);
        };
        let blocking = !socket.nonblocking();
        if let Some(accepted) = self.try_accept(id, index) {
            return accepted;
        }
        if !blocking {
            if self.progress(id)
                && let Some(accepted) = self.try_accept(id, index)
            {
                return accepted;
            }
            self.driver.check()?;
            return Err(Errno::EAGAIN);
        }
        let limit = self.recv_timeout(id);
        let accepted = self.wait_until(limit, false, Acks::Due, |context| {
            context.try_accept(id, index)
        })?;
        accepted.unwrap_or(Err(Errno::EAGAIN))
    }

    fn try_accept(&mut self, id: SocketId, index: u32) -> Option<Result<(SocketId, SocketAddr)>> {
        let &Waiting { conn, key } = self.listeners.get(index)?.queue.front()?;
        let (socket, details) = match self.table.look(id) {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        let flags = socket.flags & INHERITED;
        let v6 = flags.contains(Flags::V6);
        let remote = Self::outward(v6, key.remote());
        let choices = details.choices;
        let details = Details {
            ends: Ends::new(Self::outward(v6, key.local()), remote),
            choices: self.inherited(choices),
        };
        let accepted = match self.table.insert(Body::Stream(conn), flags, details) {
            Ok(accepted) => accepted,
            Err(error) => return Some(Err(error)),
        };
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.queue.pop_front();
        }
        self.own(conn, accepted);
        self.driver.ring(Doorbell::Accept(conn, Token(accepted.0)));
        Some(Ok((accepted, remote)))
    }

    /// What a connection has of the choices of its listener.
    fn inherited(&mut self, choices: ChoicesId) -> ChoicesId {
        let sets = &mut self.table.choices;
        if sets.at(choices).options.defer_accept == 0 {
            return sets.share(choices);
        }
        let mut own = *sets.at(choices);
        own.options.defer_accept = 0;
        sets.take(&own)
    }

    /// Closes a listener where other processes that share the interface listen on: connections that
    /// nobody has accepted are left to them.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` (not listening).
    pub fn leave(&mut self, id: SocketId) -> Result<()> {
        let Body::Listener(index) = self.table.get(id)?.body else {
            return Err(Errno::EINVAL);
        };
        self.unwatch(id);
        self.unbind(id);
        if let Some(listener) = self.listeners.remove(index) {
            // A lost link has no listeners any more.
            let _ = self.driver.call(Command::Leave(listener.id));
            for waiting in listener.queue {
                self.refuse(waiting.conn);
            }
        }
        self.free(id);
        Ok(())
    }

    /// Stops listening.
    pub(crate) fn close_listener(&mut self, index: u32) {
        let Some(listener) = self.listeners.remove(index) else {
            return;
        };
        for waiting in listener.queue {
            self.refuse(waiting.conn);
        }
        // A lost link has no listeners any more.
        let _ = self.driver.call(Command::Unlisten(listener.id));
    }

    /// Gives the port of a bound socket back.
    pub(super) fn unbind(&mut self, id: SocketId) {
        if let Ok((socket, details)) = self.table.look(id)
            && socket.flags.contains(Flags::BOUND)
        {
            self.bindings.release(details.ends.local(), id);
        }
    }
}

/// An address as the stack sees it: an IPv6 socket may name IPv4 hosts (RFC 4291 §2.5.5.2).
pub(super) fn inward(domain: Domain, addr: SocketAddr) -> Result<SocketAddr> {
    match (domain, addr) {
        (Domain::V4, SocketAddr::V4(_)) => Ok(addr),
        (Domain::V6, SocketAddr::V6(v6)) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => Ok(SocketAddr::new(v4.into(), v6.port())),
            None => Ok(addr),
        },
        _ => Err(Errno::EAFNOSUPPORT),
    }
}
