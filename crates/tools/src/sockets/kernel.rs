//! The kernel's sockets: one system call per operation.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt,
};

use super::{Errno, Event, Handle, More, Ready, Sockets, Waker};

/// The `data` of the wake-up descriptor: no socket has it.
const WAKE: u64 = u64::MAX;

/// The kernel backend; descriptors are owned by a table indexed by their number.
pub(crate) struct Kernel {
    /// What listeners and connecting sockets are told to use; `None`: the system's default, which
    /// needs no telling.
    congestion: Option<&'static str>,
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    sockets: Vec<Option<OwnedFd>>,
    events: Vec<epoll::Event>,
}

impl Kernel {
    /// An epoll with nothing in it.
    pub(crate) fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(
            &epoll,
            &wake,
            epoll::EventData::new_u64(WAKE),
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?;
        Ok(Self {
            congestion: None,
            epoll,
            wake,
            sockets: Vec::new(),
            events: Vec::with_capacity(512),
        })
    }

    /// Has all sockets use this congestion control (`TCP_CONGESTION`). Where it is the system's
    /// default, they cost no call more.
    ///
    /// # Errors
    /// `ENOENT`: the kernel does not have it; `EPERM`: only root may choose it.
    pub(crate) fn use_congestion(&mut self, name: &'static str) -> Result<(), Errno> {
        let probe = stream(&SocketAddr::from(([127, 0, 0, 1], 0)))?;
        if sockopt::tcp_congestion(&probe)? == name {
            return Ok(());
        }
        sockopt::set_tcp_congestion(&probe, name)?;
        self.congestion = Some(name);
        Ok(())
    }

    /// A socket for this address, with the congestion control that was chosen.
    fn socket(&self, address: &SocketAddr) -> Result<OwnedFd, Errno> {
        let fd = stream(address)?;
        if let Some(name) = self.congestion {
            sockopt::set_tcp_congestion(&fd, name)?;
        }
        Ok(fd)
    }

    /// TCP_DEFER_ACCEPT of tcp(7) on a listener: connections are announced with their first bytes.
    pub(crate) fn defer_accept(&self, listener: Handle) -> Result<(), Errno> {
        mtcp::kernel::defer_accept(self.fd(listener)?, 1)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
    }

    fn own(&mut self, fd: OwnedFd) -> Result<Handle, Errno> {
        let number = u32::try_from(fd.as_raw_fd()).map_err(|_| Errno::BADF)?;
        let index = number as usize;
        if index >= self.sockets.len() {
            self.sockets.resize_with(index + 64, || None);
        }
        if let Some(slot) = self.sockets.get_mut(index) {
            *slot = Some(fd);
        }
        Ok(Handle(number))
    }

    fn fd(&self, socket: Handle) -> Result<BorrowedFd<'_>, Errno> {
        self.sockets
            .get(socket.0 as usize)
            .and_then(Option::as_ref)
            .map(AsFd::as_fd)
            .ok_or(Errno::BADF)
    }

    fn forget(&mut self, socket: Handle) -> Option<OwnedFd> {
        self.sockets
            .get_mut(socket.0 as usize)
            .and_then(Option::take)
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel")
            .field("epoll", &self.epoll)
            .finish_non_exhaustive()
    }
}

fn family(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    }
}

fn stream(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(
        family(address),
        SocketType::STREAM,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        None,
    )
}

fn flags(interest: Ready) -> epoll::EventFlags {
    epoll::EventFlags::from_bits_retain(interest.bits())
}

fn timespec(timeout: Duration) -> Timespec {
    // Whole milliseconds, rounded up: what every kernel's epoll_pwait takes.
    let millis = timeout.as_nanos().div_ceil(1_000_000).min(3_600_000) as i64;
    Timespec {
        tv_sec: millis / 1000,
        tv_nsec: (millis % 1000) * 1_000_000,
    }
}

impl Sockets for Kernel {
    fn listen(&mut self, local: SocketAddr, backlog: u32) -> Result<Handle, Errno> {
        let fd = self.socket(&local)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        // Accepted sockets inherit it.
        sockopt::set_tcp_nodelay(&fd, true)?;
        if local.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        rustix::net::bind(&fd, &local)?;
        rustix::net::listen(&fd, i32::try_from(backlog).unwrap_or(i32::MAX))?;
        self.own(fd)
    }

    fn local_addr(&self, socket: Handle) -> Result<SocketAddr, Errno> {
        rustix::net::getsockname(self.fd(socket)?)?.try_into()
    }

    fn peer_addr(&self, socket: Handle) -> Result<SocketAddr, Errno> {
        rustix::net::getpeername(self.fd(socket)?)?
            .ok_or(Errno::NOTCONN)?
            .try_into()
    }

    fn accept(&mut self, listener: Handle) -> Result<Handle, Errno> {
        let fd = rustix::net::accept_with(
            self.fd(listener)?,
            SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        )?;
        self.own(fd)
    }

    fn connect(
        &mut self,
        local: Option<IpAddr>,
        remote: SocketAddr,
        reset: bool,
    ) -> Result<Handle, Errno> {
        let fd = self.socket(&remote)?;
        if reset {
            sockopt::set_socket_linger(&fd, Some(Duration::ZERO))?;
        }
        if let Some(local) = local {
            rustix::net::bind(&fd, &SocketAddr::new(local, 0))?;
        }
        match rustix::net::connect(&fd, &remote) {
            Ok(()) | Err(Errno::INPROGRESS) => self.own(fd),
            Err(error) => Err(error),
        }
    }

    fn add(&mut self, socket: Handle, interest: Ready, data: u64) -> Result<(), Errno> {
        epoll::add(
            &self.epoll,
            self.fd(socket)?,
            epoll::EventData::new_u64(data),
            flags(interest),
        )
    }

    fn modify(&mut self, socket: Handle, interest: Ready, data: u64) -> Result<(), Errno> {
        epoll::modify(
            &self.epoll,
            self.fd(socket)?,
            epoll::EventData::new_u64(data),
            flags(interest),
        )
    }

    fn read(&mut self, socket: Handle, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::net::recv(self.fd(socket)?, buffer, RecvFlags::empty()).map(|(read, _)| read)
    }

    fn write(&mut self, socket: Handle, bytes: &[u8], more: More) -> Result<usize, Errno> {
        // MSG_MORE before close(2): the FIN rides on the last segment.
        let flags = match more {
            More::Follows => SendFlags::NOSIGNAL,
            More::Close => SendFlags::NOSIGNAL | SendFlags::MORE,
        };
        rustix::net::send(self.fd(socket)?, bytes, flags)
    }

    fn acknowledge(&mut self, socket: Handle) {
        // A connection that failed says so when it is read.
        let _ = self
            .fd(socket)
            .map(|fd| sockopt::set_tcp_quickack(fd, true));
    }

    fn shutdown_write(&mut self, socket: Handle) -> Result<(), Errno> {
        rustix::net::shutdown(self.fd(socket)?, Shutdown::Write)
    }

    fn close(&mut self, socket: Handle) {
        drop(self.forget(socket));
    }

    fn abort(&mut self, socket: Handle) {
        if let Some(fd) = self.forget(socket) {
            // Without it the close below is an ordinary one: nothing better to do.
            let _ = sockopt::set_socket_linger(&fd, Some(Duration::ZERO));
        }
    }

    fn take_error(&mut self, socket: Handle) -> Option<Errno> {
        let fd = self.fd(socket).ok()?;
        match sockopt::socket_error(fd) {
            Ok(Ok(())) => None,
            Ok(Err(error)) | Err(error) => Some(error),
        }
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> Result<(), Errno> {
        events.clear();
        self.events.clear();
        let timeout = timeout.map(timespec);
        match epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.events),
            timeout.as_ref(),
        ) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error),
        }
        for event in &self.events {
            // Copied out: the kernel's structure is packed.
            let (data, bits) = (event.data, event.flags);
            if data.u64() != WAKE {
                events.push(Event {
                    data: data.u64(),
                    ready: Ready::from_bits_truncate(bits.bits()),
                });
            }
        }
        Ok(())
    }

    fn waker(&self) -> Result<Waker, Errno> {
        let wake = Arc::clone(&self.wake);
        Ok(Box::new(move || {
            // A full counter has been signalled already.
            let _ = rustix::io::write(&*wake, &1u64.to_ne_bytes());
        }))
    }

    fn finish(&mut self, _grace: Duration) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_use_the_congestion_control_that_was_chosen() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        // Every Linux kernel has Reno, whatever its default is.
        for name in ["reno", "cubic"] {
            let mut kernel = Kernel::new().unwrap();
            match kernel.use_congestion(name) {
                Err(Errno::NOENT) => continue,
                result => result.unwrap(),
            }
            let listener = kernel.listen(any, 1).unwrap();
            let target = kernel.local_addr(listener).unwrap();
            let client = kernel.connect(None, target, false).unwrap();
            kernel.add(listener, Ready::IN, 0).unwrap();
            kernel.wait(&mut Vec::new(), None).unwrap();
            let server = kernel.accept(listener).unwrap();
            for end in [server, client] {
                let used = sockopt::tcp_congestion(kernel.fd(end).unwrap()).unwrap();
                assert_eq!(used, name);
            }
        }
    }
}
