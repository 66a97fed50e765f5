//! Active opens.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mtcp_core::command::Options;
use mtcp_core::{Acks, ConnId, Connect, Opened, OptionsId, Status, Token};

use super::ends::Ends;
use super::listen::inward;
use super::sources::Sources;
use super::table::{Body, Flags};
use super::{SocketId, SourceRange};
use crate::driver::Doorbell;
use crate::{Context, Errno, Result};

impl Context {
    /// Source addresses for sockets that connect without being bound, each in turn; `None`: as
    /// routes say. Returns how many there are: those of the range that are not ours are left out.
    ///
    /// # Errors
    /// `EINVAL` (an empty range), `EADDRNOTAVAIL` (none is ours); the sources are then as before.
    pub fn set_source_range(&mut self, range: Option<SourceRange>) -> Result<usize> {
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

    /// Connects. Non-blocking: `EINPROGRESS`, then `OUT` when done; asked again, it says how it
    /// ended, once, as Linux does. With [`SocketOption::FastOpenConnect`](super::SocketOption) and
    /// a cookie of the peer it succeeds at once: the first write opens.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EAFNOSUPPORT`, `EINPROGRESS`, `EALREADY`, `EISCONN`, `ECONNREFUSED`,
    /// `ETIMEDOUT`, `ENETUNREACH`, `EHOSTUNREACH`, `EADDRINUSE`, `EADDRNOTAVAIL`, `EINTR` (it goes
    /// on in the background), `ENETDOWN`.
    pub fn connect(&mut self, id: SocketId, remote: SocketAddr) -> Result<()> {
        let (socket, _) = self.table.look(id)?;
        let (body, flags) = (socket.body, socket.flags);
        let blocking = !socket.nonblocking();
        let conn = match body {
            Body::Idle => self.start_connect(id, remote, false)?,
            Body::Stream(_) if flags.contains(Flags::DEFERRED) => return Err(Errno::EISCONN),
            Body::Stream(conn) if flags.contains(Flags::CONNECTING) => {
                if let Some(result) = self.connected(id, conn) {
                    return result;
                }
                if !blocking && self.progress(id) {
                    return self.connected(id, conn).unwrap_or(Err(Errno::EALREADY));
                }
                if !blocking {
                    return Err(Errno::EALREADY);
                }
                conn
            }
            _ => return Err(Errno::EISCONN),
        };
        if self.is_deferred(id) {
            return Ok(());
        }
        if !blocking {
            return Err(Errno::EINPROGRESS);
        }
        self.wait_connected(id, conn)
    }

    /// For who waits in place of [`connect`](Self::connect), which said `EINPROGRESS`: how the
    /// attempt ended, or `EALREADY`.
    ///
    /// # Errors
    /// As `connect`; `ECONNRESET`: [`shutdown`](Self::shutdown) gave it up.
    pub fn finish_connect(&mut self, id: SocketId, remote: SocketAddr) -> Result<()> {
        if self.table.look(id)?.0.body == Body::Idle {
            let told = self.take_given_up(id);
            return Err(told.unwrap_or(Errno::ECONNABORTED));
        }
        self.connect(id, remote)
    }

    /// The error of an attempt that was given up, the first time it is asked for.
    pub(super) fn take_given_up(&mut self, id: SocketId) -> Option<Errno> {
        let socket = self.table.get_mut(id).ok()?;
        let told = socket.flags.contains(Flags::GIVEN_UP);
        socket.flags -= Flags::GIVEN_UP;
        told.then_some(Errno::ECONNRESET)
    }

    /// Blocks until the handshake has ended.
    fn wait_connected(&mut self, id: SocketId, conn: ConnId) -> Result<()> {
        let limit = self.table.choices_of(id)?.send_timeout;
        let result = self.wait_until(limit, false, Acks::Due, |context| {
            context.connected(id, conn)
        })?;
        // The ACK that ends the handshake leaves now: the program may wait for the peer by other
        // means than a call here.
        let _ = self.driver.settle();
        result.unwrap_or(Err(Errno::EINPROGRESS))
    }

    /// Whether the SYN waits for a write.
    fn is_deferred(&self, id: SocketId) -> bool {
        let socket = self.table.get(id);
        socket.is_ok_and(|socket| socket.flags.contains(Flags::DEFERRED))
    }

    /// MSG_FASTOPEN: connects, for the write that follows.
    pub(super) fn open_fast(
        &mut self,
        id: SocketId,
        remote: Option<SocketAddr>,
        blocking: bool,
    ) -> Result<()> {
        let (socket, _) = self.table.look(id)?;
        match socket.body {
            Body::Idle => {}
            Body::Stream(_) if socket.flags.contains(Flags::DEFERRED) => return Ok(()),
            Body::Stream(conn) if socket.flags.contains(Flags::CONNECTING) => {
                return match self.connected(id, conn) {
                    Some(result) => result,
                    None if blocking => self.wait_connected(id, conn),
                    None => Err(Errno::EALREADY),
                };
            }
            _ => return Err(Errno::EISCONN),
        }
        let conn = self.start_connect(id, remote.ok_or(Errno::EINVAL)?, true)?;
        if self.is_deferred(id) {
            Ok(())
        } else if blocking {
            self.wait_connected(id, conn)
        } else {
            Err(Errno::EINPROGRESS)
        }
    }

    /// `fast`: with Fast Open, whatever the socket's option says.
    fn start_connect(&mut self, id: SocketId, remote: SocketAddr, fast: bool) -> Result<ConnId> {
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
        let request = Connect {
            token: Token(id.0),
            local,
            remote: remote_inner,
            options,
            known,
        };
        let Opened {
            conn,
            local,
            is_deferred,
            options,
        } = self.driver.connect(&request)?;
        if !fast {
            self.table.choices.note_known(choices, options);
        }
        let (socket, details) = self.table.both(id)?;
        socket.body = Body::Stream(conn);
        socket.flags |= Flags::CONNECTING;
        socket.flags -=
            Flags::SHUT_RD | Flags::SHUT_WR | Flags::ERROR_TAKEN | Flags::DRAINED | Flags::GIVEN_UP;
        socket.flags.set(Flags::DEFERRED, is_deferred);
        details.ends = Ends::new(Self::outward(v6, local), remote);
        self.own(conn, id);
        self.hand_over(id);
        Ok(conn)
    }

    /// How an attempt ended, if it has.
    fn connected(&mut self, id: SocketId, conn: ConnId) -> Option<Result<()>> {
        let status = self.streams.status(conn.slot);
        if status.intersects(Status::ERROR | Status::CLOSED) {
            let error = self
                .take_stream_error(id, conn)
                .unwrap_or(Errno::ECONNABORTED);
            self.forget(id, conn);
            return Some(Err(error));
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
        self.disown(conn);
        self.driver.ring(Doorbell::Close(conn));
        if let Ok(socket) = self.table.get_mut(id) {
            socket.body = Body::Idle;
            socket.flags -= Flags::CONNECTING | Flags::DEFERRED;
        }
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
