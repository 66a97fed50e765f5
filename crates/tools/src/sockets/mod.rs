//! The sockets that `serve` and `load` are written against: non-blocking TCP and one epoll,
//! implemented by the kernel and by mTCP. Dispatch is static, so that comparing the two compares
//! the stacks and nothing else.

pub(crate) mod kernel;
pub(crate) mod stack;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bitflags::bitflags;
pub(crate) use rustix::io::Errno;

bitflags! {
    /// Readiness, asked for and reported; the values are those of Linux's epoll.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Ready: u32 {
        /// Bytes, an end of file or a connection can be taken.
        const IN = 0x001;
        /// There is room to write, or the connection is established.
        const OUT = 0x004;
        /// The socket failed; always reported.
        const ERR = 0x008;
        /// Both directions are shut; always reported.
        const HUP = 0x010;
        /// The peer's FIN arrived.
        const RDHUP = 0x2000;
        /// Report changes only.
        const ET = 1 << 31;
    }
}

impl Ready {
    /// Whether reading will say something (bytes, end of file or an error).
    pub(crate) fn readable(self) -> bool {
        self.intersects(
            Self::IN
                .union(Self::RDHUP)
                .union(Self::HUP)
                .union(Self::ERR),
        )
    }

    /// Whether writing will say something.
    pub(crate) fn writable(self) -> bool {
        self.intersects(Self::OUT.union(Self::HUP).union(Self::ERR))
    }
}

/// One socket of a backend: the kernel's descriptor or the stack's socket id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle(pub(crate) u32);

/// What `wait` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// As given to `add`.
    pub(crate) data: u64,
    /// What is ready.
    pub(crate) ready: Ready,
}

/// Wakes a `wait` from another thread.
pub(crate) type Waker = Box<dyn Fn() + Send>;

/// Whether more follows the bytes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    /// More, or nobody knows.
    Follows,
    /// `close` is next, so that the FIN may ride on these bytes.
    Close,
}

/// Non-blocking sockets with one epoll.
pub(crate) trait Sockets {
    /// Listens; port 0 picks one.
    fn listen(&mut self, local: SocketAddr, backlog: u32) -> Result<Handle, Errno>;
    /// Where a socket is bound.
    fn local_addr(&self, socket: Handle) -> Result<SocketAddr, Errno>;
    /// Whom a connection is to.
    fn peer_addr(&self, socket: Handle) -> Result<SocketAddr, Errno>;
    /// Takes a connection; `EAGAIN` when there is none.
    fn accept(&mut self, listener: Handle) -> Result<Handle, Errno>;
    /// Opens a connection, from `local` if given; OUT says when it is there. `reset`: closing it
    /// sends RST.
    fn connect(
        &mut self,
        local: Option<IpAddr>,
        remote: SocketAddr,
        reset: bool,
    ) -> Result<Handle, Errno>;
    /// Starts reporting the readiness of `socket`.
    fn add(&mut self, socket: Handle, interest: Ready, data: u64) -> Result<(), Errno>;
    /// Changes what is reported.
    fn modify(&mut self, socket: Handle, interest: Ready, data: u64) -> Result<(), Errno>;
    /// Reads; 0 is the end of file.
    fn read(&mut self, socket: Handle, buffer: &mut [u8]) -> Result<usize, Errno>;
    /// Writes what fits.
    fn write(&mut self, socket: Handle, bytes: &[u8], more: More) -> Result<usize, Errno>;
    /// Has what came and what comes next acknowledged without delay (`TCP_QUICKACK`).
    fn acknowledge(&mut self, socket: Handle);
    /// Sends FIN after what was written.
    fn shutdown_write(&mut self, socket: Handle) -> Result<(), Errno>;
    /// Closes; what was written is still delivered.
    fn close(&mut self, socket: Handle);
    /// Closes with RST.
    fn abort(&mut self, socket: Handle);
    /// Why a socket failed, if it did.
    fn take_error(&mut self, socket: Handle) -> Option<Errno>;
    /// Replaces `events` with what is ready, waiting for at most `timeout` (`None`: for ever). None
    /// on a signal, a wake-up or a time-out.
    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> Result<(), Errno>;
    /// Something that makes `wait` return.
    fn waker(&self) -> Result<Waker, Errno>;
    /// Lets closed connections finish on the wire for at most `grace`: a stack inside this process
    /// ends with it.
    fn finish(&mut self, grace: Duration);
}
