//! Socket options and what can be asked of a socket.

use std::net::SocketAddr;

use mtcp_core::command::Options;
use mtcp_core::{Command, Reply, Status, TcpInfo};

use super::option_values::{change, is_value, set_low_water, show};
use super::table::{Body, Flags};
use super::{Kind, OptionName, SocketId, SocketOption};
use crate::{Context, Errno, Result, affinity};

/// The segment size of a stream without a connection (RFC 9293 §3.7.1).
const DEFAULT_SEGMENT: u16 = 536;

impl Context {
    /// Whether calls on the socket return `EAGAIN` where they would block.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn set_nonblocking(&mut self, id: SocketId, on: bool) -> Result<()> {
        self.table.get_mut(id)?.flags.set(Flags::NONBLOCKING, on);
        Ok(())
    }

    /// See [`Context::set_nonblocking`].
    ///
    /// # Errors
    /// `EBADF`.
    pub fn nonblocking(&self, id: SocketId) -> Result<bool> {
        Ok(self.table.get(id)?.nonblocking())
    }

    /// What the socket is.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn kind(&self, id: SocketId) -> Result<Kind> {
        Ok(self.table.get(id)?.kind())
    }

    /// The local address; unspecified while there is none.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn local_addr(&self, id: SocketId) -> Result<SocketAddr> {
        Ok(self.table.look(id)?.1.ends.local())
    }

    /// The peer.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOTCONN`.
    pub fn peer_addr(&self, id: SocketId) -> Result<SocketAddr> {
        let (socket, details) = self.table.look(id)?;
        let Body::Stream(conn) = socket.body else {
            return Err(Errno::ENOTCONN);
        };
        let status = self.streams.status(conn.slot);
        if status.contains(Status::CONNECTED) && !status.intersects(Status::ERROR | Status::CLOSED)
        {
            Ok(details.ends.remote())
        } else {
            Err(Errno::ENOTCONN)
        }
    }

    /// The pending error, which is cleared (SO_ERROR).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn take_error(&mut self, id: SocketId) -> Result<Option<Errno>> {
        let Body::Stream(conn) = self.table.look(id)?.0.body else {
            return Ok(self.take_given_up(id));
        };
        let mut error = self.take_stream_error(id, conn);
        // Who asks in a loop waits for one.
        if error.is_none() && self.progress(id) {
            error = self.take_stream_error(id, conn);
        }
        Ok(error.or(self.driver.check().err()))
    }

    /// What TCP knows of the connection (TCP_INFO).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOTCONN`, `EINVAL` (a listener), `ENETDOWN`.
    pub fn info(&mut self, id: SocketId) -> Result<TcpInfo> {
        match self.table.look(id)?.0.body {
            Body::Stream(conn) => match self.driver.call(Command::Info(conn)) {
                Ok(Reply::Info(info)) => Ok(info),
                Ok(_) | Err(Errno::EBADF) => Err(Errno::ENOTCONN),
                Err(error) => Err(error),
            },
            Body::Listener(_) => Err(Errno::EINVAL),
            _ => Err(Errno::ENOTCONN),
        }
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `EINVAL` (out of range, or too late), `ENOPROTOOPT` (only to read).
    pub fn set_option(&mut self, id: SocketId, option: SocketOption) -> Result<()> {
        let (socket, details) = self.table.look(id)?;
        let before = details.choices;
        // Nobody but the record itself has to know.
        let is_quiet = socket.body == Body::Idle && !socket.flags.contains(Flags::KEEPALIVE);
        if is_quiet && let Some(after) = self.table.choices.changed(before, option) {
            self.table.choose(id, after);
            return Ok(());
        }
        self.change_option(id, option)?;
        if let SocketOption::ReuseAddr(_) | SocketOption::ReusePort(_) = option {
            let (socket, details) = self.table.look(id)?;
            let has = |flag| socket.flags.contains(flag);
            let shares = (has(Flags::REUSE_ADDR), has(Flags::REUSE_PORT));
            self.bindings.share(details.ends.local(), id, shares);
        }
        if is_quiet && is_value(option) {
            let after = self.table.look(id)?.1.choices;
            self.table.choices.note_change(before, option, after);
        }
        Ok(())
    }

    /// Has sockets begin with an option that is a value: those that are made from now on.
    ///
    /// # Errors
    /// As [`Context::set_option`]; `ENOPROTOOPT` also for what is not a value alone (SO_REUSEADDR,
    /// SO_KEEPALIVE and the like).
    pub fn begin_with(&mut self, option: SocketOption) -> Result<()> {
        let mut usual = *self.table.choices.at(self.table.choices.usual_id());
        change(&mut usual, option)?;
        self.table.choices.set_usual(&usual);
        Ok(())
    }

    fn change_option(&mut self, id: SocketId, option: SocketOption) -> Result<()> {
        let before = *self.table.choices_of(id)?;
        let mut choices = before;
        let socket = self.table.get_mut(id)?;
        match option {
            SocketOption::ReuseAddr(on) => socket.flags.set(Flags::REUSE_ADDR, on),
            SocketOption::ReusePort(on) => socket.flags.set(Flags::REUSE_PORT, on),
            // Linux: not once it has a port.
            SocketOption::OnlyV6(on)
                if socket.flags.contains(Flags::V6)
                    && !socket.flags.contains(Flags::BOUND)
                    && socket.body == Body::Idle =>
            {
                socket.flags.set(Flags::ONLY_V6, on);
            }
            SocketOption::OnlyV6(_) => return Err(Errno::EINVAL),
            SocketOption::OobInline(on) => socket.flags.set(Flags::OOB_INLINE, on),
            SocketOption::KeepAlive(on) => socket.flags.set(Flags::KEEPALIVE, on),
            // Linux: what was offered cannot be taken back.
            SocketOption::WindowClamp(0) if socket.body != Body::Idle => {
                return Err(Errno::EINVAL);
            }
            // Linux: how a connection opens is settled before.
            SocketOption::FastOpen(_) if matches!(socket.body, Body::Stream(_)) => {
                return Err(Errno::EINVAL);
            }
            SocketOption::FastOpenConnect(_) if socket.body != Body::Idle => {
                return Err(Errno::EINVAL);
            }
            SocketOption::RecvLowWater(bytes) => {
                set_low_water(&mut choices, bytes, self.settings.rcvbuf);
                let several = choices.recv_low_water > 1;
                socket.flags.set(Flags::LOW_WATER, several);
            }
            other => change(&mut choices, other)?,
        }
        choices.options.keepalive = socket
            .flags
            .contains(Flags::KEEPALIVE)
            .then_some(choices.keepalive);
        let body = socket.body;
        let is_news = choices.options != before.options;
        if choices != before {
            let choices = self.table.choices.take(&choices);
            self.table.choose(id, choices);
        }
        if is_news {
            self.tell_options(body, &choices.options)?;
        }
        match (option, body) {
            (SocketOption::QuickAck(true), Body::Stream(conn)) => {
                self.tell(Command::QuickAck(conn))
            }
            (SocketOption::NoDelay(true), Body::Stream(conn)) if !is_news => {
                self.tell(Command::Push(conn))
            }
            _ => Ok(()),
        }
    }

    /// Tells the stack of changed options.
    fn tell_options(&mut self, body: Body, options: &Options) -> Result<()> {
        let command = match body {
            Body::Stream(conn) => Command::SetOptions {
                conn,
                options: *options,
            },
            Body::Listener(index) => match self.listeners.get(index) {
                Some(listener) => Command::SetListenerOptions {
                    listener: listener.id,
                    options: *options,
                },
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        self.tell(command)
    }

    fn tell(&mut self, command: Command) -> Result<()> {
        match self.driver.call(command) {
            // The connection is gone, the socket is not: as on Linux, its options can be set to no
            // effect.
            Ok(_) | Err(Errno::EBADF) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads an option.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`, `ENOTCONN` (what only connections have).
    pub fn option(&mut self, id: SocketId, name: OptionName) -> Result<SocketOption> {
        let (socket, details) = self.table.look(id)?;
        let (flags, choices) = (socket.flags, *self.table.choices.at(details.choices));
        let (options, keep) = (&choices.options, choices.keepalive);
        let marking = (options.v4, options.v6);
        Ok(match name {
            OptionName::ReuseAddr => SocketOption::ReuseAddr(flags.contains(Flags::REUSE_ADDR)),
            OptionName::ReusePort => SocketOption::ReusePort(flags.contains(Flags::REUSE_PORT)),
            OptionName::OnlyV6 => SocketOption::OnlyV6(flags.contains(Flags::ONLY_V6)),
            OptionName::KeepAlive => SocketOption::KeepAlive(flags.contains(Flags::KEEPALIVE)),
            OptionName::OobInline => SocketOption::OobInline(flags.contains(Flags::OOB_INLINE)),
            OptionName::Linger => SocketOption::Linger(options.linger),
            OptionName::NoDelay => SocketOption::NoDelay(options.nodelay),
            OptionName::Cork => SocketOption::Cork(options.cork),
            OptionName::QuickAck => SocketOption::QuickAck(!options.delay_acks),
            OptionName::MaxSegment => SocketOption::MaxSegment(self.max_segment(id, options)),
            OptionName::KeepIdle => SocketOption::KeepIdle(keep.idle),
            OptionName::KeepInterval => SocketOption::KeepInterval(keep.interval),
            OptionName::KeepCount => SocketOption::KeepCount(keep.count),
            OptionName::RecvLowWater => SocketOption::RecvLowWater(choices.recv_low_water),
            OptionName::RecvTimeout => SocketOption::RecvTimeout(choices.recv_timeout),
            OptionName::SendTimeout => SocketOption::SendTimeout(choices.send_timeout),
            OptionName::Tos => SocketOption::Tos(marking.0.class),
            OptionName::Ttl => SocketOption::Ttl(marking.0.hop_limit),
            OptionName::TrafficClass => SocketOption::TrafficClass(marking.1.class),
            OptionName::HopLimit => SocketOption::HopLimit(marking.1.hop_limit),
            OptionName::MtuDiscovery => SocketOption::MtuDiscovery(choices.mtu_discovery.0),
            OptionName::MtuDiscoveryV6 => SocketOption::MtuDiscoveryV6(choices.mtu_discovery.1),
            OptionName::Mtu => SocketOption::Mtu(self.path_mtu(id)?),
            OptionName::IncomingCpu => {
                SocketOption::IncomingCpu(choices.incoming_cpu.or(self.processor()))
            }
            OptionName::Error => SocketOption::Error(self.take_error(id)?),
            OptionName::AcceptConn => SocketOption::AcceptConn(socket.kind() == Kind::Listener),
            OptionName::Domain => SocketOption::Domain(socket.domain()),
            other => show(options, other, &self.settings)?,
        })
    }

    /// Of the connection's path, or of any: there is one link.
    fn path_mtu(&mut self, id: SocketId) -> Result<u16> {
        self.info(id).map(|info| info.pmtu).map_err(|error| {
            if error == Errno::EINVAL {
                Errno::ENOTCONN
            } else {
                error
            }
        })
    }

    /// The processor that works for this context: the one its threads are pinned to.
    fn processor(&self) -> Option<i32> {
        let pinned = self.settings.pinned.then(affinity::current);
        pinned.and_then(|cpu| i32::try_from(cpu).ok())
    }

    /// The segment size in use, or else the one asked for, or else what everybody can take.
    fn max_segment(&mut self, id: SocketId, options: &Options) -> u16 {
        let without = options.max_segment.unwrap_or(DEFAULT_SEGMENT);
        self.info(id).map_or(without, |info| info.snd_mss)
    }
}
