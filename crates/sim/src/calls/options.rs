//! `setsockopt`, `getsockopt`, `fcntl` and `ioctl`.

use std::time::Duration;

use mtcp_core::command::Options;
use mtcp_core::config::CongestionControl;
use mtcp_core::deferral;
use mtcp_core::{Command, ConnId};

use super::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use super::constants::{
    EDOM, EFAULT, EINVAL, ENOENT, ENOPROTOOPT, ENOTTY, F_GETFD, F_GETFL, F_SETFD, F_SETFL, FIONBIO,
    FIONREAD, IP_TOS, IP_TTL, IPV6_TCLASS, IPV6_UNICAST_HOPS, IPV6_V6ONLY, O_NONBLOCK, O_RDWR,
    SIOCATMARK, SIOCOUTQ, SIOCOUTQNSD, SO_ACCEPTCONN, SO_DOMAIN, SO_ERROR, SO_KEEPALIVE, SO_LINGER,
    SO_MAX_PACING_RATE, SO_OOBINLINE, SO_PROTOCOL, SO_RCVBUF, SO_RCVTIMEO, SO_REUSEADDR,
    SO_REUSEPORT, SO_SNDBUF, SO_SNDTIMEO, SO_TYPE, SOCK_STREAM, SOL_IP, SOL_IPV6, SOL_SOCKET,
    SOL_TCP, TCP_CONGESTION, TCP_CORK, TCP_DEFER_ACCEPT, TCP_FASTOPEN, TCP_FASTOPEN_CONNECT,
    TCP_INFO, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_LINGER2, TCP_MAXSEG, TCP_NODELAY,
    TCP_NOTSENT_LOWAT, TCP_QUICKACK, TCP_SYNCNT, TCP_USER_TIMEOUT, TCP_WINDOW_CLAMP,
};
use super::descriptors::{Body, Socket};
use super::info::info_bytes;
use super::{Errno, Outcome, Process, Reply, fail};

impl Process {
    /// `option` is level and name.
    pub(super) fn set_option(&mut self, fd: i32, option: (i32, i32), value: &[u8]) -> Outcome {
        let socket = self.table.socket_mut(fd)?;
        match option {
            (SOL_SOCKET, SO_LINGER) => {
                let (on, seconds) = two_numbers(value)?;
                let time = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
                socket.options.linger = (on != 0).then_some(time);
            }
            (SOL_SOCKET, SO_RCVTIMEO) => socket.recv_timeout = time_value(value)?,
            (SOL_SOCKET, SO_SNDTIMEO) => socket.send_timeout = time_value(value)?,
            (SOL_TCP, TCP_CONGESTION) => socket.options.congestion = Some(algorithm(value)?),
            (SOL_SOCKET, SO_MAX_PACING_RATE) => socket.options.max_pacing_rate = rate(value)?,
            _ => socket.set_number(option, number(value)?)?,
        }
        let reply = self.hand_over_options(fd);
        if option == (SOL_TCP, TCP_QUICKACK) && number(value)? != 0 {
            self.tell_stream(fd, Command::QuickAck);
        }
        if option == (SOL_TCP, TCP_NODELAY) && number(value)? != 0 {
            self.tell_stream(fd, Command::Push);
        }
        reply
    }

    /// Tells the stack.
    fn hand_over_options(&mut self, fd: i32) -> Outcome {
        let socket = self.table.socket(fd)?;
        let options = socket.options;
        let command = match socket.body {
            Body::Idle => return Ok(Reply::default()),
            Body::Listener(listener, _) => Command::SetListenerOptions { listener, options },
            Body::Stream(conn) => Command::SetOptions { conn, options },
        };
        // A connection that is over takes no options, and Linux does not mind.
        let _ = self.execute(command);
        Ok(Reply::default())
    }

    /// Some options do something at once, too.
    fn tell_stream(&mut self, fd: i32, command: impl FnOnce(ConnId) -> Command) {
        if let Ok(&Body::Stream(conn)) = self.table.socket(fd).map(|socket| &socket.body) {
            let _ = self.execute(command(conn));
        }
    }

    pub(super) fn option(&mut self, fd: i32, option: (i32, i32), len: usize) -> Outcome {
        let socket = self.table.socket(fd)?;
        let mut data = match option {
            (SOL_SOCKET, SO_ERROR) => {
                let error = self.take_error(fd).map_or(0, |error| error.0);
                error.to_le_bytes().to_vec()
            }
            (SOL_SOCKET, SO_LINGER) => {
                let on = i32::from(socket.options.linger.is_some());
                let seconds = socket
                    .options
                    .linger
                    .map_or(0, |time| time.as_secs() as i32);
                [on.to_le_bytes(), seconds.to_le_bytes()].concat()
            }
            (SOL_SOCKET, SO_RCVTIMEO) => time_bytes(socket.recv_timeout),
            (SOL_SOCKET, SO_SNDTIMEO) => time_bytes(socket.send_timeout),
            (SOL_SOCKET, SO_MAX_PACING_RATE) => rate_bytes(socket.options.max_pacing_rate, len),
            (SOL_TCP, TCP_INFO) => info_bytes(self.info(fd).as_ref(), self.table.socket(fd)?),
            (SOL_TCP, TCP_MAXSEG) => {
                let unset = socket.options.max_segment.unwrap_or(536);
                let mss = self.info(fd).map_or(unset, |info| info.snd_mss);
                i32::from(mss).to_le_bytes().to_vec()
            }
            (SOL_TCP, TCP_CONGESTION) => {
                let used = socket.options.congestion;
                used.unwrap_or(self.config.congestion)
                    .name()
                    .as_bytes()
                    .to_vec()
            }
            _ => self.number_option(socket, option)?.to_le_bytes().to_vec(),
        };
        data.truncate(len);
        Ok(Reply {
            data,
            ..Reply::default()
        })
    }

    fn number_option(&self, socket: &Socket, option: (i32, i32)) -> Result<i32, Errno> {
        let options = &socket.options;
        let listening = matches!(socket.body, Body::Listener(..));
        let keepalive = socket.keepalive;
        let seconds = |time: Duration| i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
        Ok(match option {
            (SOL_SOCKET, SO_REUSEADDR) => socket.reuse_addr.into(),
            (SOL_SOCKET, SO_REUSEPORT) => socket.reuse_port.into(),
            (SOL_SOCKET, SO_OOBINLINE) => socket.oob_inline.into(),
            (SOL_SOCKET, SO_KEEPALIVE) => options.keepalive.is_some().into(),
            (SOL_SOCKET, SO_TYPE) => SOCK_STREAM,
            (SOL_SOCKET, SO_DOMAIN) => {
                if socket.v6 {
                    AF_INET6
                } else {
                    AF_INET
                }
            }
            (SOL_SOCKET, SO_PROTOCOL) => IPPROTO_TCP,
            (SOL_SOCKET, SO_ACCEPTCONN) => listening.into(),
            (SOL_SOCKET, SO_RCVBUF) => {
                options.recv_buffer.unwrap_or(self.config.recv_buffer) as i32
            }
            (SOL_SOCKET, SO_SNDBUF) => {
                options.send_buffer.unwrap_or(self.config.send_buffer) as i32
            }
            (SOL_IPV6, IPV6_V6ONLY) => socket.only_v6.into(),
            (SOL_TCP, TCP_NODELAY) => options.nodelay.into(),
            (SOL_TCP, TCP_KEEPIDLE) => seconds(keepalive.idle),
            (SOL_TCP, TCP_KEEPINTVL) => seconds(keepalive.interval),
            (SOL_TCP, TCP_KEEPCNT) => keepalive.count.into(),
            (SOL_TCP, TCP_USER_TIMEOUT) => {
                let time = options.user_timeout.unwrap_or_default();
                i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
            }
            (SOL_TCP, TCP_CORK) => options.cork.into(),
            (SOL_TCP, TCP_DEFER_ACCEPT) => seconds(deferral::time_of(options.defer_accept)),
            (SOL_TCP, TCP_QUICKACK) => (!options.delay_acks).into(),
            (SOL_TCP, TCP_FASTOPEN) => options.fast_open.unwrap_or(0) as i32,
            (SOL_TCP, TCP_FASTOPEN_CONNECT) => options.fast_open_connect.into(),
            (SOL_TCP, TCP_NOTSENT_LOWAT) => options.unsent_low_water.unwrap_or(0) as i32,
            (SOL_TCP, TCP_WINDOW_CLAMP) => options.window_clamp.unwrap_or(0) as i32,
            (SOL_TCP, TCP_SYNCNT) => options
                .syn_retries
                .unwrap_or(self.config.syn_retries)
                .into(),
            (SOL_TCP, TCP_LINGER2) => seconds(options.fin_wait_2.unwrap_or(self.config.fin_wait_2)),
            (SOL_IP, IP_TOS) => options.v4.class.into(),
            (SOL_IPV6, IPV6_TCLASS) => options.v6.class.into(),
            (SOL_IP, IP_TTL) => options.v4.hop_limit.unwrap_or(64).into(),
            (SOL_IPV6, IPV6_UNICAST_HOPS) => options.v6.hop_limit.unwrap_or(64).into(),
            _ => return fail(ENOPROTOOPT),
        })
    }

    pub(super) fn fcntl(&mut self, fd: i32, command: i32, argument: i32) -> Outcome {
        self.table.file(fd)?;
        match command {
            F_GETFL => {
                let waits = if self.is_nonblocking(fd) {
                    O_NONBLOCK
                } else {
                    0
                };
                Ok(Reply::of(O_RDWR | waits))
            }
            F_SETFL => self.set_nonblocking(fd, argument & O_NONBLOCK != 0),
            F_GETFD | F_SETFD => Ok(Reply::default()),
            _ => fail(EINVAL),
        }
    }

    pub(super) fn ioctl(&mut self, fd: i32, request: i32, argument: i32) -> Outcome {
        self.table.file(fd)?;
        if request == FIONBIO {
            return self.set_nonblocking(fd, argument != 0);
        }
        let socket = self.table.socket(fd)?;
        let (body, inline) = (&socket.body, socket.oob_inline);
        let number = match (request, body) {
            (FIONREAD | SIOCOUTQ | SIOCOUTQNSD | SIOCATMARK, Body::Listener(..)) => {
                return fail(EINVAL);
            }
            (FIONREAD | SIOCOUTQ | SIOCOUTQNSD | SIOCATMARK, Body::Idle) => 0,
            (FIONREAD, Body::Stream(conn)) => self.streams.readable_to_mark(conn.slot, inline),
            (SIOCATMARK, Body::Stream(conn)) => self.streams.at_mark(conn.slot).into(),
            (SIOCOUTQ, Body::Stream(conn)) => self.streams.unsent(conn.slot),
            (SIOCOUTQNSD, Body::Stream(_)) => self.info(fd).map_or(0, |info| info.not_sent),
            _ => return fail(ENOTTY),
        };
        Ok(Reply {
            number: number as i32,
            ..Reply::default()
        })
    }
}

impl Socket {
    fn set_number(&mut self, option: (i32, i32), value: i32) -> Result<(), Errno> {
        let on = value != 0;
        let positive = || u32::try_from(value).map_err(|_| Errno(EINVAL));
        let options: &mut Options = &mut self.options;
        match option {
            (SOL_SOCKET, SO_REUSEADDR) => self.reuse_addr = on,
            (SOL_SOCKET, SO_REUSEPORT) => self.reuse_port = on,
            (SOL_SOCKET, SO_OOBINLINE) => self.oob_inline = on,
            (SOL_SOCKET, SO_KEEPALIVE) => options.keepalive = on.then_some(self.keepalive),
            (SOL_SOCKET, SO_RCVBUF) => options.recv_buffer = Some(positive()?),
            (SOL_SOCKET, SO_SNDBUF) => options.send_buffer = Some(positive()?),
            (SOL_IPV6, IPV6_V6ONLY) => self.only_v6 = on,
            (SOL_TCP, TCP_NODELAY) => options.nodelay = on,
            // Linux: at least 88, at most 32767.
            (SOL_TCP, TCP_MAXSEG) => match value {
                88..=32_767 => options.max_segment = Some(value as u16),
                _ => return fail(EINVAL),
            },
            (SOL_TCP, TCP_USER_TIMEOUT) => {
                let time = Duration::from_millis(positive()?.into());
                options.user_timeout = Some(time).filter(|time| !time.is_zero());
            }
            (SOL_TCP, TCP_KEEPIDLE | TCP_KEEPINTVL | TCP_KEEPCNT) => {
                return self.set_keepalive(option.1, value);
            }
            (SOL_TCP, _) => return self.set_tcp_number(option.1, value),
            (SOL_IP, IP_TOS) => options.v4.class = value as u8 & !3,
            (SOL_IPV6, IPV6_TCLASS) => options.v6.class = value as u8 & !3,
            (SOL_IP, IP_TTL) => options.v4.hop_limit = hop_limit(value, 1)?,
            (SOL_IPV6, IPV6_UNICAST_HOPS) => options.v6.hop_limit = hop_limit(value, 0)?,
            _ => return fail(ENOPROTOOPT),
        }
        Ok(())
    }

    fn set_tcp_number(&mut self, name: i32, value: i32) -> Result<(), Errno> {
        let on = value != 0;
        let size = || u32::try_from(value).map_err(|_| Errno(EINVAL));
        let options: &mut Options = &mut self.options;
        match name {
            TCP_CORK => options.cork = on,
            TCP_DEFER_ACCEPT => {
                // Linux: what is negative is 0.
                let time = Duration::from_secs(u64::try_from(value).unwrap_or(0));
                options.defer_accept = deferral::retransmissions(time);
            }
            TCP_QUICKACK => options.delay_acks = !on,
            TCP_FASTOPEN => options.fast_open = Some(size()?).filter(|most| *most > 0),
            TCP_FASTOPEN_CONNECT => options.fast_open_connect = on,
            TCP_NOTSENT_LOWAT => {
                // Linux takes it for unsigned.
                options.unsent_low_water = Some(value as u32).filter(|low| *low > 0);
            }
            TCP_WINDOW_CLAMP => {
                // Linux: half of SOCK_MIN_RCVBUF.
                let clamp = Some(size()?).filter(|clamp| *clamp > 0);
                options.window_clamp = clamp.map(|clamp| clamp.max(1152));
            }
            TCP_SYNCNT => match u8::try_from(value) {
                Ok(count @ 1..=127) => options.syn_retries = Some(count),
                _ => return fail(EINVAL),
            },
            // Linux: at most two minutes; negative: not at all.
            TCP_LINGER2 => {
                let seconds = u64::try_from(value).unwrap_or(0).min(120);
                options.fin_wait_2 = Some(Duration::from_secs(seconds));
            }
            _ => return fail(ENOPROTOOPT),
        }
        Ok(())
    }

    /// Linux: seconds from 1 to 32767, probes from 1 to 127.
    fn set_keepalive(&mut self, name: i32, value: i32) -> Result<(), Errno> {
        let most = if name == TCP_KEEPCNT { 127 } else { 32_767 };
        if !(1..=most).contains(&value) {
            return fail(EINVAL);
        }
        let time = Duration::from_secs(value as u64);
        match name {
            TCP_KEEPIDLE => self.keepalive.idle = time,
            TCP_KEEPINTVL => self.keepalive.interval = time,
            _ => self.keepalive.count = value as u8,
        }
        if let Some(keepalive) = &mut self.options.keepalive {
            *keepalive = self.keepalive;
        }
        Ok(())
    }
}

/// From `least` to 255; -1: the default.
fn hop_limit(value: i32, least: u8) -> Result<Option<u8>, Errno> {
    match (value, u8::try_from(value)) {
        (-1, _) => Ok(None),
        (_, Ok(hops)) if hops >= least => Ok(Some(hops)),
        _ => fail(EINVAL),
    }
}

fn number(value: &[u8]) -> Result<i32, Errno> {
    let bytes = value.first_chunk::<4>().ok_or(Errno(EINVAL))?;
    Ok(i32::from_le_bytes(*bytes))
}

fn two_numbers(value: &[u8]) -> Result<(i32, i32), Errno> {
    let rest = value.get(4..).ok_or(Errno(EINVAL))?;
    Ok((number(value)?, number(rest)?))
}

/// A `struct timeval`; 0: no limit.
fn time_value(value: &[u8]) -> Result<Option<Duration>, Errno> {
    let word = |at: usize| {
        let bytes = value
            .get(at..at + 8)
            .and_then(|bytes| bytes.first_chunk::<8>());
        bytes
            .map(|bytes| i64::from_le_bytes(*bytes))
            .ok_or(Errno(EINVAL))
    };
    let (seconds, micros) = (word(0)?, word(8)?);
    if !(0..1_000_000).contains(&micros) {
        return fail(EDOM);
    }
    // Linux: a negative time is no time at all.
    let time = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let time = time + Duration::from_micros(micros as u64);
    Ok(Some(time).filter(|time| !time.is_zero()))
}

/// SO_MAX_PACING_RATE: an `int` or a `long`, bytes per second; all ones: no limit.
fn rate(value: &[u8]) -> Result<Option<u64>, Errno> {
    let rate = match value.first_chunk::<8>() {
        Some(long) => u64::from_le_bytes(*long),
        None => match number(value)?.cast_unsigned() {
            u32::MAX => u64::MAX,
            rate => rate.into(),
        },
    };
    Ok(Some(rate).filter(|&rate| rate != u64::MAX))
}

fn rate_bytes(rate: Option<u64>, room: usize) -> Vec<u8> {
    let rate = rate.unwrap_or(u64::MAX);
    if room >= size_of::<u64>() {
        return rate.to_le_bytes().to_vec();
    }
    let rate = u32::try_from(rate).unwrap_or(u32::MAX);
    rate.to_le_bytes().to_vec()
}

fn time_bytes(time: Option<Duration>) -> Vec<u8> {
    let time = time.unwrap_or_default();
    let micros = u64::from(time.subsec_micros());
    [time.as_secs().to_le_bytes(), micros.to_le_bytes()].concat()
}

fn algorithm(value: &[u8]) -> Result<CongestionControl, Errno> {
    let end = value.iter().position(|byte| *byte == 0);
    let name = value
        .get(..end.unwrap_or(value.len()))
        .ok_or(Errno(EFAULT))?;
    let name = str::from_utf8(name).map_err(|_| Errno(ENOENT))?;
    name.parse().map_err(|_| Errno(ENOENT))
}
