//! Socket options and what can be asked of a socket.

use std::net::SocketAddr;

use mtcp_core::command::Options;
use mtcp_core::{Command, TcpInfo};

use super::Sockets;
use crate::socket::listener::Listeners;
use crate::socket::option_values::{apply, change, is_value, show};
use crate::socket::table::{Body, Flags};
use crate::{Errno, Kind, OptionName, Result, SocketId, SocketOption};

/// The segment size of a stream without a connection (RFC 9293 §3.7.1).
const DEFAULT_SEGMENT: u16 = 536;

impl Sockets {
    pub(crate) fn peer_addr(&self, id: SocketId) -> Result<SocketAddr> {
        let (socket, details) = self.table.look(id)?;
        match socket.body {
            Body::Stream(conn) if self.transport.is_connected(conn) => Ok(details.ends.remote()),
            _ => Err(Errno::ENOTCONN),
        }
    }

    /// The pending error, which is cleared.
    pub(crate) fn take_error(&mut self, id: SocketId) -> Result<Option<Errno>> {
        match self.table.look(id)?.0.body {
            Body::Stream(conn) => Ok(self.stream(id, conn)?.take_error()),
            _ => Ok(self.table.take_given_up(id)),
        }
    }

    /// What TCP knows of the connection.
    pub(crate) fn info(&mut self, id: SocketId) -> Result<TcpInfo> {
        match self.table.look(id)?.0.body {
            Body::Stream(conn) => self.transport.info(conn),
            Body::Listener(_) => Err(Errno::EINVAL),
            _ => Err(Errno::ENOTCONN),
        }
    }

    pub(crate) fn set_option(&mut self, id: SocketId, option: SocketOption) -> Result<()> {
        let (socket, details) = self.table.look(id)?;
        let before = details.choices;
        // Nobody but the record itself has to know.
        let is_quiet = socket.body == Body::Idle && !socket.flags.contains(Flags::KEEPALIVE);
        if is_quiet && let Some(after) = self.table.choices.changed(before, option) {
            self.table.choose(id, after);
            return Ok(());
        }
        self.change_option(id, option)?;
        let (socket, details) = self.table.look(id)?;
        if let SocketOption::ReuseAddr(_) | SocketOption::ReusePort(_) = option {
            let has = |flag| socket.flags.contains(flag);
            let shares = (has(Flags::REUSE_ADDR), has(Flags::REUSE_PORT));
            self.bindings.share(details.ends.local(), id, shares);
        }
        if is_quiet && is_value(option) {
            let after = details.choices;
            self.table.choices.note_change(before, option, after);
        }
        Ok(())
    }

    /// Has sockets begin with an option that is a value: those that are made from now on.
    pub(crate) fn begin_with(&mut self, option: SocketOption) -> Result<()> {
        let mut usual = *self.table.choices.at(self.table.choices.usual_id());
        change(&mut usual, option)?;
        self.table.choices.set_usual(&usual);
        Ok(())
    }

    fn change_option(&mut self, id: SocketId, option: SocketOption) -> Result<()> {
        let before = *self.table.choices_of(id)?;
        let mut choices = before;
        let rcvbuf = self.settings.rcvbuf;
        let socket = self.table.get_mut(id)?;
        apply(option, socket, &mut choices, rcvbuf)?;
        let body = socket.body;
        let is_news = choices.options != before.options;
        if choices != before {
            let choices = self.table.choices.take(&choices);
            self.table.choose(id, choices);
        }
        if is_news && let Some(news) = news(body, &self.listeners, choices.options) {
            self.transport.tell(news)?;
        }
        match (option, body) {
            (SocketOption::QuickAck(true), Body::Stream(conn)) => {
                self.transport.tell(Command::QuickAck(conn))
            }
            (SocketOption::NoDelay(true), Body::Stream(conn)) if !is_news => {
                self.transport.tell(Command::Push(conn))
            }
            _ => Ok(()),
        }
    }

    /// Reads an option other than SO_ERROR.
    pub(crate) fn option(&mut self, id: SocketId, name: OptionName) -> Result<SocketOption> {
        let (socket, details) = self.table.look(id)?;
        let choices = *self.table.choices.at(details.choices);
        let options = &choices.options;
        Ok(match name {
            OptionName::MaxSegment => SocketOption::MaxSegment(max_segment(self.info(id), options)),
            OptionName::Mtu => SocketOption::Mtu(path_mtu(self.info(id))?),
            OptionName::IncomingCpu => {
                SocketOption::IncomingCpu(choices.incoming_cpu.or(self.settings.processor()))
            }
            OptionName::AcceptConn => SocketOption::AcceptConn(socket.kind() == Kind::Listener),
            other => show(socket, &choices, other, &self.settings)?,
        })
    }
}

/// What tells the stack of changed options.
fn news(body: Body, listeners: &Listeners, options: Options) -> Option<Command> {
    match body {
        Body::Stream(conn) => Some(Command::SetOptions { conn, options }),
        Body::Listener(index) => {
            let listener = listeners.get(index)?.id;
            Some(Command::SetListenerOptions { listener, options })
        }
        _ => None,
    }
}

/// Of the connection's path, or of any: there is one link.
fn path_mtu(info: Result<TcpInfo>) -> Result<u16> {
    match info {
        Ok(info) => Ok(info.pmtu),
        Err(Errno::EINVAL) => Err(Errno::ENOTCONN),
        Err(error) => Err(error),
    }
}

/// The segment size in use, or else the one asked for, or else what everybody can take.
fn max_segment(info: Result<TcpInfo>, options: &Options) -> u16 {
    let without = options.max_segment.unwrap_or(DEFAULT_SEGMENT);
    info.map_or(without, |info| info.snd_mss)
}
