//! From the words of a call to a [`Kind`].

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::script::{CallSpec, Expr};
use super::settings::{IpVersion, Settings};
use crate::call::{Kind, Polled, Watch};
use crate::constants::{AF_INET, AF_INET6, by_name};

type Result<T> = std::result::Result<T, String>;

/// What arguments mean here.
#[derive(Debug)]
pub(super) struct Scope {
    pub settings: Arc<Settings>,
    /// The script's descriptors and ours.
    pub fds: HashMap<i64, i32>,
    /// A line that expects -1 need not say which error.
    pub any_error: bool,
}

/// A descriptor that nobody has.
const NO_FD: i32 = 1 << 20;

/// An integer: a number, a name, several with `|`, or one in brackets.
pub(super) fn int(expr: &Expr) -> Result<i64> {
    match expr {
        Expr::Int(value) => Ok(*value),
        Expr::Word(name) => match by_name(name) {
            Some(value) => Ok(value.into()),
            None => Err(format!("unknown name '{name}'")),
        },
        Expr::Or(left, right) => Ok(int(left)? | int(right)?),
        Expr::Array(items) => match &items[..] {
            [item] => int(item),
            _ => Err("expected one number".to_owned()),
        },
        Expr::Apply(name, args) => match (name.as_str(), &args[..]) {
            ("htons" | "htonl" | "ntohs" | "ntohl", [arg]) => int(arg),
            _ => Err(format!("unknown function '{name}'")),
        },
        Expr::Ellipsis | Expr::Str(_) | Expr::Struct(_) => Err("expected a number".to_owned()),
    }
}

/// The same as the 32 bits that the system call takes.
fn int32(expr: &Expr) -> Result<i32> {
    let value = int(expr)?;
    i32::try_from(value)
        .or_else(|_| u32::try_from(value).map(|value| value as i32))
        .map_err(|_| format!("{value} is out of range"))
}

/// A field of a structure, by the end of its name.
pub(super) fn field<'e>(fields: &'e [(Option<String>, Expr)], end: &str) -> Option<&'e Expr> {
    let found = fields
        .iter()
        .find(|(name, _)| name.as_deref().is_some_and(|name| name.ends_with(end)));
    found.map(|(_, value)| value)
}

impl Scope {
    /// Before a script.
    pub fn new(settings: Arc<Settings>, any_error: bool) -> Self {
        Self {
            settings,
            fds: HashMap::new(),
            any_error,
        }
    }

    /// Ours for the script's descriptor.
    pub fn fd(&self, expr: &Expr) -> Result<i32> {
        let script = int(expr)?;
        Ok(match self.fds.get(&script) {
            Some(fd) => *fd,
            None if script < 0 => -1,
            None => NO_FD,
        })
    }

    fn addr(&self, expr: &Expr, ip: IpAddr, port: u16) -> Result<SocketAddr> {
        let Expr::Struct(fields) = expr else {
            return match expr {
                Expr::Ellipsis => Ok(SocketAddr::new(self.outward(ip), port)),
                _ => Err("expected an address".to_owned()),
            };
        };
        let port = match field(fields, "_port") {
            Some(port) => u16::try_from(int(port)?).map_err(|_| "port out of range")?,
            None => port,
        };
        let text = match field(fields, "_addr") {
            Some(Expr::Apply(_, args)) => match &args[..] {
                [Expr::Str(text)] => String::from_utf8_lossy(text).into_owned(),
                _ => return Err("expected inet_addr(\"…\")".to_owned()),
            },
            _ => return Ok(SocketAddr::new(self.outward(ip), port)),
        };
        let ip = text.parse().map_err(|_| format!("bad address '{text}'"))?;
        Ok(SocketAddr::new(ip, port))
    }

    /// The address as sockets of this script write it.
    fn outward(&self, ip: IpAddr) -> IpAddr {
        match (self.settings.version, ip) {
            (IpVersion::Mapped, IpAddr::V4(v4)) => v4.to_ipv6_mapped().into(),
            _ => ip,
        }
    }

    fn domain(&self, expr: &Expr) -> Result<i32> {
        match expr {
            Expr::Ellipsis if self.settings.version == IpVersion::V4 => Ok(AF_INET),
            Expr::Ellipsis => Ok(AF_INET6),
            expr => int32(expr),
        }
    }
}

/// Something to write: its length, and its bytes if they are given.
fn bytes(data: &Expr, len: &Expr) -> Result<Vec<u8>> {
    let len = size(len)?;
    match data {
        Expr::Str(bytes) => Ok(bytes.iter().copied().take(len).collect()),
        Expr::Ellipsis => Ok((0..len).map(|at| (at % 251) as u8).collect()),
        _ => Err("expected a string or ...".to_owned()),
    }
}

/// A length in bytes; bounded, so that a slip does not take all memory.
fn size(expr: &Expr) -> Result<usize> {
    let value = int(expr)?;
    match usize::try_from(value) {
        Ok(size) if size <= 64 << 20 => Ok(size),
        _ => Err(format!("length {value} is out of range")),
    }
}

/// `[{..., 1000}, {"abc", 3}]`: the bytes of all.
fn vectors(expr: &Expr) -> Result<Vec<u8>> {
    let Expr::Array(items) = expr else {
        return Err("expected [{..., length}]".to_owned());
    };
    let mut all = Vec::new();
    for item in items {
        match item {
            Expr::Struct(fields) => match &fields[..] {
                [(None, data), (None, len)] => all.extend(bytes(data, len)?),
                _ => return Err("expected {..., length}".to_owned()),
            },
            _ => return Err("expected {..., length}".to_owned()),
        }
    }
    Ok(all)
}

/// The bytes of `{msg_name(...)=..., msg_iov(1)=[{..., 1000}], ...}`.
fn message(expr: &Expr) -> Result<Vec<u8>> {
    match expr {
        Expr::Struct(fields) => vectors(field(fields, "msg_iov").ok_or("no msg_iov")?),
        _ => Err("expected a message".to_owned()),
    }
}

/// Whom a message is for.
fn receiver(scope: &Scope, expr: &Expr) -> Result<Option<SocketAddr>> {
    let Expr::Struct(fields) = expr else {
        return Ok(None);
    };
    let settings = &scope.settings;
    let (ip, port) = (settings.remote_ip, settings.connect_port);
    let name = field(fields, "msg_name").map(|name| scope.addr(name, ip, port));
    name.transpose()
}

/// The value of an option: numbers, a structure of numbers, or a name.
fn value(expr: &Expr) -> Result<Vec<u8>> {
    match expr {
        Expr::Str(bytes) => Ok(bytes.clone()),
        Expr::Struct(fields) => {
            let wide = field(fields, "tv_sec").is_some();
            let numbers = fields.iter().map(|(_, value)| int(value));
            let numbers: Result<Vec<i64>> = numbers.collect();
            Ok(numbers?
                .iter()
                .flat_map(|number| {
                    let size = if wide { 8 } else { 4 };
                    number.to_le_bytes().into_iter().take(size)
                })
                .collect())
        }
        Expr::Ellipsis => Ok(vec![0; 4]),
        Expr::Array(items) => {
            let numbers: Result<Vec<i32>> = items.iter().map(int32).collect();
            Ok(numbers?
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect())
        }
        _ => Ok(int32(expr)?.to_le_bytes().to_vec()),
    }
}

/// `{fd=3, events=POLLIN, revents=POLLIN}`: the entry, with what is expected of it.
pub(super) fn polled(scope: &Scope, expr: &Expr) -> Result<Polled> {
    let Expr::Struct(fields) = expr else {
        return Err("expected {fd=…, events=…}".to_owned());
    };
    let named = |name: &str| {
        let found = fields
            .iter()
            .find(|(known, _)| known.as_deref() == Some(name));
        found.map(|(_, value)| value)
    };
    let fd = named("fd").ok_or("no fd")?;
    let events = named("events").ok_or("no events")?;
    Ok(Polled {
        fd: scope.fd(fd)?,
        events: int32(events)?,
        revents: named("revents").map_or(Ok(0), int32)?,
    })
}

/// `{events=EPOLLIN, fd=4}`.
pub(super) fn watch(expr: &Expr) -> Result<Watch> {
    let Expr::Struct(fields) = expr else {
        return Err("expected {events=…, fd=…}".to_owned());
    };
    let events = field(fields, "events").ok_or("no events")?;
    let data = fields
        .iter()
        .find(|(name, _)| name.as_deref().is_some_and(|name| name != "events"));
    let data = data.map_or(Ok(0), |(_, value)| int(value))?;
    Ok(Watch {
        events: int32(events)?,
        data: data as u64,
    })
}

/// The call.
pub(super) fn kind(scope: &Scope, call: &CallSpec) -> Result<Kind> {
    let built = naming(scope, call)
        .or_else(|| transfer(scope, call))
        .or_else(|| control(scope, call))
        .or_else(|| readiness(scope, call));
    built.unwrap_or_else(|| {
        Err(format!(
            "no call {}() with {} arguments",
            call.name,
            call.args.len()
        ))
    })
}

fn naming(scope: &Scope, call: &CallSpec) -> Option<Result<Kind>> {
    let settings = &scope.settings;
    let build = || -> Result<Option<Kind>> {
        Ok(Some(match (call.name.as_str(), &call.args[..]) {
            ("socket", [domain, kind, protocol]) => Kind::Socket {
                domain: scope.domain(domain)?,
                kind: int32(kind)?,
                protocol: int32(protocol)?,
            },
            ("bind", [fd, addr, _]) => Kind::Bind {
                fd: scope.fd(fd)?,
                addr: scope.addr(addr, settings.local_ip, settings.bind_port)?,
            },
            ("connect", [fd, addr, _]) => Kind::Connect {
                fd: scope.fd(fd)?,
                addr: scope.addr(addr, settings.remote_ip, settings.connect_port)?,
            },
            ("listen", [fd, backlog]) => Kind::Listen {
                fd: scope.fd(fd)?,
                backlog: int32(backlog)?,
            },
            ("accept", [fd, _, _]) => Kind::Accept {
                fd: scope.fd(fd)?,
                flags: 0,
            },
            ("accept4", [fd, _, _, flags]) => Kind::Accept {
                fd: scope.fd(fd)?,
                flags: int32(flags)?,
            },
            ("shutdown", [fd, how]) => Kind::Shutdown {
                fd: scope.fd(fd)?,
                how: int32(how)?,
            },
            ("close", [fd]) => Kind::Close { fd: scope.fd(fd)? },
            ("pipe", [_]) => Kind::Pipe { flags: 0 },
            ("splice", [from, _, to, _, len, flags]) => Kind::Splice {
                from: scope.fd(from)?,
                to: scope.fd(to)?,
                len: int(len)? as usize,
                flags: int32(flags)?,
            },
            ("getsockname", [fd, _, _]) => Kind::LocalName { fd: scope.fd(fd)? },
            ("getpeername", [fd, _, _]) => Kind::PeerName { fd: scope.fd(fd)? },
            _ => return Ok(None),
        }))
    };
    build().transpose()
}

fn transfer(scope: &Scope, call: &CallSpec) -> Option<Result<Kind>> {
    let settings = &scope.settings;
    let build = || -> Result<Option<Kind>> {
        Ok(Some(match (call.name.as_str(), &call.args[..]) {
            ("read", [fd, _, len]) => Kind::Read {
                fd: scope.fd(fd)?,
                len: size(len)?,
            },
            ("readv", [fd, vector, _]) => Kind::Read {
                fd: scope.fd(fd)?,
                len: vectors(vector)?.len(),
            },
            ("recv", [fd, _, len, flags]) | ("recvfrom", [fd, _, len, flags, _, _]) => {
                Kind::Receive {
                    fd: scope.fd(fd)?,
                    len: size(len)?,
                    flags: int32(flags)?,
                }
            }
            ("recvmsg", [fd, msg, flags]) => Kind::Receive {
                fd: scope.fd(fd)?,
                len: message(msg)?.len(),
                flags: int32(flags)?,
            },
            ("write", [fd, data, len]) => Kind::Write {
                fd: scope.fd(fd)?,
                bytes: bytes(data, len)?,
            },
            ("writev", [fd, vector, _]) => Kind::Write {
                fd: scope.fd(fd)?,
                bytes: vectors(vector)?,
            },
            ("send", [fd, data, len, flags]) => Kind::Send {
                fd: scope.fd(fd)?,
                bytes: bytes(data, len)?,
                flags: int32(flags)?,
                to: None,
            },
            ("sendto", [fd, data, len, flags, addr, _]) => Kind::Send {
                fd: scope.fd(fd)?,
                bytes: bytes(data, len)?,
                flags: int32(flags)?,
                to: Some(scope.addr(addr, settings.remote_ip, settings.connect_port)?),
            },
            ("sendmsg", [fd, msg, flags]) => Kind::Send {
                fd: scope.fd(fd)?,
                bytes: message(msg)?,
                flags: int32(flags)?,
                to: receiver(scope, msg)?,
            },
            _ => return Ok(None),
        }))
    };
    build().transpose()
}

fn control(scope: &Scope, call: &CallSpec) -> Option<Result<Kind>> {
    let build = || -> Result<Option<Kind>> {
        Ok(Some(match (call.name.as_str(), &call.args[..]) {
            ("setsockopt", [fd, level, name, option, len]) => {
                let mut value = value(option)?;
                value.truncate(size(len)?);
                Kind::SetOption {
                    fd: scope.fd(fd)?,
                    level: int32(level)?,
                    name: int32(name)?,
                    value,
                }
            }
            ("getsockopt", [fd, level, name, _, len]) => Kind::GetOption {
                fd: scope.fd(fd)?,
                level: int32(level)?,
                name: int32(name)?,
                len: match len {
                    Expr::Ellipsis => 256,
                    len => size(len)?,
                },
            },
            ("fcntl", [fd, command]) => Kind::Fcntl {
                fd: scope.fd(fd)?,
                command: int32(command)?,
                argument: 0,
            },
            ("fcntl", [fd, command, argument]) => Kind::Fcntl {
                fd: scope.fd(fd)?,
                command: int32(command)?,
                argument: int32(argument)?,
            },
            ("ioctl", [fd, request, argument]) => Kind::Ioctl {
                fd: scope.fd(fd)?,
                request: int32(request)?,
                argument: int32(argument).unwrap_or(0),
            },
            _ => return Ok(None),
        }))
    };
    build().transpose()
}

fn readiness(scope: &Scope, call: &CallSpec) -> Option<Result<Kind>> {
    let build = || -> Result<Option<Kind>> {
        Ok(Some(match (call.name.as_str(), &call.args[..]) {
            ("poll", [Expr::Array(fds), _, timeout]) => Kind::Poll {
                fds: fds
                    .iter()
                    .map(|fd| polled(scope, fd))
                    .collect::<Result<_>>()?,
                timeout_ms: int32(timeout)?,
            },
            ("epoll_create", [_]) => Kind::EpollCreate { flags: 0 },
            ("epoll_create1", [flags]) => Kind::EpollCreate {
                flags: int32(flags)?,
            },
            ("epoll_ctl", [epoll, operation, fd, event]) => Kind::EpollControl {
                epoll: scope.fd(epoll)?,
                operation: int32(operation)?,
                fd: scope.fd(fd)?,
                watch: match event {
                    Expr::Struct(_) => watch(event)?,
                    _ => Watch { events: 0, data: 0 },
                },
            },
            ("epoll_wait", [epoll, _, max, timeout]) => Kind::EpollWait {
                epoll: scope.fd(epoll)?,
                max: usize::try_from(int(max)?).unwrap_or(0),
                timeout_ms: int32(timeout)?,
            },
            _ => return Ok(None),
        }))
    };
    build().transpose()
}
