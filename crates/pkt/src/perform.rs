//! Calls are made on a [`Context`], as libraries for C programs do: numbers become what it takes,
//! and what it gives becomes numbers.

use std::net::SocketAddr;
use std::time::Duration;

use mtcp::posix::options;
use mtcp::{
    Context, Ctl, Domain, EpollEvent, Errno, Events, How, Interest, RecvFlags, Result, SendFlags,
    SocketId, Waiter,
};
use wire::time::Instant;

use crate::call::{Kind, Outcome, Polled, Reply, Watch};
use crate::constants::{
    AF_INET, AF_INET6, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, F_GETFD, F_GETFL, F_SETFD,
    F_SETFL, FIONBIO, FIONREAD, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, MSG_DONTWAIT, MSG_FASTOPEN,
    MSG_MORE, MSG_OOB, MSG_PEEK, MSG_WAITALL, O_NONBLOCK, O_RDWR, POLLERR, POLLHUP, POLLNVAL,
    SHUT_RD, SHUT_RDWR, SHUT_WR, SIOCATMARK, SIOCOUTQ, SIOCOUTQNSD, SOCK_CLOEXEC, SOCK_NONBLOCK,
    SOCK_STREAM,
};
use crate::constants::{EAFNOSUPPORT, EBADF, ENOTTY, EPROTONOSUPPORT, ESOCKTNOSUPPORT};
use crate::splice::splice;

/// SOMAXCONN.
const MOST_WAITING: u32 = 4096;
/// Most events that are asked for at a time.
const MOST_EVENTS: usize = 1024;
/// What has a length before anything else is looked at, bytes.
const INT: usize = 4;

/// Who moves the time of a context on.
pub trait Timeline: Waiter {
    /// The time.
    fn now(&self) -> Instant;

    /// Whether nothing will come any more, so that calls that wait should end.
    fn is_over(&self) -> bool;
}

impl Kind {
    /// Makes the call. `timeline` is the waiter of the context.
    ///
    /// # Errors
    /// As the call of Linux.
    pub fn perform(&self, context: &mut Context, timeline: &dyn Timeline) -> Outcome {
        match self {
            Self::Receive { .. } | Self::Send { .. } | Self::Read { .. } | Self::Write { .. } => {
                self.transfer(context)
            }
            Self::SetOption { .. }
            | Self::GetOption { .. }
            | Self::Fcntl { .. }
            | Self::Ioctl { .. } => self.control(context),
            Self::Poll { fds, timeout_ms } => poll(context, timeline, fds, limit(*timeout_ms)),
            Self::EpollCreate { .. } | Self::EpollControl { .. } | Self::EpollWait { .. } => {
                self.watch(context)
            }
            _ => self.name(context),
        }
    }

    /// Calls that make, name and end sockets.
    fn name(&self, context: &mut Context) -> Outcome {
        let done = |result: Result<()>| result.map(|()| Reply::default());
        match *self {
            Self::Socket {
                domain,
                kind,
                protocol,
            } => socket(context, domain, kind, protocol),
            Self::Bind { fd, addr } => done(context.bind(id(fd)?, addr)),
            Self::Listen { fd, backlog } => {
                done(context.listen(id(fd)?, mtcp::posix::call::backlog(backlog, MOST_WAITING)))
            }
            Self::Accept { fd, flags } => accept(context, fd, flags),
            Self::Connect { fd, addr } => done(context.connect(id(fd)?, addr)),
            Self::Shutdown { fd, how } => done(context.shutdown(id(fd)?, direction(how)?)),
            Self::Close { fd } => done(context.close(id(fd)?)),
            Self::Pipe { flags } => pipe(context, flags),
            Self::Splice {
                from,
                to,
                len,
                flags,
            } => splice(context, (id(from)?, id(to)?), len, flags).map(Reply::of),
            Self::LocalName { fd } => context.local_addr(id(fd)?).map(named),
            Self::PeerName { fd } => context.peer_addr(id(fd)?).map(named),
            _ => Err(Errno::ENOSYS),
        }
    }

    fn transfer(&self, context: &mut Context) -> Outcome {
        match self {
            Self::Receive { fd, len, flags } => {
                receive(context, stream(context, *fd)?, *len, *flags)
            }
            Self::Read { fd, len } => receive(context, id(*fd)?, *len, 0),
            Self::Send {
                fd,
                bytes,
                flags,
                to,
            } => send(context, stream(context, *fd)?, bytes, *flags, *to),
            Self::Write { fd, bytes } => send(context, id(*fd)?, bytes, 0, None),
            _ => Err(Errno::ENOSYS),
        }
    }

    fn control(&self, context: &mut Context) -> Outcome {
        match self {
            Self::SetOption {
                fd,
                level,
                name,
                value,
            } => set_option(context, id(*fd)?, (*level, *name), value),
            Self::GetOption {
                fd,
                level,
                name,
                len,
            } => option(context, id(*fd)?, (*level, *name), *len),
            Self::Fcntl {
                fd,
                command,
                argument,
            } => fcntl(context, id(*fd)?, *command, *argument),
            Self::Ioctl {
                fd,
                request,
                argument,
            } => ioctl(context, id(*fd)?, *request, *argument),
            _ => Err(Errno::ENOSYS),
        }
    }

    fn watch(&self, context: &mut Context) -> Outcome {
        match *self {
            Self::EpollCreate { .. } => context.epoll_create().map(descriptor),
            Self::EpollControl {
                epoll,
                operation,
                fd,
                watch,
            } => {
                let ctl = match operation {
                    EPOLL_CTL_ADD => Ctl::Add,
                    EPOLL_CTL_MOD => Ctl::Mod,
                    EPOLL_CTL_DEL => Ctl::Del,
                    _ => return Err(Errno::EINVAL),
                };
                let interest = Interest {
                    events: events(watch.events),
                    data: watch.data,
                };
                context.epoll_ctl(id(epoll)?, ctl, id(fd)?, interest)?;
                Ok(Reply::default())
            }
            Self::EpollWait {
                epoll,
                max,
                timeout_ms,
            } => epoll_wait(context, id(epoll)?, max, limit(timeout_ms)),
            _ => Err(Errno::ENOSYS),
        }
    }
}

/// The socket with this number.
fn id(fd: i32) -> Result<SocketId> {
    u32::try_from(fd).map(SocketId).map_err(|_| Errno(EBADF))
}

/// The same for calls that are for sockets alone: a context takes them on pipes as well.
fn stream(context: &Context, fd: i32) -> Result<SocketId> {
    let id = id(fd)?;
    match context.kind(id)? {
        mtcp::Kind::Pipe | mtcp::Kind::Epoll => Err(Errno::ENOTSOCK),
        mtcp::Kind::Stream | mtcp::Kind::Listener => Ok(id),
    }
}

fn descriptor(id: SocketId) -> Reply {
    Reply::of(id.0)
}

fn named(addr: SocketAddr) -> Reply {
    Reply {
        addr: Some(addr),
        ..Reply::default()
    }
}

/// A time-out of `poll` or `epoll_wait`.
fn limit(timeout_ms: i32) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

/// The bits of poll(2) are those of epoll(7).
fn events(bits: i32) -> Events {
    Events::from_bits_truncate(bits.cast_unsigned())
}

fn bits(events: Events) -> i32 {
    events.bits().cast_signed()
}

/// Whether the flags of `socket`, `accept4` or `pipe` ask for a descriptor that does not wait.
const fn nonblocking(flags: i32) -> bool {
    flags & SOCK_NONBLOCK != 0
}

fn socket(context: &mut Context, domain: i32, kind: i32, protocol: i32) -> Outcome {
    let domain = match domain {
        AF_INET => Domain::V4,
        AF_INET6 => Domain::V6,
        _ => return Err(Errno(EAFNOSUPPORT)),
    };
    if kind & !(SOCK_NONBLOCK | SOCK_CLOEXEC) != SOCK_STREAM {
        return Err(Errno(ESOCKTNOSUPPORT));
    }
    if protocol != IPPROTO_IP && protocol != IPPROTO_TCP {
        return Err(Errno(EPROTONOSUPPORT));
    }
    let socket = context.socket(domain)?;
    context.set_nonblocking(socket, nonblocking(kind))?;
    Ok(descriptor(socket))
}

fn accept(context: &mut Context, fd: i32, flags: i32) -> Outcome {
    let (socket, peer) = context.accept(id(fd)?)?;
    context.set_nonblocking(socket, nonblocking(flags))?;
    Ok(Reply {
        addr: Some(peer),
        ..descriptor(socket)
    })
}

fn direction(how: i32) -> Result<How> {
    match how {
        SHUT_RD => Ok(How::Read),
        SHUT_WR => Ok(How::Write),
        SHUT_RDWR => Ok(How::Both),
        _ => Err(Errno::EINVAL),
    }
}

fn pipe(context: &mut Context, flags: i32) -> Outcome {
    let (reader, writer) = context.pipe()?;
    for end in [reader, writer] {
        context.set_nonblocking(end, nonblocking(flags))?;
    }
    let number = |SocketId(number)| i32::try_from(number).map_err(|_| Errno::ENFILE);
    Ok(Reply {
        pipe: Some((number(reader)?, number(writer)?)),
        ..Reply::default()
    })
}

fn receive(context: &mut Context, socket: SocketId, len: usize, flags: i32) -> Outcome {
    let mut wanted = RecvFlags::empty();
    wanted.set(RecvFlags::PEEK, flags & MSG_PEEK != 0);
    wanted.set(RecvFlags::DONTWAIT, flags & MSG_DONTWAIT != 0);
    wanted.set(RecvFlags::WAITALL, flags & MSG_WAITALL != 0);
    wanted.set(RecvFlags::OOB, flags & MSG_OOB != 0);
    let mut data = vec![0; len];
    let n = context.recv(socket, &mut data, wanted)?;
    data.truncate(n);
    Ok(Reply {
        data,
        ..Reply::of(n)
    })
}

fn send(
    context: &mut Context,
    socket: SocketId,
    bytes: &[u8],
    flags: i32,
    to: Option<SocketAddr>,
) -> Outcome {
    let mut how = SendFlags::empty();
    how.set(SendFlags::DONTWAIT, flags & MSG_DONTWAIT != 0);
    how.set(SendFlags::MORE, flags & MSG_MORE != 0);
    how.set(SendFlags::FASTOPEN, flags & MSG_FASTOPEN != 0);
    how.set(SendFlags::OOB, flags & MSG_OOB != 0);
    match context.send_to(socket, bytes, how, to) {
        // Linux: nobody reads what goes to a socket without a connection.
        Err(Errno::ENOTCONN) => Err(Errno::EPIPE),
        sent => sent.map(Reply::of),
    }
}

fn set_option(
    context: &mut Context,
    socket: SocketId,
    (level, name): (i32, i32),
    value: &[u8],
) -> Outcome {
    let Some(entry) = options::find(context, socket, level, name)? else {
        // Linux looks at the length first.
        let short = value.len() < INT && level != IPPROTO_IPV6;
        return Err(if short {
            Errno::EINVAL
        } else {
            Errno::ENOPROTOOPT
        });
    };
    context.set_option(socket, (entry.parse)(value)?)?;
    Ok(Reply::default())
}

fn option(
    context: &mut Context,
    socket: SocketId,
    (level, name): (i32, i32),
    room: usize,
) -> Outcome {
    let entry = options::known(context, socket, level, name)?;
    let mut data = options::value(context, socket, entry, room)?;
    data.truncate(room);
    Ok(Reply {
        data,
        ..Reply::default()
    })
}

fn fcntl(context: &mut Context, socket: SocketId, command: i32, argument: i32) -> Outcome {
    let waits = !context.nonblocking(socket)?;
    match command {
        F_GETFL => Ok(Reply::of(if waits { O_RDWR } else { O_RDWR | O_NONBLOCK })),
        F_SETFL => {
            context.set_nonblocking(socket, argument & O_NONBLOCK != 0)?;
            Ok(Reply::default())
        }
        F_GETFD | F_SETFD => Ok(Reply::default()),
        _ => Err(Errno::EINVAL),
    }
}

fn ioctl(context: &mut Context, socket: SocketId, request: i32, argument: i32) -> Outcome {
    let number = match request {
        FIONBIO => {
            context.set_nonblocking(socket, argument != 0)?;
            0
        }
        FIONREAD => context.available(socket)?,
        SIOCOUTQ => context.unacknowledged(socket)?.0 as usize,
        SIOCOUTQNSD => context.unacknowledged(socket)?.1 as usize,
        SIOCATMARK => context.at_mark(socket)?.into(),
        _ => {
            context.kind(socket)?;
            return Err(Errno(ENOTTY));
        }
    };
    Ok(Reply {
        number: i32::try_from(number).unwrap_or(i32::MAX),
        ..Reply::default()
    })
}

fn epoll_wait(
    context: &mut Context,
    epoll: SocketId,
    max: usize,
    timeout: Option<Duration>,
) -> Outcome {
    let mut found = vec![EpollEvent::default(); max.min(MOST_EVENTS)];
    let n = context.epoll_wait(epoll, &mut found, timeout)?;
    let watch = |event: &EpollEvent| Watch {
        events: bits(event.events),
        data: event.data,
    };
    Ok(Reply {
        events: found.iter().take(n).map(watch).collect(),
        ..Reply::of(n)
    })
}

/// As a program that waits by itself: turns in pieces, and a look at each socket in between.
fn poll(
    context: &mut Context,
    timeline: &dyn Timeline,
    fds: &[Polled],
    timeout: Option<Duration>,
) -> Outcome {
    let deadline = timeout.map(|timeout| timeline.now() + timeout);
    loop {
        context.begin_turn()?;
        let polled: Vec<Polled> = fds.iter().map(|entry| look(context, *entry)).collect();
        let ready = polled.iter().filter(|entry| entry.revents != 0).count();
        if ready > 0 || deadline.is_some_and(|deadline| deadline <= timeline.now()) {
            return Ok(Reply {
                polled,
                ..Reply::of(ready)
            });
        }
        if timeline.is_over() {
            return Err(Errno::EINTR);
        }
        context.prepare_sleep(&mut Vec::new())?;
        let due = context.due().map(|due| timeline.now() + due);
        timeline.wait(context, [due, deadline].into_iter().flatten().min());
        context.end_sleep()?;
    }
}

fn look(context: &mut Context, entry: Polled) -> Polled {
    let wanted = events(entry.events);
    let revents = match id(entry.fd).and_then(|id| context.kind(id).map(|kind| (id, kind))) {
        _ if entry.fd < 0 => 0,
        Err(_) => POLLNVAL,
        Ok((epoll, mtcp::Kind::Epoll)) => {
            let ready = context.epoll_ready(epoll) == Ok(true);
            let all = Events::IN | Events::RDNORM;
            bits(if ready { all } else { Events::empty() } & wanted)
        }
        Ok((socket, _)) => bits(context.ready(socket, wanted)),
    };
    Polled {
        revents: revents & (entry.events | POLLERR | POLLHUP | POLLNVAL),
        ..entry
    }
}
