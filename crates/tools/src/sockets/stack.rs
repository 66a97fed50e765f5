//! mTCP's sockets: [`mtcp::Context`] in the words of [`Sockets`].

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mtcp::{Context, Ctl, Domain, EpollEvent, Events, How, Interest, SendFlags, SocketId};

use super::{Errno, Event, Handle, More, Ready, Sockets, Waker};

/// The mTCP backend: a context with one epoll instance.
#[derive(Debug)]
pub(crate) struct Stack {
    context: Context,
    epoll: SocketId,
    events: Vec<EpollEvent>,
}

fn errno(error: mtcp::Errno) -> Errno {
    Errno::from_raw_os_error(error.0)
}

fn id(socket: Handle) -> SocketId {
    SocketId(socket.0)
}

impl Stack {
    /// The sockets of `context`.
    pub(crate) fn new(mut context: Context) -> Result<Self, Errno> {
        let epoll = context.epoll_create().map_err(errno)?;
        Ok(Self {
            context,
            epoll,
            events: vec![EpollEvent::default(); 512],
        })
    }

    /// Why the link is gone, if it is.
    pub(crate) fn link_error(&self) -> Option<&str> {
        self.context.link_error()
    }

    fn stream(&mut self, address: &SocketAddr) -> Result<SocketId, Errno> {
        let domain = if address.is_ipv4() {
            Domain::V4
        } else {
            Domain::V6
        };
        let socket = self.context.socket(domain).map_err(errno)?;
        self.context.set_nonblocking(socket, true).map_err(errno)?;
        Ok(socket)
    }

    /// Runs `set_up` on a new socket, which is closed if that fails.
    fn with_stream(
        &mut self,
        address: SocketAddr,
        set_up: impl FnOnce(&mut Context, SocketId) -> mtcp::Result<()>,
    ) -> Result<Handle, Errno> {
        let socket = self.stream(&address)?;
        match set_up(&mut self.context, socket) {
            Ok(()) => Ok(Handle(socket.0)),
            Err(error) => {
                // The error that matters is the one before.
                let _ = self.context.close(socket);
                Err(errno(error))
            }
        }
    }

    fn control(
        &mut self,
        ctl: Ctl,
        socket: Handle,
        interest: Ready,
        data: u64,
    ) -> Result<(), Errno> {
        let interest = Interest {
            events: Events::from_bits_retain(interest.bits()),
            data,
        };
        self.context
            .epoll_ctl(self.epoll, ctl, id(socket), interest)
            .map_err(errno)
    }
}

impl Sockets for Stack {
    fn listen(&mut self, local: SocketAddr, backlog: u32) -> Result<Handle, Errno> {
        self.with_stream(local, |context, socket| {
            context.set_option(socket, mtcp::SocketOption::NoDelay(true))?;
            if local.is_ipv6() {
                context.set_option(socket, mtcp::SocketOption::OnlyV6(true))?;
            }
            context.bind(socket, local)?;
            context.listen(socket, backlog)
        })
    }

    fn local_addr(&self, socket: Handle) -> Result<SocketAddr, Errno> {
        self.context.local_addr(id(socket)).map_err(errno)
    }

    fn peer_addr(&self, socket: Handle) -> Result<SocketAddr, Errno> {
        self.context.peer_addr(id(socket)).map_err(errno)
    }

    fn accept(&mut self, listener: Handle) -> Result<Handle, Errno> {
        let (socket, _) = self.context.accept(id(listener)).map_err(errno)?;
        self.context.set_nonblocking(socket, true).map_err(errno)?;
        Ok(Handle(socket.0))
    }

    fn connect(
        &mut self,
        local: Option<IpAddr>,
        remote: SocketAddr,
        reset: bool,
    ) -> Result<Handle, Errno> {
        self.with_stream(remote, |context, socket| {
            if reset {
                context.set_option(socket, mtcp::SocketOption::Linger(Some(Duration::ZERO)))?;
            }
            if let Some(local) = local {
                context.bind(socket, SocketAddr::new(local, 0))?;
            }
            match context.connect(socket, remote) {
                Err(mtcp::Errno::EINPROGRESS) => Ok(()),
                result => result,
            }
        })
    }

    fn add(&mut self, socket: Handle, interest: Ready, data: u64) -> Result<(), Errno> {
        self.control(Ctl::Add, socket, interest, data)
    }

    fn modify(&mut self, socket: Handle, interest: Ready, data: u64) -> Result<(), Errno> {
        self.control(Ctl::Mod, socket, interest, data)
    }

    fn read(&mut self, socket: Handle, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.context.read(id(socket), buffer).map_err(errno)
    }

    fn write(&mut self, socket: Handle, bytes: &[u8], more: More) -> Result<usize, Errno> {
        let flags = match more {
            More::Follows => SendFlags::empty(),
            More::Close => SendFlags::MORE,
        };
        self.context.send(id(socket), bytes, flags).map_err(errno)
    }

    fn acknowledge(&mut self, socket: Handle) {
        let option = mtcp::SocketOption::QuickAck(true);
        // A connection that failed says so when it is read.
        let _ = self.context.set_option(id(socket), option);
    }

    fn shutdown_write(&mut self, socket: Handle) -> Result<(), Errno> {
        self.context.shutdown(id(socket), How::Write).map_err(errno)
    }

    fn close(&mut self, socket: Handle) {
        // The id is free afterwards, whatever is returned.
        let _ = self.context.close(id(socket));
    }

    fn abort(&mut self, socket: Handle) {
        // As above.
        let _ = self.context.abort(id(socket));
    }

    fn take_error(&mut self, socket: Handle) -> Option<Errno> {
        match self.context.take_error(id(socket)) {
            Ok(error) => error.map(errno),
            Err(error) => Some(errno(error)),
        }
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> Result<(), Errno> {
        events.clear();
        let ready = match self
            .context
            .epoll_wait(self.epoll, &mut self.events, timeout)
        {
            Ok(ready) => ready,
            Err(mtcp::Errno::EINTR) => 0,
            Err(error) => return Err(errno(error)),
        };
        // Every socket is ready then, for ever.
        if self.context.link_error().is_some() {
            return Err(Errno::NETDOWN);
        }
        let ready = self.events.iter().take(ready);
        events.extend(ready.map(|event| Event {
            data: event.data,
            ready: Ready::from_bits_truncate(event.events.bits()),
        }));
        Ok(())
    }

    fn waker(&self) -> Result<Waker, Errno> {
        let handle = self.context.wake_handle();
        Ok(Box::new(move || handle.wake()))
    }

    fn finish(&mut self, grace: Duration) {
        // Whether all of it got through or not: this is the end.
        let _ = self.context.drain(grace);
    }
}
