//! Socket options and what can be asked of a socket.

use std::net::SocketAddr;
use std::time::Duration;

use mtcp_core::command::Options;
use mtcp_core::{Command, Reply, Status, TcpInfo};

use super::table::{Body, Details, Flags};
use super::{Kind, OptionName, SocketId, SocketOption};
use crate::{Context, Errno, Result};

/// Linux: MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL, MAX_TCP_KEEPCNT.
const KEEP_SECONDS: (u64, u64) = (1, 32_767);
const KEEP_COUNT: (u8, u8) = (1, 127);
/// Linux: TCP_MIN_MSS and MAX_TCP_WINDOW.
const SEGMENT: (u16, u16) = (88, 32_767);
/// Smallest socket buffer, bytes.
const MIN_BUFFER: u32 = 2048;

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
        Ok(self.table.look(id)?.1.local)
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
            Ok(details.remote)
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
            return Ok(None);
        };
        let error = self.take_stream_error(id, conn);
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
        let (socket, details) = self.table.both(id)?;
        let before = details.options;
        match option {
            SocketOption::ReuseAddr(on) => socket.flags.set(Flags::REUSE_ADDR, on),
            SocketOption::ReusePort(on) => socket.flags.set(Flags::REUSE_PORT, on),
            SocketOption::OnlyV6(on)
                if socket.flags.contains(Flags::V6) && !socket.flags.contains(Flags::BOUND) =>
            {
                socket.flags.set(Flags::ONLY_V6, on);
            }
            SocketOption::OnlyV6(_) => return Err(Errno::EINVAL),
            SocketOption::KeepAlive(on) => socket.flags.set(Flags::KEEPALIVE, on),
            other => change(details, other)?,
        }
        details.options.keepalive = socket
            .flags
            .contains(Flags::KEEPALIVE)
            .then_some(details.keepalive);
        let (body, options) = (socket.body, details.options);
        if options == before {
            Ok(())
        } else {
            self.tell_options(body, options)
        }
    }

    /// Tells the stack of changed options.
    fn tell_options(&mut self, body: Body, options: Options) -> Result<()> {
        let command = match body {
            Body::Stream(conn) => Command::SetOptions { conn, options },
            Body::Listener(index) => match self.listeners.get(index) {
                Some(listener) => Command::SetListenerOptions {
                    listener: listener.id,
                    options,
                },
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        match self.driver.call(command) {
            // The connection is gone, the socket is not: as on Linux, its options can be set to no effect.
            Ok(_) | Err(Errno::EBADF) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads an option.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn option(&mut self, id: SocketId, name: OptionName) -> Result<SocketOption> {
        let (socket, details) = self.table.look(id)?;
        let (flags, options, keep) = (socket.flags, details.options, details.keepalive);
        Ok(match name {
            OptionName::ReuseAddr => SocketOption::ReuseAddr(flags.contains(Flags::REUSE_ADDR)),
            OptionName::ReusePort => SocketOption::ReusePort(flags.contains(Flags::REUSE_PORT)),
            OptionName::OnlyV6 => SocketOption::OnlyV6(flags.contains(Flags::ONLY_V6)),
            OptionName::KeepAlive => SocketOption::KeepAlive(flags.contains(Flags::KEEPALIVE)),
            OptionName::Linger => SocketOption::Linger(options.linger),
            OptionName::RecvBuffer => {
                SocketOption::RecvBuffer(options.recv_buffer.unwrap_or(self.settings.rcvbuf))
            }
            OptionName::SendBuffer => {
                SocketOption::SendBuffer(options.send_buffer.unwrap_or(self.settings.sndbuf))
            }
            OptionName::NoDelay => SocketOption::NoDelay(options.nodelay),
            OptionName::MaxSegment => SocketOption::MaxSegment(self.max_segment(id, &options)),
            OptionName::KeepIdle => SocketOption::KeepIdle(keep.idle),
            OptionName::KeepInterval => SocketOption::KeepInterval(keep.interval),
            OptionName::KeepCount => SocketOption::KeepCount(keep.count),
            OptionName::UserTimeout => {
                SocketOption::UserTimeout(options.user_timeout.unwrap_or(Duration::ZERO))
            }
            OptionName::Congestion => {
                SocketOption::Congestion(options.congestion.unwrap_or(self.settings.congestion))
            }
            OptionName::Error => SocketOption::Error(self.take_error(id)?),
            OptionName::AcceptConn => SocketOption::AcceptConn(socket.kind() == Kind::Listener),
            OptionName::Domain => SocketOption::Domain(socket.domain()),
        })
    }

    /// The segment size in use, or else the one asked for, or else 0.
    fn max_segment(&mut self, id: SocketId, options: &Options) -> u16 {
        self.info(id)
            .map_or(options.max_segment.unwrap_or(0), |info| info.snd_mss)
    }
}

/// Changes those that need no flag.
fn change(details: &mut Details, option: SocketOption) -> Result<()> {
    let Details {
        options, keepalive, ..
    } = details;
    match option {
        SocketOption::Linger(linger) => options.linger = linger,
        SocketOption::RecvBuffer(bytes) => options.recv_buffer = Some(bytes.max(MIN_BUFFER)),
        SocketOption::SendBuffer(bytes) => options.send_buffer = Some(bytes.max(MIN_BUFFER)),
        SocketOption::NoDelay(on) => options.nodelay = on,
        SocketOption::MaxSegment(0) => options.max_segment = None,
        SocketOption::MaxSegment(bytes) => options.max_segment = Some(within(bytes, SEGMENT)?),
        SocketOption::KeepIdle(time) => keepalive.idle = keep_time(time)?,
        SocketOption::KeepInterval(time) => keepalive.interval = keep_time(time)?,
        SocketOption::KeepCount(count) => keepalive.count = within(count, KEEP_COUNT)?,
        SocketOption::UserTimeout(time) => {
            options.user_timeout = Some(time).filter(|time| !time.is_zero())
        }
        SocketOption::Congestion(algorithm) => options.congestion = Some(algorithm),
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

fn within<T: PartialOrd>(value: T, (low, high): (T, T)) -> Result<T> {
    if value >= low && value <= high {
        Ok(value)
    } else {
        Err(Errno::EINVAL)
    }
}

fn keep_time(time: Duration) -> Result<Duration> {
    within(time.as_secs(), KEEP_SECONDS)?;
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Domain;

    #[test]
    fn ranges_are_those_of_linux() {
        let mut details = Details::new(Domain::V4);
        let mut try_one = |option| change(&mut details, option);
        assert_eq!(
            try_one(SocketOption::KeepIdle(Duration::ZERO)),
            Err(Errno::EINVAL)
        );
        assert_eq!(
            try_one(SocketOption::KeepIdle(Duration::from_secs(32_767))),
            Ok(())
        );
        assert_eq!(try_one(SocketOption::KeepCount(0)), Err(Errno::EINVAL));
        assert_eq!(try_one(SocketOption::KeepCount(128)), Err(Errno::EINVAL));
        assert_eq!(try_one(SocketOption::MaxSegment(87)), Err(Errno::EINVAL));
        assert_eq!(try_one(SocketOption::MaxSegment(0)), Ok(()));
        assert_eq!(
            try_one(SocketOption::AcceptConn(true)),
            Err(Errno::ENOPROTOOPT)
        );
    }
}
