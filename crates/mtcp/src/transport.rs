//! The stack below, as calls see it: what moves it, and the bytes of its streams.

use std::time::Duration;

use mtcp_core::{AppStreams, Command, ConnId, Reply, Status, TcpInfo};

use crate::driver::{Doorbell, Driver};
use crate::{Errno, Result};

/// Send buffers looked at per wait, to give drained ones back.
const SWEEP: usize = 8;
/// The same while writers wait for the memory.
const RECLAIM: usize = 1024;
/// The same before each sleep while very many have one.
const SWEEP_IDLE: usize = 64;
/// How long to wait for events while buffers are given back: none says that one has drained.
const RECLAIM_DELAY: Duration = Duration::from_millis(1);
/// Bytes written since the stack was last told that are better sent at once: while they are in the
/// cache, and while the peer has time.
const MUCH: usize = 128 << 10;

/// Nothing more will be received or sent.
pub(crate) const OVER: Status = Status::ERROR.union(Status::CLOSED);

/// See the module.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) driver: Driver,
    pub(crate) streams: AppStreams,
    /// Bytes written since the stack was last told.
    ahead: usize,
}

impl Transport {
    pub(crate) fn new(driver: Driver, streams: AppStreams) -> Self {
        Self {
            driver,
            streams,
            ahead: 0,
        }
    }

    #[inline]
    pub(crate) fn status(&self, conn: ConnId) -> Status {
        self.streams.status(conn.slot)
    }

    /// Whether a connection is open, as far as is known.
    pub(crate) fn is_connected(&self, conn: ConnId) -> bool {
        let status = self.status(conn);
        status.contains(Status::CONNECTED) && !status.intersects(OVER)
    }

    /// Whether the link is gone.
    #[inline]
    pub(crate) fn is_down(&self) -> bool {
        self.driver.failure().is_some()
    }

    /// What a call that would block says.
    pub(crate) fn would_block(&self) -> Errno {
        self.driver.check().err().unwrap_or(Errno::EAGAIN)
    }

    /// Writes as much as fits, and says how much.
    #[inline]
    pub(crate) fn write(&mut self, conn: ConnId, bytes: &[u8]) -> usize {
        let n = self.streams.write(conn.slot, bytes);
        self.ahead += n;
        n
    }

    /// Whether so much was written that it had better leave now.
    #[inline]
    pub(crate) fn has_much(&self) -> bool {
        self.ahead >= MUCH
    }

    /// The stack is about to be told of all that was written.
    #[inline]
    pub(crate) fn tells_all(&mut self) {
        self.ahead = 0;
    }

    /// A call staged news. Those of a blocking socket leave at once: its program may do anything
    /// next.
    #[inline]
    pub(crate) fn hand_over(&mut self, is_blocking: bool) {
        if is_blocking {
            self.ahead = 0;
            // The next call on the socket says what became of the link.
            let _ = self.driver.submit();
        }
    }

    /// Lets go of a connection's stream: the stack hears that it was closed or reset.
    pub(crate) fn release(&mut self, conn: ConnId, news: Doorbell) {
        self.streams.release(conn.slot);
        self.driver.notify(news);
    }

    /// Resets connections that nobody accepted.
    pub(crate) fn refuse(&mut self, conns: impl IntoIterator<Item = ConnId>) {
        for conn in conns {
            self.release(conn, Doorbell::Abort(conn));
        }
    }

    /// Tells the stack of something that has no effect without the connection. The connection may
    /// be gone where the socket is not: as on Linux, that is no error.
    pub(crate) fn tell(&mut self, command: Command) -> Result<()> {
        match self.driver.call(command) {
            Ok(_) | Err(Errno::EBADF) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What TCP knows of a connection.
    pub(crate) fn info(&mut self, conn: ConnId) -> Result<TcpInfo> {
        match self.driver.call(Command::Info(conn)) {
            Ok(Reply::Info(info)) => Ok(info),
            Ok(_) | Err(Errno::EBADF) => Err(Errno::ENOTCONN),
            Err(error) => Err(error),
        }
    }

    /// Gives drained buffers back in passing.
    pub(crate) fn sweep(&mut self) {
        self.streams.sweep(SWEEP);
    }

    /// Gives drained buffers back while writers wait for the memory.
    pub(crate) fn reclaim(&mut self) {
        if self.streams.is_starved() {
            self.streams.sweep(RECLAIM);
        }
    }

    /// There is nothing to do: gives drained buffers back, if many have one, and the kernel what
    /// nobody has needed for a while. How long to sleep at most.
    pub(crate) fn delay(&mut self) -> Option<Duration> {
        let gave = self.streams.is_crowded() && self.streams.sweep(SWEEP_IDLE) > 0;
        let reclaims = (gave || self.streams.is_starved()).then_some(RECLAIM_DELAY);
        let now = self.driver.now().as_millis();
        let economizes = self.streams.economize(now).map(Duration::from_millis);
        reclaims.into_iter().chain(economizes).min()
    }
}
